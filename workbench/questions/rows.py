"""What rows of a stage are: which line each came from, and its kind of instruction."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from workbench.trace import Trace
from workbench.trace.links import ops_of_rows

#: A line of a source: (source, line); None stands for rows of nobody.
Line = tuple[int, int] | None
_ADDRESS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")


def line_of_ops(trace: Trace) -> dict[int, Line]:
    """Return the source line of each op."""
    return {
        op: (place[0], place[1]) if place[0] >= 0 else None
        for op, place in zip(trace.ops.id, trace.ops.loc, strict=True)
    }


def lines_of_rows(trace: Trace, stage: str) -> list[Line]:
    """Return the source line of each row of a stage: that of its first op that has one."""
    found = trace.stage(stage)
    if found is None:
        return []
    count = trace.strings[found.text].count("\n") + 1
    known = line_of_ops(trace)
    return [
        next((known[op] for op in ops if known.get(op) is not None), None)
        for ops in ops_of_rows(found.rows, count)
    ]


def kinds_by_line(trace: Trace, stage: str) -> dict[Line, Counter[str]]:
    """Return how often each kind of row stands at each line."""
    found: dict[Line, Counter[str]] = defaultdict(Counter)
    rows = trace.text(stage).split("\n")
    for row, line in zip(rows, lines_of_rows(trace, stage), strict=True):
        kind = kind_of(row, stage)
        if kind:
            found[line][kind] += 1
    return dict(found)


def kind_of(row: str, stage: str) -> str:
    """Return what kind of row a row is, "" for one that says nothing of a program.

    >>> kind_of("  %3 = tile.load %0 mask %1 : tile<4xf32>", "tile")
    'tile.load'
    >>> kind_of("  ld.global.v4.b32 {%r1, %r2}, [%rd1];", "ptx"), kind_of("@%p1 bra $L1;", "ptx")
    ('ld.global.v4.b32', 'bra')
    >>> kind_of("        /*0010*/  @!P0 LDG.E R2, [R4.64] ;", "sass")
    'LDG.E'
    """
    if stage in ("tile", "gpu"):
        found = re.search(r"(?:^\s*|= )((?:tile|gpu)\.[\w.]+)", row)
        return found[1] if found else ""
    if stage == "llvm":
        found = re.match(r"\s+(?:%\S+ = )?(?:tail )?([a-z]+)", row)
        return found[1] if found else ""
    row = re.sub(r"/\*.*?\*/", "", row).strip()
    row = re.sub(r"(?i)^\{?\s*@!?%?u?p\w+\s+", "", row)
    found = re.match(r"([A-Za-z][\w.:]*)(?![\w.]*:)", row)
    if not found or row.startswith((".", "//", "#")) or row.rstrip().endswith(":"):
        return ""
    return found[1]


def live_by_line(trace: Trace, writers: Sequence[int]) -> Counter[Line]:
    """Return how many registers each line's instructions wrote, by the addresses of those."""
    places = {
        int(found[1], 16): row
        for row, text in enumerate(trace.text("sass").split("\n"))
        if (found := _ADDRESS.match(text))
    }
    lines = lines_of_rows(trace, "sass")
    return Counter(lines[places[address]] for address in writers if address in places)


def rows_by_line(trace: Trace, stage: str, start: str) -> Counter[Line]:
    """Count a stage's rows of each line whose kind begins so."""
    found: Counter[Line] = Counter()
    for line, kinds in kinds_by_line(trace, stage).items():
        count = sum(n for kind, n in kinds.items() if kind.startswith(start))
        if count:
            found[line] = count
    return found


def shared_by_line(trace: Trace) -> Counter[Line]:
    """Return the bytes of the buffers in shared memory of each line."""
    known = line_of_ops(trace)
    found: Counter[Line] = Counter()
    for buffer in trace.shared:
        found[known.get(buffer.op)] += buffer.bytes
    return found
