"""Rests and neighbours: functions that work on bits and whole numbers."""

from __future__ import annotations

from workbench.ir import Value
from workbench.passes.formulas.terms import Formula, Terms


def rem(t: Terms, a: Value, b: Value) -> Value:
    """What division leaves, with the sign of a; exact for quotients up to 2^80.

    The quotient may be rounded to the next integer, so what is left is put right once more.
    """
    if not t.is_double:
        return t.in_double(rem, a, b)
    divisor = t.abs(b)
    left = t.abs(a)
    for _ in range(2):
        times = t.apply("trunc", t.div(left, divisor))
        left = t.fma(t.neg(times), divisor, left)
        left = t.select(t.test("lt", left, 0.0), t.add(left, divisor), left)
    left = t.select(t.apply("ge", left, divisor), t.sub(left, divisor), left)
    infinite = t.apply("and", t.test("eq", divisor, float("inf")), t.apply("lt", t.abs(a), divisor))
    left = t.select(infinite, t.abs(a), left)
    return t.signed(left, a)


def nextafter(t: Terms, a: Value, b: Value) -> Value:
    """One bit pattern on, or back; from 0 to the smallest number of b's sign."""
    away = t.apply("eq", t.apply("lt", a, b), t.test("gt", a, 0.0))
    bits = t.bits(a)
    moved = t.add(bits, t.select(away, t.whole(1), t.whole(-1)))
    smallest = t.signed(t.from_bits(t.whole(1)), b)
    found = t.select(t.test("eq", a, 0.0), smallest, t.from_bits(moved))
    found = t.select(t.apply("eq", a, b), b, found)
    nan = t.either_of(t.is_nan(a), t.is_nan(b))
    return t.select(nan, t.add(a, b), found)


ROUNDING: dict[str, Formula] = {"rem": rem, "nextafter": nextafter}
