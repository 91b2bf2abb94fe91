"""Bounds of integers that a few ops tell: of masked bits, and of what is added to them.

Exact integers of addresses have intervals (ranges.py); these are of numbers that were loaded.
"""

from __future__ import annotations

from workbench.ir import BF16, F16, F32, Op, Scalar, Value, element_of
from workbench.ops import Cast, Constant, Elementwise

#: Up to what all integers are numbers of a type.
EXACT = {F16: 1 << 11, BF16: 1 << 8, F32: 1 << 24}
#: Ops behind a value that are looked at.
_MOST_OPS = 16

Interval = tuple[int, int]


def bounds(value: Value, left: int = _MOST_OPS) -> Interval | None:
    """Return the least and the largest that an integer may be, None if its text does not tell."""
    op, element = value.op, element_of(value.type)
    if op is None or not left or not isinstance(element, Scalar) or not element.is_integer:
        return None
    found = _bounds(op, left - 1)
    if found is None:
        return None
    least = -(1 << element.bits - 1) if element.is_signed else 0
    return found if least <= found[0] and found[1] - least < 1 << element.bits else None


def _bounds(op: Op, left: int) -> Interval | None:
    if isinstance(op, Constant):
        return int(op.value), int(op.value)
    if op.moves or isinstance(op, Cast):
        return bounds(op.operands[0], left)
    if not isinstance(op, Elementwise) or op.function not in ("add", "sub", "and"):
        return None
    first, second = op.inputs
    if op.function == "and":
        masks = [v.op.value for v in op.inputs if isinstance(v.op, Constant)]
        return (0, int(min(masks))) if masks and min(masks) >= 0 else None
    a, b = bounds(first, left), bounds(second, left)
    if a is None or b is None:
        return None
    return (a[0] + b[0], a[1] + b[1]) if op.function == "add" else (a[0] - b[1], a[1] - b[0])


__all__ = ["EXACT", "bounds"]
