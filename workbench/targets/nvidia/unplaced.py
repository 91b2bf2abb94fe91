"""Rows of PTX whose place LLVM has lost: which op they belong to, by the registers they write.

LLVM gives no place to what it makes itself (a constant in a register, the sum of an address, a
copy of what a loop carries), and forgets that of what it moves between blocks or makes of two.
Such a row belongs

- to the op whose branch decides, if it copies into a register that is written in several blocks:
  that is what a loop carries, or what the sides of a condition hand on;
- else to the op that reads its result, through other rows without a place if need be; if several
  ops read it, to the one that was written first, as what they share is written when first needed;
- a jump to the op of the row before it in its block, whose end it is. (ptxas makes copies anew,
  at the jump.)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

_REGISTER = re.compile(r"%[a-z]+\d+\b")
_GUARD = re.compile(r"@!?(%\w+)\s+")
#: Instructions whose first operand is no register that they write.
_NO_RESULT = frozenset((
    "st", "red", "bra", "brx", "bar", "barrier", "fence", "membar", "cp", "prefetch", "wgmma",
    "mbarrier", "setmaxnreg", "stmatrix", "ret", "exit", "trap", "nanosleep", "griddepcontrol",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """An instruction: the registers it writes and reads, whether it copies or jumps, has a guard, its block."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    copies: bool
    jumps: bool
    guarded: bool
    block: int


def _row(text: str, block: int) -> _Row:
    guard = _GUARD.match(text)
    bare = text[guard.end() :] if guard else text
    name = bare.split(".")[0].split(None, 1)[0].rstrip(";")
    registers = tuple(_REGISTER.findall(text))
    if name in _NO_RESULT or bare.startswith("{"):
        return _Row((), registers, False, name == "bra", bool(guard), block)
    first = bare.split(None, 1)[-1]
    first = first[: first.index("}")] if first.startswith("{") else first.split(",", 1)[0]
    writes = tuple(_REGISTER.findall(first))
    # What is written under a guard keeps what it was elsewhere.
    reads = registers if guard else registers[len(writes) :]
    return _Row(writes, reads, name == "mov" and not guard, False, bool(guard), block)


def placed(lines: Sequence[str], rows: Sequence[int | None], is_code: Sequence[bool]) -> list[int]:
    """Return the op's number of each row, 0 for rows of nobody.

    Args:
        lines: the rows of one PTX text.
        rows: the number that a debug line gives to each; None where LLVM gave none.
        is_code: which rows are instructions.
    """
    found: dict[int, _Row] = {}
    block = 0
    for number, line in enumerate(lines):
        if line.startswith("$L__BB"):
            block += 1
        elif is_code[number]:
            found[number] = row = _row(line.strip(), block)
            block += row.jumps
    known = {number: rows[number] or 0 for number in found}
    _carry(found, known)
    _read(found, known)
    _follow(found, known)
    return [known.get(number, 0) for number in range(len(lines))]


def _carry(found: dict[int, _Row], known: dict[int, int]) -> None:
    """Give copies into registers with several writers to the op of the branch that decides."""
    writers: defaultdict[str, list[int]] = defaultdict(list)
    jumps: dict[int, int] = {}
    for number, row in found.items():
        for register in row.writes:
            writers[register].append(number)
        if row.jumps and known[number]:
            jumps[row.block] = known[number]
    for several in writers.values():
        if len({found[number].block for number in several}) < 2:
            continue
        deciding = [jumps[found[n].block] for n in several if found[n].block in jumps]
        for number in several:
            if deciding and not known[number] and found[number].copies:
                known[number] = min(deciding)


def _read(found: dict[int, _Row], known: dict[int, int]) -> None:
    """Give what nobody else has to the first op that reads it."""
    readers: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in found.items():
        for register in row.reads:
            # The step of what a loop counts reads itself.
            if register not in row.writes or row.guarded:
                readers[register].append(number)
    left = [number for number in reversed(found) if not known[number] and found[number].writes]
    changed = True
    while changed:
        changed = False
        for number in left:
            ops = [
                known[reader]
                for register in found[number].writes
                for reader in readers[register]
                if known[reader]
            ]
            if ops and min(ops) != known[number]:
                known[number] = min(ops)
                changed = True


def _follow(found: dict[int, _Row], known: dict[int, int]) -> None:
    """Give jumps to the op of the row before them."""
    before, block = 0, -1
    for number, row in found.items():
        if row.jumps and row.block == block:
            known[number] = known[number] or before
        before, block = known[number], row.block
