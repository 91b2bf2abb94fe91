"""Plots for saved notebooks and files: throughput against baselines, and small-grid accesses.

Everything is drawn from a Trace. Colours are Okabe-Ito's, at least 3 : 1 against white; series also
differ by marker and dash. Wrong points are crosses, unchecked or unsteady ones hollow.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.trace import Bench, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1)))
UNITS = {"tflops": "TFLOP/s", "gbps": "GB/s", "ms": "ms"}


def metric_of(bench: Bench) -> str:
    """Return the metric a series is shown in: its own, or what its counts allow."""
    if bench.metric in ("tflops", "gbps", "ms"):
        return bench.metric
    if any(bench.flops):
        return "tflops"
    return "gbps" if any(bench.bytes) else "ms"


def values(bench: Bench, metric: str, quantile: int = 1) -> list[float]:
    """Return a series in a metric; `quantile` is 0 (20 %), 1 (median) or 2 (80 %) of the time.

    1 GB is 10^9 bytes. Points without a count of work are NaN.
    """
    result: list[float] = []
    work = {"tflops": bench.flops, "gbps": bench.bytes}.get(metric)
    for index, times in enumerate(bench.milliseconds):
        if work is None:
            result.append(times[quantile])
            continue
        amount = work[index] if index < len(work) else None
        scale = 1e9 if metric == "tflops" else 1e6
        result.append(math.nan if amount is None else amount / (times[quantile] * scale))
    return result


def throughput_figure(trace: Trace) -> Figure:
    """Return the throughput plot of a trace's latest benchmark; raises ValueError without one."""
    from matplotlib.figure import Figure

    series = [bench for bench in trace.runs.benches if bench.x]
    if not series:
        raise ValueError(f"{trace.kernel.name} has no benchmark to plot; add --bench")
    metric = metric_of(series[0])
    figure = Figure(figsize=(6.4, 3.6), dpi=96, layout="constrained")
    axes = figure.subplots()
    styles = zip(
        itertools.cycle(COLOURS), itertools.cycle(MARKERS), itertools.cycle(DASHES), strict=False
    )
    positions = _positions(series[0].x)
    for bench, (colour, marker, dash) in zip(series, styles, strict=False):
        _draw(axes, bench, metric, positions, colour, marker, dash)
    _label_axis(axes, series[0], positions)
    axes.set_ylabel(UNITS[metric])
    axes.set_ylim(bottom=0)
    for ceiling in trace.runs.ceilings:
        if ceiling.unit == metric:
            axes.axhline(ceiling.value, color="#57606a", linewidth=0.8)
            label = f"{ceiling.name} {ceiling.value:.0f} ({ceiling.source})"
            axes.annotate(label, (0.01, ceiling.value), xycoords=("axes fraction", "data"), size=7)
    axes.set_title(f"{trace.kernel.name} · {trace.kernel.target}", size=10)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _draw(
    axes: Axes,
    bench: Bench,
    metric: str,
    positions: Sequence[float],
    colour: str,
    marker: str,
    dash: Any,
) -> None:
    middle = values(bench, metric)
    ends = (values(bench, metric, 0), values(bench, metric, 2))
    low = [min(pair) for pair in zip(*ends, strict=True)]
    high = [max(pair) for pair in zip(*ends, strict=True)]
    error = [
        [max(0.0, m - bottom) for m, bottom in zip(middle, low, strict=True)],
        [max(0.0, top - m) for m, top in zip(middle, high, strict=True)],
    ]
    label = bench.name if not bench.error else f"{bench.name}: {bench.error}"
    axes.errorbar(
        positions, middle, yerr=error, color=colour, linestyle=dash, linewidth=1.4,
        elinewidth=0.8, capsize=2, label=label,
    )  # fmt: skip
    for index, (x, y) in enumerate(zip(positions, middle, strict=True)):
        ok = bench.ok[index] if index < len(bench.ok) else None
        unsteady = index < len(bench.unsteady) and bench.unsteady[index]
        hollow = (ok is None and bench.kind == "self") or unsteady
        face = "white" if hollow else colour
        shape = "X" if ok is False else marker
        edge = "#9a1b1b" if ok is False else colour
        axes.plot([x], [y], marker=shape, markerfacecolor=face, markeredgecolor=edge, markersize=6)
        if ok is False:
            axes.annotate("wrong result", (x, y), size=7, color=edge)


def _positions(x: Sequence[Any]) -> list[float]:
    if all(isinstance(value, (int, float)) for value in x):
        return [float(value) for value in x]
    return [float(index) for index in range(len(x))]


def _label_axis(axes: Axes, bench: Bench, positions: Sequence[float]) -> None:
    axes.set_xlabel(bench.axis or "launch")
    pairs = list(itertools.pairwise(positions))
    ratios = [after / before for before, after in pairs if before > 0]
    geometric = len(ratios) > 1 and len(ratios) == len(pairs) and max(ratios) < 1.01 * min(ratios)
    if geometric:
        axes.set_xscale("log", base=2)
    if len(positions) <= 12:
        axes.set_xticks(positions, [_short(value) for value in bench.x], size=8)
        axes.minorticks_off()


def _short(value: Any) -> str:
    if isinstance(value, int) and value >= 2**20 and value % 2**20 == 0:
        return f"{value >> 20}Mi"
    if isinstance(value, int) and value >= 2**10 and value % 2**10 == 0:
        return f"{value >> 10}Ki"
    return str(value)


def access_figure(trace: Trace) -> Figure:
    """Draw which program reads and writes which element, from the recorded accesses.

    One row of boxes per array parameter, one box per element, coloured by program; elements that a
    masked-off lane pointed at are hatched. Raises ValueError where nothing was recorded.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    recorded = [entry for entry in trace.access if entry.addr]
    if not recorded:
        raise ValueError(f"no accesses of {trace.kernel.name} were recorded; use the interpreter")
    rows = [(entry, param) for entry in recorded for param in _arrays(entry.addr)]
    widest = 1 + max(access[3] for entry in recorded for access in entry.addr)
    figure = Figure(figsize=(min(10.0, 1.6 + 0.55 * widest), 0.6 + 0.75 * len(rows)), dpi=96)
    axes = figure.subplots()
    programs: set[int] = set()
    for row, (entry, param) in enumerate(rows):
        axes.text(-0.3, -row + 0.35, f"{entry.direction} {param}", ha="right", va="center", size=9)
        for program, lane, name, element, live in entry.addr:
            if name != param:
                continue
            programs.add(program)
            colour = COLOURS[program % len(COLOURS)] if live else "#d0d7de"
            axes.add_patch(
                Rectangle(
                    (element + 0.05, -row), 0.9, 0.7, facecolor=colour, edgecolor="#57606a",
                    alpha=0.85 if live else 0.5, hatch=None if live else "///",
                )
            )  # fmt: skip
            text = f"[{element}]\nlane {lane}" if live else "masked\noff"
            axes.text(
                element + 0.5, -row + 0.35, text, ha="center", va="center", size=7,
                color="white" if live else "#24292f",
            )  # fmt: skip
    for number, program in enumerate(sorted(programs)):
        x = number * max(1.6, widest / max(len(programs), 1))
        axes.text(x, 1.05, f"■ program {program}", color=COLOURS[program % len(COLOURS)], size=9)
    axes.set_xlim(-2.6, widest + 0.3)
    axes.set_ylim(-len(rows) + 0.9, 1.4)
    axes.set_axis_off()
    return figure


def _arrays(addresses: Sequence[tuple[int, int, str, int, bool]]) -> list[str]:
    return list(dict.fromkeys(access[2] for access in addresses))


def png(figure: Figure) -> bytes:
    """Return the figure as PNG with a small palette (at most about 40 kB)."""
    from PIL import Image

    raw = io.BytesIO()
    figure.savefig(raw, format="png")
    raw.seek(0)
    small = io.BytesIO()
    Image.open(raw).convert("RGB").quantize(64).save(small, format="png", optimize=True)
    return small.getvalue()


def svg(figure: Figure) -> str:
    """Return the figure as SVG text."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()
