"""`triton.compiler.compiler`: compiling ahead of time."""

from workbench.runtime.cache import compiler_stamp as triton_key
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.hooks import LaunchMetadata as LazyDict
from workbench.triton.compiler.ahead import ASTSource, compile, make_backend, max_shared_mem
from workbench.triton.runtime.driver import GPUTarget

__all__ = [
    "ASTSource", "CompiledKernel", "GPUTarget", "LazyDict", "compile", "make_backend",
    "max_shared_mem", "triton_key",
]  # fmt: skip
