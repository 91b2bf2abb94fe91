"""A picture of which program touches which element, for small grids.

Drawn from the accesses that the interpreter recorded in the Trace. Colours are Okabe-Ito's, at
least 3 : 1 against white; a lane that is masked off is hatched, and drawn past the last element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from workbench.trace import MemoryAccess, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Behind words on hatching, which could not be read on it.
_CLEAR = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")
MOST_BOXES = 2_000


class _Box(NamedTuple):
    program: int
    lane: int
    element: int
    live: bool


def access_figure(trace: Trace) -> Figure:
    """Return the picture: one row per load or store, one box per element, coloured by program.

    Raises ValueError where nothing was recorded, or too much to draw.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows = [
        (entry, parameter, list(boxes))
        for entry in trace.access
        for parameter, boxes in _by_parameter(entry)
    ]
    count = sum(len(boxes) for _, _, boxes in rows)
    if not count:
        raise ValueError(
            f"no accesses of {trace.kernel.name} were recorded; run it with --target interpreter"
        )
    if count > MOST_BOXES:
        raise ValueError(f"{count:,} accesses are too many to draw; use a smaller grid")
    widest = 1 + max(box.element for _, _, boxes in rows for box in boxes)
    programs = sorted({box.program for _, _, boxes in rows for box in boxes})
    figure = Figure(figsize=(min(14.0, 1.8 + 0.55 * widest), 0.6 + 0.75 * len(rows)), dpi=96)
    axes = figure.subplots()
    for row, (entry, parameter, boxes) in enumerate(rows):
        axes.text(
            -0.3, 0.35 - row, f"{entry.direction} {parameter}", ha="right", va="center", size=9
        )
        for box in boxes:
            colour = COLOURS[programs.index(box.program) % len(COLOURS)]
            axes.add_patch(
                Rectangle(
                    (box.element + 0.05, -row), 0.9, 0.7,
                    facecolor=colour if box.live else "white",
                    edgecolor=colour, hatch=None if box.live else "///",
                )
            )  # fmt: skip
            axes.text(
                box.element + 0.5, 0.35 - row,
                f"[{box.element}]\nlane {box.lane}" if box.live else f"off\nlane {box.lane}",
                ha="center", va="center", size=7, color="white" if box.live else "#24292f",
                bbox=None if box.live else _CLEAR,
            )  # fmt: skip
    for number, program in enumerate(programs[:8]):
        colour = COLOURS[number % len(COLOURS)]
        axes.text(number * 2.2, 1.05, f"■ program {program}", color=colour, size=9)
    axes.set_xlim(-2.6, max(widest, 2.2 * min(len(programs), 8)) + 0.3)
    axes.set_ylim(0.9 - len(rows), 1.4)
    axes.set_axis_off()
    return figure


def _by_parameter(entry: MemoryAccess) -> Iterator[tuple[str, list[_Box]]]:
    """Yield (array parameter, boxes) of one op.

    A lane that is off may point outside every array; then it is drawn past the last element, where
    it would have gone if its program's elements are consecutive.
    """
    names = list(dict.fromkeys(access[2] for access in entry.addr if access[2]))
    for name in names:
        inside = [_Box(p, lane, e, live) for p, lane, n, e, live in entry.addr if n == name]
        first = {}
        for box in inside:
            first.setdefault(box.program, box)
        outside = [
            _Box(p, lane, first[p].element + lane - first[p].lane, live)
            for p, lane, n, _, live in entry.addr
            if not n and p in first and len(names) == 1
        ]
        yield name, inside + outside
