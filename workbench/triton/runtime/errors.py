"""`triton.runtime.errors`: what can go wrong after compiling."""

from workbench.runtime.autotune import AutotunerError
from workbench.source import KernelError as TritonError
from workbench.source import LaunchError as InterpreterError
from workbench.source import ResourceError as OutOfResources
from workbench.source import ToolError as PTXASError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
