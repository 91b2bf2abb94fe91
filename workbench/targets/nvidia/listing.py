"""Which op each row of LLVM IR, PTX and SASS came from: read off the debug locations.

The column of a location is the op's dense number. In LLVM IR each row names its own location; in
PTX the `.loc` in force counts; nvdisasm -gp names the PTX row of each instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.trace import Rendered

_DBG = re.compile(r"!dbg !(\d+)\s*$")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+)")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
_PTX_ROW = re.compile(r"nv_debug_ptx_txt[^\d]*, line (\d+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


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


def ptx_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return PTX with the op of every instruction row."""
    rows: list[tuple[int, ...]] = []
    current: int | None = None
    inside = False
    for line in text.splitlines():
        match = _LOC.match(line)
        bare = line.strip()
        if bare == "{":
            inside, current = True, None
        elif bare == "}":
            inside, current = False, None
        if match:
            current = ops.get(int(match.group(2))) if int(match.group(1)) else None
            rows.append(())
            continue
        is_code = inside and bare and not bare.startswith((".", "//", "$", "{", "}"))
        rows.append((current,) if is_code and current is not None else ())
    return Rendered(text, rows)


def sass_rows(listing: str, ptx: Rendered) -> Rendered:
    """Return the instructions of nvdisasm's listing with the ops of the PTX rows they came from.

    Location comments and section headers are left out of the text.
    """
    kept: list[str] = []
    rows: list[tuple[int, ...]] = []
    current: tuple[int, ...] = ()
    started = False
    for line in listing.splitlines():
        match = _PTX_ROW.search(line)
        if match:
            row = int(match.group(1)) - 1
            current = tuple(ptx.rows[row]) if 0 <= row < len(ptx.rows) else ()
            continue
        bare = line.strip()
        if bare.startswith("//##"):
            continue
        if _INSTRUCTION.match(line):
            started = True
            kept.append(line.rstrip())
            rows.append(current)
        elif bare.startswith(".L_") or (bare.startswith(".text.") and bare.endswith(":")):
            kept.append(bare)
            rows.append(())
            started = started or bare.startswith(".text.")
        elif started and bare.startswith(".section"):
            break
    return Rendered("\n".join(kept) + "\n", rows)
