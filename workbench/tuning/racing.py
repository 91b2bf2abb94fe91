"""Timing many candidates against each other, leaving out those that cannot win any more.

Candidates take turns, in any order, so that what disturbs one disturbs all. After each round those
that are clearly slower than the best are left out. Those that are close to it stay
together until each has been measured for twice as long: the same rounds decide between them, and no
noise of a part of them. What a candidate needs before and after a run (zeroing,
restoring) is not part of its time. On a GPU the device times itself within a captured graph where
the candidate can be captured, so that the host's work is not part of its time either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from workbench.interrupts import may_stop
from workbench.runtime import guards
from workbench.runtime.device_clock import Recording, Stopwatch
from workbench.runtime.timing import BURST, Effort, Timing
from workbench.source import KernelError

#: A candidate is left out when its fast runs take this many times the best one's median.
HOPELESS = 1.25
#: A candidate is close to the best one up to so many times its median.
CLOSE = 1.04
#: How much longer than others those are measured that are close to the best.
FINAL = 2
#: Runs before anything is left out.
LEAST_SAMPLES = 2 * BURST
#: Codes of errors that end the race: after them the device cannot be used, or a hook cannot be
#: called, which no configuration is the reason of.
FATAL = ("K502", "K503", "K105")

Action = Callable[[], object]


def is_fatal(error: KernelError) -> bool:
    """Say whether an error ends a search: all but those that a guarded launch has found."""
    return error.code in FATAL and not getattr(error, "guarded", False)


def _nothing() -> None: ...


@dataclass(slots=True)
class Candidate:
    """One thing to time.

    Attributes:
        call: what is timed.
        prepare: done before each run.
        finish: done after each run, also after one that failed.
        timing: the samples so far.
        error: why it cannot be timed.
        dropped: left out, for being clearly slower than another.
    """

    call: Action
    prepare: Action = _nothing
    finish: Action = _nothing
    timing: Timing = field(default_factory=Timing)
    error: KernelError | None = None
    dropped: bool = False

    def once(self) -> None:
        """Run it, untimed."""
        self.prepare()
        try:
            with may_stop():
                self.call()
        finally:
            self.finish()

    @property
    def running(self) -> bool:
        """Whether it still takes part."""
        return self.error is None and not self.dropped


class Race:
    """Times candidates; `told` is called with each one's number after every round.

    KeyboardInterrupt and the end of `seconds` stop the race; what was measured is kept.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        gpu: bool,
        effort: Effort | None = None,
        seconds: float | None = None,
        told: Callable[[int], object] | None = None,
        graphs: bool = True,
    ) -> None:
        self.candidates = candidates
        self.stopped = False
        self._gpu = gpu
        self._effort = effort or Effort()
        self._final = self._effort.times(FINAL)
        self._end = None if seconds is None else time.monotonic() + seconds
        self._told = told
        self._graphs = graphs
        self._try = False

    def run(self) -> None:
        """Run the race: nobody is guarded in it, but each candidate runs guarded once before.

        That is where launches are guarded here.
        """
        self._try = guards.is_on()
        with guards.guarding(False if self._try else None):
            self._run()

    def _run(self) -> None:
        try:
            clock = _GpuClock(self._graphs) if self._gpu else _HostClock()
            for number, candidate in enumerate(self.candidates):
                if candidate.running and not self._is_late():
                    self._guarded(number, lambda c=candidate: self._start(clock, c))
            self._rounds(clock)
        except KeyboardInterrupt:
            self.stopped = True

    def _start(self, clock: Any, candidate: Candidate) -> None:
        """Run it once for its errors, guarded where launches are, then until it is warm."""
        if self._try and not self._gpu:
            with guards.trying():
                candidate.once()
        candidate.once()
        clock.get_ready(candidate)
        warm_up = self._effort.warm_up / 1e3 / max(1, len(self.candidates))
        end = time.monotonic() + warm_up
        while time.monotonic() < end:
            candidate.once()
            clock.wait()

    def _rounds(self, clock: Any) -> None:
        waiting = [n for n, candidate in enumerate(self.candidates) if candidate.running]
        orders = Random(0)
        while waiting and not self._is_late():
            # Always behind the same one, a candidate would run at the clock that this one leaves.
            for number in orders.sample(waiting, len(waiting)):
                candidate = self.candidates[number]
                self._guarded(number, lambda c=candidate: clock.sample(c, BURST))
            best = self._leave_out()
            for number in waiting:
                if self._told is not None:
                    self._told(number)
            waiting = self._still_waiting(waiting, best)
        self.stopped = any(not self._effort.enough(self.candidates[n].timing) for n in waiting)

    def _still_waiting(self, waiting: list[int], best: float) -> list[int]:
        """Return those to be measured on: what lacks runs, and meanwhile what is close to the best.

        At the end those that are close alone, all of them until the last has runs enough.
        """
        held = {n: self.candidates[n] for n in waiting if self.candidates[n].running}
        lacking = {n for n, c in held.items() if not self._effort.enough(c.timing)}
        close = [n for n, c in held.items() if c.timing.median <= CLOSE * best]
        if not lacking and (
            len(close) < 2 or all(self._final.enough(held[n].timing) for n in close)
        ):
            return []
        return [n for n in held if n in lacking or n in close]

    def _guarded(self, number: int, action: Action) -> None:
        candidate = self.candidates[number]
        try:
            action()
        except KernelError as error:
            if is_fatal(error):
                raise
            candidate.error = error
            if self._told is not None:
                self._told(number)

    def _leave_out(self) -> float:
        """Leave out who cannot win any more; returns the best one's median."""
        timed = [c for c in self.candidates if c.error is None and c.timing.samples]
        best = min((c.timing.median for c in timed), default=0.0)
        for candidate in timed:
            samples = candidate.timing.samples
            if len(samples) >= LEAST_SAMPLES and candidate.timing.quantiles[0] > HOPELESS * best:
                candidate.dropped = True
        return best

    def _is_late(self) -> bool:
        return self._end is not None and time.monotonic() > self._end


class _HostClock:
    """Times runs that are over when they return."""

    def get_ready(self, candidate: Candidate) -> None:
        """Nothing to do."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def sample(self, candidate: Candidate, runs: int) -> None:
        """Time some runs; the first, which finds the threads of another candidate, is not one."""
        clock, samples = time.perf_counter_ns, candidate.timing.samples
        candidate.once()
        for _ in range(runs):
            candidate.prepare()
            try:
                with may_stop():
                    start = clock()
                    candidate.call()
                    taken = (clock() - start) / 1e6
            finally:
                candidate.finish()
            samples.append(taken)


class _GpuClock:
    """Times runs by the device's own clock, each after the L2 cache was flushed."""

    def __init__(self, graphs: bool) -> None:
        self._watch = Stopwatch(graphs=graphs)
        self._recorded: dict[int, Recording] = {}

    def get_ready(self, candidate: Candidate) -> None:
        """Record one run, in a graph if it can be captured."""
        candidate.prepare()
        try:
            with may_stop():
                recording = self._watch.record(candidate.call, runs=1)
        finally:
            candidate.finish()
        candidate.timing.timed = recording.timed
        self._recorded[id(candidate)] = recording

    def wait(self) -> None:
        """Wait for the device."""
        self._watch.wait()

    def sample(self, candidate: Candidate, runs: int) -> None:
        """Time some runs, each prepared on its own."""
        recording = self._recorded[id(candidate)]
        for _ in range(runs):
            candidate.prepare()
            try:
                with may_stop():
                    (samples,) = self._watch.sample({"": recording}).values()
            finally:
                candidate.finish()
            candidate.timing.samples += samples
