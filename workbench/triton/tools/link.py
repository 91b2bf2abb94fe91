"""`triton.tools.link`: what joins such C sources in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "launch kernels from Python; a cubin is in `.asm['cubin']`"
main = only_raises("triton.tools.link", _INSTEAD)

__all__ = ["main"]
