"""Which rows of two texts face each other: by the ops that they came from.

Rows are paired by their ops and their kind first, then by their ops, then by their source line;
those that cross are left out, as few as can be (`longest_rising`), and the next rule is asked for
what stands between those that stay. A row whose pair stands elsewhere has moved.

| kind       | what it is                                                              |
|------------|-------------------------------------------------------------------------|
| same       | both rows say the same but for names of values, registers and addresses |
| changed    | rows of one op, or of one line, that say something else                 |
| removed    | A has it, B has not                                                     |
| added      | B has it, A has not                                                     |
| moved-from | B has it elsewhere; `moved-to` is its other end                         |
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from workbench.questions.pairing import in_order
from workbench.trace.answers import FacingRun

Keys = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a text as rows are paired.

    Attributes:
        ops: that it came from, those of both sides under one number; empty: nobody's.
        line: that it came from, likewise.
        kind: of instruction, "" for notation.
        text: without what a compilation chose freely.
    """

    ops: frozenset[Hashable]
    line: Hashable
    kind: str
    text: str

    @property
    def keys(self) -> Keys:
        """What it is paired by, the surest first; None: not by this."""
        if not self.ops:
            return ("", self.text), ("", self.text.partition(" ")[0]), None
        return ((self.ops, self.kind), self.ops, self.line)


def face(a: Sequence[Row], b: Sequence[Row]) -> tuple[FacingRun, ...]:
    """Return which rows of A and B face each other, every row of both once."""
    pairs = list(_paired(list(range(len(a))), list(range(len(b))), a, b, 0))
    facing_a, facing_b = {i for i, _ in pairs}, {j for _, j in pairs}
    moved = in_order(
        [i for i in range(len(a)) if i not in facing_a and a[i].ops],
        [j for j in range(len(b)) if j not in facing_b and b[j].ops],
        lambda i: (a[i].keys[0], a[i].text),
        lambda j: (b[j].keys[0], b[j].text),
    )
    return runs(_steps(a, b, pairs, dict(moved)))


def _paired(
    a: Sequence[int], b: Sequence[int], rows_a: Sequence[Row], rows_b: Sequence[Row], rule: int
) -> Iterator[tuple[int, int]]:
    """Yield pairs of rows in order; between those of one rule, those of the next."""
    if not a or not b or rule >= 3:
        return
    found = in_order(a, b, lambda i: rows_a[i].keys[rule], lambda j: rows_b[j].keys[rule])
    kept = longest_rising([j for _, j in found])
    start_a, start_b = 0, 0
    places_a, places_b = {i: n for n, i in enumerate(a)}, {j: n for n, j in enumerate(b)}
    for i, j in (found[n] for n in kept):
        end_a, end_b = places_a[i], places_b[j]
        yield from _paired(a[start_a:end_a], b[start_b:end_b], rows_a, rows_b, rule + 1)
        yield i, j
        start_a, start_b = end_a + 1, end_b + 1
    yield from _paired(a[start_a:], b[start_b:], rows_a, rows_b, rule + 1)


def longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return the places of a longest rising part of distinct numbers; O(n log n).

    >>> longest_rising([3, 1, 2, 9, 4])
    [1, 2, 4]
    """
    ends: list[int] = []  # the least last number of a rising part of each length
    at: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        at[length : length + 1] = [place]
    found: list[int] = []
    place = at[-1] if at else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]


def _steps(
    a: Sequence[Row], b: Sequence[Row], pairs: Sequence[tuple[int, int]], moved: dict[int, int]
) -> Iterator[FacingRun]:
    back = {j: i for i, j in moved.items()}
    i, j = 0, 0
    for mine, theirs in [*pairs, (len(a), len(b))]:
        for row in range(i, mine):
            goes = moved.get(row, -1)
            yield ("removed" if goes < 0 else "moved-from"), row, goes, 1
        for row in range(j, theirs):
            came = back.get(row, -1)
            yield ("added" if came < 0 else "moved-to"), came, row, 1
        if mine < len(a):
            same = a[mine].text == b[theirs].text and a[mine].ops == b[theirs].ops
            yield ("same" if same else "changed"), mine, theirs, 1
        i, j = mine + 1, theirs + 1


def runs(steps: Iterable[FacingRun]) -> tuple[FacingRun, ...]:
    """Return steps of one row each, those that go on together as one."""

    def rests(numbered: tuple[int, FacingRun]) -> Hashable:
        number, (kind, i, j, _) = numbered
        return kind, *(place if place < 0 else place - number for place in (i, j))

    found: list[FacingRun] = []
    for _, together in groupby(enumerate(steps), rests):
        rows = [step for _, step in together]
        found.append((*rows[0][:3], len(rows)))
    return tuple(found)


#: What a compilation chooses freely, by stage: names, addresses, registers, debug lines.
_FREE = {
    "tile": re.compile(r"%[\w.]+"),
    "gpu": re.compile(r"%[\w.]+"),
    "llvm": re.compile(r"%[\w.$-]+|![\w.]+|#\d+|, !dbg.*$"),
    "ptx": re.compile(r"%\w+|\$\w+"),
    "sass": re.compile(r"/\*.*?\*/|\bU?R\d+\b|\bU?P\d\b|\bB\d+\b|\.L_\w+"),
    "asm": re.compile(
        r"\.L\w+|%?\b(?:[re]?[abcd]x|[abcd]l|[re]?[sd]il?|r(?:[89]|1[0-5])[dwb]?|[xyz]mm\d+|k[0-7])\b"
    ),
}


def plain_row(text: str, stage: str, layouts: dict[str, str] | None = None) -> str:
    """Return a row without what a compilation chooses freely.

    >>> plain_row("        /*0010*/   IMAD R0, R0, 0x3, R3 ;  /* 0x00 */", "sass")
    'IMAD _, _, 0x3, _ ;'
    """
    for name, meaning in (layouts or {}).items():
        if name in text:
            text = re.sub(rf"{re.escape(name)}(?![\w.])", meaning, text)
    free = _FREE.get(stage)
    if free is not None:
        text = free.sub(lambda found: " " if found[0].startswith("/*") else "_", text)
    return " ".join(text.split())
