"""Halves away from zero, as NVIDIA's chips are asked for them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from workbench.ops.functions import _round_away
from workbench.targets.llvm.emit import Emitter
from workbench.targets.nvidia.chip import chip

EDGES = (
    0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 0.49999997, -0.49999997, 1e-45, -1e-45, 4194303.5, 8388607.5,
    8388608.0, 8388609.0, 16777215.0, -16777215.0, 3e38, -3e38, np.inf, -np.inf, np.nan,
)  # fmt: skip


def toward_zero(exact: np.ndarray) -> np.ndarray:
    """Round float64 to float32 toward zero."""
    near = exact.astype(np.float32)
    with np.errstate(invalid="ignore"):
        away = np.abs(near.astype(np.float64)) > np.abs(exact)
    return np.where(away, np.nextafter(near, np.float32(0)), near)


def test_a_sum_toward_zero_and_a_cut_round_halves_away():
    """A half of the number's sign added, which float64 does without rounding for most of them."""
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    near = np.random.default_rng(1).integers(-(1 << 25), 1 << 25, 1 << 16) / 2
    x = np.concatenate([np.array(EDGES, np.float32), drawn.view(np.float32), near.astype("f4")])
    with np.errstate(invalid="ignore", over="ignore"):
        wide = x.astype(np.float64)
        found = np.trunc(toward_zero(wide + np.copysign(0.5, wide)))
        want = _round_away(x)
    same = (found == want) & (np.signbit(found) == np.signbit(want))
    assert np.all(same | (np.isnan(found) & np.isnan(want)))


@pytest.mark.parametrize(("type", "letter"), [("float", "f"), ("double", "d")])
def test_that_is_what_is_written(type: str, letter: str):
    emit = Emitter()
    chip("sm_90a").half_away(emit, "%x", type)
    called = [name for line in emit.lines for name in re.findall(r"@llvm\.([\w.]+)\(", line)]
    bits = {"float": "f32", "double": "f64"}[type]
    assert called == [f"copysign.{bits}", f"nvvm.add.rz.{letter}", f"trunc.{bits}"]
