"""Comparing results: what counts as wrong, and what is reported about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from workbench.bench.compare import compare
from workbench.bench.tolerances import Tolerance, tolerance

EXACT = Tolerance(0.0, 0.0)


def test_equal_arrays_are_ok():
    x = torch.randn(3, 5)
    result = compare("out", x, x.clone(), EXACT)
    assert result.ok
    assert (result.wrong, result.total, result.largest_absolute) == (0, 15, 0.0)


def test_wrong_elements_are_counted_and_the_first_five_named():
    want = np.zeros((4, 4), dtype=np.float32)
    got = want.copy()
    got[1:, 2:] = 3.0
    result = compare("out", got, want, Tolerance(1e-5, 1e-6))
    assert result.wrong == 6
    assert [d.index for d in result.first] == [(1, 2), (1, 3), (2, 2), (2, 3), (3, 2)]
    assert (result.first[0].got, result.first[0].want) == (3.0, 0.0)
    assert result.largest_absolute == 3.0


def test_tolerance_is_atol_plus_rtol_times_reference():
    want, allowed = np.array([100.0]), Tolerance(rtol=1e-2, atol=0.5)
    assert compare("out", want + 1.49, want, allowed).ok
    assert not compare("out", want + 1.51, want, allowed).ok


def test_nan_and_infinity_equal_themselves_only():
    want = np.array([math.nan, math.inf, -math.inf, 1.0])
    assert compare("out", want, want, EXACT).ok
    got = np.array([0.0, -math.inf, -math.inf, math.nan])
    result = compare("out", got, want, Tolerance(1.0, 1.0))
    assert result.wrong == 3
    assert result.nans == 1
    assert math.isnan(result.largest_absolute)


def test_integers_are_exact_even_where_doubles_are_not():
    want = np.array([2**60, 5], dtype=np.int64)
    result = compare("out", want + np.array([1, 0]), want, EXACT)
    assert [d.index for d in result.first] == [(0,)]


def test_scalar_reference_is_broadcast_and_other_shapes_are_refused():
    assert compare("out", np.ones((2, 3)), 1.0, EXACT).ok
    with pytest.raises(ValueError, match=r"out has shape \(2,\), the reference \(3,\)"):
        compare("out", np.ones(2), np.ones(3), EXACT)


def test_empty_arrays_are_equal():
    assert compare("out", np.zeros(0), np.zeros(0), EXACT).ok


def test_bf16_tensors_compare_by_value():
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert compare("out", x, torch.tensor([1.0, 2.0]), EXACT).ok


@pytest.mark.parametrize(
    ("dtypes", "length", "expected"),
    [
        (["f32"], None, (1e-5, 1e-6)),
        (["f32", "f16"], None, (1e-2, 1e-3)),
        (["f32", "bf16"], None, (2e-2, 1e-2)),
        (["f8e4m3", "f32"], None, (1e-1, 5e-2)),
        (["i32"], None, (0.0, 0.0)),
        (["i32"], 64, (0.0, 0.0)),
        (["f16"], 4096, (1e-2, 6.4e-2)),
    ],
)
def test_tolerance_is_that_of_the_least_precise_type(dtypes, length, expected):
    result = tolerance(dtypes, length)
    assert (result.rtol, result.atol) == pytest.approx(expected)


def test_given_tolerances_win():
    assert tolerance(["f16"], rtol=0.5) == Tolerance(0.5, 1e-3)
