"""`triton.runtime.errors`: what can go wrong after compiling."""

from workbench.source import KernelError as TritonError
from workbench.source import LaunchError as InterpreterError
from workbench.source import ResourceError as OutOfResources
from workbench.source import ToolError as PTXASError
from workbench.tuning.autotune import AutotunerError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
