"""Differences of small integers that become floats are differences of floats.

A zero point is taken from a number before that becomes a float. Taken from the float it is the
same, and what is repeated along an axis becomes a float before it is; what is left of the number
may be a field of a word (fields.py).
"""

from __future__ import annotations

from workbench.ir import BF16, F16, F32, Builder, Module, Op, Scalar, Value, element_of, shape_of
from workbench.ir.rebuild import rebuild
from workbench.ops import Broadcast, Cast, Constant, Elementwise
from workbench.passes.manager import Remarks

#: Up to what all integers are numbers of a type.
_EXACT = {F16: 1 << 11, BF16: 1 << 8, F32: 1 << 24}
#: Ops behind a value that are looked at.
_MOST_OPS = 16

Interval = tuple[int, int]


def float_differences(module: Module, remarks: Remarks) -> Module:
    """Make floats of the operands of small sums and differences, one of which is repeated.

    Before:
        %zeros = tile.broadcast %zero {shape = (8, 8)} : tile<8x8xi32>
        %1 = tile.sub [%numbers, %zeros] : tile<8x8xi32>
        %2 = tile.cast %1 {to = f16} : tile<8x8xf16>
    After:
        %1 = tile.cast %numbers {to = f16} : tile<8x8xf16>
        %3 = tile.cast %zero {to = f16} : tile<8x1xf16>
        %zeros = tile.broadcast %3 {shape = (8, 8)} : tile<8x8xf16>
        %2 = tile.sub [%1, %zeros] : tile<8x8xf16>

    Needs: bounds that the text tells, within what the type counts exactly. Keeps: every value.
    """

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if not isinstance(op, Cast) or op.to not in _EXACT or not shape_of(op.result.type):
            return None
        made, exact = _unwidened(op.source), _EXACT[op.to]
        inner = made.op
        if not isinstance(inner, Elementwise) or inner.function not in ("add", "sub"):
            return None
        if not any(isinstance(v.op, Broadcast) for v in inner.inputs):
            return None
        known = [bounds(v) for v in (made, *inner.inputs)]
        if any(found is None or max(-found[0], found[1]) > exact for found in known):
            return None
        floats = [_as_float(v, op.to, builder) for v in inner.inputs]
        return Elementwise(inner.function, (floats[0], floats[1]))

    return rebuild(module, rewrite)


def _as_float(value: Value, to: Scalar, builder: Builder) -> Value:
    value = _unwidened(value)
    made = value.op
    if isinstance(made, Broadcast):
        return builder.add(Broadcast(_as_float(made.source, to, builder), made.shape))
    return builder.add(Cast(value, to))


def _unwidened(value: Value) -> Value:
    """Return what a value is a cast of that keeps its number."""
    made = value.op
    while isinstance(made, Cast) and bounds(value) == (bounds(made.source) or ()):
        value = made.source
        made = value.op
    return value


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


__all__ = ["float_differences"]
