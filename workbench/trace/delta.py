"""What differs between two traces: resources, times, and ops per stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from workbench.trace.schema import Number, Resources, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDelta:
    """One stage of two traces: rows of both, and how many rows only one of them has."""

    stage: str
    rows: tuple[int, int]
    removed: int
    added: int

    @property
    def same(self) -> bool:
        """Whether both texts hold the same rows."""
        return not self.removed and not self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What changed from trace A to trace B."""

    resources: dict[str, tuple[Number | None, Number | None]]
    options: dict[str, tuple[object, object]]
    stages: tuple[StageDelta, ...]
    milliseconds: tuple[float, float] | None  # median of the last own benchmark point

    @property
    def ratio(self) -> float | None:
        """How many times faster B is than A, None where either was not timed."""
        return None if self.milliseconds is None else self.milliseconds[0] / self.milliseconds[1]


def delta(a: Trace, b: Trace) -> Delta:
    """Return what changed from trace `a` to trace `b`."""
    resources: dict[str, tuple[Number | None, Number | None]] = {}
    for field in fields(Resources):
        before, after = getattr(a.resources, field.name), getattr(b.resources, field.name)
        if field.name not in ("live", "occupancy") and before != after:
            resources[field.name] = (before, after)
    names = sorted({*a.kernel.options, *b.kernel.options})
    options = {name: (a.kernel.options.get(name), b.kernel.options.get(name)) for name in names}
    ids = [stage.id for stage in a.stages if b.stage(stage.id) is not None]
    times = (_median(a), _median(b))
    return Delta(
        resources=resources,
        options={name: pair for name, pair in options.items() if pair[0] != pair[1]},
        stages=tuple(_stage_delta(name, a.text(name), b.text(name)) for name in ids),
        milliseconds=None if times[0] is None or times[1] is None else (times[0], times[1]),
    )


def _stage_delta(name: str, a: str, b: str) -> StageDelta:
    before, after = Counter(a.split("\n")), Counter(b.split("\n"))
    return StageDelta(
        stage=name,
        rows=(before.total(), after.total()),
        removed=(before - after).total(),
        added=(after - before).total(),
    )


def _median(trace: Trace) -> float | None:
    own = [bench for bench in trace.runs.benches if bench.kind == "self" and bench.milliseconds]
    return own[-1].milliseconds[-1][1] if own else None
