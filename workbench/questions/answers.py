"""What `%bisect` says: plain data, as text, as JSON, with both tiles as a table and a picture."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from workbench.ir import Module, Op
from workbench.ir.printer import print_rows
from workbench.source import Span
from workbench.source.files import shown_file
from workbench.source.spans import line_of

Verdict = Literal["pass", "lowering", "source", "version", "right", "unknown"]

#: Rows and columns of a table, and of a picture.
ROWS, COLUMNS, CELLS = 6, 6, 48


@dataclass(frozen=True, slots=True)
class OpPlace:
    """An op as answers name it: its text, its id, and its place in the source."""

    text: str
    name: str
    id: int
    span: Span | None

    @property
    def line(self) -> int | None:
        """The source line, None for an op without a place."""
        return self.span.line if self.span is not None else None

    def shown(self) -> list[str]:
        """Return the op and its source line as text."""
        if self.span is None:
            return [f"    {self.text}"]
        width = len(str(self.span.line))
        return [
            f"  --> {self.span}", f"  {self.span.line} | {line_of(self.span).strip()}",
            f"  {'':{width}} = {self.text}",
        ]  # fmt: skip

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        span = self.span
        place = None if span is None else {"file": shown_file(span.file), "line": span.line}
        return {"op": self.id, "name": self.name, "text": self.text, "place": place}


def op_place(op: Op, module: Module) -> OpPlace:
    """Return what answers say of an op of a module."""
    rows = (text.strip() for text, number in print_rows(module) if number == op.id)
    return OpPlace(next(rows, op.name)[:140], op.name, op.id, op.span)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Two tiles beside each other, and where they differ."""

    titles: tuple[str, str]
    one: np.ndarray[Any, Any]
    other: np.ndarray[Any, Any]
    where: np.ndarray[Any, Any]
    numbers: bool = True  # False for pointers, whose values say nothing

    @property
    def first(self) -> tuple[int, ...]:
        """The first place that differs."""
        flat = int(np.argmax(self.where)) if self.where.size else 0
        shape = self.where.shape
        return tuple(map(int, np.unravel_index(flat, shape))) if shape else ()

    def text(self) -> str:
        """Return a sentence, a picture in letters, and a table of the elements around the first."""
        count, total = int(np.count_nonzero(self.where)), self.where.size
        index = f"[{', '.join(map(str, self.first))}]" if self.first else ""
        parts = [f"{count:,} of {total:,} elements differ, the first one is {index or 'the value'}"]
        grid = self._cells()
        if total > 1 and grid.shape[0] > 1:
            parts += ["  " + "".join("#" if cell else "." for cell in row) for row in grid]
        tables = [self._table(title, tile) for title, tile in
                  zip(self.titles, (self.one, self.other), strict=True)]  # fmt: skip
        width = max(map(len, tables[0]), default=0)
        for left, right in zip(*tables, strict=False):
            parts.append(f"  {left:<{width}}   {right}")
        return "\n".join(parts)

    def _corner(self) -> tuple[int, int]:
        flat = self.where.reshape(-1, self.where.shape[-1]) if self.where.ndim else None
        if flat is None:
            return 0, 0
        row, column = np.unravel_index(int(np.argmax(flat)), flat.shape)
        return max(0, int(row) - ROWS // 2), max(0, int(column) - COLUMNS // 2)

    def _table(self, title: str, tile: np.ndarray[Any, Any]) -> list[str]:
        row, column = self._corner()
        held = np.asarray(tile)
        flat = _as_rows(held)
        wrong = (
            self.where.reshape(-1, self.where.shape[-1])
            if self.where.ndim
            else self.where.reshape(1, 1)
        )
        lines = [title]
        if wrong.shape != flat.shape:
            wrong = np.ones(flat.shape, bool)
        for i in range(row, min(row + ROWS, flat.shape[0])):
            cells = [
                _number(flat[i, j]) + ("*" if wrong[i, j] else " ")
                for j in range(column, min(column + COLUMNS, flat.shape[1]))
            ]
            lines.append(" ".join(f"{cell:>10}" for cell in cells))
        return lines

    def _cells(self) -> np.ndarray[Any, Any]:
        """Return where they differ, coarsened to what a picture holds."""
        flat = (
            self.where.reshape(-1, self.where.shape[-1])
            if self.where.ndim
            else self.where.reshape(1, 1)
        )
        rows, columns = (
            min(n, limit) for n, limit in zip(flat.shape, (CELLS // 3, CELLS), strict=True)
        )
        places = np.argwhere(flat)
        grid = np.zeros((rows, columns), bool)
        if places.size:
            grid[places[:, 0] * rows // flat.shape[0], places[:, 1] * columns // flat.shape[1]] = (
                True
            )
        return grid

    def svg(self) -> str:
        """Return where they differ as a picture; its title says the same in words."""
        grid = self._cells()
        size = 8
        rows, columns = grid.shape
        marks = "".join(
            f'<rect x="{x * size}" y="{y * size}" width="{size}" height="{size}" fill="#D55E00"/>'
            for y, x in np.argwhere(grid)
        )
        said = html.escape(self.text().split("\n")[0])
        return (
            f'<svg role="img" width="{columns * size}" height="{rows * size}" '
            f'style="background:#0072B222"><title>{said}</title>{marks}</svg>'
        )

    def data(self) -> dict[str, Any]:
        """Return it as plain data: counts, the first element, both its values."""
        first = self.first
        return {
            "titles": list(self.titles), "shape": list(self.where.shape),
            "differ": int(np.count_nonzero(self.where)), "first": list(first),
            "values": [_plain(np.asarray(t)[first] if np.shape(t) == self.where.shape else None)
                       for t in (self.one, self.other)],
        }  # fmt: skip


def _as_rows(tile: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a tile as rows of its last axis."""
    return tile.reshape(-1, tile.shape[-1]) if tile.ndim else tile.reshape(1, 1)


def _number(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    if kind == "b":
        return "1" if value else "0"
    return f"{value:.5g}" if kind == "f" else str(int(value))[-8:]


def _plain(value: Any) -> Any:
    if value is None:
        return None
    plain = np.asarray(value).item()
    return plain if not isinstance(plain, float) or np.isfinite(plain) else str(plain)


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A source line that a wrong element depends on."""

    span: Span
    text: str
    value: str
    rounds: int
    remarks: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "file": shown_file(self.span.file), "line": self.span.line, "text": self.text,
            "value": self.value, "executions": self.rounds, "remarks": list(self.remarks),
        }  # fmt: skip


@dataclass(slots=True)
class Answer:
    """Where the first wrong op is.

    `verdict`: "pass" and "lowering" are the compiler's mistakes, "source" and "version" the
    kernel's, "right" found nothing, "unknown" cannot tell. `sentences` say it in words; `op` is
    the op that is named and `instead` what stands in its place.
    """

    kernel: str
    target: str
    verdict: Verdict
    sentences: list[str] = field(default_factory=list[str])
    program: tuple[int, ...] | None = None
    pass_name: str = ""
    rule: str = ""
    op: OpPlace | None = None
    instead: OpPlace | None = None
    tiles: Tiles | None = None
    rows: list[SliceRow] = field(default_factory=list[SliceRow])
    element: str = ""
    notes: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The answer as text."""
        parts = [*self.sentences]
        if self.op is not None:
            parts += self.op.shown()
        if self.instead is not None:
            parts += ["instead:" if self.op is not None else "op:", *self.instead.shown()]
        if self.tiles is not None and self.tiles.numbers:
            parts += ["", self.tiles.text()]
        if self.rows:
            parts += ["", f"what {self.element} was made of, the likeliest line first:"]
            width = max(len(str(row.span.line)) for row in self.rows)
            for row in self.rows:
                rounds = f" ({row.rounds:,} times)" if row.rounds > 1 else ""
                parts.append(f"  {row.span.line:>{width}} | {row.text}")
                said = "; ".join(filter(None, (row.value + rounds, *row.remarks[:3])))
                parts.append(f"  {'':{width}} = {said}")
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return the answer as plain data, for JSON."""
        return {
            "kernel": self.kernel, "target": self.target, "verdict": self.verdict,
            "sentences": self.sentences, "program": self.program, "pass": self.pass_name or None,
            "rule": self.rule or None, "op": None if self.op is None else self.op.data(),
            "instead": None if self.instead is None else self.instead.data(),
            "tiles": None if self.tiles is None else self.tiles.data(),
            "element": self.element or None, "slice": [row.data() for row in self.rows],
            "notes": self.notes,
        }  # fmt: skip

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from workbench.viewer.styles import TEXT

        body = f'<pre style="{TEXT}">{html.escape(self.text)}</pre>'
        picture = self.tiles.svg() if self.tiles is not None and self.tiles.where.size > 1 else ""
        return {"text/plain": self.text, "text/html": body + picture}
