"""Functions of tl.extra.libdevice made of others: special ones, and rounding in a direction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tests.language.harness import from_text
from tests.targets.everywhere import TARGETS, run_on
from workbench.language.extra.directed import functions as directed
from workbench.language.extra.special import FUNCTIONS

RANDOM = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan]


def apply(target: str, name: str, dtype: Any, *args: np.ndarray) -> np.ndarray:
    """Return a function of arrays."""
    names = [f"x{i}" for i in range(len(args))]
    loads = ", ".join(f"tl.load({n} + i)" for n in names)
    kernel = from_text(f"""
        def kernel(out, {", ".join(names)}, B: tl.constexpr):
            i = tl.arange(0, B)
            tl.store(out + i, tl.extra.libdevice.{name}({loads}))
    """)
    out = np.zeros(len(args[0]), dtype)
    run_on(target, kernel, out=out, **dict(zip(names, args, strict=True)), B=len(out))
    return out


# -- special functions ----------------------------------------------------------------------------
def reals(low: float, high: float, *more: float) -> np.ndarray:
    return np.concatenate([np.linspace(low, high, 56), more, [0.0] * 8])[:64]


WIDE = reals(-40, 40, 0.0, 1e-9, 7.999999, 8.0, 8.0000001, 1e-300)
UP = reals(0.001, 60, 1e-9, 8.0, 7.9999999, 1e-30, 1.0, 2.0, 100.0, 500.0)
CASES: dict[str, tuple[Any, list[np.ndarray]]] = {
    "j0": (lambda x: mp.besselj(0, x), [WIDE]), "j1": (lambda x: mp.besselj(1, x), [WIDE]),
    "y0": (lambda x: mp.bessely(0, x) if x > 0 else -mp.inf, [UP]),
    "y1": (lambda x: mp.bessely(1, x) if x > 0 else -mp.inf, [UP]),
    "jn": (lambda n, x: mp.besselj(int(n), x), [np.arange(64) % 13, WIDE]),
    "yn": (lambda n, x: mp.bessely(int(n), x) if x > 0 else -mp.inf,
           [np.arange(64) % 9, np.abs(UP) + 0.5]),
    "cyl_bessel_i0": (lambda x: mp.besseli(0, x), [WIDE]),
    "cyl_bessel_i1": (lambda x: mp.besseli(1, x), [WIDE]),
    "tgamma": (mp.gamma, [reals(-5.7, 30.3, 0.5, 1.0, 2.0, -0.25, 1e-5, -1.5, 1.0, 1.0) + 0.001]),
    "erfcx": (lambda x: mp.exp(mp.mpf(x) ** 2) * mp.erfc(x), [reals(-8, 60, 9.9999, 10.0, 0.0)]),
    "erfcinv": (lambda x: mp.findroot(lambda y: mp.erfc(y) - x, mp.erfinv(1 - x))
                if 1e-10 < x < 1.99 else None,
                [np.concatenate([np.linspace(0.01, 1.98, 60), [1e-4, 0.5, 1.0, 1.5]])]),
    "normcdf": (mp.ncdf, [reals(-12, 9, -20.5, 0.25)]),
    "normcdfinv": (lambda p: mp.sqrt(2) * mp.erfinv(2 * mp.mpf(p) - 1),
                   [np.linspace(0.005, 0.995, 64)]),
    "norm3d": (lambda x, y, z: mp.sqrt(x * x + y * y + z * z), [WIDE, UP, WIDE[::-1]]),
    "norm4d": (lambda x, y, z, w: mp.sqrt(x * x + y * y + z * z + w * w),
               [WIDE, UP, WIDE[::-1], UP[::-1]]),
    "rnorm3d": (lambda x, y, z: 1 / mp.sqrt(x * x + y * y + z * z), [WIDE, UP + 1, WIDE[::-1]]),
    "rnorm4d": (lambda x, y, z, w: 1 / mp.sqrt(x * x + y * y + z * z + w * w),
                [WIDE, UP + 1, WIDE[::-1], UP[::-1]]),
    "remainder": (lambda x, y: mp.mpf(math.remainder(x, y)), [WIDE * 7, UP + 0.25]),
}  # fmt: skip
#: Near a zero of the function the error is absolute.
ABSOLUTE = {"j0", "j1", "y0", "y1", "jn", "yn", "normcdfinv", "erfcinv", "tgamma", "remainder"}


def test_every_function_has_a_case():
    assert set(CASES) == {function.__name__ for function in FUNCTIONS}


#: Compiled as well as interpreted: loops per element, series, steps on erfc.
COMPILED = ("j0", "jn", "tgamma", "remainder")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_special_functions(name: str, target: str):
    if target == "cpu" and name not in COMPILED:
        pytest.skip("made of the same ops as others")
    reference, values = CASES[name]
    for dtype, bound in ((np.float32, 1.2e-7), (np.float64, 4e-13)):
        if target == "cpu" and dtype is np.float64:
            continue
        args = [v.astype(np.int32 if name in ("jn", "yn") and k == 0 else dtype)
                for k, v in enumerate(values)]  # fmt: skip
        got = apply(target, name, dtype, *args)
        with mp.workdps(30):
            found = [reference(*map(mp.mpf, map(float, row))) for row in zip(*args, strict=True)]
        keep = np.array([f is not None for f in found])
        with np.errstate(over="ignore"):
            want = np.array([float(f) if f is not None else 0 for f in found]).astype(dtype)
        room = bound if name in ABSOLUTE else 0.0
        right = np.isclose(got, want, rtol=bound, atol=room, equal_nan=True) | ~keep
        assert right.all(), (name, dtype, args[0][~right][:4], got[~right][:4], want[~right][:4])


def test_special_functions_outside_their_range():
    x = np.array([*SPECIAL, -3.0, 1.5, 3.0])
    found = {name: apply("interpreter", name, np.float64, x) for name in ("y0", "tgamma", "erfcinv",
             "j1", "cyl_bessel_i0", "normcdf", "erfcx")}  # fmt: skip
    nan, inf = math.nan, math.inf
    wanted = {"y0": [-inf, -inf, 0, nan, nan, nan], "tgamma": [inf, -inf, inf, nan, nan, nan],
              "erfcinv": [inf, inf, nan, nan, nan, nan], "j1": [0, -0.0, 0, 0, nan],
              "cyl_bessel_i0": [1, 1, inf, inf, nan], "normcdf": [0.5, 0.5, 1, 0, nan],
              "erfcx": [1, 1, 0, inf, nan]}  # fmt: skip
    for name, want in wanted.items():
        got = found[name][: len(want)]
        assert np.allclose(got, want, rtol=1e-15, atol=1e-15, equal_nan=True), (name, got)


# -- directed rounding ----------------------------------------------------------------------------
def toward(value: Fraction, kind: Any, mode: str) -> float:
    """Return an exact number as a float, rounded in a direction."""
    near = _nearest(value, kind)
    if math.isinf(near):
        above = near > 0
    else:
        exact = Fraction(float(near))
        if exact == value:
            return near
        above = exact > value
    if mode == "rz":
        mode = "rd" if value > 0 else "ru"
    if mode == "rd" and above:
        return _beside(near, kind(-np.inf))
    if mode == "ru" and not above:
        return _beside(near, kind(np.inf))
    return near


def _beside(near: Any, end: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.nextafter(near, end)


def _nearest(value: Fraction, kind: Any) -> Any:
    with np.errstate(over="ignore"):
        try:
            double = float(value)
        except OverflowError:
            double = math.inf if value > 0 else -math.inf
        return kind(double)  # any neighbour will do: `toward` steps once from it


def numbers(kind: Any, count: int) -> np.ndarray:
    """Return numbers of all sizes, some alike."""
    info = np.finfo(kind)
    span = {np.float32: (-149, 127), np.float64: (-1074, 1022)}[kind]
    plain = RANDOM.standard_normal(count // 2)
    sizes = np.ldexp(RANDOM.uniform(1, 2, count // 2), RANDOM.integers(*span, count // 2))
    found = np.concatenate([plain, sizes * RANDOM.choice([-1, 1], count // 2)]).astype(kind)
    found[:6] = [info.max, info.tiny, info.smallest_subnormal, -info.max, 1, 3]
    return found


EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else None, "rcp": lambda a: 1 / a if a else None,
    "fma": lambda a, b, c: a * b + c,
}  # fmt: skip
OPERANDS = {"rcp": 1, "sqrt": 1, "fma": 3}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*EXACT, "sqrt"])
def test_arithmetic_rounded_in_a_direction(name: str, kind: Any, target: str):
    args = [RANDOM.permutation(numbers(kind, 128)) for _ in range(OPERANDS.get(name, 2))]
    if name == "sqrt":
        args = [np.abs(args[0])]
    rows = [[Fraction(float(x)) for x in row] for row in zip(*args, strict=True)]
    for mode in ("rd", "ru", "rz"):
        got = apply(target, f"{name}_{mode}", kind, *args)
        for place, row in enumerate(rows):
            if name == "sqrt":
                _check_root(got[place], row[0], kind, mode)
                continue
            exact = EXACT[name](*row)
            if exact is None:
                continue
            want = toward(exact, kind, mode)
            assert got[place] == want, (name, mode, [a[place] for a in args], got[place], want)


def _check_root(got: Any, square: Fraction, kind: Any, mode: str) -> None:
    below, above = (got, np.nextafter(got, kind(np.inf)))
    if mode == "ru":
        below, above = np.nextafter(got, kind(-np.inf)), got
        assert Fraction(float(below)) ** 2 < square <= Fraction(float(above)) ** 2
    else:
        assert Fraction(float(below)) ** 2 <= square < Fraction(float(above)) ** 2


def test_zeros_and_specials_of_directed_arithmetic():
    a = np.array([1.5, 0.0, 0.0, -0.0, math.inf, math.nan, math.inf], np.float32)
    b = np.array([-1.5, 0.0, -0.0, -0.0, 1.0, 1.0, -math.inf], np.float32)
    down = apply("interpreter", "add_rd", np.float32, *(np.resize(x, 8) for x in (a, b)))[:7]
    up = apply("interpreter", "add_ru", np.float32, *(np.resize(x, 8) for x in (a, b)))[:7]
    assert np.signbit(down[:4]).tolist() == [True, False, True, True]
    assert np.signbit(up[:4]).tolist() == [False, False, False, True]
    assert down[4] == up[4] == math.inf
    assert np.isnan([*down[5:], *up[5:]]).all()


WHOLE = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}


@pytest.mark.parametrize("target", TARGETS)
def test_conversions_rounded_in_a_direction(target: str):
    names = [n for n in directed() if "2" in n]
    assert len(names) == 21
    for name in names:
        source, _, rest = name.partition("2")
        kind, mode = (np.float32 if rest.startswith("float") else np.float64), rest[-2:]
        if source == "double":
            x: Any = numbers(np.float64, 128)
        else:
            info = np.iinfo(WHOLE[source])
            x = RANDOM.integers(info.min, info.max, 128, WHOLE[source], endpoint=True)
            x[:3] = [info.max, info.min, 16777217]
        got = apply(target, name, kind, x)
        want = [toward(Fraction(v), kind, mode) for v in x.tolist()]
        assert np.array_equal(got, np.array(want, kind)), (name, x[got != want][:4])


# -- integers and parts of numbers ----------------------------------------------------------------
def test_parts_of_numbers_and_averages():
    x = np.array([1.0, 0.3, -5e-324, 1e308, 0.0, math.inf, math.nan, 6.0])
    assert apply("cpu", "ilogb", np.int32, x).tolist() == [
        0, -2, -1074, 1023, -(2**31), 2**31 - 1, -(2**31), 2]  # fmt: skip
    want = [0, -2, -1074, 1023, -math.inf, math.inf, math.nan, 2]
    assert np.array_equal(apply("cpu", "logb", np.float64, x), want, equal_nan=True)
    high, low = x.view(np.int64) >> 32, x.view(np.int64) & 0xFFFFFFFF
    assert np.array_equal(apply("cpu", "double2hiint", np.int32, x), high.astype(np.int32))
    assert np.array_equal(apply("cpu", "double2loint", np.int32, x), low.astype(np.uint32)
                          .view(np.int32))  # fmt: skip
    back = apply("cpu", "hiloint2double", np.float64, high.astype(np.int32),
                 low.astype(np.uint32).view(np.int32))  # fmt: skip
    assert np.array_equal(back.view(np.int64), x.view(np.int64))
    short = apply("cpu", "rcp64h", np.float64, x[[0, 1, 7, 3] * 2])
    assert (short.view(np.int64) & 0xFFFFFFFF == 0).all()
    assert np.allclose(short, 1 / x[[0, 1, 7, 3] * 2], rtol=1e-6)
    a, b = (RANDOM.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2))
    wide = a.astype(np.int64), b.astype(np.int64)
    assert np.array_equal(apply("cpu", "hadd", np.int32, a, b), (wide[0] + wide[1]) >> 1)
    assert np.array_equal(apply("cpu", "rhadd", np.int32, a, b), (wide[0] + wide[1] + 1) >> 1)
    sad = apply("cpu", "sad", np.uint32, a, b, a.view(np.uint32))
    assert np.array_equal(sad, (np.abs(wide[0] - wide[1]) + a.view(np.uint32)).astype(np.uint32))
    parts = [(w << 40) >> 40 for w in wide]
    want24 = (parts[0] * parts[1]).astype(np.uint64).astype(np.uint32).view(np.int32)
    assert np.array_equal(apply("cpu", "mul24", np.int32, a, b), want24)
    chosen = RANDOM.integers(0, 1 << 16, 64).astype(np.int32)
    bytes_ = np.concatenate([a.view(np.uint8).reshape(-1, 4), b.view(np.uint8).reshape(-1, 4)], 1)
    picks = np.stack([(chosen >> (4 * k)) & 7 for k in range(4)], 1)
    want_bytes = np.take_along_axis(bytes_, picks, 1).copy().view(np.int32).ravel()
    assert np.array_equal(apply("cpu", "byte_perm", np.int32, a, b, chosen), want_bytes)


@pytest.mark.parametrize("name", ["j0", "jn", "fma_rd"])
def test_they_assemble(name: str):
    count = {"jn": 2, "fma_rd": 3}.get(name, 1)
    args = [np.linspace(0.5, 20, 64).astype(np.float32) for _ in range(count)]
    if name == "jn":
        args[0] = np.arange(64, dtype=np.int32) % 5
    got = apply("sm_90a", name, np.float32, *args)
    assert np.array_equal(got, apply("interpreter", name, np.float32, *args))
