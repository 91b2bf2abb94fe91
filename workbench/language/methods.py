"""Gives `tensor` the functions that kernels also write as methods: `x.to(...)`, `x.sum(axis=0)`."""

from __future__ import annotations

from workbench.language import arithmetic, atomics, memory, reductions, scans
from workbench.language.casts import to
from workbench.language.shapes import trans
from workbench.language.table import BUILTINS, NAMES, Signature
from workbench.language.values import tensor

#: The families whose functions must be known before the tensor gets its methods.
_FAMILIES = (arithmetic, atomics, memory, reductions, scans)

for _name, _row in NAMES.items():
    if _row.method and _name in BUILTINS:
        setattr(tensor, _name, BUILTINS[_name])

to.__signature_row__ = Signature(  # type: ignore[attr-defined]
    "to", ("self", "dtype", "fp_downcast_rounding", "bitcast"), 2, False
)
tensor.to = to  # type: ignore[attr-defined]
tensor.T = property(lambda self: trans(self))  # type: ignore[attr-defined]

#: Everything a kernel may read from a tensor.
MEMBERS = sorted(
    {"dtype", "shape", "type", "numel", "T", "to"}
    | {n for n, row in NAMES.items() if row.method and n in BUILTINS}
)
