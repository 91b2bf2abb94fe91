"""What other programs take of the processor, from what the system counts."""

from __future__ import annotations

import os

import pytest

from workbench.bench import neighbours
from workbench.bench.neighbours import Neighbours


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """Let a test say what the system has counted."""
    file = tmp_path / "stat"
    now = {"time": 0.0, "own": 0.0}

    def count(time: float, busy: float, own: float) -> None:
        ticks = int(busy * os.sysconf("SC_CLK_TCK"))
        file.write_text(f"cpu  {ticks} 0 0 999 999 0 0 0 0 0\ncpu0 ...\n")
        now.update(time=time, own=own)

    monkeypatch.setattr(neighbours, "_STATISTICS", file)
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: now["time"])
    monkeypatch.setattr(neighbours.os, "times", lambda: (now["own"], 0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(neighbours.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(neighbours.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return count


def test_what_is_busy_and_not_ours_is_others(clock):
    clock(0.0, 10.0, 1.0)
    watch = Neighbours()
    clock(10.0, 24.0, 5.0)  # 14 of 20 seconds busy, 4 of them ours
    assert watch.share() == 0.5


def test_a_machine_of_our_own_is_quiet(clock):
    clock(0.0, 10.0, 1.0)
    watch = Neighbours()
    clock(1.0, 11.0, 2.01)  # counted in different steps: never below nothing
    assert watch.share() == 0.0


def test_too_short_a_time_tells_nothing(clock):
    clock(0.0, 10.0, 1.0)
    watch = Neighbours()
    clock(0.01, 10.01, 1.0)
    assert watch.share() is None


def test_a_system_that_counts_nothing_tells_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(neighbours, "_STATISTICS", tmp_path / "absent")
    assert Neighbours().share() is None
