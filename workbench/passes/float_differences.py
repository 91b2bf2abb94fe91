"""Differences of small integers that become floats are differences of floats.

A zero point is taken from a number before that becomes a float. Taken from the float it is the
same, and what is repeated along an axis becomes a float before it is; what is left of the number
may be a field of a word (fields.py).
"""

from __future__ import annotations

from workbench.analysis.bounds import EXACT, bounds
from workbench.ir import Builder, Module, Op, Scalar, Value, rebuild, shape_of
from workbench.ops import Broadcast, Cast, Constant, Elementwise, ExpandDims
from workbench.passes.manager import Remarks


def float_differences(module: Module, remarks: Remarks) -> Module:
    """Make floats of the operands of small sums and differences, if one is repeated or both masked.

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
        if not isinstance(op, Cast) or op.to not in EXACT or not shape_of(op.result.type):
            return None
        made, exact = _unwidened(op.source), EXACT[op.to]
        inner = made.op
        if not isinstance(inner, Elementwise) or inner.function not in ("add", "sub"):
            return None
        if not any(isinstance(v.op, Broadcast) for v in inner.inputs) and not all(
            map(_is_masked, inner.inputs)
        ):
            return None
        known = [bounds(v) for v in (made, *inner.inputs)]
        if any(found is None or max(-found[0], found[1]) > exact for found in known):
            return None
        floats = [_as_float(v, op.to, builder) for v in inner.inputs]
        return Elementwise(inner.function, (floats[0], floats[1]))

    return rebuild(module, rewrite)


def _is_masked(value: Value) -> bool:
    """Say whether a number is some bits of another, as fields of words are, and a constant."""
    made = _unwidened(value).op
    if not isinstance(made, Elementwise):
        return False
    first, *rest = made.inputs
    if made.function in ("add", "sub") and isinstance(rest[0].op, Constant):
        return _is_masked(first)
    return made.function == "and"


def _as_float(value: Value, to: Scalar, builder: Builder) -> Value:
    value = _unwidened(value)
    made = value.op
    if isinstance(made, Broadcast | ExpandDims):
        return builder.add(made.duplicate([_as_float(made.source, to, builder)]))
    return builder.add(Cast(value, to))


def _unwidened(value: Value) -> Value:
    """Return what a value is a cast of that keeps its number."""
    made = value.op
    while isinstance(made, Cast) and bounds(value) == (bounds(made.source) or ()):
        value = made.source
        made = value.op
    return value


__all__ = ["float_differences"]
