"""Which op each row of LLVM IR came from: read off the debug locations.

The column of a location is the op's dense number; see emit.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.trace import Rendered

#: The `.loc` directive of assembly: line and column.
LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
_DBG = re.compile(r"!dbg !(\d+)\s*$")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+)")


def llvm_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return LLVM IR with the op of every instruction; `ops` maps dense numbers to op ids."""
    lines = text.splitlines()
    numbers: dict[str, int] = {}
    for line in lines:
        match = _LOCATION.match(line)
        if match and int(match.group(2)):
            numbers[match.group(1)] = int(match.group(3))
    rows: list[tuple[int, ...]] = []
    for line in lines:
        match = _DBG.search(line)
        op = ops.get(numbers.get(match.group(1), 0)) if match else None
        rows.append((op,) if op is not None and not line.startswith("define") else ())
    return Rendered(text, rows)
