"""exp, log, sin and the like on vectors of f32.

Every function here is branch-free (but for the slow path of huge angles), right for NaN,
infinities and subnormals, and within the stated error of the exact value;
tests/targets/cpu/test_polynomials.py measures it. Minimax coefficients: exp and erf fitted for
this project, the others from the Cephes mathematical library (single precision).

| function | largest error, ulp |
|---|---|
| exp, exp2 | 1.0 |
| log, log2 | 1.0, 1.3 |
| sin, cos | 1.7 (angles up to 2^28; libm beyond) |
| tanh | 1.5 |
| erf | 1.3 |
"""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.targets.cpu.arithmetic import Arithmetic

F = "float"
_EXP = [
    0.4999999345147265, 0.16666520687563086, 0.04166838740855182, 0.008368710035308022,
    0.0013814611000731152,
]  # fmt: skip
_EXP2 = [
    6.931472028550421e-1, 2.402264791363012e-1, 5.550332471162809e-2, 9.618437357674640e-3,
    1.339887440266574e-3, 1.535336188319500e-4,
]  # fmt: skip
_LOG = [
    3.3333331174e-1, -2.4999993993e-1, 2.0000714765e-1, -1.6668057665e-1, 1.4249322787e-1,
    -1.2420140846e-1, 1.1676998740e-1, -1.1514610310e-1, 7.0376836292e-2,
]  # fmt: skip
_SIN = [-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4]
_COS = [4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5]
_TANH = [
    -3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2, 2.06390887954e-2, -5.70498872745e-3,
]  # fmt: skip
_ERF_SMALL = [
    0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184,
    0.005188327748328447, -0.0008010192541405559, 7.853857823647559e-05,
]  # fmt: skip
_ERFC_LOG = [
    -1.128480076789856, -0.6358314752578735, -0.10511615127325058, 0.02279846929013729,
    -0.0031869488302618265, 0.0002106434985762462,
]  # fmt: skip
# 1.5 * 2^23: adding it leaves the nearest integer in the low bits and never makes poison of a NaN.
_ROUNDER = 12582912.0


def _at_least(a: Arithmetic, x: str, bound: float) -> str:
    """Return max(x, bound), NaN kept: `bound > x ? bound : x` is one vmaxps."""
    limit = a.real(bound, F)
    return a.select(a.compare("fcmp ogt", F, limit, x), limit, x, F)


def _at_most(a: Arithmetic, x: str, bound: float) -> str:
    limit = a.real(bound, F)
    return a.select(a.compare("fcmp olt", F, limit, x), limit, x, F)


def _nearest(a: Arithmetic, x: str, factor: float) -> tuple[str, str]:
    """Return round(x * factor) as a float and as an i32."""
    pushed = a.fma(x, a.real(factor, F), a.real(_ROUNDER, F), F)
    whole = a.emit.pure(f"fsub {a.type(F)} {pushed}, {a.real(_ROUNDER, F)}")
    bits = a.cast("bitcast", pushed, F, "i32")
    return whole, a.binary("sub", "i32", bits, a.integer(0x4B400000, "i32"))


def _scale(a: Arithmetic, x: str, power: str) -> str:
    """Return x * 2^power, right where the result is subnormal or overflows."""
    if a.wide:  # sm: vscalefps of AVX-512
        kind, whole = a.type(F), a.type("i32")
        lanes = f"v{a.lanes}f32.v{a.lanes}i32" if a.lanes else "f32.i32"
        return a.emit.call(
            kind, f"llvm.ldexp.{lanes}", f"{kind} {x}, {whole} {power}", f"{kind}, {whole}"
        )
    half = a.binary("ashr", "i32", power, a.integer(1, "i32"))
    rest = a.binary("sub", "i32", power, half)
    for part in (half, rest):
        biased = a.binary("add", "i32", part, a.integer(127, "i32"))
        shifted = a.binary("shl", "i32", biased, a.integer(23, "i32"))
        x = a.emit.pure(f"fmul {a.type(F)} {x}, {a.cast('bitcast', shifted, 'i32', F)}")
    return x


def exp(a: Arithmetic, x: str) -> str:
    x = _at_most(a, _at_least(a, x, -104.0), 89.0)
    whole, power = _nearest(a, x, 1 / math.log(2))
    r = a.fma(whole, a.real(-0.693145751953125, F), x, F)
    r = a.fma(whole, a.real(-1.428606765330187e-06, F), r, F)
    square = a.binary("fmul", F, r, r)
    p = a.fma(a.horner(r, _EXP, F), square, r, F)
    return _scale(a, a.emit.pure(f"fadd {a.type(F)} {p}, {a.real(1.0, F)}"), power)


def exp2(a: Arithmetic, x: str) -> str:
    x = _at_most(a, _at_least(a, x, -151.0), 129.0)
    whole, power = _nearest(a, x, 1.0)
    r = a.emit.pure(f"fsub {a.type(F)} {x}, {whole}")
    return _scale(a, a.fma(a.horner(r, _EXP2, F), r, a.real(1.0, F), F), power)


def _split(a: Arithmetic, x: str) -> tuple[str, str]:
    """Return (f, e) with x = (1 + f) * 2^e, 1 + f in [sqrt 1/2, sqrt 2), for positive finite x."""
    tiny = a.compare("fcmp olt", F, x, a.real(2.0**-126, F))
    scaled = a.emit.pure(f"fmul {a.type(F)} {x}, {a.real(2.0**23, F)}")
    x = a.select(tiny, scaled, x, F)
    bits = a.cast("bitcast", x, F, "i32")
    # Subtracting the bits of sqrt 1/2 makes the exponent field count from there.
    moved = a.binary("sub", "i32", bits, a.integer(0x3F3504F3, "i32"))
    exponent = a.binary("ashr", "i32", moved, a.integer(23, "i32"))
    away = a.binary("shl", "i32", exponent, a.integer(23, "i32"))
    mantissa = a.cast("bitcast", a.binary("sub", "i32", bits, away), "i32", F)
    f = a.emit.pure(f"fsub {a.type(F)} {mantissa}, {a.real(1.0, F)}")
    e = a.cast("sitofp", exponent, "i32", F)
    lowered = a.emit.pure(f"fsub {a.type(F)} {e}, {a.real(23.0, F)}")
    return f, a.select(tiny, lowered, e, F)


def _log_special(a: Arithmetic, x: str, result: str) -> str:
    infinite = a.real(math.inf, F)
    result = a.select(a.compare("fcmp oeq", F, x, infinite), infinite, result, F)
    zero = a.compare("fcmp oeq", F, x, a.real(0.0, F))
    result = a.select(zero, a.real(-math.inf, F), result, F)
    bad = a.compare("fcmp ult", F, x, a.real(0.0, F))
    return a.select(bad, a.real(math.nan, F), result, F)


def log(a: Arithmetic, x: str) -> str:
    f, e = _split(a, x)
    square = a.binary("fmul", F, f, f)
    y = a.binary("fmul", F, a.binary("fmul", F, a.horner(f, _LOG, F), f), square)
    y = a.fma(e, a.real(-2.12194440e-4, F), y, F)
    y = a.fma(square, a.real(-0.5, F), y, F)
    total = a.emit.pure(f"fadd {a.type(F)} {f}, {y}")
    return _log_special(a, x, a.fma(e, a.real(0.693359375, F), total, F))


def log2(a: Arithmetic, x: str) -> str:
    f, e = _split(a, x)
    square = a.binary("fmul", F, f, f)
    y = a.binary("fmul", F, a.binary("fmul", F, a.horner(f, _LOG, F), f), square)
    y = a.fma(square, a.real(-0.5, F), y, F)
    # log2(e) = 1 + 0.4427: the 1 keeps f and y exact.
    rest = a.real(0.44269504088896340735992, F)
    total = a.fma(f, rest, a.emit.pure(f"fmul {a.type(F)} {y}, {rest}"), F)
    for part in (y, f, e):
        total = a.emit.pure(f"fadd {a.type(F)} {total}, {part}")
    return _log_special(a, x, total)


def _angle(a: Arithmetic, x: str) -> tuple[str, str]:
    """Return (x - q * pi/2, q): the reduction runs in f64, whose 53 bits last up to 2^28."""
    d = "double"
    wide = a.cast("fpext", x, F, d)
    turns = a.intrinsic("rint", d, [a.binary("fmul", d, wide, a.real(2 / math.pi, d))])
    r = a.fma(turns, a.real(-math.pi / 2, d), wide, d)
    r = a.fma(turns, a.real(-6.123233995736766e-17, d), r, d)
    quadrant = a.convert_intrinsic("fptosi.sat", turns, d, "i32")
    return a.cast("fptrunc", r, d, F), quadrant


def _sine(a: Arithmetic, x: str, shift: int, name: str) -> str:
    r, quadrant = _angle(a, x)
    if shift:
        quadrant = a.binary("add", "i32", quadrant, a.integer(shift, "i32"))
    square = a.binary("fmul", F, r, r)
    cube = a.binary("fmul", F, square, r)
    sine = a.fma(a.horner(square, _SIN, F), cube, r, F)
    fourth = a.binary("fmul", F, square, square)
    start = a.fma(square, a.real(-0.5, F), a.real(1.0, F), F)
    cosine = a.fma(a.horner(square, _COS, F), fourth, start, F)
    odd = a.binary("and", "i32", quadrant, a.integer(1, "i32"))
    even = a.compare("icmp eq", "i32", odd, a.integer(0, "i32"))
    value = a.select(even, sine, cosine, F)
    half = a.binary("and", "i32", quadrant, a.integer(2, "i32"))
    flip = a.binary("shl", "i32", half, a.integer(30, "i32"))
    bits = a.binary("xor", "i32", a.cast("bitcast", value, F, "i32"), flip)
    return _with_slow_path(a, x, a.cast("bitcast", bits, "i32", F), name)


def _with_slow_path(a: Arithmetic, x: str, value: str, name: str) -> str:
    """Take libm's result for angles beyond 2^28 (never met in practice, but right)."""
    emit = a.emit
    large = a.compare("fcmp ogt", F, a.intrinsic("fabs", F, [x]), a.real(2.0**28, F))
    some = large
    if a.lanes:
        kind = a.type("i1")
        some = emit.call("i1", f"llvm.vector.reduce.or.v{a.lanes}i1", f"{kind} {large}", kind)
    slow, done, before = emit.fresh("slow"), emit.fresh("done"), emit.block
    emit.branch(some, slow, done)
    with emit.scope():
        emit.label(slow)
        exact = a.select(large, a.libm(name, [x], F), value, F)
        after = emit.block
        emit.jump(done)
    emit.label(done)
    return emit.phi(a.type(F), [(value, before), (exact, after)])


def sin(a: Arithmetic, x: str) -> str:
    return _sine(a, x, 0, "sinf")


def cos(a: Arithmetic, x: str) -> str:
    return _sine(a, x, 1, "cosf")


def tanh(a: Arithmetic, x: str) -> str:
    square = a.binary("fmul", F, x, x)
    cube = a.binary("fmul", F, square, x)
    small = a.fma(a.horner(square, _TANH, F), cube, x, F)
    size = _at_most(a, a.intrinsic("fabs", F, [x]), 10.0)
    grown = exp(a, a.emit.pure(f"fadd {a.type(F)} {size}, {size}"))
    below = a.emit.pure(f"fadd {a.type(F)} {grown}, {a.real(1.0, F)}")
    part = a.emit.pure(f"fdiv {a.type(F)} {a.real(2.0, F)}, {below}")
    large = a.emit.pure(f"fsub {a.type(F)} {a.real(1.0, F)}, {part}")
    large = a.intrinsic("copysign", F, [large, x])
    return a.select(a.compare("fcmp ogt", F, size, a.real(0.625, F)), large, small, F)


def erf(a: Arithmetic, x: str) -> str:
    square = a.binary("fmul", F, x, x)
    small = a.fma(a.horner(square, _ERF_SMALL, F), x, x, F)
    size = _at_most(a, a.intrinsic("fabs", F, [x]), 4.0)
    power = a.emit.pure(f"fmul {a.type(F)} {a.horner(size, _ERFC_LOG, F)}, {size}")
    large = a.emit.pure(f"fsub {a.type(F)} {a.real(1.0, F)}, {exp(a, power)}")
    large = a.intrinsic("copysign", F, [large, x])
    return a.select(a.compare("fcmp ogt", F, size, a.real(1.0, F)), large, small, F)


POLYNOMIALS: dict[str, Callable[[Arithmetic, str], str]] = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "sin": sin, "cos": cos, "tanh": tanh,
    "erf": erf,
}  # fmt: skip
