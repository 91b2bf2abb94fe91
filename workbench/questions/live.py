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
    reads, writes, targets = [], [], {}
    for number, row in enumerate(rows):
        label = _LABEL.match(row)
        if label:
            targets[label[1]] = number
        written, read = _registers(row)
        reads.append(read)
        writes.append(written)
    ends: dict[int, int] = {}  # a loop's last row -> its first
    for number, row in enumerate(rows):
        branch = re.search(r"\bBRA\b.*?(\.L\w+)", row)
        if branch and targets.get(branch[1], number) < number:
            ends[number] = targets[branch[1]]
    ranges: list[tuple[int, int, int]] = []  # register, written, last read
    current: dict[int, tuple[int, int]] = {}
    for number, read in enumerate(reads):
        for register in read:
            if register in current:
                current[register] = (current[register][0], number)
        if number in ends:
            first = ends[number]
            for register, (written, last) in current.items():
                if written < first <= last:
                    current[register] = (written, number)
        for register in writes[number]:
            if register in current:
                ranges.append((register, *current[register]))
            current[register] = (number, number)
    ranges += [(register, *held) for register, held in current.items()]
    live: list[dict[int, int]] = [{} for _ in rows]
    for register, written, last in ranges:
        for row in range(written, last):
            live[row][register] = written
    return live


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
