"""The table of elementwise functions: one row is the whole meaning of one function.

A row names the function as it prints (`tile.NAME`), says how many operands it has, which
elements it takes, what comes out, and how NumPy computes it. The front end, the interpreter,
constant folding and the documentation read this table; targets add only how they emit a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from workbench.ir import Array, Scalar

Takes = Literal["float", "integer", "number", "any"]


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise function.

    `takes` are the element types allowed (`any` includes i1); operands share one type.
    `compares` functions give i1, all others the operand type. `commutes` allows operands to be
    swapped; `identity` is the neutral element of an associative function, by element type.
    """

    name: str
    arity: int
    takes: Takes
    evaluate: Callable[..., Any]
    doc: str
    compares: bool = False
    commutes: bool = False
    identity: Callable[[Scalar], float | int] | None = None


def _truncated_quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a))
    return np.where(b == 0, np.zeros_like(a), quotient).astype(a.dtype)


def _truncated_remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return (a - _truncated_quotient(a, b) * np.where(b == 0, np.ones_like(b), b)).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return np.where(b.astype(np.int64) < bits, a << (b % bits).astype(a.dtype), 0).astype(a.dtype)


def _shift_right(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    return a >> np.minimum(b.astype(np.int64), bits - 1).astype(a.dtype)


def _multiply_high(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    wide = np.asarray(a, object) * np.asarray(b, object)
    return np.asarray(wide >> bits, object).astype(a.dtype)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _in_double(function: Callable[[Any], Any]) -> Callable[[Array], Array]:
    """Compute in float64 and round once, so that the oracle is right to half an ulp."""

    def evaluate(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float64)), np.float64).astype(x.dtype)

    return evaluate


def _fused(a: Array, b: Array, c: Array) -> Array:
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


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
    Function("div", 2, "number", _truncated_quotient, "a / b; integers truncate toward zero"),
    Function("rem", 2, "number", _truncated_remainder, "remainder with the sign of a"),
    Function("min", 2, "any", np.fmin, "smaller of two; a NaN loses", commutes=True,
             identity=_highest),
    Function("max", 2, "any", np.fmax, "larger of two; a NaN loses", commutes=True,
             identity=_lowest),
    Function("minimum", 2, "number", np.minimum, "smaller of two; a NaN wins", commutes=True,
             identity=_highest),
    Function("maximum", 2, "number", np.maximum, "larger of two; a NaN wins", commutes=True,
             identity=_lowest),
    Function("and", 2, "integer", np.bitwise_and, "bitwise and", commutes=True,
             identity=_all_ones),
    Function("or", 2, "integer", np.bitwise_or, "bitwise or", commutes=True, identity=lambda _: 0),
    Function("xor", 2, "integer", np.bitwise_xor, "bitwise exclusive or", commutes=True,
             identity=lambda _: 0),
    Function("shl", 2, "integer", _shift_left, "shift left; by the width or more gives 0"),
    Function("shr", 2, "integer", _shift_right,
             "shift right, arithmetic for signed and logical for unsigned types"),
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
    Function("abs", 1, "number", np.abs, "absolute value"),
    Function("neg", 1, "number", np.negative, "change of sign"),
    Function("floor", 1, "float", np.floor, "largest integer not above"),
    Function("ceil", 1, "float", np.ceil, "smallest integer not below"),
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
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
