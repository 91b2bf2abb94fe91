"""Which op each row of PTX and SASS came from: read off the debug locations.

In PTX the `.loc` in force counts (where LLVM has lost it, unplaced.py); nvdisasm -gp names the PTX
row of each instruction (where ptxas is wrong, misplaced.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from workbench.targets.llvm.listing import LOC
from workbench.targets.llvm.provenance import provenance
from workbench.targets.nvidia.control import address_of_row
from workbench.targets.nvidia.misplaced import Makers
from workbench.targets.nvidia.spilled_values import spilled_values
from workbench.targets.nvidia.unplaced import placed
from workbench.trace import LateRows, Rendered

_PTX_ROW = re.compile(r"nv_debug_ptx_txt[^\d]*, line (\d+)")
_BRACE = re.compile(r"[{}]\s*(//.*)?$")
_FILLER = re.compile(r"\*/\s+NOP\b")
_BRANCH = re.compile(r"\bBRA\b.*[`(](\.L_\w+)")
#: Functions that ptxas adds stand behind the kernel, in its section.
_FUNCTION = re.compile(r"(\$__internal\w*\$?[\w$]*):$")
_CALL = re.compile(r"\bCALL\S*\s+.*`\((\$__internal[\w$]*)\)")
#: ptxas writes the first far ahead of the branch, and gives it the row of what stands there.
_PARTS = re.compile(r"\bBSSY\s+(B\d+)")
_MEETS = re.compile(r"\bBSYNC\s+(B\d+)")
_GUARDED = re.compile(r"@!?U?P\d+\s+BRA\b")
_TEXT = re.compile(r"\.text\..*:$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


def ptx_rows(text: str, ops: Mapping[int, int], llvm: str = "") -> Rendered:
    """Return PTX with the op of every instruction row, found when somebody asks for those.

    Args:
        text: the PTX.
        ops: op ids by the numbers in debug lines.
        llvm: the LLVM IR that it was made of, if that is known.
    """
    return Rendered(text, LateRows(lambda: _ptx_ops(text, ops, llvm)))


def _ptx_ops(text: str, ops: Mapping[int, int], llvm: str) -> list[tuple[int, ...]]:
    lines = text.splitlines()
    numbers: list[int | None] = []
    is_code: list[bool] = []
    current: int | None = None
    inside = authors = False  # a statement of the author's may have braces on lines of their own
    for line in lines:
        match = LOC.match(line)
        bare = line.strip()
        if bare in ("// begin inline asm", "// end inline asm"):
            authors = "begin" in bare
        elif authors:
            pass
        elif bare == "{":
            inside, current = True, None
        elif bare == "}":
            inside, current = False, None
        if match:
            current = int(match.group(2)) if int(match.group(1)) else None
        code = inside and bool(bare) and not bare.startswith((".", "//", "$"))
        # Alone they open and close blocks; a statement that is written as one block is code.
        is_code.append(code and not _BRACE.match(bare))
        numbers.append(current if is_code[-1] else None)
    found = placed(lines, numbers, is_code, provenance(llvm) if llvm else None)
    return [(ops[number],) if number in ops else () for number in found]


def _is_filler(line: str, before: str) -> bool:
    """Whether an instruction is ptxas's own: padding, or the branch to itself that ends the code.

    They stand behind the last instruction, so the location in force is that of something else.
    """
    if _FILLER.search(line):
        return True
    target = _BRANCH.search(line)
    return target is not None and before == f"{target[1]}:"


def sass_rows(listing: str, ptx: Rendered, live: str = "") -> Rendered:
    """Return the instructions of nvdisasm's listing with the ops of the PTX rows they came from.

    Location comments and section headers are left out of the text. Functions that ptxas adds (for
    a division of 64 bits, say) belong to the ops that call them, and with `live`, what nvdisasm
    says of registers, spills belong to the op whose value they are of.
    """
    found = _by_rows(listing, ptx)
    if not live:
        return found
    addresses = [address_of_row(row) for row in found.text.splitlines()]
    ops = {at: own for at, own in zip(addresses, found.rows, strict=False) if at is not None}
    spilled = spilled_values(live, {at: tuple(own) for at, own in ops.items()})
    rows = [
        spilled.get(at, own) if at is not None else own
        for at, own in zip(addresses, found.rows, strict=False)
    ]
    return Rendered(found.text, rows)


def _by_rows(listing: str, ptx: Rendered) -> Rendered:
    kept: list[str] = []
    rows: list[tuple[int, ...]] = []
    callers = _callers(listing, ptx)
    makers = Makers(ptx.text.splitlines(), [bool(ops) for ops in ptx.rows])
    current = -1
    inside: str | None = None
    started = False
    for line in listing.splitlines():
        if row := _PTX_ROW.search(line):
            current = int(row[1]) - 1
            continue
        bare = line.strip()
        if bare.startswith("//##"):
            continue
        function = _FUNCTION.match(bare)
        if _INSTRUCTION.match(line):
            started = True
            label = kept[-1] if kept else ""
            kept.append(line.rstrip())
            ops = callers.get(inside, ()) if inside else _ops(ptx, makers.of(line, current))
            rows.append(() if _is_filler(line, label) else ops)
        elif function or bare.startswith(".L_") or (_TEXT.match(bare)):
            inside = function[1] if function else inside
            kept.append(bare)
            rows.append(())
            started = started or bare.startswith(".text.")
        elif started and bare.startswith(".section"):
            break
    _meet(kept, rows)
    return Rendered("\n".join(kept) + "\n", rows)


def _meet(kept: Sequence[str], rows: list[tuple[int, ...]]) -> None:
    """Give the rows where threads are to part and to meet to the op whose branch parts them."""
    parting: dict[str, int] = {}
    ops: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(kept):
        if parts := _PARTS.search(line):
            parting[parts[1]] = number
        elif meets := _MEETS.search(line):
            rows[number] = ops.pop(meets[1], rows[number])
            if (place := parting.pop(meets[1], None)) is not None:
                rows[place] = rows[number]
        elif _GUARDED.search(line):
            waiting = [barrier for barrier in parting if barrier not in ops]
            if waiting:  # the innermost one
                ops[waiting[-1]] = rows[number]
                rows[parting.pop(waiting[-1])] = rows[number]


def _ops(ptx: Rendered, row: int) -> tuple[int, ...]:
    return tuple(ptx.rows[row]) if 0 <= row < len(ptx.rows) else ()


def _callers(listing: str, ptx: Rendered) -> dict[str, tuple[int, ...]]:
    """Return the ops that call each function of ptxas's own, in order of rows.

    One such function may call another: both are the first caller's.
    """
    found: dict[str, dict[int, None]] = {}
    current: tuple[int, ...] = ()
    inside: str | None = None
    calls: list[tuple[str | None, str]] = []
    for line in listing.splitlines():
        if row := _PTX_ROW.search(line):
            current = _ops(ptx, int(row[1]) - 1)
        elif function := _FUNCTION.match(line.strip()):
            inside = function[1]
        elif called := _CALL.search(line):
            calls.append((inside, called[1]))
            if inside is None:
                found.setdefault(called[1], {}).update(dict.fromkeys(current))
    for caller, called in calls:
        if caller is not None:
            found.setdefault(called, {}).update(found.get(caller, {}))
    return {name: tuple(ops) for name, ops in found.items()}
