"""The vector functions stay within their stated error, for all kinds of numbers."""

import math

import numpy as np
import pytest

from tests.ops.examples import wrap
from tests.targets.cpu.running import run_cpu

#: Largest error in units in the last place (the table at the top of polynomials.py), and inputs.
CASES = {
    "exp": (1.0, np.exp, (-104, 89)),
    "exp2": (1.0, np.exp2, (-150, 129)),
    "log": (1.0, np.log, (1e-45, 3e38)),
    "log2": (1.3, np.log2, (1e-45, 3e38)),
    "sin": (1.7, np.sin, (-1e6, 1e6)),
    "cos": (1.7, np.cos, (-1e6, 1e6)),
    "tanh": (1.5, np.tanh, (-12, 12)),
    "erf": (1.3, np.vectorize(math.erf, otypes=[np.float64]), (-5, 5)),
}
_COUNT = 1 << 16


def _apply(function: str, x: np.ndarray) -> np.ndarray:
    shape = f"tile<{x.size}xf32>"
    module = wrap(function, [f"%1 = tile.{function} [%0] : {shape}"], {"%0": shape}).module()
    out = np.zeros_like(x)
    run_cpu(module, (1,), [x, out])
    return out


def _inputs(low: float, high: float) -> np.ndarray:
    random = np.random.default_rng(5)
    if low > 0:
        spread = np.exp2(random.uniform(math.log2(low), math.log2(high), _COUNT // 2))
        near_one = random.uniform(0.5, 2, _COUNT // 2)
        return np.concatenate([spread, near_one]).astype(np.float32)
    wide = random.uniform(low, high, _COUNT // 2)
    small = random.uniform(-1, 1, _COUNT // 2) * np.exp2(random.uniform(-30, 2, _COUNT // 2))
    return np.concatenate([wide, small]).astype(np.float32)


@pytest.mark.parametrize("function", CASES)
def test_error_is_within_what_is_stated(function: str):
    ulps, exact, (low, high) = CASES[function]
    x = _inputs(low, high)
    got = _apply(function, x).astype(np.float64)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
        rounded = want.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)))
    finite = np.isfinite(rounded)
    error = np.abs(got - want)[finite] / unit[finite].astype(np.float64)
    assert error.max() <= ulps
    np.testing.assert_array_equal(got[~finite], rounded[~finite])


@pytest.mark.parametrize("function", CASES)
def test_special_numbers(function: str):
    exact = CASES[function][1]
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1.0], np.float32)
    x = np.resize(x, 40)
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(_apply(function, x), want, rtol=2**-22, atol=1e-44)


def test_huge_angles_are_right():
    x = np.array([1e9, -3e15, 1e30, 2.0**28 + 64, 5.0], np.float32)
    for function, exact in (("sin", np.sin), ("cos", np.cos)):
        want = exact(x.astype(np.float64))
        np.testing.assert_allclose(_apply(function, x), want, atol=2e-7)
