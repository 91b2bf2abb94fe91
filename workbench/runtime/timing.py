"""Time callables beside each other, so that what disturbs one disturbs all.

On a GPU (`device_clock.py`) the device times itself: each call is captured once into a CUDA graph
of [flush, mark, mark, call, mark] nodes, and the marks are read after a replay. The host only
starts replays, so that no time of the host is in a sample, however slow the host is. A call is
timed `cold` (a read of several times the L2 comes before each run) or `hot` (the same call comes
before each run). A call that cannot be captured is timed by marks in the stream and says `host`:
its window may hold time of the host, so it belongs in no mean and no claim.

Everything is measured in two rounds that share nothing but the calls: each warms up, captures and
takes turns anew. What the rounds do not agree on is `unsteady`.

On the CPU candidates take turns in short bursts: two thread pools that still spin from their last
call would spoil each other's next one, so each burst starts with a call that is not counted. The
caches are as the last call left them (`hot`), and the spread of the samples says what is unsteady.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

WARM_UP_MILLISECONDS = 25.0
LEAST_MILLISECONDS = 100.0
LEAST_RUNS = 20
MOST_RUNS = 1000
BURST = 5
#: Independent rounds of a measurement on a GPU.
ROUNDS = 2
#: The middle 60 % of the samples may spread over this part of the median on a CPU.
UNSTEADY = 0.10
#: Two rounds may differ by this part, and below SHORT_MILLISECONDS by the second.
DISAGREEMENT = 0.03
SHORT_DISAGREEMENT = 0.06
SHORT_MILLISECONDS = 0.010

Call = Callable[[], object]
#: What the caches held when a call was timed, or that the host may be in its time.
Timed = Literal["cold", "hot", "host"]


@dataclass(slots=True)
class Timing:
    """Samples of one candidate, in milliseconds.

    Attributes:
        samples: of all rounds, in order.
        stopped: the user ended the measurement early.
        timed: cold, hot, or host where the time may hold the host's.
        starts: where each round begins in `samples`; empty where there were no rounds.
    """

    samples: list[float] = field(default_factory=list[float])
    stopped: bool = False
    timed: Timed = "hot"
    starts: list[int] = field(default_factory=list[int])

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
    def rounds(self) -> tuple[float, ...]:
        """The median of each round in milliseconds; one number where there were no rounds."""
        starts = self.starts or [0]
        ends = [*starts[1:], len(self.samples)]
        parts = (self.samples[a:b] for a, b in zip(starts, ends, strict=True))
        return tuple(float(np.median(part)) for part in parts if part)

    @property
    def unsteady(self) -> bool:
        """Whether the rounds disagree; without rounds, whether the samples spread too far."""
        if self.starts:
            return len(self.rounds) < ROUNDS or not agree(self.rounds, self.median)
        low, middle, high, _ = self.quantiles
        return (high - low) > UNSTEADY * middle

    def add_round(self, other: Timing) -> None:
        """Add the samples of one more round."""
        self.starts.append(len(self.samples))
        self.samples += other.samples
        if other.timed == "host" or len(self.starts) == 1:
            self.timed = other.timed


def agree(values: tuple[float, ...], milliseconds: float) -> bool:
    """Whether numbers of several rounds are one: within 3 %, below 10 µs within 6 %.

    `milliseconds` is how long the case takes.
    """
    allowed = SHORT_DISAGREEMENT if milliseconds < SHORT_MILLISECONDS else DISAGREEMENT
    return max(values) <= (1 + allowed) * min(values)


class Ratio(NamedTuple):
    """How many times as long as `ours` another candidate of the same measurement took."""

    value: float
    unsteady: bool


def ratio(ours: Timing, theirs: Timing) -> Ratio:
    """Return theirs / ours; unsteady where the ratios of the rounds do not agree.

    Candidates without rounds are as steady as their samples.
    """
    value = theirs.median / ours.median
    if not ours.starts or not theirs.starts:
        return Ratio(value, ours.unsteady or theirs.unsteady)
    found = tuple(b / a for a, b in zip(ours.rounds, theirs.rounds, strict=False))
    return Ratio(value, len(found) < ROUNDS or not agree(found, ours.median))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure one point: at least so long and often, and `most` runs at most."""

    warm_up: float = WARM_UP_MILLISECONDS
    milliseconds: float = LEAST_MILLISECONDS
    runs: int = LEAST_RUNS
    most: int = MOST_RUNS

    def enough(self, timing: Timing) -> bool:
        """Whether a candidate has run long and often enough."""
        runs = len(timing.samples)
        return runs >= self.most or (runs >= self.runs and sum(timing.samples) >= self.milliseconds)

    def times(self, factor: int) -> Effort:
        """Return so many times the runs and the time, after the same warm-up."""
        return replace(
            self,
            milliseconds=self.milliseconds * factor,
            runs=self.runs * factor,
            most=self.most * factor,
        )

    def of_a_round(self) -> Effort:
        """Return the share of one of the rounds."""
        return replace(
            self,
            milliseconds=self.milliseconds / ROUNDS,
            runs=-(-self.runs // ROUNDS),
            most=-(-self.most // ROUNDS),
        )


def in_rounds(
    names: Mapping[str, object],
    effort: Effort,
    race: Callable[[dict[str, Timing], Effort], object],
) -> dict[str, Timing]:
    """Return the timings of ROUNDS runs of `race`, each of which fills fresh timings."""
    timings = {name: Timing() for name in names}
    for _ in range(ROUNDS):
        found = {name: Timing() for name in names}
        try:
            race(found, effort.of_a_round())
        except KeyboardInterrupt:
            _join(timings, {name: timing for name, timing in found.items() if timing.samples})
            stop(timings)
            break
        _join(timings, found)
    return timings


def _join(timings: dict[str, Timing], found: dict[str, Timing]) -> None:
    for name, timing in found.items():
        timings[name].add_round(timing)


def stop(timings: dict[str, Timing]) -> None:
    """Mark what an interrupt ended; raises it again where no candidate has a sample."""
    if not any(timing.samples for timing in timings.values()):
        raise KeyboardInterrupt
    for timing in timings.values():
        timing.stopped = True


def spend(call: Call, milliseconds: float) -> None:
    """Call at least once, and again until so much time has passed."""
    end = time.perf_counter() + milliseconds / 1e3
    call()
    while time.perf_counter() < end:
        call()
