"""`triton.runtime.build`: what compiles launchers in C in Triton.

Each function says what to do instead.
"""

from workbench.language.table import only_raises

_INSTEAD = "launchers here need no C compiler"
compile_module_from_src = only_raises("triton.runtime.build", _INSTEAD)
compile_module_from_file = only_raises("triton.runtime.build", _INSTEAD)

__all__ = ["compile_module_from_file", "compile_module_from_src"]
