"""Numbers of a trace made ready to show: rates of a benchmark, and how figures are written.

Plots, tables and exports all take their points from here, so they cannot disagree. 1 GB = 1e9 B,
1 TFLOP = 1e12 operations; a rate is of the median time, its bounds of the 80 % and 20 % quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workbench.trace import Bench, Ceiling, Trace

Metric = Literal["tflops", "gbps", "ms", "percent"]

UNITS: dict[Metric, str] = {
    "tflops": "TFLOP/s",
    "gbps": "GB/s",
    "ms": "ms",
    "percent": "% of roofline",
}

#: Times are in doubt when other programs take more than this share of the processor.
BUSY = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size of a series; `value` and its bounds are in the unit of the metric."""

    x: float | str
    milliseconds: float
    value: float | None
    low: float | None
    high: float | None
    ok: bool | None
    unsteady: bool
    timed: Literal["cold", "hot", "host"] | None
    intensity: float | None  # operations per byte
    tflops: float | None

    @property
    def wrong(self) -> bool:
        """Whether a check found this point's result wrong; then it competes with nobody."""
        return self.ok is False


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The kernel or one baseline over the axis; `error` says why there are no points."""

    name: str
    own: bool
    points: tuple[Point, ...]
    error: str | None = None

    def at(self, x: float | str) -> Point | None:
        """Return the point at `x`, or None."""
        return next((point for point in self.points if point.x == x), None)


def metric_of(trace: Trace) -> Metric:
    """Return the metric of the latest benchmark: as asked, or by what the kernel does."""
    own = _latest(trace, "self")
    if own is None:
        return "ms"
    if own.metric is not None:
        return own.metric
    dots = any("dot" in trace.strings[name] for name in trace.ops.name)
    if dots and any(own.flops):
        return "tflops"
    return "gbps" if any(own.bytes) else "ms"


def series_of(trace: Trace, metric: Metric | None = None) -> tuple[Series, ...]:
    """Return the latest own series and its baselines, the kernel's own first."""
    own = _latest(trace, "self")
    if own is None:
        return ()
    metric = metric or metric_of(trace)
    latest = {bench.name: bench for bench in trace.runs.benches if bench.kind == "baseline"}
    baselines = [bench for bench in latest.values() if bench.error or bench.x == own.x]
    return tuple(_series(bench, metric, trace.runs.ceilings) for bench in (own, *baselines))


def axis_of(trace: Trace) -> str:
    """Return the name of the swept axis, "size" if it has none."""
    own = _latest(trace, "self")
    return own.axis if own is not None and own.axis else "size"


def busy(trace: Trace) -> str | None:
    """Return what to say of a benchmark beside which other programs ran, None if none did."""
    own = _latest(trace, "self")
    others = own.env.others if own is not None and own.env is not None else None
    if others is None or others < BUSY:
        return None
    return f"other programs took {100 * others:.0f} % of the processor: these times mislead"


def ceiling(ceilings: Sequence[Ceiling], unit: Literal["tflops", "gbps"]) -> float | None:
    """Return the lowest known limit of a unit."""
    return min((limit.value for limit in ceilings if limit.unit == unit), default=None)


def rate(
    metric: Metric,
    milliseconds: float,
    flops: float | None,
    moved: float | None,
    ceilings: Sequence[Ceiling] = (),
) -> float | None:
    """Return one launch's time as a value of the metric, None where what it needs is unknown."""
    match metric:
        case "ms":
            return milliseconds
        case "tflops":
            return None if flops is None else flops / milliseconds / 1e9
        case "gbps":
            return None if moved is None else moved / milliseconds / 1e6
        case "percent":
            bounds = [
                work / limit * scale
                for work, limit, scale in (
                    (flops, ceiling(ceilings, "tflops"), 1e-9),
                    (moved, ceiling(ceilings, "gbps"), 1e-6),
                )
                if work is not None and limit is not None
            ]
            return 100 * max(bounds) / milliseconds if bounds else None


def ratios(trace: Trace) -> dict[float | str, float]:
    """Return by size how many times faster the kernel is than its first baseline.

    A time that may hold the host's is compared with nothing.
    """
    own, *baselines = series_of(trace) or (None,)
    first = next((series for series in baselines if series.points), None)
    if own is None or first is None:
        return {}
    pairs = [(point, first.at(point.x)) for point in own.points if not point.wrong]
    return {
        a.x: b.milliseconds / a.milliseconds
        for a, b in pairs
        if b is not None and "host" not in (a.timed, b.timed)
    }


def _latest(trace: Trace, kind: str) -> Bench | None:
    found = [bench for bench in trace.runs.benches if bench.kind == kind and not bench.error]
    return found[-1] if found else None


def _series(bench: Bench, metric: Metric, ceilings: Sequence[Ceiling]) -> Series:
    points: list[Point] = []
    for i, (x, quantiles) in enumerate(zip(bench.x, bench.milliseconds, strict=False)):
        fast, middle, slow, _ = quantiles
        flops, moved = _at(bench.flops, i), _at(bench.bytes, i)
        values = [rate(metric, t, flops, moved, ceilings) for t in (slow, middle, fast)]
        low, high = (values[2], values[0]) if metric == "ms" else (values[0], values[2])
        points.append(
            Point(
                x=x,
                milliseconds=middle,
                value=values[1],
                low=low,
                high=high,
                ok=_at(bench.ok, i),
                unsteady=bool(_at(bench.unsteady, i)),
                timed=_at(bench.timed, i),
                intensity=flops / moved if flops and moved else None,
                tflops=rate("tflops", middle, flops, moved),
            )
        )
    return Series(
        name=bench.name, own=bench.kind == "self", points=tuple(points), error=bench.error
    )


def _at(column: Sequence[Any], index: int) -> Any:
    return column[index] if index < len(column) else None


def figure(value: float | None) -> str:
    """Return a number for a table: four significant digits, thousands separated."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.2e}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(milliseconds: float) -> str:
    """Return a time with three significant digits: microseconds below 0.1 ms."""
    if milliseconds >= 100:
        return f"{milliseconds:,.0f} ms"
    if milliseconds >= 0.1:
        return f"{milliseconds:.3g} ms"
    return f"{milliseconds * 1000:.3g} µs"
