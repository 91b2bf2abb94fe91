"""Sine, cosine, tangent and their inverses."""

from __future__ import annotations

import math

from workbench.ir import Value
from workbench.passes.formulas.terms import Formula, Terms

# (sin x - x) / x^3 in x^2 for |x| <= pi/4: 2e-10 and 7e-20.
_SIN_SINGLE = (-0.1666666666, 0.00833333187, -0.0001984008438, 2.724962008e-6)
_SIN_DOUBLE = (
    -0.166666666666666667, 0.00833333333333333148, -0.00019841269841265041, 2.75573192193205798e-6,
    -2.50521062259944007e-8, 1.60585305966459547e-10, -7.58663688282515966e-13,
)  # fmt: skip
# (cos x - 1 + x^2 / 2) / x^4 in x^2 for |x| <= pi/4: 6e-11 and 2e-20.
_COS_SINGLE = (0.04166666666, -0.001388888767, 2.480059841e-5, -2.730070404e-7)
_COS_DOUBLE = (
    0.0416666666666666667, -0.00138888888888888879, 2.48015873015846331e-5,
    -2.75573192213924907e-7, 2.08767557874926059e-9, -1.14704603192095118e-11,
    4.74583841253102297e-14,
)  # fmt: skip
# atan x / x in x^2 for |x| <= tan(pi/8): 6e-10 and 5e-20.
_ATAN_SINGLE = (0.9999999994, -0.3333330689, 0.1999818304, -0.1423953267, 0.1056982881,
                -0.06026305228)  # fmt: skip
_ATAN_DOUBLE = (
    1.0, -0.333333333333333242, 0.199999999999970139, -0.142857142853297082, 0.111111110853221088,
    -0.0909090805903119103, 0.0769228109993774325, -0.0666620525997652619, 0.0587683400461416066,
    -0.05217312574061591, 0.0449950072898403201, -0.0333878245012119515, 0.0151137650966009247,
)  # fmt: skip
# (asin x - x) / x^3 in x^2 for |x| <= 1/2: 1e-9 and 2e-20.
_ASIN_SINGLE = (0.1666666669, 0.07499992404, 0.04464766389, 0.03026913873, 0.02361181701,
                0.01057441552, 0.03097454037)  # fmt: skip
_ASIN_DOUBLE = (
    0.166666666666666667, 0.0750000000000000066, 0.0446428571428549111, 0.0303819444447431479,
    0.0223721590699601813, 0.0173527653092849534, 0.013964819214172545, 0.0115522685739151271,
    0.00975527531616353462, 0.00845240606574654658, 0.00686944487049922146, 0.00874110707327393116,
    -0.00271688110830414968, 0.0264920273408779284, -0.0292886524922919274, 0.0320741268671217913,
)  # fmt: skip
# pi/2 in parts, each exact in its type.
_HALF_PI = (
    (1.5707963705062866, -4.371138828673793e-08, -1.7151244994428829e-15),
    (math.pi / 2, 6.123233995736766e-17, -1.497384905065873e-33),
)


def _reduced(t: Terms, x: Value) -> tuple[Value, Value]:
    """Return (quarter turns as an integer, what is left), for |x| up to about 1e5 (f64: 1e9)."""
    turns = t.rint(t.scaled(x, 2 / math.pi))
    minus, rest = t.neg(turns), x
    for part in t.either(*_HALF_PI):
        rest = t.fma(minus, t.real(part), rest)
    return t.to_integer(turns), rest


def _sin_of(t: Terms, r: Value, square: Value) -> Value:
    cube = t.mul(square, r)
    return t.fma(t.horner(square, t.either(_SIN_SINGLE, _SIN_DOUBLE)), cube, r)


def _cos_of(t: Terms, square: Value) -> Value:
    half = t.scaled(square, 0.5)
    head = t.sub(t.real(1.0), half)
    lost = t.sub(t.sub(t.real(1.0), head), half)
    fourth = t.mul(square, square)
    return t.add(head, t.fma(t.horner(square, t.either(_COS_SINGLE, _COS_DOUBLE)), fourth, lost))


def _bit(t: Terms, turns: Value, bit: int) -> Value:
    return t.apply("ne", t.apply("and", turns, t.whole(bit)), t.whole(0))


def _circular(t: Terms, x: Value, shift: int) -> Value:
    turns, r = _reduced(t, x)
    square = t.mul(r, r)
    turns = t.add(turns, t.whole(shift))
    value = t.select(_bit(t, turns, 1), _cos_of(t, square), _sin_of(t, r, square))
    return t.select(_bit(t, turns, 2), t.neg(value), value)


def sin(t: Terms, x: Value) -> Value:
    """The sine or cosine of the rest, with a sign, by the quarter turn."""
    return _circular(t, x, 0)


def cos(t: Terms, x: Value) -> Value:
    """The sine a quarter turn on."""
    return _circular(t, x, 1)


def tan(t: Terms, x: Value) -> Value:
    """Divide sine by cosine, or -cosine by sine after an odd quarter turn."""
    turns, r = _reduced(t, x)
    square = t.mul(r, r)
    sine, cosine = _sin_of(t, r, square), _cos_of(t, square)
    odd = _bit(t, turns, 1)
    above, below = t.select(odd, t.neg(cosine), sine), t.select(odd, sine, cosine)
    return t.div(above, below)


# -- inverses ---------------------------------------------------------------------------------
def _atan_of(t: Terms, a: Value) -> Value:
    """Return atan of a number >= 0: a polynomial, above tan(pi/8) after turning by pi/4 or pi/2."""
    high, low, _ = t.either(*_HALF_PI)
    middle, far = t.test("gt", a, math.sqrt(2) - 1), t.test("gt", a, math.sqrt(2) + 1)
    above = t.select(middle, t.plus(a, -1.0), a)
    below = t.select(middle, t.plus(a, 1.0), t.real(1.0))
    above, below = t.select(far, t.real(-1.0), above), t.select(far, a, below)
    x = t.ratio(above, below)
    turn = t.select(far, t.real(high), t.select(middle, t.real(high / 2), t.real(0.0)))
    rest = t.select(far, t.real(low), t.select(middle, t.real(low / 2), t.real(0.0)))
    square = t.mul(x, x)
    series = t.horner(square, t.either(_ATAN_SINGLE, _ATAN_DOUBLE)[1:])
    # The first coefficient is 1, so x itself is added last: nothing of it is lost.
    return t.add(turn, t.add(x, t.fma(t.mul(series, square), x, rest)))


def atan(t: Terms, x: Value) -> Value:
    """Give the angle of |x| the sign of x."""
    return t.signed(_atan_of(t, t.abs(x)), x)


def atan2(t: Terms, y: Value, x: Value) -> Value:
    """Turn the angle of the smaller over the larger into the octant of the point."""
    high, low, _ = t.either(*_HALF_PI)
    a, b = t.abs(x), t.abs(y)
    steep = t.apply("gt", b, a)
    large, small = t.select(steep, b, a), t.select(steep, a, b)
    ratio = t.ratio(small, large)
    ratio = t.select(t.test("eq", large, 0.0), t.real(0.0), ratio)
    both = t.apply("and", t.test("eq", a, math.inf), t.test("eq", b, math.inf))
    ratio = t.select(both, t.real(1.0), ratio)
    angle = _atan_of(t, ratio)
    turned = t.add(t.sub(t.real(high), angle), t.real(low))
    angle = t.select(steep, turned, angle)
    left = t.test("lt", t.signed(t.real(1.0), x), 0.0)
    behind = t.add(t.sub(t.real(2 * high), angle), t.real(2 * low))
    angle = t.signed(t.select(left, behind, angle), y)
    nan = t.either_of(t.is_nan(x), t.is_nan(y))
    return t.select(nan, t.real(math.nan), angle)


def _asin_of(t: Terms, x: Value, square: Value) -> Value:
    cube = t.mul(square, x)
    return t.fma(t.horner(square, t.either(_ASIN_SINGLE, _ASIN_DOUBLE)), cube, x)


def _half_angle(t: Terms, a: Value) -> tuple[Value, Value]:
    """Return (sqrt((1 - a) / 2), (1 - a) / 2)."""
    square = t.fma(a, t.real(-0.5), t.real(0.5))
    return t.sqrt(square), square


def asin(t: Terms, x: Value) -> Value:
    """Use the polynomial up to 1/2; above, the complement of twice half the angle."""
    high, low, _ = t.either(*_HALF_PI)
    a = t.abs(x)
    root, half = _half_angle(t, a)
    far = t.test("gt", a, 0.5)
    base, square = t.select(far, root, a), t.select(far, half, t.mul(a, a))
    found = _asin_of(t, base, square)
    turned = t.sub(t.real(high), t.sub(t.scaled(found, 2.0), t.real(low)))
    return t.signed(t.select(far, turned, found), x)


def acos(t: Terms, x: Value) -> Value:
    """Up to 1/2 by the complement; above by half the angle, below -1/2 by its supplement."""
    high, low, _ = t.either(*_HALF_PI)
    a = t.abs(x)
    root, half = _half_angle(t, a)
    far = t.test("gt", a, 0.5)
    base, square = t.select(far, root, x), t.select(far, half, t.mul(x, x))
    found = _asin_of(t, base, square)
    middle = t.sub(t.real(high), t.sub(found, t.real(low)))
    twice = t.scaled(found, 2.0)
    behind = t.sub(t.real(2 * high), t.sub(twice, t.real(2 * low)))
    outer = t.select(t.test("lt", x, 0.0), behind, twice)
    return t.select(far, outer, middle)


CIRCULAR: dict[str, Formula] = {
    "sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2,
}  # fmt: skip
