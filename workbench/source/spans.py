"""Places in source text: where a thing starts and ends, and through which calls it was reached."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.source.files import shown_file
from workbench.source.undisturbed import lines_of_file


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text; lines and columns count from 1, `end_column` is exclusive.

    `calls` is the chain of call sites, outermost first, through which an inlined helper
    was reached; it is empty for the kernel's own text.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    calls: tuple[Span, ...] = ()

    def __str__(self) -> str:
        """Return the place as readers see it: notebooks keep errors, and are passed on."""
        return f"{shown_file(self.file)}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one file or cell, or of one function of it.

    `first_line` is the line number in `file` of the text's first line.
    """

    file: str
    text: str
    first_line: int = 1

    def line(self, number: int) -> str:
        """Return the text of line `number` (counted in the file), or an empty string."""
        lines = source_rows(self.text)
        row = number - self.first_line
        return lines[row] if 0 <= row < len(lines) else ""


#: A line with its end: what Python counts. `str.splitlines` ends lines at form feeds and more.
_ROW = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")


def source_rows(text: str, *, ends: bool = False) -> list[str]:
    """Return the lines of a source text as Python counts them; `ends` keeps what ends them."""
    rows = _ROW.findall(text)
    return rows if ends else [row.rstrip("\r\n") for row in rows]


def line_of(span: Span) -> str:
    """Return the text of the span's first line; linecache knows notebook cells too."""
    rows = lines_of_file(span.file)
    return rows[span.line - 1].rstrip("\n") if 1 <= span.line <= len(rows) else ""
