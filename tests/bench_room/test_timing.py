"""Timing: who runs when, how often, and what is kept; no test here measures time."""

from __future__ import annotations

import pytest

from workbench.runtime.measuring import measure
from workbench.runtime.timing import (
    BURST,
    MOST_RUNS,
    Effort,
    Timing,
    in_rounds,
    ratio,
)

QUICK = Effort(warm_up=0.0, milliseconds=0.0, runs=12)


def test_candidates_take_turns_in_bursts():
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    timings = measure(calls, effort=QUICK)
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == list("ababab") + ["a", "b"][: len(turns) - 6]
    assert all(len(timing.samples) == 3 * BURST for timing in timings.values())


def test_runs_are_bounded():
    assert Effort(milliseconds=1e9).enough(Timing([1e-6] * MOST_RUNS))
    assert not Effort().enough(Timing([1000.0] * 3))


def test_interrupt_keeps_what_was_measured():
    calls = {"a": lambda: None, "b": _interrupting_after(3 * BURST)}
    timings = measure(calls, effort=Effort(0.0, 1e9, 20))
    assert timings["a"].samples
    assert timings["b"].samples
    assert timings["a"].stopped


def test_interrupt_before_every_candidate_has_a_sample_is_raised():
    with pytest.raises(KeyboardInterrupt):
        measure({"a": _interrupting_after(0)}, effort=QUICK)


def test_quantiles_and_unsteadiness():
    steady = Timing([1.0, 1.0, 1.01, 1.02])
    assert steady.quantiles[1] == pytest.approx(1.005)
    assert steady.quantiles[3] == 4
    assert not steady.unsteady
    assert Timing([1.0, 1.5, 2.0]).unsteady


def _interrupting_after(calls: int):
    left = [calls]

    def call():
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1

    return call


def rounds(*parts):
    """Return the timing of several rounds."""
    timing = Timing()
    for part in parts:
        timing.add_round(Timing(list(part), timed="cold"))
    return timing


@pytest.mark.parametrize(
    ("second", "unsteady"), [(0.0202, False), (0.0205, False), (0.0207, True), (0.0193, True)]
)
def test_rounds_have_to_agree_within_3_percent(second, unsteady):
    assert rounds([0.02], [second]).unsteady is unsteady


@pytest.mark.parametrize(("second", "unsteady"), [(0.0052, False), (0.0054, True)])
def test_rounds_below_10_microseconds_within_6_percent(second, unsteady):
    assert rounds([0.005], [second]).unsteady is unsteady


def test_rounds_are_kept_apart():
    timing = rounds([1.0, 3.0, 2.0], [2.0, 2.01])
    assert timing.rounds == pytest.approx((2.0, 2.005))
    assert timing.samples == [1.0, 3.0, 2.0, 2.0, 2.01]
    assert not timing.unsteady


def test_a_ratio_is_steady_where_both_drift_alike():
    ours, theirs = rounds([1.0, 1.0], [1.2, 1.2]), rounds([2.0, 2.0], [2.4, 2.4])
    assert ours.unsteady
    assert ratio(ours, theirs) == (pytest.approx(2.0), False)
    assert ratio(ours, rounds([2.0, 2.0], [2.2, 2.2])).unsteady


def test_a_round_that_is_missing_is_unsteady():
    assert rounds([1.0, 1.0]).unsteady
    assert ratio(rounds([1.0]), rounds([2.0])).unsteady


def test_one_round_timed_on_the_host_makes_the_case_host():
    timing = rounds([1.0])
    timing.add_round(Timing([1.0], timed="host"))
    assert timing.timed == "host"


def test_interrupt_in_the_second_round_keeps_the_first():
    seen = []

    def race(found, effort):
        seen.append(effort)
        if len(seen) == 2:
            raise KeyboardInterrupt
        found["a"].samples.append(1.0)

    timing = in_rounds({"a": None}, Effort(0.0, 10.0, 20), race)["a"]
    assert timing.samples == [1.0]
    assert timing.stopped
    assert seen[0].milliseconds == 5.0
    assert seen[0].runs == 10
