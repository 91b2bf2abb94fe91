"""Timing: who runs when, how often, and what is kept; no test here measures time."""

from __future__ import annotations

import pytest

from workbench.runtime.timing import BURST, MOST_RUNS, Effort, Timing, measure

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
