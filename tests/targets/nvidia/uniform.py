"""A model of the uniform registers that copies name in a listing of nvdisasm.

`LDGSTS [R], desc[UR6]` reads UR6 and UR7: what the kernel is told of memory, or a policy of the L2,
whose lower half is 0. `LDGSTS [R+UR6], desc[UR7]` adds UR6, and UR7 is the upper half of a policy.
An assembler that names registers which nothing writes, or that puts what is added into the lower
half of a policy which others name, is found so, without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ROW = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?\s*([A-Z][A-Za-z0-9_.]*)\s*([^;]*);")
_LABEL = re.compile(r"\s*(\.L_\w+):")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_COPY = re.compile(r"\[R\d+(?:\+UR(\d+))?(?:\+0x[0-9a-f]+)?\], desc\[UR(\d+)\]")
_ENDS = ("BRA", "EXIT", "RET", "BRX")
#: Of those that begin with U, what writes no uniform register.
_NO_RESULT = ("UISETP", "UPLOP3", "USETMAXREG", "UTMA", "UBLK", "UP2UR", "UCGA")
#: Where no instruction has written a register.
NOTHING = "nothing"


def _written(opcode: str, operands: str) -> tuple[int, ...]:
    uniform = opcode.startswith("U") and not opcode.startswith(_NO_RESULT)
    if not (uniform or opcode.startswith(("S2UR", "R2UR", "VOTEU"))):
        return ()
    words = [word.strip() for word in operands.split(",")]
    first = next((word for word in words if not re.fullmatch(r"U?P[\dT]\w*", word)), "")
    found = re.fullmatch(r"UR(\d+)", first)
    if found is None:
        return ()
    number = int(found[1])
    wide = ".64" in opcode or ".WIDE" in opcode
    return (number, number + 1) if wide else (number,)


class Listing:
    """The instructions of a kernel, which may come before which, and what writes what."""

    def __init__(self, sass: str) -> None:
        self.rows: list[str] = []
        self._writes: list[tuple[int, ...]] = []
        self._always: list[bool] = []
        labels: dict[str, int] = {}
        jumps: list[tuple[int, str]] = []
        falls: list[bool] = []
        for line in sass.splitlines():
            if (label := _LABEL.match(line)) is not None:
                labels[label[1]] = len(self.rows)
            if (row := _ROW.match(line)) is None:
                continue
            predicate, opcode, operands = row.groups()
            if (target := _TARGET.search(operands)) is not None and opcode.startswith("BRA"):
                jumps.append((len(self.rows), target[1]))
            falls.append(predicate is not None or not opcode.startswith(_ENDS))
            self.rows.append(f"{predicate or ''}{opcode} {operands}".strip())
            self._writes.append(_written(opcode, operands))
            self._always.append(predicate is None)
        self._before: list[list[int]] = [[] for _ in range(len(self.rows) + 1)]
        for number, goes_on in enumerate(falls):
            if goes_on:
                self._before[number + 1].append(number)
        for number, name in jumps:
            self._before[labels[name]].append(number)

    def sources(self, row: int, register: int) -> set[str]:
        """Return the instructions that may have written a register; copies are seen through."""
        found: set[str] = set()
        seen: set[tuple[int, int]] = set()
        work = [(row, register)]
        while work:
            row, register = work.pop()
            if not self._before[row]:
                found.add(NOTHING)
            for before in self._before[row]:
                if (before, register) in seen:
                    continue
                seen.add((before, register))
                if register in self._writes[before]:
                    moved = re.fullmatch(r"UMOV UR\d+, UR(\d+)", self.rows[before].strip())
                    if moved is None:
                        found.add(self.rows[before])
                    else:
                        work.append((before, int(moved[1])))
                if register not in self._writes[before] or not self._always[before]:
                    work.append((before, register))
        return found


def complaints(sass: str) -> Iterator[str]:
    """Yield a sentence for each copy whose uniform registers do not hold what it takes."""
    listing = Listing(sass)
    for number, row in enumerate(listing.rows):
        copy = _COPY.search(row) if "LDGSTS" in row else None
        if copy is None:
            continue
        added, named = copy[1], int(copy[2])
        registers = (int(added), named) if added is not None else (named, named + 1)
        sources = [listing.sources(number, register) for register in registers]
        for register, found in zip(registers, sources, strict=True):
            if NOTHING in found:
                yield f"{row}: nothing has written UR{register}"
        lower = {re.sub(r"UR\d+", "UR", source, count=1) for source in sources[0]}
        if added is None and not lower <= {"UMOV UR, URZ", "ULDC.64 UR, c[0x0][0x208]", NOTHING}:
            yield f"{row}: half a policy is {sorted(lower)}"
