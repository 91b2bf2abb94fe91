"""Pictures of arrays, as SVG: which program touches which element, and which elements are wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from workbench.puzzles.trial import Trial

#: Tints on which dark letters can be read; neighbours differ in lightness too.
TINTS = (
    "#9CCBEA", "#F7D7C0", "#86CDB4", "#F3DCEA", "#D9D9D9", "#F0E49B", "#BDB4E0", "#D5EDB0",
    "#F2B5A7", "#B9E3E6",
)  # fmt: skip
#: Wrong elements are hatched: a colour alone says nothing to who cannot see it.
WRONG, RIGHT = "url(#puzzle-wrong)", "#E3E8EC"
_HATCH = (
    '<defs><pattern id="puzzle-wrong" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" fill="#F5A26B"/><path d="M0 0l6 6M0 6l6 -6" stroke="#7A2E00" '
    'stroke-width="0.8"/></pattern></defs>'
)
#: Pixels of a cell, by the most columns, and twice the most rows, for which it is so large.
_SIZES = ((48, 20), (96, 12), (128, 7))
#: Rows and columns that are drawn.
_MOST = (64, 128)

Key = tuple[int, ...]


def touched_svg(trial: Trial) -> str:
    """Return the picture of a launch: each array, each element in the colour of its programs."""
    parts: list[_Grid] = []
    keys: dict[Hashable, int] = {}
    for name, held in trial.data.items():
        if held.role == "scratch" or not held.values.size:
            continue
        cells = _programs(trial, name)
        for key in cells.values():
            keys.setdefault(key, len(keys))
        parts.append(_Grid(name, held.values.shape, cells))
    words = "a number is a program's, 2× stands for two programs, white is touched by nobody"
    said = f"Which program touches which element, {trial.case}: {words}"

    def fill(key: Hashable) -> str:
        return TINTS[keys[key] % len(TINTS)]

    return _drawn(parts, fill, said, after=words)


def wrong_svg(name: str, wrong: np.ndarray[Any, Any]) -> str:
    """Return the picture of an output: wrong elements are crossed."""
    if not wrong.size:
        return ""
    cells = {tuple(map(int, i)): ((1,) if wrong[i] else (0,)) for i in np.ndindex(wrong.shape)}
    count = int(np.count_nonzero(wrong))
    said = f"{name}: {count} of {wrong.size} elements are wrong (hatched)"
    grid = _Grid(said, wrong.shape, cells, labelled=False)
    return _drawn([grid], lambda key: WRONG if key == (1,) else RIGHT, said, _HATCH)


def _programs(trial: Trial, name: str) -> dict[tuple[int, ...], Key]:
    """Return the programs that touch each element of an array."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for access in trial.accesses:
        if access.live and access.argument == name:
            found[access.element].add(access.program)
    places = {element: trial.index_of(name, element) for element in found}
    return {index: tuple(sorted(found[e])) for e, index in places.items() if index is not None}


class _Grid:
    """An array as rows of cells, and what runs of equal ones are labelled with."""

    def __init__(
        self, name: str, shape: Sequence[int], cells: dict[Any, Any], *, labelled: bool = True
    ) -> None:
        self.name = name
        rows, columns = (1, *shape)[-2:]
        self.rows, self.columns = min(rows, _MOST[0]), min(columns, _MOST[1])
        self.cut = (self.rows, self.columns) != (rows, columns)
        flat = len(shape) < 2
        self.table = [
            [cells.get((c,) if flat else (r, c)) for c in range(self.columns)]
            for r in range(self.rows)
        ]
        self.size = next(size for most, size in _SIZES if max(self.columns, 2 * self.rows) <= most)
        self.labelled = labelled

    def runs(self) -> Iterator[tuple[int, int, int, Any]]:
        """Yield (row, first column, columns, key) of neighbours that are equal."""
        for r, row in enumerate(self.table):
            start = 0
            for c in range(1, len(row) + 1):
                if c == len(row) or row[c] != row[start]:
                    yield r, start, c - start, row[start]
                    start = c

    def labels(self) -> Iterator[tuple[float, int, str]]:
        """Yield (column, row, text): one for each run that does not go on from the row above."""
        for r, first, count, key in self.runs():
            above = self.table[r - 1][first] if r else None
            if self.labelled and key and key != above:
                yield first + count / 2, r, _label(key, count * self.size)


def _label(key: Key, room: int) -> str:
    text = "+".join(map(str, key))
    short = text if len(text) * 7 <= room else f"{len(key)}×" if len(key) > 1 else text
    return short if len(short) * 6 <= room else ""


def _drawn(
    parts: Sequence[_Grid], fill: Callable[[Hashable], str], said: str, before: str = "",
    after: str = "",
) -> str:  # fmt: skip
    body = [before] if before else []
    top, width = 6, 320
    for grid in parts:
        size = grid.size
        cut = " (the first rows and columns)" if grid.cut else ""
        body.append(f'<text x="8" y="{top + 12}">{escape(grid.name + cut)}</text>')
        top += 18
        paths: defaultdict[str, list[str]] = defaultdict(list)
        for r, first, count, key in grid.runs():
            colour = "#ffffff" if key is None else fill(key)
            step = f"M{8 + first * size} {top + r * size}h{count * size}v{size}h-{count * size}z"
            paths[colour].append(step)
        body += [f'<path fill="{c}" d="{"".join(steps)}"/>' for c, steps in paths.items()]
        body.append(_lines(grid, top))
        for column, row, text in grid.labels():
            x, y = 8 + column * size, top + (row + 0.5) * size + 4
            body.append(f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>')
        top += grid.rows * size + 8
        width = max(width, grid.columns * size + 16)
    if after:
        body.append(f'<text x="8" y="{top + 10}" fill="#57606a">{escape(after)}</text>')
        top, width = top + 16, max(width, 6 * len(after) + 16)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{top + 4}" '
        f'viewBox="0 0 {width} {top + 4}" font-family="system-ui, sans-serif" font-size="11" '
        f'fill="#1f2328"><title>{escape(said)}</title>'
        f'<rect width="{width}" height="{top + 4}" fill="#ffffff"/>{"".join(body)}</svg>'
    )


def _lines(grid: _Grid, top: int) -> str:
    """Return the lines between cells."""
    size, wide, high = grid.size, grid.columns * grid.size, grid.rows * grid.size
    down = "".join(f"M{8 + c * size} {top}v{high}" for c in range(grid.columns + 1))
    across = "".join(f"M8 {top + r * size}h{wide}" for r in range(grid.rows + 1))
    width = 1 if size >= 20 else 0.3
    return f'<path d="{down}{across}" stroke="#6e7781" stroke-width="{width}" fill="none"/>'
