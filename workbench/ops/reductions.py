"""Many values to one along an axis, and running results along an axis.

The combine region takes the left operands, then the right ones, as scalars, and yields one scalar
per input:

    %m = tile.reduce [%x] {axis = 0} {
    ^(%a: f32, %b: f32):
      %c = tile.max [%a, %b] : f32
      tile.yield [%c]
    } : f32
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from workbench.ir import (
    NONE,
    Array,
    Block,
    Broken,
    Frame,
    Op,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    tile,
)
from workbench.ops.arithmetic import Elementwise
from workbench.ops.functions import Function
from workbench.source import ShapeError

#: How many elements, and of how many rows, are combined in two ways.
_FEW = 8
#: By bits of a float: which part of the numbers rounding explains, with much to spare.
_NEAR = {64: 2.0**-17, 32: 2.0**-8, 16: 2.0**-2}


class Reduce(Op, mnemonic="tile.reduce", effects=NONE):
    """Combine all elements along `axis`, in any order; the axis disappears.

    %1 = tile.reduce [%0] {axis = 0} {
    ^(%a: f32, %b: f32):
      %c = tile.add [%a, %b] : f32
      tile.yield [%c]
    } : f32
    """

    inputs: tuple[Value, ...]
    axis: int = attribute()
    combine: Block = attribute()

    def infer(self) -> tuple[Type, ...]:
        results: list[Type] = []
        for value in self.inputs:
            shape = list(shape_of(value.type))
            del shape[self.axis]
            results.append(tile(tuple(shape), element_of(value.type)))
        return tuple(results)

    def verify(self) -> None:
        _verify_along(self, self.inputs, self.axis)

    def roundings(self) -> int:
        return _roundings_along(self.inputs, self.axis, self.combine)

    def broken(self, frame: Frame) -> Iterator[Broken]:
        yield from _grouped(frame, self.inputs, self.axis, self.combine)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        """Combine neighbours in order, halving the axis each time."""
        parts = [np.moveaxis(frame[v], self.axis, 0) for v in self.inputs]
        while (n := parts[0].shape[0]) > 1:
            even = n // 2 * 2
            left, right = [p[0:even:2] for p in parts], [p[1:even:2] for p in parts]
            merged = _merged(frame, self.combine, left, right)
            parts = [
                np.concatenate([np.broadcast_to(m, part[0:even:2].shape), part[even:]])
                for m, part in zip(merged, parts, strict=True)
            ]
        return tuple(part[0] for part in parts)


class Scan(Op, mnemonic="tile.scan", effects=NONE):
    """Running results of an associative combine along `axis`, each element included.

    %1 = tile.scan [%0] {axis = 0} {
    ^(%a: f32, %b: f32):
      %c = tile.add [%a, %b] : f32
      tile.yield [%c]
    } : tile<4xf32>
    """

    inputs: tuple[Value, ...]
    axis: int = attribute()
    reverse: bool = attribute(default=False)
    combine: Block = attribute()

    def infer(self) -> tuple[Type, ...]:
        return tuple(tile(shape_of(v.type), element_of(v.type)) for v in self.inputs)

    def verify(self) -> None:
        _verify_along(self, self.inputs, self.axis)

    def roundings(self) -> int:
        return _roundings_along(self.inputs, self.axis, self.combine)

    def broken(self, frame: Frame) -> Iterator[Broken]:
        yield from _grouped(frame, self.inputs, self.axis, self.combine)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        parts = [np.moveaxis(frame[v], self.axis, 0) for v in self.inputs]
        if self.reverse:
            parts = [part[::-1] for part in parts]
        step = 1
        while step < parts[0].shape[0]:
            left, right = [p[:-step] for p in parts], [p[step:] for p in parts]
            merged = _merged(frame, self.combine, left, right)
            parts = [
                np.concatenate([part[:step], np.broadcast_to(m, part[step:].shape)])
                for m, part in zip(merged, parts, strict=True)
            ]
            step *= 2
        if self.reverse:
            parts = [part[::-1] for part in parts]
        return tuple(np.moveaxis(part, 0, self.axis) for part in parts)


def _merged(
    frame: Frame, combine: Block, left: Sequence[Array], right: Sequence[Array]
) -> Sequence[Array]:
    """Combine arrays: all elements at once, or one by one where each goes its own way."""
    if not any(op.regions for op in combine.ops):
        return frame.run(combine, [*left, *right])
    found = [np.empty(part.shape, part.dtype) for part in left]
    for place in np.ndindex(left[0].shape):
        values = frame.run(combine, [np.asarray(part[place]) for part in (*left, *right)])
        for array, value in zip(found, values, strict=True):
            array[place] = value
    return found


def _grouped(frame: Frame, inputs: Sequence[Value], axis: int, combine: Block) -> Iterator[Broken]:
    """Say where it matters which of three elements that follow each other are combined first."""
    if combine_function(combine) is not None or not all(op.pure for op in combine.ops):
        return
    held = [np.moveaxis(frame[v], axis, 0) for v in inputs]
    held = [part.reshape(part.shape[0], -1)[:, :_FEW] for part in held]
    count = min(held[0].shape[0] // 3, _FEW)
    if not count:
        return
    elements = [element_of(value.type) for value in inputs]
    a, b, c = ([part[k : 3 * count : 3] for part in held] for k in range(3))
    with np.errstate(all="ignore"):
        ab, bc = _merged(frame, combine, a, b), _merged(frame, combine, b, c)
        left, right = _merged(frame, combine, ab, c), _merged(frame, combine, a, bc)
        all_found = [
            np.stack([np.broadcast_to(side, a[0].shape) for side in sides])
            for sides in zip(a, b, c, left, right, ab, bc, strict=True)
        ]
        floats = [
            (found.astype(np.float64), element.bits)
            for found, element in zip(all_found, elements, strict=True)
            if element.is_float
        ]
        known = np.ones(a[0].shape, bool)
        close = np.zeros(a[0].shape)
        if floats:
            # One component may be computed of all, and of the squares of others.
            size = np.max([np.abs(found).max(axis=0) for found, _ in floats], axis=0)
            close = max(_NEAR.get(bits, np.inf) for _, bits in floats) * size
            if len(floats) > 1:
                close = np.maximum(close, close**2)
            known = ~np.isnan(size)
        for number, (found, element) in enumerate(zip(all_found, elements, strict=True)):
            three, one, other = found[:3], found[3], found[4]
            if element.is_float:
                apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
                wrong = np.isfinite(close) & (apart > close)
            else:
                wrong = known & (one != other)
            if wrong.any():
                place = tuple(np.argwhere(wrong)[0])
                x, y, z, xy, yz = (f"{float(part[place]):.6g}" for part in (*three, one, other))
                which = f" (input {number})" if len(inputs) > 1 else ""
                words = f"f(f({x}, {y}), {z}) is {xy}, but f({x}, f({y}, {z})) is {yz}{which}"
                yield Broken("grouping", words)
                return


def _roundings_along(inputs: tuple[Value, ...], axis: int, combine: Block) -> int:
    extent = shape_of(inputs[0].type)[axis]
    return (extent - 1) * sum(inner.roundings() for inner in combine.ops)


def _verify_along(op: Op, inputs: tuple[Value, ...], axis: int) -> None:
    shapes = {shape_of(value.type) for value in inputs}
    if len(shapes) != 1:
        raise ShapeError(f"{op.name} of inputs with different shapes {sorted(shapes)}", op.span)
    rank = len(next(iter(shapes)))
    if not 0 <= axis < rank:
        raise ShapeError(f"{op.name} along axis {axis} of a value with {rank} axes", op.span)


def combines(op: Op) -> bool:
    """Say whether an op combines the elements along an axis by a region."""
    return isinstance(op, Reduce | Scan)


def row_extreme(op: Op) -> tuple[Value, int, Block] | None:
    """Return the tile, axis and region of a reduction of floats whose result is one of them."""
    if not isinstance(op, Reduce):
        return None
    source, *others = op.inputs
    if others or not shape_of(op.results[0].type):
        return None
    chooses = element_of(source.type).is_float and not op.roundings()
    if not chooses or combine_function(op.combine) is None:
        return None
    return source, op.axis, op.combine


def combine_function(combine: Block) -> Function | None:
    """Return the elementwise function that a combine region is, None if it is more than that."""
    if len(combine.ops) != 2 or not isinstance(combine.ops[0], Elementwise):
        return None
    op = combine.ops[0]
    if set(op.inputs) != set(combine.arguments) or combine.yields != op.results:
        return None
    return op.row if op.row.commutes else None
