"""What kernels print, as rows and as a table by program.

Every target prints one line per element, `pid (0, 0, 0) idx (3,) x: 1.5`. GPUs and compiled CPU
code write such lines to the process's file descriptor 1; the interpreter hands them over.
"""

from __future__ import annotations

import ctypes
import html
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workbench.interrupts import renewed_lock
from workbench.ir import Module
from workbench.ops import DevicePrint

_LINE = re.compile(r"pid \((\d+), (\d+), (\d+)\) (?:idx \(([\d, ]*)\) )?(.*)", re.DOTALL)
#: The most values of one tile, and the most programs, that the table shows.
MOST_VALUES = 64
MOST_PROGRAMS = 64


@dataclass(frozen=True, slots=True)
class Printed:
    """One element that a kernel printed; `index` is () for scalars, `value` "" for plain text."""

    program: tuple[int, int, int]
    index: tuple[int, ...]
    prefix: str
    value: str


def has_prints(module: Module) -> bool:
    """Say whether a kernel prints anything."""
    return any(isinstance(op, DevicePrint) for op in module.walk())


class PrintedTable:
    """What one launch printed: a row for each program, a column for each print.

    Attributes:
        rows: every element that was printed.
        others: lines that are no such element, such as failed assertions.
    """

    def __init__(self, lines: Sequence[str], module: Module) -> None:
        ops = [op for op in module.walk() if isinstance(op, DevicePrint)]
        self.prefixes = list(dict.fromkeys(op.prefix for op in ops))
        longest_first = sorted(self.prefixes, key=len, reverse=True)
        self.lines = list(lines)
        self.rows: list[Printed] = []
        self.others: list[str] = []
        for line in lines:
            row = _row(line, longest_first)
            if row is None:
                self.others.append(line)
            else:
                self.rows.append(row)

    def __bool__(self) -> bool:
        return bool(self.lines)

    def values(self, program: tuple[int, ...], prefix: str) -> list[Printed]:
        """Return what a program printed under a prefix, in the order of the elements."""
        whole = (*program, 0, 0, 0)[:3]
        found = [row for row in self.rows if row.program == whole and row.prefix == prefix]
        return sorted(found, key=lambda row: row.index)

    @property
    def programs(self) -> list[tuple[int, int, int]]:
        """The programs that printed, axis 0 fastest."""
        return sorted({row.program for row in self.rows}, key=lambda program: program[::-1])

    def _cells(self) -> Iterator[tuple[str, list[str]]]:
        programs = self.programs
        axes = max((axis + 1 for p in programs for axis in range(3) if p[axis]), default=1)
        for program in programs[:MOST_PROGRAMS]:
            name = ", ".join(map(str, program[:axes]))
            yield name, [_shown(self.values(program, prefix)) for prefix in self.prefixes]

    def _left_out(self) -> str:
        count = len(self.programs) - MOST_PROGRAMS
        return f"… and {count} more programs" if count > 0 else ""

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(prefix.strip(' :='))}</th>" for prefix in self.prefixes)
        body = "".join(
            f"<tr><td>{name}</td>"
            + "".join(f"<td><pre>{html.escape(text)}</pre></td>" for text in cells)
            + "</tr>"
            for name, cells in self._cells()
        )
        table = f"<table><tr><th>program</th>{head}</tr>{body}</table>" if self.rows else ""
        rest = [*self.others[:MOST_PROGRAMS], self._left_out()]
        return table + "".join(f"<pre>{html.escape(line)}</pre>" for line in rest if line)

    def __repr__(self) -> str:
        found = [["program", *(prefix.strip(" :=") for prefix in self.prefixes)]]
        found += [[name, *cells] for name, cells in self._cells()] if self.rows else []
        lines: list[str] = []
        if self.rows:
            columns = list(zip(*found, strict=True))
            widths = [max(len(t) for cell in c for t in cell.split("\n")) for c in columns]
            for row in found:
                parts = [cell.split("\n") for cell in row]
                for k in range(max(map(len, parts))):
                    words = [p[k] if k < len(p) else "" for p in parts]
                    pairs = zip(words, widths, strict=True)
                    lines.append("  ".join(word.ljust(width) for word, width in pairs).rstrip())
        lines += [line for line in (*self.others[:MOST_PROGRAMS], self._left_out()) if line]
        return "\n".join(lines)


def _row(line: str, prefixes: Sequence[str]) -> Printed | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    x, y, z, index, rest = found.groups()
    prefix = next((prefix for prefix in prefixes if rest.startswith(prefix)), None)
    if prefix is None:
        return None
    place = tuple(int(word) for word in (index or "").split(",") if word.strip())
    return Printed((int(x), int(y), int(z)), place, prefix, rest.removeprefix(prefix).strip())


def _shown(values: Sequence[Printed]) -> str:
    """Return what one program printed at one place, a line for each row of each tile.

    A print of several tiles, or one in a loop, gives an index several values: the first ones are
    the first tile, the second ones the next.
    """
    if not values:
        return ""
    if values[-1].index == ():
        return ", ".join(row.value for row in values[:MOST_VALUES])  # a scalar, maybe in a loop
    tiles: list[dict[tuple[int, ...], list[str]]] = []
    seen: Counter[tuple[int, ...]] = Counter()
    for row in values:
        number = seen[row.index]
        seen[row.index] += 1
        if number == len(tiles):
            tiles.append({})
        tiles[number].setdefault(row.index[:-1], []).append(row.value)
    room, lines = MOST_VALUES, list[str]()
    for line in (line for tile in tiles for line in tile.values()):
        if room > 0:
            lines.append(" ".join(line[:room]))
        room -= len(line)
    return "\n".join([*lines, f"… {-room} more"] if room < 0 else lines)


def publish(table: PrintedTable) -> None:
    """Show a table in the cell that is running; outside of a notebook print it as text."""
    if not table:
        return
    # Whoever runs in a notebook has loaded IPython; nothing here may.
    notebook: Any = sys.modules.get("IPython.display")
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or notebook is None:
        sys.stdout.write(f"{table!r}\n")
    else:
        notebook.display(table)


_capturing = renewed_lock()


@contextmanager
def captured() -> Iterator[list[str]]:
    """Collect the lines that native code writes to file descriptor 1 within the block.

    A GPU's lines arrive when the device is waited for, so the block has to do that. The descriptor
    is the process's, so one block runs at a time: two that overlap would put back each other's.
    """
    lines: list[str] = []
    library = ctypes.CDLL(None)
    with _capturing, tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        library.fflush(None)
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield lines
        finally:
            library.fflush(None)
            os.dup2(saved, 1)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()
