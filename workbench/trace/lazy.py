"""A trace that nobody has read yet, and the runs that are added to it as they happen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from workbench.interrupts import renewed_lock
from workbench.trace.codec import identify
from workbench.trace.schema import Bench, Ceiling, Check, Launch, Runs, Skipped, Trace, Tune

Run = Launch | Check | Bench | Tune | Ceiling | Skipped


class LazyTrace:
    """A trace that is built at its first use; runs may be recorded before and after."""

    def __init__(self, build: Callable[[], Trace]) -> None:
        self._build: Callable[[], Trace] | None = build
        self._trace: Trace | None = None
        self._pending: list[Run] = []
        self._changes: dict[str, Any] = {}
        self._lock = renewed_lock()
        self._made: dict[str, Any] = {}  # changes that are in the trace

    @classmethod
    def of(cls, trace: Trace) -> LazyTrace:
        """Wrap a trace that exists already (from the cache, from a file)."""
        return cls(lambda: trace)

    @property
    def trace(self) -> Trace:
        """The trace with everything recorded so far; printed once, at the first use."""
        with self._lock:
            if self._trace is None and self._build is not None:
                self._trace, self._build = self._build(), None
            assert self._trace is not None
            if self._changes:
                self._trace = identify(dataclasses.replace(self._trace, **self._changes))
                self._made.update(self._changes)
                self._changes = {}
            if self._pending:
                runs = _with_runs(self._trace.runs, self._pending)
                self._trace = dataclasses.replace(self._trace, runs=runs)
                self._pending = []
            return self._trace

    @property
    def printed(self) -> bool:
        """Whether the trace has been built (somebody looked)."""
        return self._trace is not None

    def release(self, build: Callable[[], Trace]) -> bool:
        """Let go what was printed; `build` prints it again. Runs and changed keys are kept.

        False where somebody is at it: nothing is let go then. Whoever prints a trace may need what
        the caller holds, so nobody is waited for.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._trace is not None:
                kept = [run for key in RUN_KEYS.values() for run in getattr(self._trace.runs, key)]
                self._pending = [*kept, *self._pending]
            self._changes = {**self._made, **self._changes}
            self._trace, self._build = None, build
        finally:
            self._lock.release()
        return True

    def record(self, *runs: Run) -> None:
        """Add launches, checks, benches, tunes, ceilings, or notes of what was skipped."""
        with self._lock:
            self._pending += runs

    def update(self, **fields: Any) -> None:
        """Replace whole keys of the trace, such as resources that became known later."""
        with self._lock:
            self._changes.update(fields)


RUN_KEYS: dict[type, str] = {
    Launch: "launches",
    Check: "checks",
    Bench: "benches",
    Tune: "tunes",
    Ceiling: "ceilings",
    Skipped: "skipped",
}


def _with_runs(runs: Runs, new: Iterable[Run]) -> Runs:
    columns = {key: list(getattr(runs, key)) for key in RUN_KEYS.values()}
    for run in new:
        columns[RUN_KEYS[type(run)]].append(run)
    return Runs(**{key: tuple(values) for key, values in columns.items()})
