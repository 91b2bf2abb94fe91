"""`triton.runtime.interpreter`: kernels that always run in the interpreter."""

from workbench.runtime.jit import InterpretedFunction
from workbench.source import LaunchError as InterpreterError

__all__ = ["InterpretedFunction", "InterpreterError"]
