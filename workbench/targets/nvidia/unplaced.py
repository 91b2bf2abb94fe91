"""Rows of PTX whose place LLVM has lost: which op they belong to, by the registers they write.

LLVM gives no place to what it makes itself (a constant in a register, the sum of an address, a
copy of what a loop carries), forgets that of what it moves between blocks or makes of two, and
gives sums that it makes for a loop the place of whoever stands there. Such a row belongs

- to the op whose branch decides, if it copies into a register that is written in several blocks:
  that is what a loop carries, or what the sides of a condition hand on;
- else to the op that reads its result, through other rows without a place if need be; if several
  ops read it, to the one that was written first, as what they share is written when first needed.
  If that op has no such instruction in the LLVM IR, the nearest one that it is made of has;
- a jump to the op of the row before it in its block, whose end it is. (ptxas makes copies anew,
  at the jump.)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.targets.llvm.provenance import Kind, Provenance

_REGISTER = re.compile(r"%[a-z]+\d+\b")
_GUARD = re.compile(r"@!?(%\w+)\s+")
_SPECIAL = re.compile(r"mov\.u32\s+%\w+, %([a-z][\w.]*\.[xyz]|laneid);")
_TYPE = re.compile(r"\.([subf])(\d+)\b")
#: Instructions whose first operand is no register that they write.
_NO_RESULT = frozenset((
    "st", "red", "bra", "brx", "bar", "barrier", "fence", "membar", "cp", "prefetch", "wgmma",
    "mbarrier", "setmaxnreg", "stmatrix", "ret", "exit", "trap", "nanosleep", "griddepcontrol",
))  # fmt: skip
#: What the IR has for an instruction: on integers with their width, and on floats.
_INTEGERS = {
    "add": ("add",), "sub": ("add",), "mul": ("mul",), "shl": ("mul",), "mad": ("add",),
    "and": ("and",), "or": ("or", "xor"), "xor": ("xor",), "shr": ("shr",), "bfe": ("and", "shr"),
}  # fmt: skip
_FLOATS = {"add": "fadd", "sub": "fadd", "mul": "fmul", "fma": "fadd"}
_ANY = {"setp": "setp", "selp": "selp"}
#: Ops of these kinds alone make no numbers: others have their places where they do.
_DECIDE = frozenset((("setp", 0), ("selp", 0)))


@dataclass(frozen=True, slots=True)
class _Row:
    """An instruction: the registers it writes and reads, whether it copies or jumps, its block.

    `guarded`: it keeps what it writes where a condition does not hold. `kinds`: what the IR may
    have for it. `special`: the special register that it reads.
    """

    writes: tuple[str, ...]
    reads: tuple[str, ...]
    copies: bool
    jumps: bool
    guarded: bool
    block: int
    kinds: frozenset[Kind]
    special: str


def _row(text: str, block: int) -> _Row:
    guard = _GUARD.match(text)
    bare = text[guard.end() :] if guard else text
    word = bare.split(None, 1)[0].rstrip(";")
    name = word.split(".")[0]
    registers = tuple(_REGISTER.findall(text))
    if name in _NO_RESULT or bare.startswith("{"):
        jumps = name == "bra"
        return _Row((), registers, False, jumps, bool(guard), block, frozenset(), "")
    first = bare.split(None, 1)[-1]
    first = first[: first.index("}")] if first.startswith("{") else first.split(",", 1)[0]
    writes = tuple(_REGISTER.findall(first))
    reads = registers if guard else registers[len(writes) :]
    special = _SPECIAL.match(bare)
    copies = name == "mov" and not guard
    return _Row(writes, reads, copies, False, bool(guard), block, _kinds(word),
                special[1] if special else "")  # fmt: skip


def _kinds(word: str) -> frozenset[Kind]:
    """Return what the IR may have for an instruction of a name, as far as that is plain."""
    name = word.split(".")[0]
    if name in _ANY:
        return frozenset(((_ANY[name], 0),))
    types = _TYPE.findall(word)
    if name == "cvt" and len(types) == 2:
        signs = {sign for sign, _ in types}
        # Those without a sign are code generation's own, for addresses.
        word = "cvtf" if "f" in signs else "cvt" if signs == {"s"} else ""
        return frozenset(((word, 0),)) if word else frozenset()
    if not types:
        return frozenset()
    kind, width = types[-1]
    if kind == "f":
        return frozenset(((_FLOATS[name], 0),)) if name in _FLOATS else frozenset()
    bits = int(width) * (2 if ".wide" in word else 1)
    return frozenset((found, bits) for found in _INTEGERS.get(name, ()))


def placed(
    lines: Sequence[str],
    rows: Sequence[int | None],
    is_code: Sequence[bool],
    known: Provenance | None = None,
) -> list[int]:
    """Return the op's number of each row, 0 for rows of nobody.

    Args:
        lines: the rows of one PTX text.
        rows: the number that a debug line gives to each; None where LLVM gave none.
        is_code: which rows are instructions.
        known: what the LLVM IR says of each op.
    """
    known = known or Provenance()
    found: dict[int, _Row] = {}
    block = 0
    for number, line in enumerate(lines):
        if line.startswith("$L__BB"):
            block += 1
        elif is_code[number]:
            found[number] = row = _row(line.strip(), block)
            block += row.jumps
    owners = {number: rows[number] or 0 for number in found}
    decide = {number for number in known.reads if known.kinds.get(number, set()) <= _DECIDE}
    _carry(found, owners, decide)
    moved = _moved(found, owners, known, decide)
    _read(found, owners)
    for number in moved:
        row = found[number]
        nearest = known.special.get(row.special, 0) or (
            known.nearest(owners[number], row.kinds) if row.kinds else 0
        )
        moved[number] = nearest or owners[number]
    owners |= moved
    _follow(found, owners)
    return [owners.get(number, 0) for number in range(len(lines))]


def _moved(
    found: dict[int, _Row], owners: dict[int, int], known: Provenance, decide: set[int]
) -> dict[int, int]:
    """Return the rows to look for anew: those of nobody, and sums of ops that make none.

    The latter keep their owner to be looked for from, unless it has no results at all.
    """
    moved: dict[int, int] = {}
    for number, row in found.items():
        owner = owners[number]
        alien = owner in decide and _is_sum(row)
        if row.writes and (not owner or alien):
            moved[number] = owners[number] = owner if known.kinds.get(owner) else 0
    return moved


def _is_sum(row: _Row) -> bool:
    """Whether a row computes what no comparison or choice does."""
    return not row.guarded and bool(row.kinds) and not row.kinds <= _DECIDE


def _carry(found: dict[int, _Row], owners: dict[int, int], decide: set[int]) -> None:
    """Give what is written in several blocks to the op of the branch that decides.

    That is copies, and the steps of what a loop counts since LLVM has it count pointers.
    """
    writers: defaultdict[str, list[int]] = defaultdict(list)
    jumps: dict[int, int] = {}
    for number, row in found.items():
        for register in row.writes:
            writers[register].append(number)
        if row.jumps and owners[number]:
            jumps[row.block] = owners[number]
    for several in writers.values():
        if len({found[number].block for number in several}) < 2:
            continue
        deciding = [jumps[found[n].block] for n in several if found[n].block in jumps]
        for number in several:
            row, owner = found[number], owners[number]
            if row.copies and not owner and deciding:
                owners[number] = min(deciding)
            elif set(row.writes) & set(row.reads) and _is_sum(row) and (
                not owner or owner in decide
            ):  # fmt: skip
                owners[number] = jumps.get(row.block, owner)


def _read(found: dict[int, _Row], owners: dict[int, int]) -> None:
    """Give what nobody else has to the first op that reads it."""
    readers: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in found.items():
        for register in row.reads:
            # The step of what a loop counts reads itself.
            if register not in row.writes or row.guarded:
                readers[register].append(number)
    left = [number for number in reversed(found) if not owners[number] and found[number].writes]
    changed = True
    while changed:
        changed = False
        for number in left:
            ops = [
                owners[reader]
                for register in found[number].writes
                for reader in readers[register]
                if owners[reader]
            ]
            if ops and min(ops) != owners[number]:
                owners[number] = min(ops)
                changed = True


def _follow(found: dict[int, _Row], owners: dict[int, int]) -> None:
    """Give jumps to the op of the row before them: of their block, or a jump on a condition."""
    before, block = 0, -1
    for number, row in found.items():
        if row.jumps and row.block == block:
            owners[number] = owners[number] or before
        before, block = owners[number], row.block + (row.jumps and row.guarded)
