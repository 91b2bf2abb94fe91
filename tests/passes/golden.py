"""Golden files: IR, a line `// ---- after: PASS, PASS`, and the IR that comes out.

A file without that line's second half, run with `pytest --bless`, gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MARK = "// ---- after: "
ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Golden:
    """One golden file."""

    path: Path
    before: str
    passes: tuple[str, ...]
    after: str

    def expect(self, got: str, *, bless: bool) -> None:
        """Compare with what the file says, or write it there."""
        if bless:
            self.path.write_text(f"{self.before}{MARK}{', '.join(self.passes)}\n{got}")
            return
        assert got == self.after, f"{self.path.name}: pytest --bless, then read the diff"


def read(path: Path) -> Golden:
    """Return the parts of a golden file."""
    before, rest = path.read_text().split(MARK)
    passes, _, after = rest.partition("\n")
    return Golden(path, before, tuple(passes.split(", ")), after)


def cases() -> list[Golden]:
    """Return all golden files of passes, in order of their names."""
    return [read(path) for path in sorted(ROOT.glob("*/*.ir"))]
