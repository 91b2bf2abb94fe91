"""`triton.tools.gsan`: Triton's race sanitizer; ours is the interpreter's."""

from workbench.language.table import only_raises

_INSTEAD = "kernel.interpret[grid](...) finds races, `%%kernel --guard` keeps them from a launch"
create_mem_pool = only_raises("triton.tools.gsan", _INSTEAD)
get_allocator = only_raises("triton.tools.gsan", _INSTEAD)

__all__ = ["create_mem_pool", "get_allocator"]
