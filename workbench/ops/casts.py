"""Changes of element type."""

from __future__ import annotations

from typing import Literal

import numpy as np

from workbench.ir import (
    F16,
    NONE,
    Array,
    Element,
    Frame,
    Op,
    Scalar,
    Type,
    Value,
    attribute,
    element_of,
    with_element,
)
from workbench.ops.numbers import bits_of, from_bits, round_to, toward_zero
from workbench.source import KernelTypeError


class Cast(Op, mnemonic="tile.cast", effects=NONE, pointwise=True):
    """The same number in another element type.

    Float to narrower float rounds once, to nearest even (`rounding = "rtz"`: toward zero), to
    8-bit floats saturating, infinities too; float to integer truncates, saturates, and gives 0
    for NaN; to i1 is `!= 0`; an integer to a narrower one (index to i32 too) keeps the low bits.

        %1 = tile.cast %0 {to = f16} : tile<4xf16>
    """

    source: Value
    to: Scalar
    rounding: Literal["rtne", "rtz"] = attribute(default="rtne")
    #: The integer is known to fit the narrower type (set by narrow-index).
    no_wrap: bool = attribute(default=False)

    def infer(self) -> Type:
        return with_element(self.source.type, self.to)

    def verify(self) -> None:
        if not isinstance(element_of(self.source.type), Scalar):
            raise KernelTypeError(f"a {element_of(self.source.type)} is not a number", self.span)

    def roundings(self) -> int:
        source = element_of(self.source.type)
        widens = isinstance(source, Scalar) and source.is_float and source.bits < self.to.bits
        return 0 if widens else 1

    def interpret(self, frame: Frame) -> Array:
        source = element_of(self.source.type)
        assert isinstance(source, Scalar)
        return convert(np.asarray(frame[self.source]), source, self.to, self.rounding)


def convert(values: Array, source: Scalar, to: Scalar, rounding: str = "rtne") -> Array:
    """Return values of type `source` as values of type `to`; see Cast for the rules."""
    if source == to:
        return values
    if to.kind == "bool":
        return values != 0
    if rounding == "rtz" and source.is_float and to.is_float and to.bits < source.bits:
        return toward_zero(values, to)
    if source.bits > 32 and source.is_integer and to.is_float and to.bits < 32 and to != F16:
        values = values.astype(np.float32)
    return round_to(values, to)


class Bitcast(Op, mnemonic="tile.bitcast", effects=NONE, exact=True, pointwise=True):
    """The same bits read as another element type of the same width.

    %1 = tile.bitcast %0 {to = i32} : tile<4xi32>
    """

    source: Value
    to: Element

    def infer(self) -> Type:
        return with_element(self.source.type, self.to)

    def verify(self) -> None:
        source = element_of(self.source.type)
        if source.bits != self.to.bits:
            raise KernelTypeError(
                f"bitcast from {source} ({source.bits} bits) to {self.to} ({self.to.bits} bits)",
                self.span,
                hint="the widths must be equal; cast to a type of the same width first",
            )

    def interpret(self, frame: Frame) -> Array:
        values = np.asarray(frame[self.source])
        bits = bits_of(values, element_of(self.source.type))
        return from_bits(bits, self.to).reshape(values.shape)


__all__ = ["Bitcast", "Cast", "convert"]
