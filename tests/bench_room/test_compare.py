"""Comparing results: what counts as wrong, and what is reported about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from workbench.bench.compare import compare
from workbench.bench.roundings import Roundings
from workbench.bench.tolerances import Given, Model

EXACT = Model("f32", Roundings())
WIDE = Given(1.0, 1.0)


def test_equal_arrays_are_ok():
    x = torch.randn(3, 5)
    result = compare("out", x, x.clone(), EXACT)
    assert result.ok
    assert (result.wrong, result.total, result.largest_absolute) == (0, 15, 0.0)


def test_wrong_elements_are_counted_and_the_first_five_named():
    want = np.zeros((4, 4), dtype=np.float32)
    got = want.copy()
    got[1:, 2:] = 3.0
    result = compare("out", got, want, EXACT, Given(1e-5, 1e-6))
    assert result.wrong == 6
    assert [d.index for d in result.first] == [(1, 2), (1, 3), (2, 2), (2, 3), (3, 2)]
    assert (result.first[0].got, result.first[0].want) == (3.0, 0.0)
    assert result.largest_absolute == 3.0


def test_tolerance_is_atol_plus_rtol_times_reference():
    want, given = np.array([100.0]), Given(rtol=1e-2, atol=0.5)
    assert compare("out", want + 1.49, want, EXACT, given).ok
    assert not compare("out", want + 1.51, want, EXACT, given).ok


def test_nan_and_infinity_equal_themselves_only():
    want = np.array([math.nan, math.inf, -math.inf, 1.0])
    assert compare("out", want, want, EXACT).ok
    got = np.array([0.0, -math.inf, -math.inf, math.nan])
    result = compare("out", got, want, EXACT, WIDE)
    assert result.wrong == 3
    assert result.nans == 1
    assert math.isnan(result.largest_absolute)


def test_integers_are_exact_even_where_doubles_are_not():
    want = np.array([2**60, 5], dtype=np.int64)
    result = compare("out", want + np.array([1, 0]), want, Model("i64", Roundings()))
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


def summed(dtype: str, **count: int) -> Model:
    return Model(dtype, Roundings(count, any=True))


def test_the_reference_is_rounded_to_the_outputs_type_first():
    want = np.linspace(1, 2, 1001)
    got = torch.tensor(want).bfloat16()
    result = compare("out", got, want, summed("bf16"))
    assert result.ok
    assert result.largest_absolute == 0


def test_a_step_of_the_outputs_type_is_allowed_and_two_are_not():
    want = np.full(10, 1.5)
    assert compare("out", want + 2.0**-10, want, summed("f16")).ok
    assert not compare("out", want + 2.0**-9, want, summed("f16")).ok


def test_what_only_moves_values_is_exact():
    want = np.full(10, 1.5, np.float32)
    assert not compare("out", want + np.float32(2.0**-22), want, EXACT).ok


@pytest.mark.parametrize("shift", [3e-3, -3e-3])
def test_a_shift_below_the_step_of_the_type_is_found(shift):
    want = np.random.default_rng(0).uniform(2, 6, 4000)
    got = torch.tensor(want + shift).bfloat16()
    result = compare("out", got, want, summed("bf16", f32=1))
    assert result.wrong == 0
    assert result.shift is not None
    assert result.shift.mean == pytest.approx(shift, rel=0.2)


def test_a_factor_below_the_step_of_the_type_is_found():
    want = np.random.default_rng(0).standard_normal(4000)
    got = torch.tensor(want * 1.001).bfloat16()
    result = compare("out", got, want, summed("bf16", f32=1))
    assert result.wrong == 0
    assert result.shift is not None
    assert result.shift.relative
    assert result.shift.mean == pytest.approx(1e-3, rel=0.2)
    assert compare("out", got, want, summed("bf16", bf16=1)).ok  # its own rounding may do that


def test_cut_operands_may_shrink_a_result():
    want = np.random.default_rng(0).standard_normal(4000)
    assert compare("out", want * (1 - 2.0**-11), want, summed("f32", tf32=1, f32=64)).ok
    assert not compare("out", want * (1 - 2.0**-11), want, summed("f32", f32=64)).ok


def test_given_tolerances_replace_the_model():
    want = np.ones(100)
    assert compare("out", want + 0.1, want, summed("f32", f32=1), Given(0.0, 0.2)).ok
    assert not compare("out", want + 1e-9, want, summed("f32", f32=1), Given(0.0, 0.0)).ok
    assert compare("out", want + 1e-9, want, summed("f32", f32=1), Given(rtol=0.0)).ok
    assert compare("out", want + 0.1, want, summed("f32", f32=1), Given(rtol=0.2)).ok
