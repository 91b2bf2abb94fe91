"""Which rows wrote the registers that are live where most of a kernel's are.

Read from what nvdisasm draws of a cubin (`-plr`): a column for each general register, and in each
row of code a mark where it is live.

    /*0080*/  IADD3 R0, P0, R154, 0x3f, RZ ;   // |   3   ^ :   :
                                                          ^ it is written here, v read, x both
                                                            : it lives across the row
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEAD = re.compile(r"//\s*\|\s*#(?P<registers>(?:\s+\d+)+)")
_CODE = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/.*?//\s*\|\s*(?P<count>\d+)?")


def live_where_most(listing: str) -> list[int]:
    """Return the address of the instruction that wrote each register live where most are.

    Of a value that goes round a loop that is the instruction before the loop, or the one below if
    there is none. Empty where the listing has no such columns, or counts otherwise than they do.
    """
    rows = listing.splitlines()
    spans = next((_columns(found) for row in rows if (found := _HEAD.search(row))), [])
    marks: list[list[str]] = []
    addresses: list[int] = []
    counts: list[int] = []
    for row in rows:
        found = _CODE.match(row)
        if found:
            addresses.append(int(found["address"], 16))
            counts.append(int(found["count"] or 0))
            marks.append([row[start:end].strip() for start, end in spans])
    if not spans or not marks:
        return []
    fullest = max(range(len(marks)), key=counts.__getitem__)
    if counts[fullest] != sum(map(bool, marks[fullest])):
        return []
    return [
        addresses[_writer([row[register] for row in marks], fullest)]
        for register, mark in enumerate(marks[fullest]) if mark
    ]  # fmt: skip


def _columns(head: re.Match[str]) -> list[tuple[int, int]]:
    """Return where the marks of each register stand."""
    start = head.start("registers")
    return [
        (start + found.start(), start + found.end())
        for found in re.finditer(r"\d+", head["registers"])
    ]


def _writer(marks: Sequence[str], row: int) -> int:
    """Return the row that wrote what a register holds in a row; that row if none did."""
    above = (n for n in range(row, -1, -1) if marks[n] in ("^", "x"))
    below = (n for n in range(row + 1, len(marks)) if marks[n] in ("^", "x"))
    return next(above, next(below, row))
