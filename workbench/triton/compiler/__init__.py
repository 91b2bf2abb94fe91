"""`triton.compiler`: compiling ahead of time."""

from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.hooks import LaunchMetadata as LazyDict
from workbench.triton.compiler import errors
from workbench.triton.compiler.ahead import ASTSource, compile, make_backend
from workbench.triton.compiler.errors import CompilationError

__all__ = [
    "ASTSource", "CompilationError", "CompiledKernel", "LazyDict", "compile", "errors",
    "make_backend",
]  # fmt: skip
