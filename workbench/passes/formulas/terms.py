"""The words in which formulas are written: ops on values of one shape and one float type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.ir import F32, F64, I1, I32, I64, Builder, Scalar, Value, element_of, shape_of, tile
from workbench.ops import Bitcast, Cast, Constant, Elementwise, Select

#: Says whether a target computes a function of an element type itself.
Native = Callable[[str, Scalar], bool]
Formula = Callable[..., Value]


class Terms:
    """Writes ops on values of one shape; `element` is f32 or f64, `integer` as wide."""

    def __init__(
        self, builder: Builder, shape: tuple[int, ...], element: Scalar, native: Native
    ) -> None:
        self.builder = builder
        self.shape = shape
        self.element = element
        self.native = native
        self.is_double = element == F64
        self.integer = I64 if self.is_double else I32
        self.mantissa = 52 if self.is_double else 23
        self.bias = 1023 if self.is_double else 127

    def either(self, single: Any, double: Any) -> Any:
        """Return what belongs to the element type."""
        return double if self.is_double else single

    def apply(self, function: str, *inputs: Value) -> Value:
        """Return one elementwise function, as an op."""
        return self.builder.add(Elementwise(function, inputs))

    def call(self, function: str, *inputs: Value) -> Value:
        """Return a function: by the target's own means if it has some, else by its formula."""
        from workbench.passes.formulas import FORMULAS

        if function not in FORMULAS or self.native(function, self.element):
            return self.apply(function, *inputs)
        return FORMULAS[function](self, *inputs)

    # -- numbers --------------------------------------------------------------------------
    def real(self, value: float) -> Value:
        """Return a constant of the float type."""
        return self.builder.add(Constant(value, tile(self.shape, self.element)))

    def whole(self, value: int) -> Value:
        """Return a constant of the integer type."""
        return self.builder.add(Constant(value, tile(self.shape, self.integer)))

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        return self.apply("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        return self.apply("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Return a * b."""
        return self.apply("mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """Return a / b, correctly rounded."""
        return self.apply("div_rn", a, b)

    def ratio(self, a: Value, b: Value) -> Value:
        """Return a / b to within 2 ulp, for what is put right later or counts little."""
        return self.apply("div", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once."""
        return self.apply("fma", a, b, c)

    def neg(self, a: Value) -> Value:
        """Return -a."""
        return self.apply("neg", a)

    def abs(self, a: Value) -> Value:
        """Return |a|."""
        return self.apply("abs", a)

    def sqrt(self, a: Value) -> Value:
        """Return the correctly rounded square root."""
        return self.apply("sqrt_rn", a)

    def rint(self, a: Value) -> Value:
        """Return the nearest integer, halves to even."""
        return self.apply("rint", a)

    def scaled(self, a: Value, factor: float) -> Value:
        """Return a times a number."""
        return self.mul(a, self.real(factor))

    def plus(self, a: Value, number: float) -> Value:
        """Return a plus a number."""
        return self.add(a, self.real(number))

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Return a polynomial, its coefficients given lowest power first."""
        total = self.real(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = self.fma(total, x, self.real(coefficient))
        return total

    # -- choices --------------------------------------------------------------------------
    def test(self, how: str, a: Value, number: float) -> Value:
        """Return a comparison with a number: lt, le, gt, ge, eq, ne."""
        return self.apply(how, a, self.real(number))

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return `then` where the condition holds."""
        return self.builder.add(Select(condition, then, otherwise))

    def either_of(self, a: Value, b: Value) -> Value:
        """Return a or b, for conditions."""
        return self.apply("or", a, b)

    def held(self, x: Value, low: float, high: float) -> Value:
        """Return x held between two numbers; NaN stays."""
        above = self.select(self.test("gt", x, high), self.real(high), x)
        return self.select(self.test("lt", above, low), self.real(low), above)

    def is_nan(self, x: Value) -> Value:
        """Say where x is NaN."""
        return self.apply("ne", x, x)

    def signed(self, magnitude: Value, sign: Value) -> Value:
        """Return a magnitude with the sign of another value."""
        return self.apply("copysign", magnitude, sign)

    # -- bits -----------------------------------------------------------------------------
    def bits(self, x: Value) -> Value:
        """Return the bits as a signed integer."""
        return self.builder.add(Bitcast(x, self.integer))

    def from_bits(self, x: Value) -> Value:
        """Return the float that bits stand for."""
        return self.builder.add(Bitcast(x, self.element))

    def to_integer(self, x: Value) -> Value:
        """Return a float without fraction as an integer; NaN gives 0."""
        return self.builder.add(Cast(x, self.integer))

    def to_real(self, x: Value) -> Value:
        """Return an integer (or a condition: 0 or 1) as a float."""
        return self.builder.add(Cast(x, self.element))

    def power_of_two(self, exponent: Value) -> Value:
        """Return 2 to an integer power in the range of normal numbers."""
        biased = self.add(exponent, self.whole(self.bias))
        return self.from_bits(self.apply("shl", biased, self.whole(self.mantissa)))

    def times_power_of_two(self, x: Value, exponent: Value) -> Value:
        """Return x times 2 to an integer power of at most twice the normal range."""
        half = self.apply("shr", exponent, self.whole(1))
        rest = self.sub(exponent, half)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(rest))

    # -- other widths ---------------------------------------------------------------------
    def doubled(self) -> Terms:
        """Return the terms for f64 at the same place."""
        return Terms(self.builder, self.shape, F64, self.native)

    def widen(self, x: Value) -> Value:
        """Return an f32 as f64."""
        return x if element_of(x.type) == F64 else self.builder.add(Cast(x, F64))

    def narrow(self, x: Value) -> Value:
        """Return a value in the float type of these terms."""
        return x if element_of(x.type) == self.element else self.builder.add(
            Cast(x, self.element)
        )  # fmt: skip

    def in_double(self, formula: Formula, *inputs: Value) -> Value:
        """Compute an f32 function in f64 and round once."""
        return self.narrow(formula(self.doubled(), *map(self.widen, inputs)))


def terms_for(builder: Builder, like: Value, native: Native) -> Terms:
    """Return the terms in which a function of a value is computed: f64 for f64, else f32."""
    element = F64 if element_of(like.type) == F64 else F32
    return Terms(builder, shape_of(like.type), element, native)


__all__ = ["I1", "Formula", "Native", "Terms", "terms_for"]
