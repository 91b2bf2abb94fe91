"""8-bit floats: what each of the 256 codes of a format stands for, and what numbers round to.

            exponent, mantissa, bias   largest        NaN          infinities
    f8e4m3         4, 3,  7            448            0x7f, 0xff   none        `float8e4nv` of tl
    f8e5m2         5, 2, 15            57344          0x7d…0x7f    0x7c        `float8e5`
    f8e4b8         4, 3,  8            240            0x80         none        no negative zero
    f8e5b16        5, 2, 16            57344          0x80         none        no negative zero
    f8e4b15        4, 3, 15            1.875 (1.75)   none         none

Conversions round to nearest, ties to even, and saturate, infinities too (PTX ISA 9.0,
cvt.rn.satfinite, for the first two). f8e4b15 is a number format of software: its conversions stop
at 1.75, the code below the last, which becomes NaN's stand-in too, as Triton's do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from workbench.ir import F8E4B8, F8E4B15, F8E4M3, F8E5B16, F8E5M2, Array, Scalar


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A format of 8-bit floats.

    Attributes:
        exponent: bits of the exponent; mantissa: bits of the mantissa.
        bias: what the exponent's field has more than the exponent.
        largest: the code of the largest value that conversions give.
        nan: the code that conversions give for NaN; its sign is kept where that is a NaN's.
        infinity: the code of infinity, None where there is none.
        signed: whether zero has two signs; where not, 0x80 is the one NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    signed: bool = True

    @property
    def top(self) -> float:
        """The largest value that conversions give."""
        return self.value(self.largest)

    @property
    def has_nan(self) -> bool:
        """Whether a code means NaN; where none does, its stand-in has no sign of its own."""
        return not self.signed or self.nan > self.largest

    @property
    def lowest_normal(self) -> float:
        """The smallest positive number with a whole mantissa."""
        return 2.0 ** (1 - self.bias)

    def value(self, magnitude: int) -> float:
        """Return what a code without sign stands for, as if all codes were numbers."""
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent == 0:
            return fraction * 2.0 ** (1 - self.bias - self.mantissa)
        return (1 + fraction / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)

    def decoded(self, code: int) -> float:
        """Return what a code stands for."""
        sign, magnitude = -1.0 if code & 0x80 else 1.0, code & 0x7F
        if not self.signed:
            return np.nan if code == 0x80 else sign * self.value(magnitude)
        if magnitude == self.infinity:
            return sign * np.inf
        if magnitude > self.largest and self.nan > self.largest:
            return float(np.copysign(np.nan, sign))
        return sign * self.value(magnitude)


SMALL_FLOATS: dict[Scalar, SmallFloat] = {
    F8E4M3: SmallFloat(4, 3, 7, 0x7E, 0x7F),
    F8E5M2: SmallFloat(5, 2, 15, 0x7B, 0x7F, infinity=0x7C),
    F8E4B8: SmallFloat(4, 3, 8, 0x7F, 0x80, signed=False),
    F8E5B16: SmallFloat(5, 2, 16, 0x7F, 0x80, signed=False),
    F8E4B15: SmallFloat(4, 3, 15, 0x7E, 0x7E),
}


@cache
def table(element: Scalar) -> Array:
    """Return the 256 values of a format as float32."""
    form = SMALL_FLOATS[element]
    return np.array([form.decoded(code) for code in range(256)], np.float32)


def codes(values: Array | float, element: Scalar) -> Array:
    """Return the codes of numbers, rounded to nearest even and saturated."""
    form = SMALL_FLOATS[element]
    wide = np.asarray(values, np.float64)
    positive = np.array([form.value(code) for code in range(form.largest + 1)])
    size = np.minimum(np.where(np.isnan(wide), 0, np.abs(wide)), positive[-1])
    upper = np.searchsorted(positive, size).clip(0, form.largest)
    lower = np.maximum(upper - 1, 0)
    above, below = positive[upper] - size, size - positive[lower]
    down = (below < above) | ((below == above) & (lower % 2 == 0))
    return _with_sign(np.where(down, lower, upper), wide, form)


def codes_toward_zero(values: Array | float, element: Scalar) -> Array:
    """Return the codes of numbers, rounded toward zero."""
    form = SMALL_FLOATS[element]
    wide = np.asarray(values, np.float64)
    positive = np.array([form.value(code) for code in range(form.largest + 1)])
    size = np.where(np.isnan(wide), 0, np.abs(wide))
    return _with_sign(np.searchsorted(positive, size, side="right") - 1, wide, form)


def _with_sign(magnitude: Array, wide: Array, form: SmallFloat) -> Array:
    sign = np.signbit(wide).astype(np.uint8) << np.uint8(7)
    code = np.where(np.isnan(wide), form.nan, magnitude).astype(np.uint8)
    if form.signed:
        return code | (sign if form.has_nan else np.where(np.isnan(wide), np.uint8(0), sign))
    return np.where((code == 0) | (code == form.nan), code, code | sign).astype(np.uint8)


def held_codes(values: Array, element: Scalar) -> Array:
    """Return the codes of values of the format itself: here nothing saturates."""
    form = SMALL_FLOATS[element]
    found = codes(values, element)
    size = np.abs(np.asarray(values, np.float64))
    if form.infinity is not None:
        found = np.where(np.isinf(size), found & 0x80 | form.infinity, found)
    elif form.signed and form.nan <= form.largest < 0x7F:
        found = np.where(size > form.top, found & 0x80 | 0x7F, found)
    return found.astype(np.uint8)
