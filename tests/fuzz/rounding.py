"""Writes floats of any bits, subnormals, infinities and NaN too, each rounded by one op.

What comes out is looked at as bits at once and never computed with again, so that nothing may be
contracted: each of these ops is rounded as IEEE 754 says, casts to 8 bits saturating, and all
targets agree to the bit. Which NaN it is, is left open, and so is the sign of a zero that a
minimum chose.
"""

from __future__ import annotations

from tests.fuzz.integers import IntegerWriter
from tests.fuzz.wide import INTEGERS
from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import Bitcast, Cast, Constant, Elementwise, Select

FLOATS = (F32, F16, BF16, F8E4M3, F8E5M2, F64)
#: Types of the same width, through which floats are looked at.
BITS = {F32: I32, F16: I16, BF16: I16, F8E4M3: I8, F8E5M2: I8, F64: I64}
#: Types that arithmetic is done in.
COMPUTED = (F32, F16, BF16, F64)


class RoundingWriter(IntegerWriter):
    """An IntegerWriter with floats of any bits."""

    def float_bits(self) -> None:
        """One op on floats of any bits."""
        self.pick(
            [self.other_float, self.other_float, self.float_of_integer, self.integer_of_float,
             self.rounded_once, self.chosen, self.ordered]
        )()  # fmt: skip

    def any_bits(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        """Return floats whose bits are random, or near those of another type's limits."""
        build = self.builder
        held = BITS[element]
        if self.number(0, 2) == 0 and element in COMPUTED:
            # Bits of a narrower type, widened and moved by a few units in the last place: numbers
            # on both sides of what rounding decides.
            narrow = self.pick([F16, BF16, F8E4M3, F8E5M2])
            bits = build.add(Cast(self.any_bits(narrow, shape), element))
            whole = build.add(Bitcast(self.without_nan(bits), held))
            by = build.add(Constant(self.number(-2, 2), tile(shape, held)))
            if self.number(0, 1) and element is F32:
                by = build.add(Constant(self.pick([1 << 12, 1 << 15, 1 << 19, 3 << 19]), by.type))
            return build.add(Bitcast(build.add(Elementwise("add", (whole, by))), element))
        return build.add(Bitcast(self.read_bits(held, shape), element))

    def seen(self, value: Value, *, signed_zero: bool = True) -> Value:
        """Return a float's bits; those of every NaN, and perhaps of both zeros, are the same."""
        build, element = self.builder, element_of(value.type)
        assert isinstance(element, Scalar)
        bits = build.add(Bitcast(self.without_nan(value), BITS[element]))
        if not signed_zero:
            zero = build.add(Constant(0.0, value.type))
            none = build.add(Constant(0, bits.type))
            bits = build.add(Select(build.add(Elementwise("eq", (value, zero))), none, bits))
        self.know(bits)
        return bits

    def without_nan(self, value: Value) -> Value:
        """Return a float with 3.5 for each NaN, whose bits nobody says."""
        build = self.builder
        wide = value if element_of(value.type) in COMPUTED else build.add(Cast(value, F32))
        known = build.add(Elementwise("eq", (wide, wide)))
        return build.add(Select(known, value, build.add(Constant(3.5, value.type))))

    def other_float(self) -> None:
        source, to = self.pick(FLOATS), self.pick(FLOATS)
        value = self.any_bits(source, self.any_shape())
        narrower = to.bits < source.bits
        rounding = "rtz" if narrower and self.number(0, 2) == 0 else "rtne"
        self.seen(self.builder.add(Cast(value, to, rounding=rounding)))

    def float_of_integer(self) -> None:
        value = self.ends(self.pick(INTEGERS), self.any_shape())
        self.seen(self.builder.add(Cast(value, self.pick(FLOATS))))

    def integer_of_float(self) -> None:
        """Truncate and saturate."""
        value = self.any_bits(self.pick(FLOATS), self.any_shape())
        self.add(Cast(value, self.pick(INTEGERS)))

    def rounded_once(self) -> None:
        shape, element = self.any_shape(), self.pick(COMPUTED)
        name = self.pick(["add", "sub", "mul", "neg", "abs", "floor", "ceil", "trunc", "rint"])
        count = 2 if name in ("add", "sub", "mul") else 1
        inputs = tuple(self.any_bits(element, shape) for _ in range(count))
        self.seen(self.builder.add(Elementwise(name, inputs)))

    def chosen(self) -> None:
        shape, element = self.any_shape(), self.pick(COMPUTED)
        name = self.pick(["min", "max", "minimum", "maximum"])
        inputs = (self.any_bits(element, shape), self.any_bits(element, shape))
        self.seen(self.builder.add(Elementwise(name, inputs)), signed_zero=False)

    def ordered(self) -> None:
        shape, element = self.any_shape(), self.pick(COMPUTED)
        a = self.any_bits(element, shape)
        b = a if self.number(0, 3) == 0 else self.any_bits(element, shape)
        test = self.add(Elementwise(self.pick(["lt", "le", "gt", "ge", "eq", "ne"]), (a, b)))
        self.seen(self.builder.add(Select(test, a, self.any_bits(element, shape_of(a.type)))))


__all__ = ["RoundingWriter"]
