"""Rules of conversions between element types."""

from __future__ import annotations

from typing import Any

from workbench.ir import Builder, Op, Scalar, Value, element_of, shape_of
from workbench.ops import (
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    Select,
    Splat,
)
from workbench.ops.numbers import round_to
from workbench.passes.rules.folding import FOLD_CAST
from workbench.passes.rules.known import constant_of
from workbench.passes.rules.rule import Rule


def _same_type(op: Cast | Bitcast, builder: Builder) -> Value | None:
    return op.source if element_of(op.source.type) == op.to else None


def _there_and_back(op: Cast, builder: Builder) -> Value | None:
    source = op.source.op
    if not isinstance(source, Cast) or not _keeps_all(source):
        return None
    return source.source if element_of(source.source.type) == op.to else None


def _twice(op: Cast, builder: Builder) -> Op | None:
    source = op.source.op
    if not isinstance(source, Cast) or not _keeps_all(source) or not op.to.is_integer:
        return None
    first = element_of(source.source.type)
    integers = isinstance(first, Scalar) and first.is_integer and source.to.is_integer
    return Cast(source.source, op.to) if integers and first.kind != "bool" else None


def _keeps_all(op: Cast) -> bool:
    """Say whether every value of what is converted is a value of the new type."""
    narrow: Any = element_of(op.source.type)
    wide: Any = op.to
    if narrow.is_float != wide.is_float or "pointer" in (narrow.kind, wide.kind):
        return False
    if narrow.is_float:
        return narrow.bits < wide.bits and wide.bits >= 32
    if narrow.kind == "uint":
        return wide.bits > narrow.bits or wide == narrow
    return wide.bits >= narrow.bits and wide.is_signed


def _compared_before(op: Elementwise, builder: Builder) -> Op | None:
    """Compare integers with a number in the type that they had before they were widened."""
    for place, value in enumerate(op.inputs):
        cast, number = value.op, constant_of(op.inputs[1 - place])
        if not isinstance(cast, Cast) or number is None or not _keeps_all(cast):
            continue
        element = element_of(cast.source.type)
        # Narrower ones are computed in 32 bits, and stay so: assemblers differ in 16-bit registers.
        if not isinstance(element, Scalar) or element.is_float or element.bits < 32:
            continue
        if round_to(int(number), element) != number:
            continue
        sides = [cast.source, builder.add(Constant(int(number), cast.source.type))]
        return Elementwise(op.function, tuple(sides[:: -1 if place and not op.row.commutes else 1]))
    return None


def _truth_of_choice(op: Cast, builder: Builder) -> Value | None:
    """Return the condition that chose between a number and 0, of which only the truth is asked."""
    found = _choice(op.source)
    if op.to.kind != "bool" or found is None:
        return None
    condition, then, otherwise = found
    return condition if then and not otherwise else None


def _compared_choice(op: Elementwise, builder: Builder) -> Value | None:
    """Return the condition that chose between a number for which a comparison holds and another."""
    for place, value in enumerate(op.inputs):
        found, number = _choice(value), constant_of(op.inputs[1 - place])
        if found is None or number is None:
            continue
        sides = [(one, number)[:: -1 if place else 1] for one in found[1:]]
        if [bool(op.row.evaluate(*side)) for side in sides] == [True, False]:
            return found[0]
    return None


def _choice(value: Value) -> tuple[Value, Any, Any] | None:
    """Return the condition, of the same shape, that chooses which of two known numbers this is."""
    op = value.op
    if not isinstance(op, Select) or shape_of(op.condition.type) != shape_of(value.type):
        return None
    then, otherwise = constant_of(op.then), constant_of(op.otherwise)
    return None if then is None or otherwise is None else (op.condition, then, otherwise)


def _again(op: Cast | Bitcast, source: Value, builder: Builder) -> Value:
    if isinstance(op, Cast):
        return builder.add(Cast(source, op.to, rounding=op.rounding))
    return builder.add(Bitcast(source, op.to))


def _before_splat(op: Cast | Bitcast, builder: Builder) -> Op | None:
    source = op.source.op
    if not isinstance(source, Splat):
        return None
    return Splat(_again(op, source.source, builder), source.shape)


def _before_broadcast(op: Cast | Bitcast, builder: Builder) -> Op | None:
    source = op.source.op
    if not isinstance(source, Broadcast):
        return None
    return Broadcast(_again(op, source.source, builder), source.shape)


def _before_expansion(op: Cast | Bitcast, builder: Builder) -> Op | None:
    source = op.source.op
    if not isinstance(source, ExpandDims) or not shape_of(source.source.type):
        return None
    return ExpandDims(_again(op, source.source, builder), source.axis)


_BOTH = (Cast, Bitcast)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
RULES: tuple[Rule, ...] = (
    Rule("cast-to-own-type", "cast(x, i32) = x", "x: i32", _BOTH, _same_type),
    FOLD_CAST,
    Rule("cast-there-and-back", "cast(cast(x, f32), f16) = x", "x: f16", Cast, _there_and_back),
    Rule("cast-of-choice", "cast(select(c, 5, 0), i1) = c", "c: i1", Cast, _truth_of_choice),
    Rule("compare-choice", "ne(select(c, 5, 0), 0) = c", "c: i1",
         Elementwise, _compared_choice, _COMPARISONS),
    Rule("cast-twice", "cast(cast(x, i32), i64) = cast(x, i64)", "x: i8", Cast, _twice),
    Rule("compare-before-cast", "eq(cast(x, i64), 5) = eq(x, 5)", "x: i32",
         Elementwise, _compared_before, _COMPARISONS),
    Rule("cast-before-splat", "cast(splat(x), i64) = splat(cast(x, i64))", "x: i32",
         _BOTH, _before_splat),
    Rule("cast-before-broadcast", "cast(broadcast(x), f32) = broadcast(cast(x, f32))",
         "x: tile<1x4xf16>", _BOTH, _before_broadcast),
    Rule("cast-before-expansion", "cast(expand_dims(x, 0), f32) = expand_dims(cast(x, f32), 0)",
         "x: tile<4xf16>", _BOTH, _before_expansion),
)  # fmt: skip
