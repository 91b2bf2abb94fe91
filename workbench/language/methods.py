"""Gives `tensor` the functions that kernels also write as methods: `x.to(...)`, `x.sum(axis=0)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.language import arithmetic as maths
from workbench.language.casts import to
from workbench.language.constexprs import unwrap
from workbench.language.indexing import item
from workbench.language.shapes import trans
from workbench.language.table import BUILTINS, NAMES, Signature
from workbench.language.values import tensor

#: Everything a kernel may read from a tensor.
MEMBERS: list[str] = []


#: Python's operators for builtins that libraries define; '==' and '!=' stay those of objects.
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def _add_operators() -> None:
    def binary(symbol: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
        def apply(self: Any, other: Any) -> Any:
            a, b = self, unwrap(other)
            return maths.binary(symbol, b, a) if reflected else maths.binary(symbol, a, b)

        return apply

    for name, symbol in _OPERATORS.items():
        setattr(tensor, f"__{name}__", binary(symbol, reflected=False))
        if symbol not in ("<", "<=", ">", ">="):
            setattr(tensor, f"__r{name}__", binary(symbol, reflected=True))
    setattr(tensor, "__neg__", maths.negative)  # noqa: B010 - as above
    setattr(tensor, "__invert__", maths.inverted)  # noqa: B010


def add_methods() -> None:
    """Give tensors their methods; called once all families are loaded."""
    for name, row in NAMES.items():
        if row.method and name in BUILTINS:
            setattr(tensor, name, BUILTINS[name])
            MEMBERS.append(name)
    _add_operators()
    parameters = ("self", "dtype", "fp_downcast_rounding", "bitcast")
    setattr(to, "__signature_row__", Signature("to", parameters, 2, False))  # noqa: B010
    setattr(tensor, "to", to)  # noqa: B010 - the class declares no methods of its own
    setattr(tensor, "T", property(trans))  # noqa: B010
    setattr(tensor, "item", item)  # noqa: B010 - tl itself has no such name
    for method in (maths.logical_and, maths.logical_or):
        row = Signature(method.__name__, ("self", "other"), 2, False)
        setattr(method, "__signature_row__", row)  # noqa: B010
        setattr(tensor, method.__name__, method)
        MEMBERS.append(method.__name__)
    MEMBERS.extend(["item", "dtype", "shape", "type", "numel", "T", "to"])
