"""The table of elementwise functions: one row is the whole meaning of one function.

A row names the function as it prints (`tile.NAME`), says how many operands it has, which
elements it takes, what comes out, and how NumPy computes it. The front end, the interpreter,
constant folding and the documentation read this table; targets add only how they emit a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from workbench.ir import Array, Scalar
from workbench.ops.numbers import truncated_quotient, truncated_remainder

Takes = Literal["float", "integer", "number", "any"]


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function.

    `takes` are the element types allowed (`any` includes i1); operands share one type.
    `compares` functions give i1, all others the operand type. `commutes` allows operands to be
    swapped; `identity` is the neutral element of an associative function, by element type;
    `exact` functions of floats round nothing, those that `choose` give one of their operands.
    """

    name: str
    arity: int
    takes: Takes
    evaluate: Callable[..., Any]
    doc: str
    compares: bool = False
    commutes: bool = False
    identity: Callable[[Scalar], float | int] | None = None
    exact: bool = False
    chooses: bool = False


def _quotient(a: Array, b: Array) -> Array:
    """Divide; integers by zero give 0."""
    if a.dtype.kind == "f":
        return a / b
    zero = b == 0
    quotient = truncated_quotient(a, np.where(zero, np.ones_like(b), b))
    return np.where(zero, np.zeros_like(a), quotient).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """Return what `_quotient` leaves; an integer modulo zero is itself."""
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    zero = b == 0
    remainder = truncated_remainder(a, np.where(zero, np.ones_like(b), b))
    return np.where(zero, a, remainder).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    inside, amount = _amount(a, b)
    return np.where(inside, a << amount, np.zeros_like(a)).astype(a.dtype)


def _shift_right(a: Array, b: Array) -> Array:
    inside, amount = _amount(a, b)
    signs = np.where(a < 0, ~np.zeros_like(a), np.zeros_like(a))
    return np.where(inside, a >> amount, signs).astype(a.dtype)


def _amount(a: Array, b: Array) -> tuple[Array, Array]:
    """Say where a shift's amount, read as unsigned, is below the width; return it, 0 elsewhere."""
    bits = 1 if a.dtype == np.bool_ else a.dtype.itemsize * 8
    inside = _unsigned(b) < bits
    return inside, np.where(inside, b, 0).astype(a.dtype)


def _number_or_nan(extreme: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Let every NaN lose: C's fmin and fmax, which NumPy calls, give NaN for a signalling one."""

    def evaluate(a: Array, b: Array) -> Array:
        found = extreme(a, b)
        if found.dtype.kind != "f" or not np.isnan(found).any():
            return found
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, found))

    return evaluate


smaller, larger = _number_or_nan(np.fmin), _number_or_nan(np.fmax)


def _multiply_high(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    wide = np.asarray(a, object) * np.asarray(b, object)
    return np.asarray(wide >> bits, object).astype(a.dtype)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _by_element(
    function: Callable[[float], float], poles: float = math.inf
) -> Callable[[Array], Array]:
    """Compute with Python's float64 functions, element by element; `poles` where they raise."""

    def one(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return poles

    def evaluate(x: Array) -> Array:
        return np.vectorize(one, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)

    return evaluate


def _inverse_erf(y: float) -> float:
    """Newton's method on erf (below 1/2) or erfc, from an approximation good to 0.2 %."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    small = math.log1p(-y * y)
    half = 2 / (math.pi * 0.147) + small / 2
    x = math.sqrt(math.sqrt(half * half - small / 0.147) - half)
    for _ in range(6):
        error = math.erf(x) - abs(y) if x < 0.5 else (1 - abs(y)) - math.erfc(x)
        slope = 2 / math.sqrt(math.pi) * math.exp(-x * x)
        x -= error / (slope + x * error) if slope else 0.0
    return math.copysign(x, y)


def _two_in_double(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    def evaluate(x: Array, y: Array) -> Array:
        wide = np.float64
        return np.asarray(function(x.astype(wide), y.astype(wide)), wide).astype(x.dtype)

    return evaluate


def _round_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0), x).astype(x.dtype)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def _population(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8), axis=1)
    return bits.sum(axis=1).reshape(x.shape).astype(x.dtype)


def _leading_zeros(x: Array) -> Array:
    bits, rest = x.dtype.itemsize * 8, _unsigned(x)
    count = np.full(x.shape, bits, np.int64)
    for bit in range(bits):
        count = np.where((rest >> np.array(bit, rest.dtype)) != 0, bits - 1 - bit, count)
    return count.astype(x.dtype)


def _reversed_bits(x: Array) -> Array:
    bits, rest = x.dtype.itemsize * 8, _unsigned(x)
    found, one = np.zeros_like(rest), np.array(1, rest.dtype)
    for bit in range(bits):
        taken = (rest >> np.array(bit, rest.dtype)) & one
        found |= taken << np.array(bits - 1 - bit, rest.dtype)
    return found.view(x.dtype)


def _in_double(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Compute in float64 and round once, so that the oracle is right to half an ulp."""

    def evaluate(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float64)), np.float64).astype(x.dtype)

    return evaluate


def _fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once (S. Boldo, G. Melquiond, Emulation of FMA, 2008)."""
    if a.dtype != np.float64:
        wide = np.float64
        # The product is exact; the sum is rounded to odd, so that rounding it again is harmless.
        total, lost = _two_sum(a.astype(wide) * b.astype(wide), c.astype(wide))
        return np.asarray(_to_odd(total, lost)).astype(a.dtype)
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    high, low = _two_sum(c, lost)
    total, rest = _two_sum(product, high)
    found = total + _to_odd(*_two_sum(low, rest))
    plain = np.isfinite(product + c) | ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    found = np.where(np.isfinite(a) & np.isfinite(b) & np.isfinite(c), found, product + c)
    for part in (a, b, c, product):
        size = np.abs(part)
        plain &= ((size > 1e-140) & (size < 1e140)) | ~np.isfinite(part)
    odd = np.flatnonzero(~np.broadcast_to(plain, found.shape))
    if odd.size:
        found = np.array(found)
        rows = [np.broadcast_to(part, found.shape).ravel()[odd].tolist() for part in (a, b, c)]
        found.reshape(-1)[odd] = [_fused_exactly(*row) for row in zip(*rows, strict=True)]
    return found


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the sum and what it lost (D. E. Knuth, TAOCP 2, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _to_odd(total: Array, lost: Array) -> Array:
    """Return float64 sums rounded to odd: where something was lost, the last bit is set."""
    bits = np.ascontiguousarray(total, np.float64).view(np.int64).reshape(np.shape(total))
    inexact = (lost != 0) & np.isfinite(lost) & np.isfinite(total) & (bits & 1 == 0)
    outward = (lost > 0) == (total > 0)
    moved = np.where(inexact, np.where(outward, bits + 1, bits - 1), bits)
    return np.ascontiguousarray(moved).view(np.float64).reshape(np.shape(total))


def _fused_exactly(a: float, b: float, c: float) -> float:
    """The same in fractions, where float64 would overflow or lose low bits on the way."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)) or not (a and b):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # the sign of zero is that of the sum
    try:
        return float(exact) or (0.0 if exact > 0 else -0.0)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _halves(x: Array) -> tuple[Array, Array]:
    """Return x as a sum of two numbers of at most 26 bits."""
    spread = x * 134217729.0
    high = spread - (spread - x)
    return high, x - high


def _lowest(element: Scalar) -> float | int:
    from workbench.ops.numbers import limits

    return limits(element)[0]


def _highest(element: Scalar) -> float | int:
    from workbench.ops.numbers import limits

    return limits(element)[1]


def _all_ones(element: Scalar) -> int:
    if element.kind == "uint":
        return (1 << element.bits) - 1
    return 1 if element.kind == "bool" else -1


def _add(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b) if a.dtype == np.bool_ else a + b


def _multiply(a: Array, b: Array) -> Array:
    return a * b


def _divide(a: Array, b: Array) -> Array:
    return a / b


def _subtract(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b) if a.dtype == np.bool_ else a - b


_ROWS = (
    Function("add", 2, "any", _add, "a + b; integers wrap", commutes=True, identity=lambda _: 0),
    Function("sub", 2, "any", _subtract, "a - b; integers wrap"),
    Function("mul", 2, "any", _multiply, "a * b; integers wrap", commutes=True,
             identity=lambda _: 1),
    Function("div", 2, "number", _quotient, "a / b; integers truncate toward zero"),
    Function("rem", 2, "number", _remainder, "remainder with the sign of a", exact=True),
    Function("min", 2, "any", smaller, "smaller of two; a NaN loses", commutes=True,
             identity=_highest, exact=True, chooses=True),
    Function("max", 2, "any", larger, "larger of two; a NaN loses", commutes=True,
             identity=_lowest, exact=True, chooses=True),
    Function("minimum", 2, "number", np.minimum, "smaller of two; a NaN wins", commutes=True,
             identity=_highest, exact=True, chooses=True),
    Function("maximum", 2, "number", np.maximum, "larger of two; a NaN wins", commutes=True,
             identity=_lowest, exact=True, chooses=True),
    Function("and", 2, "integer", np.bitwise_and, "bitwise and", commutes=True,
             identity=_all_ones),
    Function("or", 2, "integer", np.bitwise_or, "bitwise or", commutes=True, identity=lambda _: 0),
    Function("xor", 2, "integer", np.bitwise_xor, "bitwise exclusive or", commutes=True,
             identity=lambda _: 0),
    Function("shl", 2, "integer", _shift_left,
             "shift left; by the width or more, or less than 0, gives 0"),
    Function("shr", 2, "integer", _shift_right,
             "shift right, arithmetic for signed and logical for unsigned types; by the width or "
             "more, or less than 0, only copies of the sign (0 if unsigned) are left"),
    Function("mulhi", 2, "integer", _multiply_high, "high half of the double-width product",
             commutes=True),
    Function("lt", 2, "any", np.less, "a < b", compares=True),
    Function("le", 2, "any", np.less_equal, "a <= b", compares=True),
    Function("gt", 2, "any", np.greater, "a > b", compares=True),
    Function("ge", 2, "any", np.greater_equal, "a >= b", compares=True),
    Function("eq", 2, "any", np.equal, "a == b", compares=True, commutes=True),
    Function("ne", 2, "any", np.not_equal, "a != b; true if either is NaN", compares=True,
             commutes=True),
    Function("fma", 3, "float", _fused, "a * b + c, rounded once"),
    Function("abs", 1, "number", np.abs, "absolute value", exact=True),
    Function("neg", 1, "number", np.negative, "change of sign", exact=True),
    Function("floor", 1, "float", np.floor, "largest integer not above", exact=True),
    Function("ceil", 1, "float", np.ceil, "smallest integer not below", exact=True),
    Function("exp", 1, "float", _in_double(np.exp), "e to the power of x"),
    Function("exp2", 1, "float", _in_double(np.exp2), "2 to the power of x"),
    Function("log", 1, "float", _in_double(np.log), "natural logarithm"),
    Function("log2", 1, "float", _in_double(np.log2), "logarithm to base 2"),
    Function("sqrt", 1, "float", np.sqrt, "square root, approximate forms allowed"),
    Function("sqrt_rn", 1, "float", np.sqrt, "square root, correctly rounded"),
    Function("rsqrt", 1, "float", _in_double(lambda x: 1 / np.sqrt(x)), "1 / square root"),
    Function("sin", 1, "float", _in_double(np.sin), "sine"),
    Function("cos", 1, "float", _in_double(np.cos), "cosine"),
    Function("tanh", 1, "float", _in_double(np.tanh), "hyperbolic tangent"),
    Function("erf", 1, "float", _erf, "error function"),
    Function("div_rn", 2, "float", _divide, "a / b, correctly rounded"),
    Function("trunc", 1, "float", np.trunc, "the integer next to x towards zero", exact=True),
    Function("rint", 1, "float", np.rint, "the nearest integer, halves to even", exact=True),
    Function("round", 1, "float", _round_away,
             "the nearest integer, halves away from zero", exact=True),
    Function("copysign", 2, "float", np.copysign,
             "the magnitude of a with the sign of b", exact=True),
    Function("nextafter", 2, "float", np.nextafter,
             "the neighbour of a in the direction of b", exact=True),
    Function("exp10", 1, "float", _in_double(lambda x: np.power(10.0, x)), "10 to the power of x"),
    Function("expm1", 1, "float", _in_double(np.expm1), "e to the power of x, minus 1"),
    Function("log10", 1, "float", _in_double(np.log10), "logarithm to base 10"),
    Function("log1p", 1, "float", _in_double(np.log1p), "natural logarithm of 1 + x"),
    Function("pow", 2, "float", _two_in_double(np.power), "a to the power of b"),
    Function("cbrt", 1, "float", _in_double(np.cbrt), "cube root"),
    Function("hypot", 2, "float", _two_in_double(np.hypot), "square root of a * a + b * b"),
    Function("tan", 1, "float", _in_double(np.tan), "tangent"),
    Function("asin", 1, "float", _in_double(np.arcsin), "inverse sine"),
    Function("acos", 1, "float", _in_double(np.arccos), "inverse cosine"),
    Function("atan", 1, "float", _in_double(np.arctan), "inverse tangent"),
    Function("atan2", 2, "float", _two_in_double(np.arctan2), "angle of the point (b, a)"),
    Function("sinh", 1, "float", _in_double(np.sinh), "hyperbolic sine"),
    Function("cosh", 1, "float", _in_double(np.cosh), "hyperbolic cosine"),
    Function("asinh", 1, "float", _in_double(np.arcsinh), "inverse hyperbolic sine"),
    Function("acosh", 1, "float", _in_double(np.arccosh), "inverse hyperbolic cosine"),
    Function("atanh", 1, "float", _in_double(np.arctanh), "inverse hyperbolic tangent"),
    Function("erfc", 1, "float", _by_element(math.erfc), "1 - erf(x)"),
    Function("erfinv", 1, "float", _by_element(_inverse_erf), "inverse of the error function"),
    Function("lgamma", 1, "float", _by_element(math.lgamma),
             "natural logarithm of the gamma function's magnitude"),
    Function("popcount", 1, "integer", _population, "how many bits are set"),
    Function("leading_zeros", 1, "integer", _leading_zeros, "how many high bits are 0"),
    Function("reverse_bits", 1, "integer", _reversed_bits, "the bits in opposite order"),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
