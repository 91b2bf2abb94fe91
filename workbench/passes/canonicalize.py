"""Simplifies op by op: constants, algebra, and uniform or repeated values written as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from workbench.ir import (
    INDEX,
    Array,
    Builder,
    Frame,
    Module,
    Op,
    Scalar,
    Type,
    Value,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    Reshape,
    Select,
    Splat,
    Transpose,
)
from workbench.passes.manager import Remarks

Rule = Callable[[Any, Builder], "Op | Value | None"]


def canonicalize(module: Module, remarks: Remarks) -> Module:
    """Fold constants, drop operations that change nothing, and keep uniform values uniform.

    A tile whose elements are all equal is written as a splat of a scalar, a tile repeated along an
    axis as a broadcast of the smaller one, so that later work happens once instead of per element.

    Before:
        %1 = tile.splat %x {shape = (4,)} : tile<4xf32>
        %2 = tile.splat %y {shape = (4,)} : tile<4xf32>
        %3 = tile.add [%1, %2] : tile<4xf32>
    After:
        %4 = tile.add [%x, %y] : f32
        %3 = tile.splat %4 {shape = (4,)} : tile<4xf32>

    Keeps: every result bit for bit.
    """

    def rewrite(op: Op, builder: Builder) -> Op | Value | None:
        rule = _RULES.get(type(op))
        return rule(op, builder) if rule is not None else None

    return rebuild(module, rewrite)


def constant_of(value: Value) -> Any:
    """Return the number a value is known to hold in all its elements, or None."""
    op = value.op
    if isinstance(op, Splat):
        op = op.source.op
    return op.value if isinstance(op, Constant) else None


def scalar_of(value: Value, builder: Builder) -> Value | None:
    """Return a scalar equal to every element of a uniform tile, or None if it is not uniform."""
    if not shape_of(value.type):
        return value
    op = value.op
    if isinstance(op, Splat):
        return op.source
    if isinstance(op, Constant):
        return builder.add(Constant(op.value, element_of(op.type)))
    return None


def _elementwise(op: Elementwise, builder: Builder) -> Op | Value | None:
    simpler = _identity(op) or _folded(op)
    if simpler is not None:
        return simpler
    shape = shape_of(op.inputs[0].type)
    if not shape:
        return None
    return _per_scalar(
        op, op.inputs, shape, builder, lambda new: Elementwise(op.function, new)
    ) or (
        _per_smaller_tile(op, op.inputs, shape, builder, lambda new: Elementwise(op.function, new))
    )


def _per_scalar(
    op: Op,
    inputs: tuple[Value, ...],
    shape: tuple[int, ...],
    builder: Builder,
    make: Callable[[tuple[Value, ...]], Op],
) -> Op | None:
    """Write an op on uniform tiles as a splat of the op on scalars."""
    if not all(isinstance(v.op, Splat | Constant) for v in inputs):
        return None
    scalars = [scalar_of(v, builder) for v in inputs]
    new = make(tuple(s for s in scalars if s is not None))
    simpler = (_identity(new) or _folded(new)) if isinstance(new, Elementwise) else None
    value = simpler if isinstance(simpler, Value) else builder.add(simpler or new)
    return Splat(value, shape)


def _per_smaller_tile(
    op: Op,
    inputs: tuple[Value, ...],
    shape: tuple[int, ...],
    builder: Builder,
    make: Callable[[tuple[Value, ...]], Op],
) -> Op | None:
    """Write an op on equally broadcast (or expanded) tiles as a broadcast of the op before it."""
    first, *others = [v.op for v in inputs if not isinstance(v.op, Splat | Constant)]
    if not isinstance(first, Broadcast | ExpandDims):
        return None
    if not all(_repeats_alike(first, other) for other in others):
        return None
    small = shape_of(first.source.type)
    operands: list[Value] = []
    for value in inputs:
        if isinstance(value.op, Broadcast | ExpandDims):
            operands.append(value.op.source)
        else:
            scalar = scalar_of(value, builder)
            assert scalar is not None
            operands.append(builder.add(Splat(scalar, small)) if small else scalar)
    inner = builder.add(make(tuple(operands)))
    return (
        Broadcast(inner, shape) if isinstance(first, Broadcast) else ExpandDims(inner, first.axis)
    )


def _repeats_alike(first: Broadcast | ExpandDims, other: Op | None) -> bool:
    """Say whether two ops make their results in the same way from operands of one shape."""
    if isinstance(first, ExpandDims):
        if not isinstance(other, ExpandDims) or other.axis != first.axis:
            return False
    elif not isinstance(other, Broadcast):
        return False
    return shape_of(other.source.type) == shape_of(first.source.type)


def _identity(op: Elementwise) -> Value | Op | None:
    """Return the operand that the op gives back unchanged, if there is one."""
    inputs = op.inputs
    if len(inputs) != 2:
        return None
    a, b = inputs
    element = element_of(a.type)
    if not isinstance(element, Scalar):
        return None
    if element.is_float:
        # x * 1 and x / 1 are exact; x + 0 is not (it turns -0 into +0).
        if op.function in ("mul", "div") and constant_of(b) == 1:
            return a
        return b if op.function == "mul" and constant_of(a) == 1 else None
    return _neutral(op, element) or _integer_identity(op, element)


def _neutral(op: Elementwise, element: Scalar) -> Value | None:
    """Return the other operand where one is the neutral element of the function."""
    if op.row.identity is None:
        return None
    a, b = op.inputs
    x, y, neutral = constant_of(a), constant_of(b), int(op.row.identity(element))
    if y is not None and int(y) == neutral:
        return a
    return b if x is not None and int(x) == neutral else None


def _integer_identity(op: Elementwise, element: Scalar) -> Value | Op | None:
    (a, b), name = op.inputs, op.function
    x, y = constant_of(a), constant_of(b)
    if y == 0 and name in ("sub", "shl", "shr"):
        return a
    if y == 1 and name == "div" and element.kind != "bool":
        return a
    if (name in ("mul", "and") and 0 in (x, y)) or (name == "rem" and y == 1):
        return Constant(0, a.type)
    return a if a is b and name in ("and", "or", "min", "max") else None


def _folded(op: Elementwise) -> Op | None:
    numbers = [constant_of(v) for v in op.inputs]
    if any(n is None for n in numbers):
        return None
    return _computed(op, dict(zip(op.inputs, numbers, strict=True)))


def _computed(op: Elementwise | Cast, numbers: dict[Value, Any]) -> Constant:
    """Return what interpreting the op gives when its operands are these numbers."""
    result = op.interpret(cast("Frame", _Held(numbers)))
    return Constant(np.asarray(result).reshape(-1)[0].item(), op.result.type)


class _Held:
    """The part of a frame that functions of numbers need: what each operand is."""

    def __init__(self, numbers: dict[Value, Any]) -> None:
        self._numbers = numbers

    def __getitem__(self, value: Value) -> Array:
        constant = Constant(self._numbers[value], element_of(value.type))
        return constant.interpret(cast("Frame", self))


def _select(op: Select, builder: Builder) -> Op | Value | None:
    condition = constant_of(op.condition)
    if condition is not None:
        return op.then if condition else op.otherwise
    if op.then is op.otherwise:
        return op.then
    shape = shape_of(op.then.type)
    if shape and shape_of(op.condition.type):
        inputs = (op.condition, op.then, op.otherwise)
        return _per_scalar(op, inputs, shape, builder, lambda new: Select(*new))
    return None


def _cast(op: Cast, builder: Builder) -> Op | Value | None:
    source = op.source.op
    element = element_of(op.source.type)
    if element == op.to:
        return op.source
    number = constant_of(op.source)
    if number is not None:
        return _computed(op, {op.source: number})
    if isinstance(source, Cast) and _keeps_all(element_of(source.source.type), element):
        first = element_of(source.source.type)
        if first == op.to:
            return source.source
        both_integers = isinstance(first, Scalar) and first.is_integer and element.is_integer
        if both_integers and op.to.is_integer and first.kind != "bool":
            return Cast(source.source, op.to)
    return _through_shapes(op, builder, lambda v: Cast(v, op.to, rounding=op.rounding))


def _keeps_all(narrow: Any, wide: Any) -> bool:
    """Say whether every value of `narrow` is a value of `wide`."""
    if narrow.is_float != wide.is_float or "pointer" in (narrow.kind, wide.kind):
        return False
    if narrow.is_float:
        return narrow.bits < wide.bits and wide.bits >= 32
    if narrow.kind == "uint":
        return wide.bits > narrow.bits or wide == narrow
    return wide.bits >= narrow.bits and wide.is_signed


def _through_shapes(op: Op, builder: Builder, make: Callable[[Value], Op]) -> Op | None:
    """Move a one-operand op before the splat, broadcast or expansion of its operand."""
    source = op.operands[0].op
    if isinstance(source, Splat):
        return Splat(builder.add(make(source.source)), source.shape)
    if isinstance(source, Broadcast):
        return Broadcast(builder.add(make(source.source)), source.shape)
    if isinstance(source, ExpandDims) and shape_of(source.source.type):
        return ExpandDims(builder.add(make(source.source)), source.axis)
    return None


def _bitcast(op: Bitcast, builder: Builder) -> Op | Value | None:
    if element_of(op.source.type) == op.to:
        return op.source
    return _through_shapes(op, builder, lambda v: Bitcast(v, op.to))


def _reshaped(op: Any, builder: Builder) -> Op | Value | None:
    """Splat, Broadcast, ExpandDims, Reshape, Transpose of uniform tiles and of themselves."""
    source: Value = op.source
    type: Type = op.result.type
    if shape_of(source.type) == shape_of(type) and not isinstance(op, Transpose):
        return source
    if isinstance(source.op, Constant):
        return Constant(source.op.value, type)
    if isinstance(source.op, Splat):
        return Splat(source.op.source, shape_of(type)) if shape_of(type) else source.op.source
    if isinstance(op, Broadcast) and isinstance(source.op, Broadcast):
        return Broadcast(source.op.source, op.shape)
    if isinstance(op, Reshape) and isinstance(source.op, Reshape):
        return Reshape(source.op.source, op.shape)
    if isinstance(op, Transpose):
        if op.order == tuple(range(len(op.order))):
            return source
        if isinstance(source.op, Transpose):
            inner = source.op
            return Transpose(inner.source, tuple(inner.order[i] for i in op.order))
    return None


def _add_pointer(op: AddPointer, builder: Builder) -> Op | Value | None:
    """Gather uniform offsets next to the base: ((p + tile) + s) becomes ((p + s) + tile)."""
    if constant_of(op.offset) == 0:
        return op.pointer
    inner = op.pointer.op
    shape = shape_of(op.pointer.type)
    if not shape:
        return None
    offset = scalar_of(op.offset, builder)
    if isinstance(inner, Splat) and offset is not None:
        return Splat(builder.add(AddPointer(inner.source, offset)), shape)
    if isinstance(inner, AddPointer) and isinstance(inner.pointer.op, Splat):
        if offset is not None:
            base = builder.add(AddPointer(inner.pointer.op.source, offset))
            return AddPointer(builder.add(Splat(base, shape)), inner.offset)
        if element_of(op.offset.type) == element_of(inner.offset.type) == INDEX:
            total = builder.add(Elementwise("add", (inner.offset, op.offset)))
            return AddPointer(inner.pointer, total)
    uniform = _uniform_part(op.offset)
    if isinstance(inner, Splat) and uniform is not None:
        scalar, rest = uniform
        base = builder.add(AddPointer(inner.source, scalar))
        return AddPointer(builder.add(Splat(base, shape)), rest)
    return None


def _uniform_part(offset: Value) -> tuple[Value, Value] | None:
    """Return (scalar, rest) with offset = splat(scalar) + rest, for exact offsets, or None."""
    op = offset.op
    if not isinstance(op, Elementwise) or op.function != "add" or element_of(offset.type) != INDEX:
        return None
    for one, other in (op.inputs, op.inputs[::-1]):
        if isinstance(one.op, Splat):
            return one.op.source, other
    return None


def _for(op: For, builder: Builder) -> Op | Value | tuple[Value, ...] | None:
    """Drop a loop that never runs."""
    lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
    if None not in (lower, upper, step) and not range(lower, upper, step):
        return op.inits
    return None


_RULES: dict[type[Op], Any] = {
    Elementwise: _elementwise,
    Select: _select,
    Cast: _cast,
    Bitcast: _bitcast,
    Splat: _reshaped,
    Broadcast: _reshaped,
    ExpandDims: _reshaped,
    Reshape: _reshaped,
    Transpose: _reshaped,
    AddPointer: _add_pointer,
    For: _for,
}

__all__ = ["canonicalize", "constant_of", "scalar_of"]
