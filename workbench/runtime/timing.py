"""Time callables beside each other, so that what disturbs one disturbs all.

On a GPU every run is enclosed in events and, unless `warm`, preceded by a read that flushes the L2
cache (a read, so that no written-back lines are counted in the sample). Candidates take turns run
by run. On the CPU they take turns in short bursts: two thread pools that still spin from their last
call would spoil each other's next one, so each burst starts with a call that is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WARM_UP_MILLISECONDS = 25.0
LEAST_MILLISECONDS = 100.0
LEAST_RUNS = 20
MOST_RUNS = 1000
BURST = 5
FLUSH_BYTES = 256 * 2**20  # several times the L2 of an H200 (50 MB)
UNSTEADY = 0.10

Call = Callable[[], object]


@dataclass(slots=True)
class Timing:
    """Samples of one candidate, in milliseconds; `stopped` says that the user ended it early."""

    samples: list[float] = field(default_factory=list[float])
    stopped: bool = False

    @property
    def quantiles(self) -> tuple[float, float, float, int]:
        """(20 %, median, 80 %, number of runs)."""
        low, middle, high = np.quantile(self.samples, (0.2, 0.5, 0.8))
        return float(low), float(middle), float(high), len(self.samples)

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return self.quantiles[1]

    @property
    def best(self) -> float:
        """The shortest sample in milliseconds."""
        return min(self.samples)

    @property
    def unsteady(self) -> bool:
        """Whether the middle 60 % of the samples spread over more than 10 % of the median."""
        low, middle, high, _ = self.quantiles
        return (high - low) > UNSTEADY * middle


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure one point."""

    warm_up: float = WARM_UP_MILLISECONDS
    milliseconds: float = LEAST_MILLISECONDS
    runs: int = LEAST_RUNS

    def enough(self, timing: Timing) -> bool:
        """Whether a candidate has run long and often enough."""
        runs = len(timing.samples)
        return runs >= MOST_RUNS or (runs >= self.runs and sum(timing.samples) >= self.milliseconds)


def measure(
    candidates: Mapping[str, Call],
    *,
    gpu: bool = False,
    warm: bool = False,
    effort: Effort | None = None,
) -> dict[str, Timing]:
    """Return the timings of all candidates, measured in one interleaved run.

    KeyboardInterrupt ends the measurement early and keeps what was measured, once every candidate
    has a sample; all timings are `stopped` then, so that whoever measures more can end too.
    """
    effort = effort or Effort()
    timings = {name: Timing() for name in candidates}
    take_turns = _gpu_rounds if gpu else _cpu_rounds
    try:
        take_turns(candidates, timings, effort, warm)
    except KeyboardInterrupt:
        if not all(timing.samples for timing in timings.values()):
            raise
        for timing in timings.values():
            timing.stopped = True
    return timings


def _cpu_rounds(
    candidates: Mapping[str, Call], timings: dict[str, Timing], effort: Effort, warm: bool
) -> None:
    """Take turns in bursts; `warm` changes nothing here, the CPU's caches are never flushed."""
    clock = time.perf_counter_ns
    for call in candidates.values():
        _spend(call, effort.warm_up)
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


def _spend(call: Call, milliseconds: float) -> None:
    end = time.perf_counter() + milliseconds / 1e3
    call()
    while time.perf_counter() < end:
        call()


def _gpu_rounds(
    candidates: Mapping[str, Call], timings: dict[str, Timing], effort: Effort, warm: bool
) -> None:
    import torch

    flush: Any = None
    if not warm:
        flush = torch.zeros(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for call in candidates.values():
        _spend(lambda call=call: (call(), torch.cuda.synchronize()), effort.warm_up)
    waiting = dict(candidates)
    while waiting:
        pending: list[tuple[str, Any, Any]] = []
        # A few rounds are queued before waiting, so that the host stays ahead of the device.
        for _ in range(BURST):
            for name, call in waiting.items():
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                if flush is not None:
                    flush.amax()
                start.record()
                call()
                end.record()
                pending.append((name, start, end))
        torch.cuda.synchronize()
        for name, start, end in pending:
            timings[name].samples.append(start.elapsed_time(end))
        waiting = {name: call for name, call in waiting.items() if not effort.enough(timings[name])}
