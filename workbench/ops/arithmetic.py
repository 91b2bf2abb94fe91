"""Constants, counting, and every function that works element by element."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar

import numpy as np

from workbench.ir import (
    I1,
    INDEX,
    NONE,
    Array,
    Frame,
    Op,
    Place,
    Scalar,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    tile,
    with_element,
)
from workbench.ops.functions import FUNCTIONS, Function
from workbench.ops.numbers import compute_element, round_to, value_dtype
from workbench.source import KernelTypeError, ShapeError


class Constant(Op, mnemonic="tile.constant", effects=NONE, exact=True):
    """A number known at compile time, in every element of `type`.

    %0 = tile.constant {value = 0.5, type = tile<4xf32>} : tile<4xf32>
    """

    value: float | int | bool
    type: Type

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        element = element_of(self.type)
        values: Array = np.full(
            shape_of(self.type), self.value, _constant_dtype(self.value, element)
        )
        return round_to(values, element)

    def element_from(self, place: Place) -> tuple[tuple[Value, Place], ...]:
        return ()

    def element(self, place: Place, given: Sequence[Value]) -> Op:
        return Constant(self.value, element_of(self.type))

    def holds_with(self) -> tuple[Value, ...] | None:
        return () if self.value else None


def _constant_dtype(value: float, element: object) -> type[np.generic]:
    if isinstance(value, float) or (isinstance(element, Scalar) and element.is_float):
        return np.float64
    if isinstance(element, Scalar) and element.kind == "uint" and element.bits == 64:
        return np.uint64
    return np.int64


class Iota(Op, mnemonic="tile.iota", effects=NONE, exact=True):
    """The integers `start`, `start + 1`, ... as a one-dimensional tile.

    %0 = tile.iota {start = 0, type = tile<8xindex>} : tile<8xindex>
    """

    start: int
    type: Tile

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        values = self.start + np.arange(self.type.shape[0], dtype=np.int64)
        return values.astype(value_dtype(self.type.element))

    def element_from(self, place: Place) -> tuple[tuple[Value, Place], ...]:
        return ()

    def element(self, place: Place, given: Sequence[Value]) -> Op:
        return Constant(self.start + place[0], self.type.element)


class Elementwise(Op, effects=NONE, pointwise=True):
    """A function of functions.FUNCTIONS applied to each element of operands of one type.

    %2 = tile.add [%0, %1] : tile<4xf32>
    %3 = tile.lt [%0, %1] : tile<4xi1>
    """

    family: ClassVar = {f"tile.{name}": {"function": name} for name in FUNCTIONS}

    function: str
    inputs: tuple[Value, ...]
    #: The exact result of integer + - * is known to fit the type (set by narrow-index).
    no_wrap: bool = attribute(default=False)
    #: It fits, but less a constant that is kept apart from it may not: it is computed as a whole.
    near_end: bool = attribute(default=False)
    #: Set by narrow-index where numbers of 64 bits are known to be near 0. What is divided: nearer
    #: than 2^31 - 1, so that the nearest divisor of 32 bits gives the same. What is compared: both
    #: nearer than 2^61, so that their difference fits.
    near: bool = attribute(default=False)

    @property
    def name(self) -> str:
        return f"tile.{self.function}"

    @property
    def row(self) -> Function:
        return FUNCTIONS[self.function]

    @property
    def divisor(self) -> Value | None:
        whole = element_of(self.inputs[-1].type).is_integer
        return self.inputs[1] if whole and self.function in ("div", "rem") else None

    def infer(self) -> Type:
        type = self.inputs[0].type
        return with_element(type, I1) if self.row.compares else type

    def verify(self) -> None:
        row, first = self.row, self.inputs[0].type
        if len(self.inputs) != row.arity:
            raise KernelTypeError(
                f"{row.name} takes {row.arity} operands, got {len(self.inputs)}", self.span
            )
        for value in self.inputs[1:]:
            if value.type != first and (
                shape_of(value.type) != shape_of(first)
                or element_of(value.type) != element_of(first)
            ):
                raise ShapeError(
                    f"{row.name} needs operands of one type, got {first} and {value.type}",
                    self.span,
                )
        element = element_of(first)
        wrong = (row.takes == "float" and not element.is_float) or (
            row.takes == "integer" and not element.is_integer
        )
        if wrong or not isinstance(element, Scalar):
            raise KernelTypeError(f"{row.name} does not take {element} values", self.span)

    def roundings(self) -> int:
        return 0 if self.row.exact else 1

    def interpret(self, frame: Frame) -> Array:
        element = element_of(self.inputs[0].type)
        assert isinstance(element, Scalar)
        with np.errstate(all="ignore"):
            values = self.row.evaluate(*(np.asarray(frame[value]) for value in self.inputs))
        if self.row.compares or (element != compute_element(element) and not self.row.chooses):
            return round_to(values, I1 if self.row.compares else element)
        return np.asarray(values, value_dtype(element))

    def holds_with(self) -> tuple[Value, ...] | None:
        return self.inputs if self.function == "and" else None


class Select(Op, mnemonic="tile.select", effects=NONE, exact=True, pointwise=True):
    """`then` where the condition holds, `otherwise` elsewhere; both are evaluated.

    %3 = tile.select %0, %1, %2 : tile<4xf32>
    """

    condition: Value
    then: Value
    otherwise: Value

    def infer(self) -> Type:
        return self.then.type

    def verify(self) -> None:
        types = {shape_of(v.type) for v in (self.then, self.otherwise)}
        scalar = not shape_of(self.condition.type)
        if not scalar:
            types.add(shape_of(self.condition.type))
        if len(types) > 1 or element_of(self.then.type) != element_of(self.otherwise.type):
            raise ShapeError(
                f"select between {self.then.type} and {self.otherwise.type} "
                f"by {self.condition.type}",
                self.span,
            )

    def interpret(self, frame: Frame) -> Array:
        return np.where(frame[self.condition], frame[self.then], frame[self.otherwise])

    def where_on(self, masks: Container[Value]) -> Op | Value:
        return self.then if self.condition in masks else self

    def holds_with(self) -> tuple[Value, ...] | None:
        return (self.condition, self.then) if self.otherwise is self.condition else None


def elementwise(function: str, *inputs: Value) -> Elementwise:
    """Return the op that applies `function` to the inputs."""
    return Elementwise(function, inputs)


def index_constant(value: int, shape: tuple[int, ...] = ()) -> Constant:
    """Return an exact integer constant, in every element of a tile if a shape is given."""
    return Constant(value, tile(shape, INDEX))
