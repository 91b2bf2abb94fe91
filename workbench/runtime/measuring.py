"""Measure callables beside each other: see timing.py for what is measured and how."""

from __future__ import annotations

import time
from collections.abc import Mapping

from workbench.interrupts import may_stop
from workbench.runtime import guards
from workbench.runtime.device_clock import Stopwatch
from workbench.runtime.timing import BURST, Call, Effort, Timing, in_rounds, spend, stop


def measure(
    candidates: Mapping[str, Call],
    *,
    gpu: bool = False,
    warm: bool = False,
    effort: Effort | None = None,
) -> dict[str, Timing]:
    """Return the timings of all candidates, which take turns.

    On a GPU two independent rounds are measured, on the CPU one, without guards: where launches are
    guarded, each candidate runs guarded once before, over inputs that are then put back.
    KeyboardInterrupt ends the
    measurement early and keeps what was measured, if any candidate has a sample; all timings are
    `stopped` then, so that whoever measures more can end too, and some may be without samples.
    """
    effort = effort or Effort()
    if not gpu:
        timings = {name: Timing() for name in candidates}
        try:
            with may_stop(), guards.timing(candidates.values()):
                _cpu_round(candidates, timings, effort)
        except KeyboardInterrupt:
            stop(timings)
        return timings
    watch = Stopwatch(warm=warm)

    def race(found: dict[str, Timing], share: Effort) -> None:
        with may_stop():
            watch.race(candidates, found, share)

    return in_rounds(candidates, effort, race)


def _cpu_round(candidates: Mapping[str, Call], timings: dict[str, Timing], effort: Effort) -> None:
    """Take turns in bursts."""
    clock = time.perf_counter_ns
    for call in candidates.values():
        spend(call, effort.warm_up)
    waiting = dict(candidates)
    while waiting:
        for name, call in list(waiting.items()):
            call()
            for _ in range(BURST):
                start = clock()
                call()
                timings[name].samples.append((clock() - start) / 1e6)
            if effort.enough(timings[name]):
                del waiting[name]
