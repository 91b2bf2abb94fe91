"""Which op each row of PTX and SASS came from: read off the debug locations.

In PTX the `.loc` in force counts (where LLVM has lost it, unplaced.py); nvdisasm -gp names the PTX
row of each instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.targets.llvm.listing import LOC
from workbench.targets.nvidia.unplaced import placed
from workbench.trace import Rendered

_PTX_ROW = re.compile(r"nv_debug_ptx_txt[^\d]*, line (\d+)")
_BRACE = re.compile(r"[{}]\s*(//.*)?$")
_FILLER = re.compile(r"\*/\s+NOP\b")
_BRANCH = re.compile(r"\bBRA\b.*[`(](\.L_\w+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


def ptx_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return PTX with the op of every instruction row."""
    lines = text.splitlines()
    numbers: list[int | None] = []
    is_code: list[bool] = []
    current: int | None = None
    inside = False
    for line in lines:
        match = LOC.match(line)
        bare = line.strip()
        if bare == "{":
            inside, current = True, None
        elif bare == "}":
            inside, current = False, None
        if match:
            current = int(match.group(2)) if int(match.group(1)) else None
        code = inside and bool(bare) and not bare.startswith((".", "//", "$"))
        # Alone they open and close blocks; a statement that is written as one block is code.
        is_code.append(code and not _BRACE.match(bare))
        numbers.append(current if is_code[-1] else None)
    found = placed(lines, numbers, is_code)
    return Rendered(text, [(ops[number],) if number in ops else () for number in found])


def _is_filler(line: str, before: str) -> bool:
    """Whether an instruction is ptxas's own: padding, or the branch to itself that ends the code.

    They stand behind the last instruction, so the location in force is that of something else.
    """
    if _FILLER.search(line):
        return True
    target = _BRANCH.search(line)
    return target is not None and before == f"{target[1]}:"


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
            label = kept[-1] if kept else ""
            kept.append(line.rstrip())
            rows.append(() if _is_filler(line, label) else current)
        elif bare.startswith(".L_") or (bare.startswith(".text.") and bare.endswith(":")):
            kept.append(bare)
            rows.append(())
            started = started or bare.startswith(".text.")
        elif started and bare.startswith(".section"):
            break
    return Rendered("\n".join(kept) + "\n", rows)
