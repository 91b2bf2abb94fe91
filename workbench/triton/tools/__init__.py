"""`triton.tools`."""

from workbench.language.versions import versioned
from workbench.layouts import LinearLayout
from workbench.triton.tools import (
    _gsan,
    build_extern,
    compile,
    disasm,
    link,
    mxfp,
    ragged_tma,
    tensor_descriptor,
)

__all__ = [
    "LinearLayout", "build_extern", "compile", "disasm", "link", "mxfp", "ragged_tma",
    "tensor_descriptor",
]  # fmt: skip


__getattr__ = versioned("triton.tools", {"gsan": ("3.8.0", None, lambda: _gsan)})
