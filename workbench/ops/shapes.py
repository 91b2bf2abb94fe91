"""Ops that move elements without computing: shape in, shape out."""

from __future__ import annotations

from math import prod

import numpy as np

from workbench.ir import (
    NONE,
    Array,
    Frame,
    Op,
    Place,
    Tile,
    Type,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.source import ShapeError


class Splat(Op, mnemonic="tile.splat", effects=NONE, moves=True):
    """A scalar or pointer in every element of a tile.

    %1 = tile.splat %0 {shape = (4,)} : tile<4xf32>
    """

    source: Value
    shape: tuple[int, ...]

    def infer(self) -> Type:
        return Tile(self.shape, element_of(self.source.type))

    def interpret(self, frame: Frame) -> Array:
        return np.broadcast_to(frame[self.source], self.shape)

    def place_before(self, place: Place) -> Place:
        return ()


class Broadcast(Op, mnemonic="tile.broadcast", effects=NONE, moves=True):
    """A tile repeated along its axes of extent 1; the rank stays.

    %1 = tile.broadcast %0 {shape = (4, 8)} : tile<4x8xf32>
    """

    source: Value
    shape: tuple[int, ...]

    def infer(self) -> Type:
        return Tile(self.shape, element_of(self.source.type))

    def verify(self) -> None:
        source = shape_of(self.source.type)
        fits = len(source) == len(self.shape) and all(
            a in (1, b) for a, b in zip(source, self.shape, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"a tile of shape {source} does not broadcast to {self.shape}", self.span
            )

    def interpret(self, frame: Frame) -> Array:
        return np.broadcast_to(frame[self.source], self.shape)

    def place_before(self, place: Place) -> Place:
        source = shape_of(self.source.type)
        return tuple(0 if extent == 1 else c for extent, c in zip(source, place, strict=True))


class ExpandDims(Op, mnemonic="tile.expand_dims", effects=NONE, moves=True):
    """A tile with an axis of extent 1 inserted before `axis`.

    %1 = tile.expand_dims %0 {axis = 1} : tile<4x1xf32>
    """

    source: Value
    axis: int

    def infer(self) -> Type:
        shape = list(shape_of(self.source.type))
        shape.insert(self.axis, 1)
        return Tile(tuple(shape), element_of(self.source.type))

    def interpret(self, frame: Frame) -> Array:
        return np.expand_dims(frame[self.source], self.axis)

    def place_before(self, place: Place) -> Place:
        return place[: self.axis] + place[self.axis + 1 :]


class Reshape(Op, mnemonic="tile.reshape", effects=NONE, moves=True):
    """The elements in row-major order under another shape; () gives a scalar.

    %1 = tile.reshape %0 {shape = (2, 4)} : tile<2x4xf32>
    """

    source: Value
    shape: tuple[int, ...]

    def infer(self) -> Type:
        return tile(self.shape, element_of(self.source.type))

    def verify(self) -> None:
        have, want = prod(shape_of(self.source.type)), prod(self.shape)
        if have != want:
            raise ShapeError(
                f"reshape of {shape_of(self.source.type)} ({have} elements) "
                f"to {self.shape} ({want} elements)",
                self.span,
            )

    def interpret(self, frame: Frame) -> Array:
        return np.reshape(frame[self.source], self.shape)

    def place_before(self, place: Place) -> Place:
        source = shape_of(self.source.type)
        flat = np.ravel_multi_index(place, self.shape) if place else 0
        return tuple(map(int, np.unravel_index(flat, source))) if source else ()


class Transpose(Op, mnemonic="tile.transpose", effects=NONE, moves=True):
    """Axis i of the result is axis `order[i]` of the source.

    %1 = tile.transpose %0 {order = (1, 0)} : tile<8x4xf32>
    """

    source: Value
    order: tuple[int, ...]

    def infer(self) -> Type:
        shape = shape_of(self.source.type)
        return Tile(tuple(shape[i] for i in self.order), element_of(self.source.type))

    def verify(self) -> None:
        if sorted(self.order) != list(range(len(shape_of(self.source.type)))):
            raise ShapeError(
                f"{self.order} is not an order of the {len(shape_of(self.source.type))} axes",
                self.span,
            )

    def interpret(self, frame: Frame) -> Array:
        return np.transpose(frame[self.source], self.order)

    def place_before(self, place: Place) -> Place:
        return tuple(place[self.order.index(axis)] for axis in range(len(place)))


class Join(Op, mnemonic="tile.join", effects=NONE, exact=True, pairs=True):
    """Two tiles of one type stacked on a new last axis of extent 2.

    %2 = tile.join %0, %1 : tile<4x2xf32>
    """

    first: Value
    second: Value

    def infer(self) -> Type:
        return Tile((*shape_of(self.first.type), 2), element_of(self.first.type))

    def element_from(self, place: Place) -> tuple[tuple[Value, Place], ...]:
        return (((self.first, self.second)[place[-1]], tuple(place[:-1])),)

    def verify(self) -> None:
        if (shape_of(self.first.type), element_of(self.first.type)) != (
            shape_of(self.second.type),
            element_of(self.second.type),
        ):
            raise ShapeError(f"join of {self.first.type} and {self.second.type}", self.span)

    def interpret(self, frame: Frame) -> Array:
        return np.stack([frame[self.first], frame[self.second]], axis=-1)


class Split(Op, mnemonic="tile.split", effects=NONE, exact=True, pairs=True):
    """The two halves of a tile whose last axis has extent 2.

    %1, %2 = tile.split %0 : tile<4xf32>, tile<4xf32>
    """

    source: Value

    def infer(self) -> tuple[Type, ...]:
        half = tile(shape_of(self.source.type)[:-1], element_of(self.source.type))
        return half, half

    def verify(self) -> None:
        if shape_of(self.source.type)[-1:] != (2,):
            raise ShapeError(
                f"split needs a last axis of extent 2, got {shape_of(self.source.type)}", self.span
            )

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        values = frame[self.source]
        return values[..., 0], values[..., 1]


class Concatenate(Op, mnemonic="tile.concatenate", effects=NONE, exact=True):
    """Two one-dimensional tiles one after the other.

    %2 = tile.concatenate %0, %1 : tile<8xf32>
    """

    first: Value
    second: Value

    def infer(self) -> Type:
        extent = shape_of(self.first.type)[0] + shape_of(self.second.type)[0]
        return Tile((extent,), element_of(self.first.type))

    def interpret(self, frame: Frame) -> Array:
        return np.concatenate([frame[self.first], frame[self.second]])
