"""Which op each row of LLVM IR came from: read off the debug locations.

The column of a location is the op's dense number; see emit.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from workbench.trace import LateRows, Rendered

#: The `.loc` directive of assembly: line and column.
LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
#: The reference to a location at the end of an instruction.
DBG = re.compile(r"!dbg !(\d+)\s*$")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+)")


def places(lines: Sequence[str]) -> dict[str, int]:
    """Return the dense number of the op of each location that has a place, by its name."""
    found = (_LOCATION.match(line) for line in lines)
    return {match[1]: int(match[3]) for match in found if match and int(match[2])}


def llvm_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return LLVM IR with the op of every instruction; `ops` maps dense numbers to op ids."""
    return Rendered(text, LateRows(lambda: _llvm_ops(text, ops)))


def _llvm_ops(text: str, ops: Mapping[int, int]) -> list[tuple[int, ...]]:
    lines = text.splitlines()
    numbers = places(lines)
    rows: list[tuple[int, ...]] = []
    for line in lines:
        match = DBG.search(line)
        op = ops.get(numbers.get(match.group(1), 0)) if match else None
        rows.append((op,) if op is not None and not line.startswith("define") else ())
    return rows
