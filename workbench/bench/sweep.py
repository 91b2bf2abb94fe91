"""Time a kernel over sizes, beside its baselines, each point checked if that was asked."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from workbench.bench.baselines import Competitor
from workbench.bench.checking import Verdict
from workbench.bench.neighbours import Neighbours
from workbench.bench.phases import say
from workbench.bench.subject import Subject
from workbench.bench.work import bytes_moved, dot_work
from workbench.interrupts import may_stop
from workbench.runtime import guards
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort, Timed, Timing, ratio
from workbench.source import OptionError
from workbench.trace import Bench, Environment

Metric = Literal["tflops", "gbps", "ms", "percent"]


@dataclass(frozen=True, slots=True)
class Point:
    """One size: the axis values that make it, and what builds the launch to time."""

    x: Mapping[str, Any]
    build: Callable[[], Subject]


@dataclass(slots=True)
class Series:
    """The columns of one measured series, grown point by point."""

    name: str
    kind: Literal["self", "baseline"]
    x: list[Any] = field(default_factory=list[Any])
    milliseconds: list[tuple[float, float, float, int]] = field(
        default_factory=list[tuple[float, float, float, int]]
    )
    flops: list[float | None] = field(default_factory=list[float | None])
    bytes: list[float | None] = field(default_factory=list[float | None])
    ok: list[bool | None] = field(default_factory=list[bool | None])
    unsteady: list[bool] = field(default_factory=list[bool])
    timed: list[Timed] = field(default_factory=list[Timed])
    error: str | None = None

    def add(
        self,
        x: Any,
        timing: Timing,
        work: tuple[float | None, float | None],
        ok: bool | None,
        unsteady: bool,
    ) -> None:
        """Add one point."""
        self.x.append(x)
        self.milliseconds.append(timing.quantiles)
        self.flops.append(work[0])
        self.bytes.append(work[1])
        self.ok.append(ok)
        self.unsteady.append(unsteady)
        self.timed.append(timing.timed)


def points_of(
    axes: Mapping[str, Sequence[Any]], crossed: bool, place: Any = None
) -> list[dict[str, Any]]:
    """Return the points of a sweep: axes go together, or each with each if `crossed`."""
    if not axes:
        return [{}]
    lengths = {name: len(values) for name, values in axes.items()}
    if any(length == 0 for length in lengths.values()):
        empty = next(name for name, length in lengths.items() if length == 0)
        raise OptionError(f"--x {empty} has no values", place, code="K116")
    if crossed:
        combinations = itertools.product(*axes.values())
    else:
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"--x {name}: {length} values" for name, length in lengths.items())
            raise OptionError(
                f"{counts}; axes zip", place, code="K116", hint="add --x-grid to cross them"
            )
        combinations = zip(*axes.values(), strict=True)
    return [dict(zip(axes, values, strict=True)) for values in combinations]


def axis_value(x: Mapping[str, Any], varying: Sequence[str]) -> Any:
    """Return what a point is called on the axis: its number, or its numbers joined."""
    shown = [x[name] for name in varying]
    if len(shown) == 1 and isinstance(shown[0], (int, float)) and not isinstance(shown[0], bool):
        return shown[0]
    return "×".join(map(str, shown))


def time_points(
    points: Sequence[Point],
    competitors: Callable[[Subject], Sequence[Competitor]],
    check: Callable[[Subject], Verdict] | None,
    work: Callable[[Subject, Mapping[str, Any]], tuple[float | None, float | None]],
    *,
    name: str,
    gpu: bool,
    metric: str = "auto",
    warm: bool = False,
    effort: Effort | None = None,
) -> tuple[list[Bench], list[Verdict]]:
    """Time every point; returns the series and the verdicts of the points that were checked.

    KeyboardInterrupt keeps what is done: points, what was measured of the last one, verdicts. A
    point whose check fails is timed all the same, and marked wrong.
    """
    varying = list(points[0].x)
    own = Series(name, "self")
    others: dict[str, Series] = {}
    verdicts: list[Verdict] = []
    start = environment(gpu)
    neighbours = Neighbours()
    for number, point in enumerate(points, 1):
        try:
            with may_stop():
                subject = point.build()
            grid = " × ".join(map(str, subject.grid))
            x = axis_value(point.x, varying) if varying else grid
            place = f" {' × '.join(varying)} = {x}, {number} of {len(points)}" if varying else ""
            say(f"timing{place}", still=True)
            verdict = None
            if check is not None:
                with may_stop():
                    verdict = check(subject)
                verdicts.append(verdict)
            with may_stop():
                timed = [one for one in competitors(subject) if _note(one, others)]
            calls = {one.name: one.call for one in timed if one.call is not None}
            own_name = "\0own"
            timings = measure(
                {own_name: subject.launch, **calls}, gpu=gpu, warm=warm, effort=effort
            )
        except KeyboardInterrupt:
            break
        amount = work(subject, point.x)
        ok = None if verdict is None else verdict.ok
        mine = timings[own_name]
        if not mine.samples:
            break
        own.add(x, mine, amount, ok, mine.unsteady)
        for name in (name for name in calls if timings[name].samples):
            # Of a baseline the ratio counts: what drifts with ours is steady.
            theirs = timings[name]
            others[name].add(x, theirs, amount, None, ratio(mine, theirs).unsteady)
        if mine.stopped:
            break
    end = environment(gpu)
    chosen = metric if metric != "auto" else _metric(own)
    where = Environment(
        device=start.device,
        clock=(*start.clock, *end.clock),
        temp=(*start.temp, *end.temp),
        driver=start.driver,
        others=None if gpu else neighbours.share(),
    )
    tried = not gpu and guards.is_on()
    axis = " × ".join(varying) or "grid"  # a launch that nothing varies is called by its grid
    everyone = (own, *others.values()) if own.x else ()  # stopped before the first
    benches = [_bench(series, axis, chosen, where) for series in everyone]
    return [replace(bench, guarded=tried) for bench in benches], verdicts


def _note(competitor: Competitor, others: dict[str, Series]) -> bool:
    """Make the baseline's series; returns whether the baseline can be timed."""
    series = others.setdefault(competitor.name, Series(competitor.name, "baseline"))
    if competitor.error is not None:
        series.error = competitor.error
    return competitor.call is not None


def _metric(series: Series) -> Any:
    if any(series.flops):
        return "tflops"
    return "gbps" if any(series.bytes) else "ms"


def _bench(series: Series, axis: str, metric: Any, where: Environment) -> Bench:
    return Bench(
        name=series.name,
        kind=series.kind,
        axis=axis,
        x=tuple(series.x),
        milliseconds=tuple(series.milliseconds),
        flops=tuple(series.flops),
        bytes=tuple(series.bytes),
        ok=tuple(series.ok),
        unsteady=tuple(series.unsteady),
        timed=tuple(series.timed),
        metric=metric,
        env=where,
        error=series.error,
    )


def counted_work(subject: Subject) -> tuple[float | None, float | None]:
    """Return (operations, bytes) of one launch as far as they can be counted."""
    dots = dot_work(subject.module, subject.grid, subject.scalars)
    moved = bytes_moved(subject.arguments, subject.roles)
    return (dots.flops if dots else None), (float(moved) if moved else None)


def environment(gpu: bool) -> Environment:
    """Return what a measurement runs on: the device, and its clock and temperature if known."""
    if not gpu:
        return Environment(device=_cpu_name())
    import torch

    name = torch.cuda.get_device_name()
    try:
        query = "clocks.sm,temperature.gpu,driver_version"
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        clock, temperature, driver = result.stdout.splitlines()[0].split(", ")
        return Environment(
            device=name, clock=(float(clock),), temp=(float(temperature),), driver=driver
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return Environment(device=name)


def _cpu_name() -> str:
    from pathlib import Path

    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()
