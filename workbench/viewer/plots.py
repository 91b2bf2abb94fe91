"""Saved plots of a trace's benchmark, drawn with matplotlib: throughput, roofline, tuning.

Figures are made without pyplot: no backend is chosen, no window opened, no global state left.
Series differ by colour, marker and dash; a wrong result is a cross in its place, an unsteady or
unchecked point is hollow.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workbench.trace import Trace
from workbench.viewer.numbers import (
    UNITS,
    Metric,
    Point,
    Series,
    axis_of,
    ceiling,
    metric_of,
    series_of,
)

PNG_BYTES = 40_000
# Okabe-Ito, at least 3 : 1 on white; the first is the kernel's.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)))
LABELLED_SERIES = 5  # above that a legend replaces labels at the line ends


def throughput_figure(trace: Trace, metric: Metric | None = None) -> Figure:
    """Return the throughput over the swept axis, against the baselines and the device's limits.

    Raises ValueError for a trace without a benchmark.
    """
    metric = metric or metric_of(trace)
    found = series_of(trace, metric)
    if not found:
        raise ValueError("nothing was benchmarked: run the cell with --bench")
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    positions = _x_axis(axes, found[0], axis_of(trace))
    drawn = [series for series in found if series.points]
    for index, series in enumerate(drawn):
        _draw(axes, series, index, positions, label=len(drawn) <= LABELLED_SERIES)
    _room_for_labels(axes)
    _limits(axes, trace, metric)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(UNITS[metric])
    axes.set_title(_plain(f"{trace.kernel.name} · {_device(trace)}"), fontsize=10)
    _legend(axes, found, len(drawn))
    _frame(axes)
    return figure


def roofline_figure(trace: Trace) -> Figure:
    """Return TFLOP/s over operations per byte, one point per size, under the known limits.

    Raises ValueError where operations and bytes of a launch are unknown.
    """
    found = [
        (series, [p for p in series.points if p.intensity and p.tflops and not p.wrong])
        for series in series_of(trace)
    ]
    found = [(series, points) for series, points in found if points]
    if not found:
        raise ValueError("no roofline: operations and bytes of a launch are not known")
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for index, (series, points) in enumerate(found):
        axes.plot(
            [point.intensity or 0 for point in points],
            [point.tflops or 0 for point in points],
            linestyle="none",
            color=COLORS[index % 5],
            marker=MARKERS[index % 5],
            label=_plain(series.name),
        )
    intensities = [point.intensity for _, points in found for point in points]
    _roofs(axes, trace, [value for value in intensities if value is not None])
    axes.set_xlabel("FLOP/B")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(_plain(f"{trace.kernel.name} · roofline · {_device(trace)}"), fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    _frame(axes)
    return figure


def png(figure: Figure, limit: int = PNG_BYTES) -> bytes:
    """Return a figure as PNG of at most `limit` bytes, at the highest resolution that fits."""
    data = b""
    for dpi in (130, 100, 80, 60, 40):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        data = buffer.getvalue()
        if len(data) <= limit:
            break
    return data


def bench_png(traces: Sequence[Trace]) -> bytes | None:
    """Return the plot of the first trace that was benchmarked at more than one size, or None."""
    for trace in traces:
        found = series_of(trace)
        if found and len(found[0].points) > 1:
            return png(throughput_figure(trace))
    return None


def _x_axis(axes: Axes, own: Series, name: str) -> dict[float | str, float]:
    """Scale and label the x axis; returns the position of each size."""
    sizes = [point.x for point in own.points]
    numbers = [size for size in sizes if isinstance(size, (int, float))]
    axes.set_xlabel(_plain(name))
    if len(numbers) < len(sizes):
        axes.set_xticks(range(len(sizes)), [_plain(str(size)) for size in sizes])
        return {size: float(index) for index, size in enumerate(sizes)}
    if _geometric(numbers):
        axes.set_xscale("log", base=2)
    if len(numbers) <= 10:
        axes.set_xticks(numbers, [_size(size) for size in numbers], fontsize=8)
        axes.minorticks_off()
    return {size: float(size) for size in numbers}


def _geometric(sizes: Sequence[float]) -> bool:
    if len(sizes) < 3 or min(sizes) <= 0:
        return False
    steps = [b / a for a, b in pairwise(sizes)]
    return max(steps) - min(steps) < 0.01 * abs(steps[0]) and steps[0] != 1


def _size(value: float) -> str:
    for factor, unit in ((2**30, "G"), (2**20, "M"), (2**10, "k")):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def _draw(
    axes: Axes, series: Series, index: int, positions: dict[float | str, float], *, label: bool
) -> None:
    color, marker = COLORS[index % 5], MARKERS[index % 5]
    points = [p for p in series.points if p.value is not None and p.x in positions]
    good = [point for point in points if not point.wrong]
    if not points:
        return
    x = [positions[point.x] for point in good]
    y = [point.value or 0.0 for point in good]
    bars = [
        [max(0.0, (p.value or 0) - (p.low or 0)) for p in good],
        [max(0.0, (p.high or 0) - (p.value or 0)) for p in good],
    ]
    axes.errorbar(
        x, y, bars, color=color, linestyle=DASHES[index % 5], label=_plain(series.name), capsize=2
    )
    for point, at, value in zip(good, x, y, strict=True):
        face = "white" if _hollow(point, series) else color
        axes.plot(at, value, marker=marker, color=color, markerfacecolor=face, markersize=5)
    for point in points:
        if point.wrong:
            at = (positions[point.x], point.value or 0.0)
            axes.plot(*at, marker="x", color=color, markersize=9, markeredgewidth=2)
            axes.annotate("wrong result", at, (4, 4), textcoords="offset points", fontsize=7)
    if label and good:
        axes.annotate(
            _plain(series.name),
            (x[-1], y[-1]),
            (6, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
            color=color,
            fontsize=8,
        )


def _room_for_labels(axes: Axes) -> None:
    left, right = axes.get_xlim()
    if axes.get_xscale() == "log":
        axes.set_xlim(left, right * (right / left) ** 0.12)
    else:
        axes.set_xlim(left, right + 0.12 * (right - left))


def _hollow(point: Point, series: Series) -> bool:
    return point.unsteady or (series.own and point.ok is None)


def _limits(axes: Axes, trace: Trace, metric: Metric) -> None:
    """Draw the device's limits that fit the metric, and % of the lowest on the right."""
    if metric not in ("tflops", "gbps"):
        return
    for limit in trace.runs.ceilings:
        if limit.unit != metric:
            continue
        axes.axhline(limit.value, color="#57606a", linewidth=0.8, linestyle=":")
        words = f"{limit.name} {limit.value:,.0f} ({limit.source})"
        axes.annotate(
            _plain(words),
            (0.01, limit.value),
            (0, 2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            fontsize=7,
            color="#57606a",
        )
    lowest = ceiling(trace.runs.ceilings, metric)
    if lowest:

        def percent(value: Any) -> Any:
            return 100 * value / lowest

        def rate(share: Any) -> Any:
            return share * lowest / 100

        right = axes.secondary_yaxis("right", functions=(percent, rate))
        right.set_ylabel("% of the lower limit", fontsize=8)


def _roofs(axes: Axes, trace: Trace, intensities: Sequence[float]) -> None:
    low, high = min(intensities) / 4, max(intensities) * 4
    steps = [low * (high / low) ** (i / 60) for i in range(61)]
    top = ceiling(trace.runs.ceilings, "tflops") or math.inf
    for limit in trace.runs.ceilings:
        words = _plain(f"{limit.name} ({limit.source})")
        if limit.unit == "tflops":
            axes.axhline(limit.value, color="#57606a", linewidth=0.8, label=words)
        else:
            roof = [min(top, limit.value * step / 1000) for step in steps]
            axes.plot(steps, roof, color="#57606a", linewidth=0.8, linestyle="--", label=words)


def _legend(axes: Axes, found: Sequence[Series], drawn: int) -> None:
    missing = [series for series in found if series.error]
    for series in missing:
        axes.plot([], [], linestyle="none", label=_plain(f"{series.name}: {series.error}"))
    handles, labels = axes.get_legend_handles_labels()
    if drawn <= LABELLED_SERIES:  # then labels at the line ends name what is drawn
        known = {_plain(f"{series.name}: {series.error}") for series in missing}
        pairs = [pair for pair in zip(handles, labels, strict=True) if pair[1] in known]
        handles, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if handles:
        axes.legend(handles, labels, frameon=False, fontsize=8)


def _device(trace: Trace) -> str:
    own = [bench for bench in trace.runs.benches if bench.kind == "self" and bench.env]
    return own[-1].env.device if own and own[-1].env else trace.kernel.target


def _plain(text: str) -> str:
    """Return text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


def _frame(axes: Axes) -> None:
    axes.grid(axis="both", color="#d0d7de", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines["top"].set_visible(False)
