"""An edited text that takes the place of one stage of a compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from workbench.source.kernels import register_text
from workbench.source.spans import Span


@dataclass(frozen=True, slots=True)
class Override:
    """The text of a stage as somebody edited it.

    What is made of it depends on `stage` and `text` alone; `file` and `line` say where the text
    stands, for errors (the line of its first row in that file).
    """

    stage: str
    text: str
    file: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)

    @property
    def key(self) -> str:
        """What a compile key holds of it."""
        return f"override {self.stage} {sha256(self.text.encode()).hexdigest()}"

    @property
    def padded(self) -> str:
        """The text with empty rows before it, so that its rows have the numbers of the file's."""
        return "\n" * (self.line - 1) + self.text

    def span(self, row: int, column: int = 0, width: int = 0) -> Span:
        """Return the place of row `row` of the text (from 1): all of it, or from a column on."""
        rows = self.text.splitlines()
        found = rows[row - 1] if 0 < row <= len(rows) else ""
        start = column or len(found) - len(found.lstrip()) + 1
        end = start + width if width else max(len(found.rstrip()) + 1, start + 1)
        line = self.line + row - 1
        return Span(self.file, line, start, line, end)

    def register(self) -> None:
        """Let errors show rows of the text; a text of a cell is known already."""
        if self.line == 1:
            register_text(self.file, self.text)


def overriding(name: str, stage: str, text: str) -> Override:
    """Return the override by a text that stands in no file."""
    found = Override(stage, text.rstrip() + "\n", f"{name}.{stage}")
    found.register()
    return found
