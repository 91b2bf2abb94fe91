"""Which registers hold a value that is still needed, row by row of SASS."""

from __future__ import annotations

import re
from collections.abc import Sequence

_REGISTER = re.compile(r"\bR(\d+)(\.64|\.128)?\b")
_LABEL = re.compile(r"^\s*(\.L\w+):")
_WIDE = re.compile(r"\.(64|128)\b")
#: Ops whose first operand is read, not written.
_READS_FIRST = ("ST", "RED", "BRA", "EXIT", "BAR", "CCTL", "WARPSYNC", "ATOMS.ARRIVE")


def live_by_row(rows: Sequence[str]) -> list[dict[int, int]]:
    """Return for each row the registers that are live behind it, each with the row that wrote it.

    A value lives from the row that writes it to the last one that reads it before it is written
    again; where rows branch back, what is read in the loop and was written before it lives to the
    branch. Registers of wide results count one by one.
    """
    found = [_registers(row) for row in rows]
    ends = _loops(rows)
    ranges: list[tuple[int, int, int]] = []  # register, written, last read
    current: dict[int, tuple[int, int]] = {}
    for number, (written, read) in enumerate(found):
        for register in read:
            if register in current:
                current[register] = (current[register][0], number)
        if number in ends:
            _carry(current, ends[number], number)
        for register in written:
            if register in current:
                ranges.append((register, *current[register]))
            current[register] = (number, number)
    ranges += [(register, *held) for register, held in current.items()]
    live: list[dict[int, int]] = [{} for _ in rows]
    for register, first, last in ranges:
        for row in range(first, last):
            live[row][register] = first
    return live


def _loops(rows: Sequence[str]) -> dict[int, int]:
    """Return the first row of each loop by its last, which branches back."""
    targets = {label[1]: n for n, row in enumerate(rows) if (label := _LABEL.match(row))}
    found: dict[int, int] = {}
    for number, row in enumerate(rows):
        branch = re.search(r"\bBRA\b.*?(\.L\w+)", row)
        if branch and targets.get(branch[1], number) < number:
            found[number] = targets[branch[1]]
    return found


def _carry(current: dict[int, tuple[int, int]], first: int, last: int) -> None:
    """Let what a loop reads and was written before it live to the loop's end."""
    for register, (written, read) in current.items():
        if written < first <= read:
            current[register] = (written, last)


def _registers(row: str) -> tuple[list[int], list[int]]:
    """Return the registers that a row writes and reads."""
    text = re.sub(r"/\*.*?\*/", "", row).split(";")[0].strip()
    text = re.sub(r"^@!?U?P\w+\s+", "", text)
    op, _, operands = text.partition(" ")
    if not op or not op[0].isupper():
        return [], []
    first, *rest = re.split(r",(?![^\[]*\])", operands) if operands else [""]
    while rest and re.fullmatch(r"\s*U?P(T|\d+)\s*", first):  # a predicate result stands first
        first, *rest = rest
    to_memory = op.startswith(_READS_FIRST) or first.strip().startswith("[")
    wide = _WIDE.search(op)
    count = (
        4
        if op.startswith(("HMMA", "IMMA", "QMMA")) and ".F32" in op
        else int(wide[1]) // 32
        if wide
        else 1
    )
    if "WIDE" in op:
        count = 2
    written = [] if to_memory else _named(first, count)
    read = [r for part in ([first, *rest] if to_memory else rest) for r in _named(part, 1)]
    return written, read


def _named(text: str, count: int) -> list[int]:
    found: list[int] = []
    for number, width in _REGISTER.findall(text):
        size = max(count, int(width[1:]) // 32 if width else 1)
        found += range(int(number), int(number) + size)
    return found
