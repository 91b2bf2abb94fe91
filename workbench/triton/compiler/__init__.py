"""`triton.compiler`: compiling ahead of time."""

from workbench.language.table import only_raises
from workbench.language.versions import versioned
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.hooks import LaunchMetadata as LazyDict
from workbench.triton.compiler import code_generator, errors, make_launcher
from workbench.triton.compiler.ahead import (
    ASTSource,
    compile,
    get_cache_key,
    make_backend,
)
from workbench.triton.compiler.errors import CompilationError

IRSource = only_raises(
    "triton.compiler.IRSource",
    "compile a kernel from its source; `python -m workbench run` takes the IR of this compiler",
)

# After the names above: it takes some of them from here.
from workbench.triton.compiler import compiler  # noqa: E402 - isort: skip

__all__ = [
    "ASTSource", "CompilationError", "CompiledKernel", "IRSource", "LazyDict", "code_generator",
    "compile", "compiler", "errors", "get_cache_key", "make_backend", "make_launcher",
]  # fmt: skip

__getattr__ = versioned(
    "triton.compiler", {"max_shared_mem": ("3.7.0", None, lambda: compiler.max_shared_mem)}
)
