"""Which op each row of LLVM IR and of the host's assembly came from: read off debug locations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.trace import Rendered

_DBG = re.compile(r"!dbg !(\d+)\s*$")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+)")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")


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


def asm_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return the assembly of the kernel with the op of every instruction.

    Directives are left out; a row belongs to the `.loc` in force.
    """
    kept: list[str] = []
    rows: list[tuple[int, ...]] = []
    current: int | None = None
    for line in text.splitlines():
        match = _LOC.match(line)
        bare = line.strip()
        if match:
            current = ops.get(int(match.group(2))) if int(match.group(1)) else None
            continue
        if not bare or bare.startswith((".cfi", ".file", "#", ".Ltmp")):
            continue
        data = bare.startswith(".section") and ".text" not in bare and ".rodata" not in bare
        if data and any(rows):
            break
        is_code = line.startswith("\t") and not bare.startswith(".")
        kept.append(line.split("\t#")[0].rstrip() if is_code else line.rstrip())
        rows.append((current,) if is_code and current is not None else ())
    return Rendered("\n".join(kept) + "\n", rows)
