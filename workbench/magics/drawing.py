"""Tiles, their places and maps of numbers as text, and as SVG that is readable by itself.

A tile is drawn as a grid of cells with a word each ("w0 l5"): cells side by side with one word are
one box. Colours repeat what the words say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import log
from typing import Any

from workbench.magics.texts import Shown

#: The most rows and columns that are drawn; the rest is counted.
ROWS, COLUMNS = 16, 32
#: Readable under black text, and different without hue as the words are.
_COLOURS = (
    "#cfe8ff", "#ffe3b3", "#c9efd9", "#f6d5e6", "#fff7b0", "#e0d8f5", "#ffd6c9", "#dfe7ea",
)  # fmt: skip


class Drawn(Shown):
    """A text with a picture: the picture in a notebook, the text everywhere else."""

    pictures: tuple[str, ...]
    __slots__ = ("pictures",)

    def __new__(cls, text: str, pictures: Sequence[str] = ()) -> Drawn:
        """Return the text; `pictures` are SVG elements."""
        drawn: Any = super().__new__(cls, text, "text")
        drawn.pictures = tuple(pictures)
        return drawn

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from workbench.viewer.styles import TEXT

        body = "".join(f'<div style="overflow:auto">{picture}</div>' for picture in self.pictures)
        html = f'{body}<pre style="{TEXT}">{escape(str(self))}</pre>'
        return {"text/plain": str(self), "text/html": html}


Cell = Callable[[int, int], tuple[str, int]]


def grid_text(
    shape: tuple[int, int], cell: Cell, alone: str = "row 0", start: tuple[int, int] = (0, 0)
) -> str:
    """Return a grid as text: runs of cells with one word are written once, with their columns.

    Where there is one row its columns are what `alone` says. `start`: row and column of the first
    cell, of a part of a tile.
    """
    top, left = start
    rows, columns = _telling(shape, cell)
    texts: list[tuple[int, str]] = []
    for row in rows:
        runs = _runs(columns, [cell(row, column)[0] for column in columns])
        texts.append(
            (row, "  ".join(f"{_range(a + left, b + left)} {word}" for a, b, word in runs))
        )
    if shape[0] == 1:
        more = [f"  ({_drawn(columns, shape[1], left)})"] * (len(columns) < shape[1])
        return "\n".join([f"  {alone:<11} {texts[0][1]}", *more])
    lines = [
        f"  row {_range(a + top, b + top):<7} {text}"
        for a, b, text in _runs([row for row, _ in texts], [text for _, text in texts])
    ]
    more = [
        _drawn(drawn, count, begin, f" {what}")
        for what, drawn, count, begin in (
            ("rows", rows, shape[0], top), ("columns", columns, shape[1], left)
        )
        if len(drawn) < count
    ]  # fmt: skip
    return "\n".join([*lines, *([f"  ({'; '.join(more)})"] if more else [])])


def _telling(shape: tuple[int, int], cell: Cell) -> tuple[list[int], list[int]]:
    """Return which rows and columns are drawn: all, or the first and those that bring new colours.

    Where a place is told by the XOR of what row and column contribute, as in a layout, one column
    says which colours a row brings.
    """
    return (
        _chosen(shape[0], ROWS, lambda row: cell(row, 0)[1]),
        _chosen(shape[1], COLUMNS, lambda column: cell(0, column)[1]),
    )


def _chosen(count: int, most: int, colour: Callable[[int], int]) -> list[int]:
    if count <= most:
        return list(range(count))
    found = dict.fromkeys(range(most // 2))
    known = {colour(number) for number in found}
    for number in range(most // 2, count):
        if len(found) < most and colour(number) not in known:
            known.add(colour(number))
            found[number] = None
    for number in range(count):
        if len(found) < most:
            found[number] = None
    return sorted(found)


def _drawn(numbers: Sequence[int], count: int, start: int, what: str = "") -> str:
    """Say which of many are drawn: "the first 16 of 64 rows", "0-12, 16, 32 and 48 of 64 rows"."""
    *ranges, last = (
        _range(a + start, b + start) for a, b, _ in _runs(numbers, [""] * len(numbers))
    )
    said = f"{', '.join(ranges)} and {last}" if ranges else f"the first {len(numbers):,}"
    return f"{said} of {count:,}{what}"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _runs(numbers: Sequence[int], words: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the runs of numbers that follow each other and have one word."""
    found: list[tuple[int, int, str]] = []
    for number, word in zip(numbers, words, strict=True):
        if found and found[-1][1:] == (number - 1, word):
            found[-1] = (found[-1][0], number, word)
        else:
            found.append((number, number, word))
    return found


def grid_svg(
    shape: tuple[int, int], cell: Cell, title: str, start: tuple[int, int] = (0, 0)
) -> str:
    """Return a grid as SVG: a box for each run of cells with one word; `start` as of a text."""
    shown = _telling(shape, cell)
    rows, columns = map(len, shown)
    at = {column: place for place, column in enumerate(shown[1])}
    boxes: list[tuple[int, int, int, str, int]] = []
    for place, row in enumerate(shown[0]):
        cells = [cell(row, column) for column in shown[1]]
        for first, last, word in _runs(shown[1], [word for word, _ in cells]):
            boxes.append((place, at[first], at[last], word, cells[at[first]][1]))
    # Narrow runs need room for their words.
    each = max((-(-(6 * len(word) + 6) // (b - a + 1)) for _, a, b, word, _ in boxes), default=8)
    wide, high = max(8, min(each, 48)), 16
    left, top = 34, 18
    width, height = left + columns * wide + 2, top + rows * high + 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        f'<g stroke="#8c959f" stroke-width=".5">'
    ]
    outlines: dict[str, str] = {}  # one path a colour: a box of its own for each cell is long
    for row, first, last, _, colour in boxes:
        x, span = left + first * wide, (last - first + 1) * wide
        fill = _COLOURS[colour % len(_COLOURS)]
        box = f"M{x} {top + row * high}h{span}v{high}h-{span}z"
        outlines[fill] = outlines.get(fill, "") + box
    parts += [f'<path fill="{fill}" d="{path}"/>' for fill, path in outlines.items()]
    parts.append('</g><g fill="#24292f">')
    for row, first, last, word, _ in boxes:
        if len(word) * 6 <= (last - first + 1) * wide:
            parts.append(f'<text x="{left + first * wide + 3}" y="{top + row * high + 12}">'
                         f"{escape(word)}</text>")  # fmt: skip
    parts += [
        f'<text x="2" y="{top + place * high + 12}">{row + start[0]}</text>'
        for place, row in enumerate(shown[0])
    ]
    parts += [  # a line where rows or columns are left out
        f'<path stroke="#24292f" stroke-width="1.5" d="M{left} {top + place * high}'
        f'h{columns * wide}"/>'
        for place in range(1, rows)
        if shown[0][place] != shown[0][place - 1] + 1
    ]
    parts += [
        f'<path stroke="#24292f" stroke-width="1.5" d="M{left + place * wide} {top}'
        f'v{rows * high}"/>'
        for place in range(1, columns)
        if shown[1][place] != shown[1][place - 1] + 1
    ]
    step = max(1, columns // 8)
    parts += [
        f'<text x="{left + place * wide + 2}" y="12">{shown[1][place] + start[1]}</text>'
        for place in range(0, columns, step)
    ]
    return "".join([*parts, "</g></svg>"])


def chart_text(
    rows: Sequence[tuple[str, int, int, int, int]], end: int, total: int, width: int = 48
) -> str:
    """Return intervals as text: (name, offset, bytes, first, last) on a line of `end` steps."""
    lines: list[str] = []
    longest = max((len(name) for name, *_ in rows), default=0)
    for name, offset, size, first, last in rows:
        a, b = (round(step * (width - 1) / max(1, end)) for step in (first, last))
        bar = " " * a + "█" * max(1, b - a + 1)
        place = f"{offset:>7,} … {offset + size:>7,} B"
        lines.append(f"  {name:<{longest}}  {place}  |{bar:<{width}}|")
    lines.append(f"  {'':<{longest}}  {total:,} B in all; from the first op to the last")
    return "\n".join(lines)


def chart_svg(
    rows: Sequence[tuple[str, int, int, int, int]], end: int, total: int, title: str
) -> str:
    """Return intervals as SVG: time goes right, bytes go down."""
    width, height, left, top = 640, max(60, min(320, 40 * len(rows))), 70, 18
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 4}" '
        f'height="{top + height + 4}" role="img" font-family="monospace" font-size="10">'
        f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="{left}" y="12" fill="#24292f">program order →</text>'
    ]
    for number, (name, offset, size, first, last) in enumerate(rows):
        x, y = left + width * first / max(1, end), top + height * offset / max(1, total)
        wide, high = max(4.0, width * (last - first) / max(1, end)), height * size / max(1, total)
        fill = _COLOURS[number % len(_COLOURS)]
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{fill}" '
            f'stroke="#57606a" stroke-width=".5"><title>{escape(name)}: {size:,} B</title></rect>'
            f'<text x="2" y="{y + 10:.1f}" fill="#24292f">{offset:,} B</text>'
            f'<text x="{x + 3:.1f}" y="{y + 11:.1f}" fill="#24292f">{escape(name[:60])}</text>'
        )
    return "".join([*parts, "</svg>"])


def heat_svg(
    title: str,
    names: tuple[str, str],
    values: tuple[Sequence[str], Sequence[str]],
    cells: Sequence[tuple[str, float | None, str, bool]],
    *,
    less: bool,
    large: bool,
) -> str:
    """Return a heat map as SVG: pale is good, dark is not, and every square has its number.

    Args:
        title: above it.
        names: of the rows' and the columns' axis.
        values: words of the rows and of the columns.
        cells: row by row: word, number (None: no colour), tooltip, whether it is marked.
        less: whether less is better.
        large: with room for numbers of four digits in a large type.
    """
    wide, high, size = (58, 30, 13) if large else (38, 20, 10)
    rows, columns = values
    left = 12 + 7 * max(len(word) for word in (*rows, names[0]))
    top = 56 if large else 50
    width = max(left + len(columns) * wide + 4, 7 * len(title) + 12)
    height = top + len(rows) * high + 4
    known = [number for _, number, _, _ in cells if number is not None]
    least, most = (min(known), max(known)) if known else (0.0, 0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="{size}">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        f'<g fill="#24292f"><text x="4" y="14" font-weight="bold" font-size="12">{escape(title)}'
        f'</text><text x="{left}" y="30" font-size="10">{escape(names[1])} →</text>'
        f'<text x="4" y="{top - 6}" font-size="10">{escape(names[0])}{" ↓" if names[0] else ""}'
        "</text>"
    ]
    parts += [
        f'<text x="{left + n * wide + wide // 2}" y="{top - 6}" text-anchor="middle">'
        f"{escape(column)}</text>"
        for n, column in enumerate(columns)
    ]
    parts += [
        f'<text x="4" y="{top + n * high + high // 2 + 4}">{escape(row)}</text>'
        for n, row in enumerate(rows)
    ]
    for place, (text, number, tip, marked) in enumerate(cells):
        row, column = divmod(place, len(columns))
        x, y = left + column * wide, top + row * high
        edge = ' stroke="#0a3069" stroke-width="2.5"' if marked else ' stroke="#d0d7de"'
        inset = 2 if marked else 0
        parts.append(
            f"<g><title>{escape(tip)}</title>"
            f'<rect x="{x + inset}" y="{y + inset}" width="{wide - 2 * inset}" '
            f'height="{high - 2 * inset}" fill="{_heat(number, least, most, less)}"{edge}/>'
            f'<text x="{x + wide // 2}" y="{y + high // 2 + 4}" text-anchor="middle">'
            f"{escape(text)}</text></g>"
        )
    return "".join([*parts, "</g></svg>"])


def _heat(number: float | None, least: float, most: float, less: bool) -> str:
    """Return a colour between pale, for the best, and one that black text still stands on."""
    if number is None:
        return "#ffffff"
    share = (number - least) / (most - least) if most > least else 0.0
    if least > 0 and most > 4 * least:  # what is many times larger leaves no colours for the rest
        share = log(number / least) / log(most / least)
    share = share if less else 1 - share
    pale, dark = (0xEE, 0xF6, 0xFF), (0x5F, 0xA3, 0xDC)
    return "#" + "".join(
        f"{round(a + (b - a) * share):02x}" for a, b in zip(pale, dark, strict=True)
    )


__all__ = ["Drawn", "chart_svg", "chart_text", "grid_svg", "grid_text", "heat_svg"]
