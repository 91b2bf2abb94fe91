"""`triton.tools.build_extern`: what makes stubs for a device library in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "tl.extra.libdevice has NVIDIA's functions; others are device functions in Python"
main = only_raises("triton.tools.build_extern", _INSTEAD)
build = only_raises("triton.tools.build_extern", _INSTEAD)

__all__ = ["build", "main"]
