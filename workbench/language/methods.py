"""Gives `tensor` the functions that kernels also write as methods: `x.to(...)`, `x.sum(axis=0)`."""

from __future__ import annotations

from workbench.language.casts import to
from workbench.language.indexing import item
from workbench.language.shapes import trans
from workbench.language.table import BUILTINS, NAMES, Signature
from workbench.language.values import tensor

#: Everything a kernel may read from a tensor.
MEMBERS: list[str] = []


def add_methods() -> None:
    """Give tensors their methods; called once all families are loaded."""
    for name, row in NAMES.items():
        if row.method and name in BUILTINS:
            setattr(tensor, name, BUILTINS[name])
            MEMBERS.append(name)
    parameters = ("self", "dtype", "fp_downcast_rounding", "bitcast")
    setattr(to, "__signature_row__", Signature("to", parameters, 2, False))  # noqa: B010
    setattr(tensor, "to", to)  # noqa: B010 - the class declares no methods of its own
    setattr(tensor, "T", property(trans))  # noqa: B010
    setattr(tensor, "item", item)  # noqa: B010 - tl itself has no such name
    MEMBERS.extend(["item", "dtype", "shape", "type", "numel", "T", "to"])
