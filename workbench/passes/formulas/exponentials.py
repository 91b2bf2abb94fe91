"""Exponentials, logarithms, powers, and the hyperbolic functions made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.ir import Value
from workbench.passes.formulas.terms import Formula, Terms

# (e^r - 1 - r) / r^2 for |r| <= 0.35: 3e-9 and 4e-20.
_EXP_SINGLE = (0.5000000014, 0.1666666668, 0.04166645681, 0.008333310024, 0.001393454193,
               0.0001989198131)  # fmt: skip
_EXP_DOUBLE = (
    0.5, 0.166666666666666667, 0.0416666666666666778, 0.00833333333333333408,
    0.0013888888888878269, 0.000198412698412627626, 2.48015873385653456e-5, 2.75573192486338255e-6,
    2.75572610293437687e-7, 2.50520695947956848e-8, 2.09189618377957781e-9, 1.60871772343807823e-10,
)  # fmt: skip
# (2^r - 1) / r for |r| <= 0.505, the first of them as f32 has it: 5e-9.
_EXP2_SINGLE = (0.6931471825, 0.2402264774, 0.05550357699, 0.009618533775, 0.001339206239,
                0.0001532256429)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, for numbers from sqrt(1/2) to sqrt(2): 2e-9, 2e-20.
_LOG_SINGLE = (0.6666666655, 0.4000012221, 0.2855077863, 0.2333161447)
_LOG_DOUBLE = (
    0.666666666666666667, 0.399999999999999924, 0.285714285714354076, 0.222222222198442311,
    0.181818185957690647, 0.153845749664609068, 0.133356458419493771, 0.116879629975421557,
    0.118834523941078596,
)  # fmt: skip
# (log(1 + m) - m) / m^2 for m from -1/4 to 1/2: 1e-8.
_LOG1P_SINGLE = (-0.499999998, 0.3333339545, -0.2500015388, 0.1999359251, -0.1664764409,
                 0.1443845675, -0.1312287691, 0.1062562921, -0.04738242484)  # fmt: skip
# High and low parts of constants, each exact in its type.
_LN2 = ((0.693147182464599609375, -1.904654299957768e-09), (math.log(2), 2.3190468138462996e-17))
_LOG10_2 = (
    (0.3010300099849701, -1.432098883924482e-08),
    (0.3010299956639812, -2.8037281277851704e-18),
)
_LOG2_E = 1.4426950408889634
_LOG2_E_PARTS = ((1.44269502162933349609375, 1.925962987e-08), (_LOG2_E, 2.0355273740931033e-17))


def exp_reduced(t: Terms, x: Value) -> tuple[Value, Value]:
    """Return (k as an integer, r) with x = k log 2 + r and |r| <= log(2) / 2, nearly."""
    high, low = t.either(*_LN2)
    k = t.rint(t.scaled(x, _LOG2_E))
    minus = t.neg(k)
    r = t.fma(minus, t.real(low), t.fma(minus, t.real(high), x))
    return t.to_integer(k), r


def _expm1_of(t: Terms, r: Value) -> Value:
    """Return e^r - 1 for a reduced r."""
    square = t.mul(r, r)
    return t.fma(t.horner(r, t.either(_EXP_SINGLE, _EXP_DOUBLE)), square, r)


def exp(t: Terms, x: Value) -> Value:
    """e^x = 2^k e^r."""
    k, r = exp_reduced(t, t.held(x, *t.either((-104.0, 89.0), (-746.0, 710.0))))
    return t.times_power_of_two(t.plus(_expm1_of(t, r), 1.0), k)


def exp2(t: Terms, x: Value) -> Value:
    """2^x = 2^k e^(log(2) (x - k)), where x - k is exact."""
    x = t.held(x, *t.either((-151.0, 129.0), (-1076.0, 1025.0)))
    k = t.rint(x)
    r = t.scaled(t.sub(x, k), math.log(2))
    return t.times_power_of_two(t.plus(_expm1_of(t, r), 1.0), t.to_integer(k))


def exp10(t: Terms, x: Value) -> Value:
    """10^x in two factors, as x log2(10) alone would lose its last bits."""
    x = t.held(x, *t.either((-46.0, 39.0), (-325.0, 310.0)))
    k = t.rint(t.scaled(x, 3.321928094887362))
    minus = t.neg(k)
    high, low = t.either(*_LOG10_2)
    r = t.fma(minus, t.real(low), t.fma(minus, t.real(high), x))
    r = t.scaled(r, math.log(10))
    return t.times_power_of_two(t.plus(_expm1_of(t, r), 1.0), t.to_integer(k))


def expm1(t: Terms, x: Value) -> Value:
    """e^x - 1 = 2 (2^(k-1) (e^r - 1) + (2^(k-1) - 1/2)): half of 2^k is always a number."""
    k, r = exp_reduced(t, t.held(x, -60.0, t.either(89.0, 710.0)))
    half = t.power_of_two(t.sub(k, t.whole(1)))
    return t.scaled(t.fma(half, _expm1_of(t, r), t.plus(half, -0.5)), 2.0)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A positive number as m 2^e: e as a float, m - 1, and m + 1; m from sqrt(1/2) to sqrt(2)."""

    e: Value
    less: Value
    more: Value


def _taken_apart(t: Terms, x: Value) -> _Parts:
    smallest = t.either(2.0**-126, 2.0**-1022)
    lift = t.either(25, 54)
    small = t.test("lt", x, smallest)
    x = t.select(small, t.scaled(x, 2.0**lift), x)
    bits = t.bits(x)
    mask = (1 << t.mantissa) - 1
    one = t.bias << t.mantissa
    exponent = t.sub(t.apply("shr", bits, t.whole(t.mantissa)), t.whole(t.bias))
    m = t.from_bits(t.apply("or", t.apply("and", bits, t.whole(mask)), t.whole(one)))
    high = t.test("gt", m, math.sqrt(2))
    m = t.select(high, t.scaled(m, 0.5), m)
    e = t.add(t.to_real(exponent), t.to_real(high))
    e = t.sub(e, t.select(small, t.real(float(lift)), t.real(0.0)))
    return _Parts(e, t.plus(m, -1.0), t.plus(m, 1.0))


def _log_of(t: Terms, parts: _Parts) -> Value:
    """With f = m - 1, which is exact, and s = f / (m + 1): log m = f - s (f - s^2 Q(s^2))."""
    f, s = parts.less, t.ratio(parts.less, parts.more)
    square = t.mul(s, s)
    tail = t.mul(square, t.horner(square, t.either(_LOG_SINGLE, _LOG_DOUBLE)))
    return t.fma(t.neg(s), t.sub(f, tail), f)


def _at_the_ends(t: Terms, x: Value, inside: Value) -> Value:
    """Give a logarithm its values outside the positive numbers."""
    outside = t.select(t.test("eq", x, 0.0), t.real(-math.inf), t.real(math.nan))
    found = t.select(t.test("gt", x, 0.0), inside, outside)
    return t.select(t.test("eq", x, math.inf), x, found)


def log(t: Terms, x: Value) -> Value:
    """Add e log 2 to log m."""
    parts = _taken_apart(t, x)
    high, low = t.either(*_LN2)
    lower = t.fma(parts.e, t.real(low), _log_of(t, parts))
    return _at_the_ends(t, x, t.fma(parts.e, t.real(high), lower))


def log2(t: Terms, x: Value) -> Value:
    """Add e to log m times log2 e; exact for powers of two."""
    parts = _taken_apart(t, x)
    return _at_the_ends(t, x, t.fma(_log_of(t, parts), t.real(_LOG2_E), parts.e))


def log10(t: Terms, x: Value) -> Value:
    """Add e log10 2 to log m times log10 e."""
    parts = _taken_apart(t, x)
    high, low = t.either(*_LOG10_2)
    lower = t.fma(parts.e, t.real(low), t.scaled(_log_of(t, parts), 1 / math.log(10)))
    return _at_the_ends(t, x, t.fma(parts.e, t.real(high), lower))


def log1p(t: Terms, x: Value) -> Value:
    """In f32 by a polynomial; in f64 add c / u to log u, where c is what rounding 1 + x to u lost.

    With 1 + x = 2^e (1 + m) and m from -1/4 to 1/2, m = x / 2^e + (1 / 2^e - 1) loses nothing of x:
    only the exponent is read off the rounded sum. No quotient is needed.
    """
    u = t.plus(x, 1.0)
    if not t.is_double:
        three_quarters, four = 0x3F400000, 0x40800000  # bits
        exponent = t.sub(t.bits(u), t.whole(three_quarters))
        exponent = t.apply("and", exponent, t.whole(-(1 << t.mantissa)))
        part = t.from_bits(t.sub(t.bits(x), exponent))
        quarter = t.from_bits(t.sub(t.whole(four), exponent))  # of 4 / 2^e, which is no subnormal
        m = t.add(part, t.fma(quarter, t.real(0.25), t.real(-1.0)))
        e = t.scaled(t.to_real(exponent), 2.0**-t.mantissa)
        series = t.fma(t.mul(m, m), t.horner(m, _LOG1P_SINGLE), m)
        found = t.signed(t.fma(e, t.real(math.log(2)), series), x)
        outside = t.select(t.test("eq", x, -1.0), t.real(-math.inf), t.real(math.nan))
        found = t.select(t.test("gt", x, -1.0), found, outside)
        return t.select(t.test("eq", x, math.inf), x, found)
    lost = t.sub(x, t.plus(u, -1.0))
    found = t.add(log(t, u), t.ratio(lost, u))
    found = t.select(t.test("eq", u, 1.0), x, found)
    at_end = t.either_of(t.test("eq", u, math.inf), t.test("eq", u, 0.0))
    return t.select(at_end, log(t, u), found)


# -- powers -----------------------------------------------------------------------------------
def _log2_in_two(t: Terms, x: Value) -> tuple[Value, Value]:
    """Return log2 of a positive number as a sum of two, with about ten bits more than one has."""
    parts = _taken_apart(t, x)
    f, d = parts.less, parts.more
    s = t.ratio(f, d)
    # What m + 1 and the quotient lost by rounding.
    d_low = t.sub(f, t.plus(d, -2.0))
    s_low = t.ratio(t.sub(t.fma(t.neg(s), d, f), t.mul(s, d_low)), d)
    square = t.mul(s, s)
    tail = t.mul(t.mul(s, square), t.horner(square, t.either(_LOG_SINGLE, _LOG_DOUBLE)))
    high, low = t.scaled(s, 2.0), t.fma(t.real(2.0), s_low, tail)
    whole = t.add(high, low)
    rest = t.add(t.sub(high, whole), low)
    log2_e, log2_e_low = map(t.real, t.either(*_LOG2_E_PARTS))
    total = t.fma(whole, log2_e, parts.e)
    error = t.fma(whole, log2_e, t.sub(parts.e, total))  # all of it: no product is rounded
    return total, t.fma(rest, log2_e, t.fma(whole, log2_e_low, error))


def power(t: Terms, x: Value, y: Value) -> Value:
    """x^y = 2^(y log2 |x|), the logarithm and the product as sums of two; then signs and ends.

    In f32 within 2 ulp, and within 6 where the result comes near the largest or smallest number.
    """
    found = (_power_double if t.is_double else _power_single)(t, x, y)
    found = _with_sign(t, x, y, found)
    nan = t.either_of(t.is_nan(x), t.is_nan(y))
    found = t.select(nan, t.real(math.nan), found)
    endless = t.test("eq", t.abs(y), math.inf)
    one = t.either_of(t.test("eq", y, 0.0), t.apply("and", t.test("eq", x, 1.0), t.is_nan(y)))
    both = t.apply("and", t.test("eq", t.abs(x), 1.0), endless)
    return t.select(t.either_of(one, both), t.real(1.0), found)


def _power_single(t: Terms, x: Value, y: Value) -> Value:
    """|x|^y for numbers in f32. The logarithm's smaller part is up to a hundredth of the other.

    2^k for an integer k is an addition to the exponent's bits, of a number so large that k is what
    stands in its last bits; a factor then brings what is very small, or infinite, to its place.
    """
    high, low = _log2_in_two_single(t, t.abs(x))
    y = t.apply("min", t.apply("max", y, t.real(-1e35)), t.real(1e35))  # times it, still a number
    product = t.mul(y, high)
    product = t.apply("min", t.apply("max", product, t.real(-200.0)), t.real(200.0))
    rest = t.fma(y, low, t.fma(y, high, t.neg(product)))
    total = t.add(product, rest)
    shift = 1.5 * 2.0**t.mantissa - 1
    shifted = t.plus(total, shift)
    r = t.add(t.sub(product, t.plus(shifted, -shift)), rest)
    part = t.fma(r, t.horner(r, _EXP2_SINGLE), t.real(1.0))
    small = t.test("lt", total, -120.0)
    shifted = t.select(small, t.plus(shifted, 64.0), shifted)
    exponent = t.apply("shl", t.bits(shifted), t.whole(t.mantissa))
    found = t.from_bits(t.add(t.bits(part), exponent))
    found = t.mul(found, t.select(small, t.real(2.0**-63), t.real(2.0)))
    found = t.select(t.test("gt", total, 129.0), t.real(math.inf), found)
    return t.select(t.test("lt", total, -152.0), t.real(0.0), found)


def _log2_in_two_single(t: Terms, a: Value) -> tuple[Value, Value]:
    """Return log2 of a number that is not negative, as a sum of two.

    With a = 2^e (1 + f), 1 + f from sqrt(1/2) to sqrt(2), and s = f / (2 + f), log (1 + f) is
    2 s + s^3 Q(s^2): what the quotient lost by rounding is told by a remainder, which is exact
    but for one rounding, and a product in two parts makes it log2.
    """
    small = t.test("lt", a, 2.0**-126)
    bits = t.bits(t.select(small, t.scaled(a, 2.0**24), a))
    exponent = t.apply("and", t.sub(bits, t.whole(0x3F3504F3)), t.whole(-(1 << t.mantissa)))
    f = t.plus(t.from_bits(t.sub(bits, exponent)), -1.0)
    e = t.to_real(exponent)
    e = t.select(small, t.plus(e, -24.0 * 2**t.mantissa), e)
    inverse = t.ratio(t.real(1.0), t.plus(f, 2.0))
    s = t.mul(f, inverse)
    minus = t.neg(s)
    remainder = t.fma(minus, f, t.fma(minus, t.real(2.0), f))
    lost, near = t.mul(remainder, inverse), t.fma(remainder, inverse, s)
    square = t.mul(near, near)
    series = t.horner(square, [coefficient * _LOG2_E for coefficient in _LOG_SINGLE])
    twice, below = (2 * part for part in _LOG2_E_PARTS[0])
    whole = t.scaled(e, 2.0**-t.mantissa)
    total = t.fma(s, t.real(twice), whole)
    error = t.fma(s, t.real(twice), t.sub(whole, total))  # all of it: no product is rounded
    error = t.fma(lost, t.real(twice), t.fma(s, t.real(below), error))
    error = t.fma(t.mul(near, square), series, error)
    total = t.select(t.test("eq", a, 0.0), t.real(-math.inf), total)
    return t.select(t.test("eq", a, math.inf), a, total), error


def _power_double(t: Terms, x: Value, y: Value) -> Value:
    a = t.abs(x)
    normal = t.select(t.either_of(t.test("eq", a, 0.0), t.test("eq", a, math.inf)), t.real(1.0), a)
    high, low = _log2_in_two(t, normal)
    y_held = t.held(y, -1e300, 1e300)  # times a logarithm, still a number
    product = t.mul(y_held, high)
    rest = t.add(t.fma(y_held, high, t.neg(product)), t.mul(y_held, low))
    inside = t.held(product, -1100.0, 1100.0)
    rest = t.select(t.apply("eq", inside, product), rest, t.real(0.0))
    k = t.rint(inside)
    r = t.scaled(t.add(t.sub(inside, k), rest), math.log(2))
    found = t.times_power_of_two(t.plus(_expm1_of(t, r), 1.0), t.to_integer(k))
    # |x| of 0 or infinity: 0 or infinity by the sign of y.
    grows = t.apply("eq", t.test("gt", a, 1.0), t.test("gt", y, 0.0))
    end = t.select(grows, t.real(math.inf), t.real(0.0))
    at_end = t.either_of(t.test("eq", a, 0.0), t.test("eq", a, math.inf))
    at_end = t.either_of(at_end, t.test("eq", t.abs(y), math.inf))
    return t.select(at_end, end, found)


def _with_sign(t: Terms, x: Value, y: Value, magnitude: Value) -> Value:
    """A negative x gives a negative result for odd y, and NaN for y that is no integer."""
    whole = t.apply("eq", y, t.apply("trunc", y))
    half = t.scaled(y, 0.5)
    odd = t.apply("and", whole, t.apply("ne", half, t.apply("trunc", half)))
    negative = t.apply("lt", t.signed(t.real(1.0), x), t.real(0.0))
    flipped = t.select(t.apply("and", negative, odd), t.neg(magnitude), magnitude)
    finite = t.apply("and", t.test("lt", x, 0.0), t.test("ne", x, -math.inf))
    broken = t.apply("ne", y, t.apply("trunc", y))
    return t.select(t.apply("and", finite, broken), t.real(math.nan), flipped)


def cbrt(t: Terms, x: Value) -> Value:
    """2^(log2 |x| / 3), put right by a step of Newton's method.

    That needs what the cube is off by, which subnormal numbers do not hold: small ones are scaled.
    """
    size = t.abs(x)
    least, scale = (-900, 64) if t.is_double else (-90, 32)
    small = t.test("lt", size, 2.0**least)
    a = t.select(small, t.scaled(size, 2.0 ** (3 * scale)), size)
    root = t.call("exp2", t.scaled(t.call("log2", a), 1 / 3))
    square = t.mul(root, root)
    excess = t.fma(square, root, t.neg(a))
    root = t.sub(root, t.ratio(excess, t.scaled(square, 3.0)))
    root = t.select(small, t.scaled(root, 2.0**-scale), root)
    end = t.either_of(t.test("eq", a, 0.0), t.test("eq", a, math.inf))
    return t.select(t.either_of(end, t.is_nan(x)), x, t.signed(root, x))


def hypot(t: Terms, x: Value, y: Value) -> Value:
    """The larger times sqrt(1 + ratio^2): no overflow on the way."""
    a, b = t.abs(x), t.abs(y)
    less = t.apply("lt", a, b)
    large, small = t.select(less, b, a), t.select(less, a, b)
    zero = t.test("eq", large, 0.0)
    ratio = t.ratio(small, t.select(zero, t.real(1.0), large))
    found = t.mul(large, t.sqrt(t.fma(ratio, ratio, t.real(1.0))))
    found = t.select(t.either_of(t.is_nan(a), t.is_nan(b)), t.add(a, b), found)
    infinite = t.either_of(t.test("eq", t.abs(x), math.inf), t.test("eq", t.abs(y), math.inf))
    return t.select(infinite, t.real(math.inf), found)


# -- hyperbolic functions ---------------------------------------------------------------------
def tanh(t: Terms, x: Value) -> Value:
    """With u = e^2|x| - 1: u / (u + 2), or 1 - 2 / (u + 2) where u is large."""
    a = t.abs(x)
    u = expm1(t, t.scaled(a, 2.0))
    more = t.plus(u, 2.0)
    far = t.sub(t.real(1.0), t.div(t.real(2.0), more))
    near = t.div(u, more)
    return t.signed(t.select(t.test("lt", a, 1.0), near, far), x)


def sinh(t: Terms, x: Value) -> Value:
    """With u = e^|x| - 1: (u + u / (u + 1)) / 2."""
    a = t.abs(x)
    u = expm1(t, a)
    near = t.scaled(t.add(u, t.ratio(u, t.plus(u, 1.0))), 0.5)
    return t.signed(_or_large(t, a, near), x)


def cosh(t: Terms, x: Value) -> Value:
    """Halve e^|x| + e^-|x|."""
    a = t.abs(x)
    half = t.scaled(exp(t, a), 0.5)
    near = t.add(half, t.ratio(t.real(0.25), half))
    return _or_large(t, a, near)


def _or_large(t: Terms, a: Value, near: Value) -> Value:
    """Return e^a / 2 as (e^(a / 2) / 2) e^(a / 2) where e^a may overflow before that does."""
    root = exp(t, t.scaled(a, 0.5))
    far = t.mul(t.scaled(root, 0.5), root)
    return t.select(t.test("gt", a, t.either(20.0, 40.0)), far, near)


def asinh(t: Terms, x: Value) -> Value:
    """Use log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2 a) where a^2 may overflow."""
    a = t.abs(x)
    square = t.mul(a, a)
    inner = t.ratio(square, t.plus(t.sqrt(t.plus(square, 1.0)), 1.0))
    near = log1p(t, t.add(a, inner))
    far = t.plus(log(t, a), math.log(2))
    return t.signed(t.select(t.test("gt", a, t.either(1e9, 1e18)), far, near), x)


def acosh(t: Terms, x: Value) -> Value:
    """Use log1p(u + sqrt(2 u + u^2)) with u = x - 1; log(2 x) where u^2 may overflow."""
    u = t.plus(x, -1.0)
    near = log1p(t, t.add(u, t.sqrt(t.fma(u, u, t.scaled(u, 2.0)))))
    far = t.plus(log(t, x), math.log(2))
    found = t.select(t.test("gt", x, t.either(1e9, 1e18)), far, near)
    return t.select(t.test("lt", x, 1.0), t.real(math.nan), found)


def atanh(t: Terms, x: Value) -> Value:
    """Use log1p(2 a / (1 - a)) / 2."""
    a = t.abs(x)
    ratio = t.ratio(t.scaled(a, 2.0), t.sub(t.real(1.0), a))
    found = t.signed(t.scaled(log1p(t, ratio), 0.5), x)
    return t.select(t.test("gt", a, 1.0), t.real(math.nan), found)


EXPONENTIALS: dict[str, Formula] = {
    "exp": exp, "exp2": exp2, "exp10": exp10, "expm1": expm1, "log": log, "log2": log2,
    "log10": log10, "log1p": log1p, "pow": power, "cbrt": cbrt, "hypot": hypot, "tanh": tanh,
    "sinh": sinh, "cosh": cosh, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
