"""Ceilings: measured where there is something to measure, from data sheets for known devices."""

from __future__ import annotations

import pytest

from workbench.bench.ceilings import SHEETS, ceilings, roofline


def test_the_copy_speed_of_the_host_is_measured():
    (found,) = ceilings("gbps", gpu=False, operand=None)
    assert (found.name, found.unit, found.source) == ("copy", "gbps", "measured")
    assert found.value > 0


def test_nothing_is_claimed_about_an_unknown_limit():
    assert ceilings("tflops", gpu=False, operand="f16") == ()
    assert ceilings("ms", gpu=False, operand=None) == ()


def test_longer_names_come_before_the_shorter_ones_they_contain():
    names = list(SHEETS)
    for index, name in enumerate(names):
        assert not any(name != later and name in later for later in names[index + 1 :])


def test_the_roofline_is_the_slower_of_memory_and_tensor_cores():
    # 4.8 GB at 4800 GB/s; 989 TFLOP at 989 TFLOP/s
    assert roofline(4.8e9, 0, "f16", "NVIDIA H200") == pytest.approx(1.0)
    assert roofline(4.8e9, 989e12, "f16", "NVIDIA H200") == pytest.approx(1000.0)
    assert roofline(4.8e9, 1e9, "f16", "NVIDIA H200") == pytest.approx(1.0)
    assert roofline(4.8e9, 1e9, "f64", "NVIDIA H200") is None
    assert roofline(4.8e9, 0, "f16", "an unknown device") is None
