"""`triton.compiler.make_launcher`: what writes launchers in C in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "kernel[grid](...) launches"
make_launcher = only_raises("triton.compiler.make_launcher", _INSTEAD)
make_stub = only_raises("triton.compiler.make_launcher", _INSTEAD)

__all__ = ["make_launcher", "make_stub"]
