"""`triton.tools.compile`: what writes C sources that launch a kernel in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "`python -m workbench compile` writes the stages, `triton.compile(...).asm` holds them"
main = only_raises("triton.tools.compile", _INSTEAD)
compile_kernel = only_raises("triton.tools.compile", _INSTEAD)

__all__ = ["compile_kernel", "main"]
