"""`triton.compiler.errors`: what can go wrong while compiling."""

from workbench.source import CompileError as CompilationError
from workbench.source import KernelError as TritonError
from workbench.source import StaticAssertError as CompileTimeAssertionFailure
from workbench.source import UnsupportedSyntaxError as UnsupportedLanguageConstruct

__all__ = [
    "CompilationError", "CompileTimeAssertionFailure", "TritonError",
    "UnsupportedLanguageConstruct",
]  # fmt: skip
