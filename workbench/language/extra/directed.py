"""Arithmetic and conversions of `tl.extra.libdevice` rounded down, up or toward zero.

Each result is the nearest float, moved to its neighbour where it lies on the wrong side of the
exact value. On which side it lies is exact: fp32 operands are computed in fp64, whose sums and
products of them leave no more than one term over; fp64 operands leave a term that an fma gives
(S. Boldo, J.-M. Muller, Exact and approximated error of the FMA, 2011), scaled where it could be
too small to be a number. So every target gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.language import arithmetic, casts, floats
from workbench.language import functions as maths
from workbench.language.dtypes import dtype, float32, float64, int64, uint32, uint64
from workbench.language.values import describe, tensor, to_tensor
from workbench.source import KernelTypeError

# Tensors get their operators when the language is put together (methods.py).
tl: Any = maths
where: Any = arithmetic.where
bitcast_tensor: Any = casts.bitcast_tensor
cast_tensor: Any = casts.cast_tensor
real_functions: Any = floats.real_functions

_INFINITY = float("inf")
_WORDS = {"rd": "rounded down", "ru": "rounded up", "rz": "rounded toward zero"}


class Exact(NamedTuple):
    """A number as fp64 and something with the sign of what that leaves over."""

    near: Any
    rest: Any


def _eq(a: Any, b: Any) -> Any:
    """Say where two are equal; `==` of tensors is Python's."""
    return tl.binary("==", a, b)


def _ne(a: Any, b: Any) -> Any:
    return tl.binary("!=", a, b)


def _fma(a: Any, b: Any, c: Any) -> Any:
    return real_functions("fma", a, b, c)


def _product(a: Any, b: Any) -> Any:
    """Return a * b as an op of its own, which no target contracts with a sum."""
    return _fma(a, b, -0.0)


def _sum(a: Any, b: Any) -> Exact:
    """D. E. Knuth, TAOCP 2, 4.2.2, theorem B."""
    near = a + b
    part = near - a
    return Exact(near, (a - (near - part)) + (b - part))


def _is_finite(*values: Any) -> Any:
    found = tl.abs(values[0]) < _INFINITY
    for value in values[1:]:
        found = found & (tl.abs(value) < _INFINITY)
    return found


def _overflowed(near: Any, rest: Any, *operands: Any) -> Any:
    """The exact value is finite: it lies on zero's side of an infinity."""
    beyond = _eq(tl.abs(near), _INFINITY) & _is_finite(*operands)
    return where(beyond, -near, rest)


def _product_rest(a: Any, b: Any, near: Any) -> Any:
    """Return the sign of a * b - near."""
    tiny = tl.abs(near) < 2.0**-900
    up = 2.0**600
    one = where(tiny & (tl.abs(a) <= tl.abs(b)), a * up, a)
    two = where(tiny & (tl.abs(a) > tl.abs(b)), b * up, b)
    rest = _fma(one, two, -where(tiny, near * up, near))
    signs = where((a < 0.0) ^ (b < 0.0), -1.0, 1.0)
    lost = _eq(near, 0.0) & _ne(a, 0.0) & _ne(b, 0.0)
    return where(lost, signs, rest)


def _add(a: Any, b: Any) -> Exact:
    near, rest = _sum(a, b)
    return Exact(near, _overflowed(near, rest, a, b))


def _sub(a: Any, b: Any) -> Exact:
    return _add(a, -1.0 * b)


def _mul(a: Any, b: Any) -> Exact:
    near = _product(a, b)
    return Exact(near, _overflowed(near, _product_rest(a, b, near), a, b))


def _fused(a: Any, b: Any, c: Any) -> Exact:
    near = _fma(a, b, c)
    product = _product(a, b)
    left = _fma(a, b, -product)
    first, left = _sum(c, left)
    second, last = _sum(product, first)
    rest = (second - near) + last
    total = rest + left
    # Where nothing is left over, the product's own rest may have been too small to be a number.
    total = where(_eq(total, 0.0) & _is_finite(product), _product_rest(a, b, product), total)
    return Exact(near, _overflowed(near, total, a, b, c))


def _div(a: Any, b: Any) -> Exact:
    near = tl.div_rn(a, b)
    tiny = (tl.abs(a) < 2.0**-900) & (tl.abs(b) < 2.0**200)
    one, two = where(tiny, a * 2.0**600, a), where(tiny, b * 2.0**600, b)
    rest = _fma(-1.0 * near, two, one)
    rest = where(b < 0.0, -1.0 * rest, rest)
    signs = where((a < 0.0) ^ (b < 0.0), -1.0, 1.0)
    lost = _eq(near, 0.0) & _ne(a, 0.0) & _is_finite(b)
    rest = where(lost, signs, rest)
    beyond = _eq(tl.abs(near), _INFINITY) & _is_finite(a, b) & _ne(b, 0.0)
    return Exact(near, where(beyond, -1.0 * near, rest))


def _rcp(a: Any) -> Exact:
    return _div(a * 0.0 + 1.0, a)


def _sqrt(a: Any) -> Exact:
    near = tl.sqrt_rn(a)
    tiny = a < 2.0**-900
    root, whole = where(tiny, near * 2.0**300, near), where(tiny, a * 2.0**600, a)
    return Exact(near, _fma(-1.0 * root, root, whole))


def _stepped(near: Any, rest: Any, mode: str) -> Any:
    """Return the neighbour of `near` on the wanted side where the exact value lies there."""
    down = real_functions("nextafter", near, -_INFINITY)
    up = real_functions("nextafter", near, _INFINITY)
    if mode == "rd":
        return where(rest < 0.0, down, near)
    if mode == "ru":
        return where(rest > 0.0, up, near)
    inward = where((rest < 0.0) & (near > 0.0), down, near)
    return where((rest > 0.0) & (near < 0.0), up, inward)


def rounded(exact: Exact, kind: dtype, mode: str) -> tensor:
    """Return an exact number as a float of a type, rounded as `mode` says."""
    if kind == float64:
        return _stepped(exact.near, exact.rest, mode)
    short = cast_tensor(exact.near, float32)
    again = cast_tensor(short, float64)
    above, below = again > exact.near, again < exact.near
    rest = where(above, -1.0, where(below, 1.0, exact.rest))
    return _stepped(short, cast_tensor(where(rest < 0.0, -1.0, where(rest > 0.0, 1.0, 0.0)),
                                       float32), mode)  # fmt: skip


def _signed_zero(found: Any, a: Any, b: Any) -> Any:
    """Rounded down, a sum that is exactly zero is -0, but for that of two +0 (IEEE 754, 6.3)."""
    positive = [_eq(bitcast_tensor(x, int64), 0) for x in (a, b)]
    negative = _eq(found, 0.0) & ~(positive[0] & positive[1]) & _eq(a, -1.0 * b)
    return where(negative, -1.0 * tl.abs(found), found)


def _arithmetic(name: str, mode: str, function: Callable[..., Exact]) -> Callable[..., tensor]:
    def call(*args: Any) -> tensor:
        values = [to_tensor(a) for a in args]
        for value in values:
            if not value.dtype.is_floating():
                raise KernelTypeError(
                    f"{name}_{mode} takes floats, got {describe(value)}",
                    hint="cast it first, e.g. .to(tl.float32)",
                )
        kind = float64 if any(v.dtype == float64 for v in values) else float32
        operands = [cast_tensor(v, float64) for v in values]
        found = rounded(function(*operands), kind, mode)
        if mode == "rd" and name in ("add", "sub", "fma"):
            *factors, last = operands
            first = factors[0] if len(factors) == 1 else _product(*factors)
            found = _signed_zero(found, first, last if name != "sub" else -1.0 * last)
        return found

    return call


def _fixed(call: Callable[..., tensor], count: int) -> Callable[..., tensor]:
    """Return a function of as many named arguments as it takes."""

    def one(arg0: Any) -> tensor:
        return call(arg0)

    def two(arg0: Any, arg1: Any) -> tensor:
        return call(arg0, arg1)

    def three(arg0: Any, arg1: Any, arg2: Any) -> tensor:
        return call(arg0, arg1, arg2)

    return (one, two, three)[count - 1]


def _of_integer(x: Any) -> Exact:
    """Return an integer of up to 64 bits as two halves that fp64 holds."""
    if x.dtype.int_bitwidth <= 32:
        near = cast_tensor(x, float64)
        return Exact(near, near * 0.0)
    bits = bitcast_tensor(x, uint64) if x.dtype != uint64 else x
    low = cast_tensor(cast_tensor(bits, uint32), float64)
    return _sum(cast_tensor(x >> 32, float64) * 2.0**32, low)


def _conversion(name: str, mode: str, kind: dtype) -> Callable[..., tensor]:
    def call(arg0: Any) -> tensor:
        x = to_tensor(arg0)
        if name == "double":
            value = cast_tensor(x, float64)
            return rounded(Exact(value, value * 0.0), kind, mode)
        if not x.dtype.is_int():
            raise KernelTypeError(
                f"{name}2… takes integers, got {describe(x)}",
                hint="cast it first, e.g. .to(tl.int32)",
            )
        return rounded(_of_integer(x), kind, mode)

    return call


def functions() -> dict[str, tuple[Callable[..., tensor], str]]:
    """Return every function by name, with what it does."""
    found: dict[str, tuple[Callable[..., tensor], str]] = {}
    table: dict[str, tuple[Callable[..., Exact], int, str]] = {
        "add": (_add, 2, "x + y"), "sub": (_sub, 2, "x - y"), "mul": (_mul, 2, "x * y"),
        "div": (_div, 2, "x / y"), "fma": (_fused, 3, "x * y + z"), "rcp": (_rcp, 1, "1 / x"),
        "sqrt": (_sqrt, 1, "the square root"),
    }  # fmt: skip
    for mode, words in _WORDS.items():
        for name, (function, count, what) in table.items():
            call = _fixed(_arithmetic(name, mode, function), count)
            found[f"{name}_{mode}"] = call, f"Return {what}, {words}."
        for word in ("int", "uint", "ll", "ull", "double"):
            text = f"Return a number as fp32, {words}."
            found[f"{word}2float_{mode}"] = _conversion(word, mode, float32), text
        for word in ("ll", "ull"):
            text = f"Return an integer as fp64, {words}."
            found[f"{word}2double_{mode}"] = _conversion(word, mode, float64), text
    return found
