"""Special functions of `tl.extra.libdevice`, made of others in fp64.

Operands are fp64, or fp32 computed in fp64 and rounded once at the end. Errors, relative but near
zeros of Bessel functions (there absolute): below 1e-13 in fp64, half an ulp or little more in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from workbench.language import arithmetic, casts, floats, functions
from workbench.language.dtypes import float32, float64, int32
from workbench.language.extra import bessel_tables as tables
from workbench.language.shapes import broadcast_tensor, common_shape
from workbench.language.state import current
from workbench.language.values import describe, tensor, to_tensor
from workbench.source import KernelTypeError

# Tensors get their operators when the language is put together (methods.py).
tl: Any = functions
binary: Any = arithmetic.binary
where: Any = arithmetic.where
cast_tensor: Any = casts.cast_tensor
float_function: Any = floats.float_function
real_functions: Any = floats.real_functions

_INFINITY, _NAN = float("inf"), float("nan")
_TWO_OVER_PI = 0.6366197723675814


def _eq(a: Any, b: Any) -> Any:
    """Say where two are equal; `==` of tensors is Python's."""
    return binary("==", a, b)


def _ne(a: Any, b: Any) -> Any:
    return binary("!=", a, b)


def wide(x: Any, name: str) -> tuple[Any, Any]:
    """Return a float as fp64, and the dtype of the result."""
    value = to_tensor(x)
    if not value.dtype.is_floating():
        raise KernelTypeError(
            f"{name} takes floats, got {describe(value)}",
            hint="cast it first, e.g. .to(tl.float32)",
        )
    return cast_tensor(value, float64), float64 if value.dtype == float64 else float32


def _series(table: Sequence[float], t: Any) -> Any:
    """Return a sum of Chebyshev polynomials at t in [-1, 1] (C. W. Clenshaw, 1955)."""
    one, two = 0.0 * t, 0.0 * t
    for coefficient in reversed(table[1:]):
        one, two = 2.0 * t * one - two + coefficient, one
    return t * one - two + table[0]


def _near(table: Sequence[float], x: Any) -> Any:
    return _series(table, x * x * (1 / 32) - 1.0)


def _far(order: int, x: Any) -> tuple[Any, Any, Any]:
    """Return (scale, P, Q) of the Hankel form for x >= 8."""
    t = 128.0 / (x * x) - 1.0
    p, q = (tables.P0, tables.Q0) if order == 0 else (tables.P1, tables.Q1)
    return tl.sqrt_rn(_TWO_OVER_PI / x), _series(p, t), _series(q, t) / x


def _turned(order: int, x: Any) -> tuple[Any, Any]:
    """Return cosine and sine of x - (2 order + 1) pi / 4."""
    half, c, s = 0.7071067811865476, tl.cos(x), tl.sin(x)
    return ((c + s) * half, (s - c) * half) if order == 0 else ((s - c) * half, -(s + c) * half)


def _bessel_j(order: int, x: Any) -> Any:
    size = tl.abs(x)
    small = where(size < 8.0, size, 1.0)
    large = where(size < 8.0, 8.0, where(size < _INFINITY, size, 8.0))
    inner = _near(tables.J0, small) if order == 0 else small * _near(tables.J1, small)
    scale, p, q = _far(order, large)
    c, s = _turned(order, large)
    found = where(size < 8.0, inner, where(size < _INFINITY, scale * (p * c - q * s), 0.0))
    found = found if order == 0 else where(x < 0.0, -found, found)
    return where(_ne(x, x), x, found)


def _bessel_y(order: int, x: Any) -> Any:
    small = where((x > 0.0) & (x < 8.0), x, 1.0)
    large = where((x < 8.0) | _eq(x, _INFINITY), 8.0, x)
    if order == 0:
        inner = _TWO_OVER_PI * tl.log(small) * _near(tables.J0, small) + _near(tables.Y0, small)
    else:
        j = small * _near(tables.J1, small)
        inner = _TWO_OVER_PI * (tl.log(small) * j - 1.0 / small) + small * _near(tables.Y1, small)
    scale, p, q = _far(order, large)
    c, s = _turned(order, large)
    found = where(x < 8.0, inner, where(x < _INFINITY, scale * (p * s + q * c), 0.0))
    return where(x > 0.0, found, where(_eq(x, 0.0), -_INFINITY, _NAN))


def _bessel_i(order: int, x: Any) -> Any:
    size = tl.abs(x)
    small, large = where(size < 8.0, size, 1.0), where(size < 8.0, 8.0, size)
    near, far = (tables.I0, tables.I0_FAR) if order == 0 else (tables.I1, tables.I1_FAR)
    inner = _series(near, small * 0.25 - 1.0)
    inner = inner if order == 0 else inner * small
    half = tl.exp(0.5 * size)  # twice, so that the power alone does not overflow
    found = where(size < 8.0, inner, _series(far, 16.0 / large - 1.0) / tl.sqrt_rn(large))
    found = half * found * half
    found = found if order == 0 else where(x < 0.0, -found, found)
    return where(_ne(x, x), x, where(_eq(size, _INFINITY), x if order else size, found))


def _one(x: Any, name: str, function: Any) -> tensor:
    value, kind = wide(x, name)
    return cast_tensor(function(value), kind)


def j0(arg0: Any) -> tensor:
    """Return the Bessel function of the first kind of order 0."""
    return _one(arg0, "j0", partial(_bessel_j, 0))


def j1(arg0: Any) -> tensor:
    """Return the Bessel function of the first kind of order 1."""
    return _one(arg0, "j1", partial(_bessel_j, 1))


def y0(arg0: Any) -> tensor:
    """Return the Bessel function of the second kind of order 0; NaN below 0."""
    return _one(arg0, "y0", partial(_bessel_y, 0))


def y1(arg0: Any) -> tensor:
    """Return the Bessel function of the second kind of order 1; NaN below 0."""
    return _one(arg0, "y1", partial(_bessel_y, 1))


def cyl_bessel_i0(arg0: Any) -> tensor:
    """Return the regular modified Bessel function of order 0."""
    return _one(arg0, "cyl_bessel_i0", partial(_bessel_i, 0))


def cyl_bessel_i1(arg0: Any) -> tensor:
    """Return the regular modified Bessel function of order 1."""
    return _one(arg0, "cyl_bessel_i1", partial(_bessel_i, 1))


def _forward(n: Any, x: Any, before: Any, now: Any) -> Any:
    order = 1
    while order < n:
        before, now = now, now * (2.0 * order) / x - before
        order += 1
    return now


def _backward(n: Any, x: Any, start: Any) -> Any:
    """J. C. P. Miller's recurrence: from far above n down, scaled by J0 + 2 (J2 + J4 + ...)."""
    above, now, total, found = x * 0.0, x * 0.0 + 1.0, x * 0.0, x * 0.0
    order = start
    while order > 0:
        below = now * (2.0 * order) / x - above
        above, now = now, below
        if now > 1e10 or now < -1e10:
            now, above, found, total = now * 1e-10, above * 1e-10, found * 1e-10, total * 1e-10
        if order % 2 == 1:
            total += now
        if order == n:
            found = above
        order -= 1
    return found / (2.0 * total - now)


def _jn_of(n: Any, x: Any, start: Any, j0_x: Any, j1_x: Any) -> Any:
    found = j0_x
    if n == 1:
        found = j1_x
    if n > 1:
        if x > n:  # noqa: SIM108 - one of them alone runs
            found = _forward(n, x, j0_x, j1_x)
        else:
            found = _backward(n, x, start)
    return found


def _per_element(function: Any, *args: tensor) -> Any:
    """Call a device function of scalars for each element."""
    from workbench.language.control import map_elementwise

    shape = common_shape(*args, what="the operands")
    if shape:
        return map_elementwise(function, *(broadcast_tensor(a, shape) for a in args))
    return current().call(function, list(args))


def _order_of(arg0: Any, name: str) -> Any:
    n = to_tensor(arg0)
    if not n.dtype.is_int():
        raise KernelTypeError(
            f"{name} takes an integer order first, got {describe(n)}",
            hint="the order comes first, then x; cast it with .to(tl.int32)",
        )
    return cast_tensor(n, int32)


def jn(arg0: Any, arg1: Any) -> tensor:
    """Return the Bessel function of the first kind of integer order arg0; NaN below order 0."""
    n, (x, kind) = _order_of(arg0, "jn"), wide(arg1, "jn")
    size = tl.abs(x)
    safe = where((size > 1e-6) & (size < _INFINITY), size, 1.0)
    # Above the order by enough that what the start got wrong has died away: 16 digits.
    more = cast_tensor(tl.sqrt_rn(cast_tensor(n * 160 + 1, float64)), int32)
    start = (n + more) // 2 * 2 + 2
    found = _per_element(_jn_of, n, safe, start, _bessel_j(0, safe), _bessel_j(1, safe))
    # Below that, the first term of the series: (x / 2)^n / n!.
    power = cast_tensor(n, float64)
    some = where((size > 0.0) & (size <= 1e-6), size, 1e-6)
    first = tl.exp(power * tl.log(0.5 * some) - float_function("lgamma", tl.abs(power) + 1.0))
    found = where(size > 1e-6, found, where(size > 0.0, first, where(_eq(n, 0), 1.0, 0.0)))
    found = where((x < 0.0) & _eq(n % 2, 1), -found, found)
    found = where(_eq(size, _INFINITY), 0.0, found)
    return cast_tensor(where((n < 0) | _ne(x, x), _NAN, found), kind)


def _yn_of(n: Any, x: Any, y0_x: Any, y1_x: Any) -> Any:
    found = y0_x
    if n >= 1:
        found = _forward(n, x, y0_x, y1_x)
    return found


def yn(arg0: Any, arg1: Any) -> tensor:
    """Return the Bessel function of the second kind of integer order; NaN below 0 in either."""
    n, (x, kind) = _order_of(arg0, "yn"), wide(arg1, "yn")
    safe = where((x > 0.0) & (x < _INFINITY), x, 1.0)
    found = _per_element(_yn_of, n, safe, _bessel_y(0, safe), _bessel_y(1, safe))
    found = where(found < -1.7e308, -_INFINITY, found)
    found = where(_ne(found, found), -_INFINITY, found)  # from there on the recurrence is inf - inf
    found = where(_eq(x, _INFINITY), 0.0, where(_eq(x, 0.0), -_INFINITY, found))
    return cast_tensor(where((n < 0) | (x < 0.0) | _ne(x, x), _NAN, found), kind)


def tgamma(arg0: Any) -> tensor:
    """Return the gamma function; NaN at negative integers."""

    def gamma(x: Any) -> Any:
        whole = float_function("floor", x)
        size = tl.exp(float_function("lgamma", x))
        half = float_function("floor", whole * 0.5)
        odd = (x < 0.0) & _eq(whole - 2.0 * half, 1.0)
        found = where(odd, -size, size)
        found = where(_eq(x, 0.0), where(1.0 / x < 0.0, -_INFINITY, _INFINITY), found)
        pole = ((x < 0.0) & _eq(x, whole)) | _ne(x, x) | _eq(x, -_INFINITY)
        return where(pole, _NAN, found)

    return _one(arg0, "tgamma", gamma)


def erfcx(arg0: Any) -> tensor:
    """Return exp(x * x) * erfc(x), which does not underflow."""

    def scaled(x: Any) -> Any:
        inner = where(x < 10.0, x, 1.0)
        square = inner * inner
        lost = real_functions("fma", inner, inner, -square)
        near = tl.exp(square) * float_function("erfc", inner)
        near = near + near * lost
        outer = where(x < 10.0, 10.0, x)
        step, sum_ = -0.5 / (outer * outer), 1.0
        for k in range(13, 0, -1):
            sum_ = 1.0 + sum_ * (step * float(2 * k - 1))
        far = sum_ / (outer * 1.772453850905516)
        return where(x < -26.7, _INFINITY, where(x < 10.0, near, where(_ne(x, x), x, far)))

    return _one(arg0, "erfcx", scaled)


def _erfc_inverse(x: Any) -> Any:
    """A. & S. 26.2.23, then Halley's steps on erfc; its complement above 1."""
    low = where(x > 1.0, 2.0 - x, x)
    safe = where((low > 0.0) & (low < 0.5), low, 0.25)
    t = tl.sqrt_rn(-2.0 * tl.log(safe * 0.5))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    y = (t - top / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))) * 0.7071067811865476
    for _ in range(3):
        slope = tl.exp(-y * y) * 1.1283791670955126
        step = (float_function("erfc", y) - safe) / slope
        y = y + step / (1.0 - y * step)
    y = where(low < 0.5, y, float_function("erfinv", where(low < 0.5, 0.5, 1.0 - low)))
    y = where(_eq(low, 0.0), _INFINITY, y)
    y = where(x > 1.0, -y, y)
    return where((x < 0.0) | (x > 2.0) | _ne(x, x), _NAN, y)


def erfcinv(arg0: Any) -> tensor:
    """Return the inverse of erfc; NaN outside 0 to 2."""
    return _one(arg0, "erfcinv", _erfc_inverse)


def normcdf(arg0: Any) -> tensor:
    """Return the probability that a normal variable is below x."""

    def below(x: Any) -> Any:
        # x / sqrt(2) in two parts: the tail is steep.
        high = -x * 0.7071067811865476
        low = real_functions("fma", -x, 0.7071067811865476, -high) + x * 4.833646656726457e-17
        found = float_function("erfc", high)
        slope = tl.exp(-high * high) * 1.1283791670955126
        near = tl.abs(x) < 38.0
        return 0.5 * where(near, found - slope * low, found)

    return _one(arg0, "normcdf", below)


def _quantile(p: Any) -> Any:
    return -1.4142135623730951 * _erfc_inverse(2.0 * p)


def normcdfinv(arg0: Any) -> tensor:
    """Return the x below which a normal variable is with a probability."""
    return _one(arg0, "normcdfinv", _quantile)


def _norm(args: Sequence[Any], name: str) -> tuple[Any, Any]:
    values, kinds = zip(*(wide(a, name) for a in args), strict=True)
    total = values[0]
    for value in values[1:]:
        total = real_functions("hypot", total, value)
    return total, float64 if float64 in kinds else float32


def norm3d(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return the length of a vector."""
    total, kind = _norm((arg0, arg1, arg2), "norm3d")
    return cast_tensor(total, kind)


def norm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> tensor:
    """Return the length of a vector."""
    total, kind = _norm((arg0, arg1, arg2, arg3), "norm4d")
    return cast_tensor(total, kind)


def rnorm3d(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return 1 / the length of a vector."""
    total, kind = _norm((arg0, arg1, arg2), "rnorm3d")
    return cast_tensor(1.0 / total, kind)


def rnorm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> tensor:
    """Return 1 / the length of a vector."""
    total, kind = _norm((arg0, arg1, arg2, arg3), "rnorm4d")
    return cast_tensor(1.0 / total, kind)


def remainder(arg0: Any, arg1: Any) -> tensor:
    """Return x less the nearest multiple of y, the even one of two (IEEE 754 remainder)."""
    (x, one), (y, two) = wide(arg0, "remainder"), wide(arg1, "remainder")
    step = tl.abs(y)
    rest = real_functions("rem", tl.abs(x), where(step < 8e307, step + step, _INFINITY))
    rest = where(rest + rest > step, rest - step, rest)
    rest = where((rest > 0.0) & (rest + rest >= step), rest - step, rest)
    found = where((x < 0.0) | (_eq(x, 0.0) & (1.0 / x < 0.0)), -rest, rest)
    found = where(_eq(step, _INFINITY), x, found)
    bad = _eq(tl.abs(x), _INFINITY) | _eq(y, 0.0) | _ne(x, x) | _ne(y, y)
    return cast_tensor(where(bad, _NAN, found), float64 if float64 in (one, two) else float32)


FUNCTIONS = (
    cyl_bessel_i0, cyl_bessel_i1, erfcinv, erfcx, j0, j1, jn, norm3d, norm4d, normcdf, normcdfinv,
    remainder, rnorm3d, rnorm4d, tgamma, y0, y1, yn,
)  # fmt: skip
