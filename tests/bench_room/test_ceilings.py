"""Ceilings: measured where there is something to measure, from data sheets for known devices."""

from __future__ import annotations

from workbench.bench.ceilings import SHEETS, ceilings


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
