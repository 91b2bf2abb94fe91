"""Ops that put elements in order, pick them by index, or count them."""

from __future__ import annotations

import numpy as np

from workbench.ir import (
    I32,
    NONE,
    Array,
    Frame,
    Op,
    Scalar,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
)
from workbench.source import KernelTypeError, ShapeError


class Sort(Op, mnemonic="tile.sort", effects=NONE, exact=True):
    """Integers in order along the last axis, ascending or descending; only the first `keep` stay.

    `keep = 0` keeps all. Floats are sorted by integer keys that order the same way.

        %1 = tile.sort %0 {descending = True, keep = 2} : tile<2xi32>
    """

    source: Value
    descending: bool = attribute(default=False)
    keep: int = attribute(default=0)

    @property
    def kept(self) -> int:
        """How many elements of each row stay."""
        return self.keep or shape_of(self.source.type)[-1]

    def infer(self) -> Type:
        return Tile((*shape_of(self.source.type)[:-1], self.kept), element_of(self.source.type))

    def verify(self) -> None:
        _check_row(self, self.source)
        extent = shape_of(self.source.type)[-1]
        if self.keep & (self.keep - 1) or not 0 <= self.keep <= extent:
            raise ShapeError(
                f"the first {self.keep} of rows of {extent} elements: a power of two up to "
                f"{extent} can be kept",
                self.span,
            )

    def interpret(self, frame: Frame) -> Array:
        ordered = np.sort(frame[self.source], axis=-1)
        return (ordered[..., ::-1] if self.descending else ordered)[..., : self.kept]


class Merge(Op, mnemonic="tile.merge", effects=NONE, exact=True):
    """Bitonic rows of integers put in order along the last axis, whose extent is a power of two.

    A row is bitonic if it rises and then falls, or is a rotation of such a row. Of any other row
    the same exchanges are made: distances of half the extent, a quarter, ..., 1.

        %1 = tile.merge %0 : tile<4xi32>
    """

    source: Value
    descending: bool = attribute(default=False)

    def infer(self) -> Type:
        return Tile(shape_of(self.source.type), element_of(self.source.type))

    def verify(self) -> None:
        _check_row(self, self.source)
        extent = shape_of(self.source.type)[-1]
        if extent & (extent - 1):
            raise ShapeError(
                f"a bitonic merge of rows of {extent} elements",
                self.span,
                hint="the last axis needs an extent that is a power of two",
            )

    def interpret(self, frame: Frame) -> Array:
        values = np.array(frame[self.source])
        extent = values.shape[-1]
        distance = extent // 2
        while distance:
            pairs = values.reshape(*values.shape[:-1], extent // (2 * distance), 2, distance)
            low, high = np.minimum(pairs[..., 0, :], pairs[..., 1, :]), pairs.max(axis=-2)
            ordered = (high, low) if self.descending else (low, high)
            values = np.stack(ordered, axis=-2).reshape(values.shape)
            distance //= 2
        return values


def _check_row(op: Op, source: Value) -> None:
    element = element_of(source.type)
    if not shape_of(source.type):
        raise ShapeError(f"{op.name} needs a tile, got {source.type}", op.span)
    if not isinstance(element, Scalar) or not element.is_integer or element.kind == "bool":
        raise KernelTypeError(f"{op.name} orders integers, got {source.type}", op.span)


class Gather(Op, mnemonic="tile.gather", effects=NONE, exact=True):
    """Elements of `source` at places `index` along `axis`; other coordinates stay.

    The shapes agree but for `axis`. An index outside the axis picks the last element.

        %2 = tile.gather %0, %1 {axis = 0} : tile<4xf32>
    """

    source: Value
    index: Value
    axis: int = attribute()

    def infer(self) -> Type:
        return Tile(shape_of(self.index.type), element_of(self.source.type))

    def verify(self) -> None:
        source, index = shape_of(self.source.type), shape_of(self.index.type)
        if len(source) != len(index) or not 0 <= self.axis < len(source):
            raise ShapeError(
                f"gather along axis {self.axis} of {self.source.type} by {self.index.type}",
                self.span,
            )
        if any(
            a != b for d, (a, b) in enumerate(zip(source, index, strict=True)) if d != self.axis
        ):
            raise ShapeError(
                f"gather along axis {self.axis}: source {source} and index {index} differ in "
                "another axis",
                self.span,
            )

    def interpret(self, frame: Frame) -> Array:
        source, index = np.asarray(frame[self.source]), np.asarray(frame[self.index], np.int64)
        last = source.shape[self.axis] - 1
        places = np.where((index < 0) | (index > last), last, index)
        return np.take_along_axis(source, places, self.axis)


class Histogram(Op, mnemonic="tile.histogram", effects=NONE, exact=True):
    """How often each of 0 ... bins - 1 occurs among the elements whose mask holds.

    Other values are not counted.

        %2 = tile.histogram %0 mask %1 {bins = 4} : tile<4xi32>
    """

    source: Value
    mask: Value | None = None
    bins: int = attribute()

    def infer(self) -> Type:
        return Tile((self.bins,), I32)

    def verify(self) -> None:
        element = element_of(self.source.type)
        if not isinstance(element, Scalar) or not element.is_integer:
            raise KernelTypeError(f"histogram counts integers, got {self.source.type}", self.span)
        if self.mask is not None and shape_of(self.mask.type) != shape_of(self.source.type):
            raise ShapeError(
                f"histogram of {self.source.type} got a mask {self.mask.type}", self.span
            )

    def interpret(self, frame: Frame) -> Array:
        values = np.asarray(frame[self.source])
        live = np.broadcast_to(frame.get(self.mask, True), values.shape)
        counted = values[live & (values >= 0) & (values < self.bins)]
        return np.bincount(counted.astype(np.int64).ravel(), minlength=self.bins).astype(np.int32)
