"""Whose value each row of SASS spills or loads again: read off the registers that rows write.

ptxas gives a spill the row of whatever stands beside it. The value it is of was written by the last
row before it, on each way through the code, that writes the register which it stores; a value that
is loaded again is one that was stored in that place. nvdisasm -plr says which registers a row
writes (`^`, and `x` if it reads them too).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.targets.nvidia.control import address_of_row

_HEAD = re.compile(r"\|\s+#\s((?:\s*\d+)+)\s*\|")
_ACCESS = re.compile(r"\b(STL|LDL)(?:\.LU|\.64|\.128|\.[A-Z]+)*\s+(.*?)\s*(?:\(\*.*\*\))?\s*;")
_SLOT = re.compile(r"\[(R\d+|UR\d+)?(?:\+?(-?0x[0-9a-f]+))?\]")
_BRANCH = re.compile(r"\bBRA\b[^;]*`\((\.L_\w+)\)")
_ENDS = re.compile(r"\*/\s+(EXIT|BRA|RET\S*)\b")


@dataclass(frozen=True, slots=True)
class _Row:
    address: int
    text: str
    writes: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Access:
    """A row that stores words of the thread's own memory, or loads them: bytes, registers."""

    stores: bool
    words: list[tuple[int, int | None]]


def spilled_values(live: str, ops: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return the ops of each spill's value by the address of the row; no entry where unknown.

    Args:
        live: what nvdisasm -plr prints.
        ops: the ops of every instruction, by address.
    """
    return _Spills(*_read(live), ops).values()


class _Spills:
    """The spills of one kernel, and what their words hold.

    Ways through words lead back to themselves in loops: `seen` are the stores that were followed.
    """

    def __init__(
        self,
        rows: Sequence[_Row],
        before: Sequence[Sequence[int]],
        ops: Mapping[int, tuple[int, ...]],
    ) -> None:
        self._rows, self._before, self._ops = rows, before, ops
        found = ((number, _access(row.text)) for number, row in enumerate(rows))
        self._accesses = {number: access for number, access in found if access is not None}
        #: The registers that each word was stored from, by the number of the row.
        self._stored: defaultdict[int, dict[int, int | None]] = defaultdict(dict)
        for number, access in self._accesses.items():
            if access.stores:
                for word, register in access.words:
                    self._stored[word][number] = register

    def values(self) -> dict[int, tuple[int, ...]]:
        """Return the ops of each spill's value, by address."""
        found: dict[int, tuple[int, ...]] = {}
        for number, access in self._accesses.items():
            held: list[int] = []
            for word, register in access.words:
                if not access.stores:
                    held += self._of_load(number, word, set())
                else:
                    own = self._of_store(number, register, set())
                    held += own or self._of_word(word, self._stored[word], set())
            if held:
                found[self._rows[number].address] = tuple(dict.fromkeys(held))
        return found

    def _of_store(self, number: int, register: int | None, seen: set[tuple[int, int]]) -> list[int]:
        """Return whose value a register holds before a row."""
        if register is None:  # a zero: the first of what the place holds
            return []
        writers = _last(self._before, number, lambda n: register in self._rows[n].writes)
        return [op for writer in writers for op in self._of_writer(writer, register, seen)]

    def _of_writer(self, writer: int, register: int, seen: set[tuple[int, int]]) -> list[int]:
        access = self._accesses.get(writer)
        if access is None or access.stores:
            return list(self._ops.get(self._rows[writer].address, ()))
        words = [word for word, to in access.words if to == register]
        return [op for word in words for op in self._of_load(writer, word, seen)]

    def _of_load(self, number: int, word: int, seen: set[tuple[int, int]]) -> list[int]:
        """Return whose value a word holds at a row."""
        stored = self._stored[word]
        last = _last(self._before, number, lambda n: n in stored)
        return self._of_word(word, last, seen) or self._of_word(word, stored, seen)

    def _of_word(self, word: int, stores: Iterable[int], seen: set[tuple[int, int]]) -> list[int]:
        held: list[int] = []
        for number in stores:
            if (number, word) not in seen:
                seen.add((number, word))
                held += self._of_store(number, self._stored[word][number], seen)
        return held


def _access(text: str) -> _Access | None:
    """Return what a row does to the thread's own memory, None if that is nothing."""
    found = _ACCESS.search(text)
    if found is None:
        return None
    kind, operands = found[1], found[2]
    first, _, second = operands.partition(", ")
    place, register = (first, second) if kind == "STL" else (second, first)
    slot = _SLOT.search(place)
    named = re.match(r"-?R(\d+)", register)
    count = 4 if ".128" in found[0] else 2 if ".64" in found[0] else 1
    if slot is None:
        return None
    start = int(slot[2] or "0", 16)
    words = [(start + 4 * i, int(named[1]) + i if named else None) for i in range(count)]
    return _Access(kind == "STL", words)


def _read(live: str) -> tuple[list[_Row], list[list[int]]]:
    """Return the rows, and which rows come before each on some way."""
    rows: list[_Row] = []
    labels: dict[str, int] = {}
    columns: list[tuple[int, int, int]] = []
    for line in live.splitlines():
        head = _HEAD.search(line)
        if head and not columns:
            start = head.start(1)
            found = re.finditer(r"\d+", head[1])
            columns = [(start + m.start(), start + m.end(), int(m[0])) for m in found]
            continue
        bare = line.split("//", 1)[0].strip()
        if bare.startswith(".L_") and bare.endswith(":"):
            labels[bare[:-1]] = len(rows)
        address = address_of_row(line)
        if address is None:
            continue
        writes = frozenset(
            number for first, last, number in columns if {"^", "x"} & set(line[first:last])
        )
        rows.append(_Row(address, bare, writes))
    before: list[list[int]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        target = _BRANCH.search(row.text)
        if target and (place := labels.get(target[1])) is not None and place < len(rows):
            before[place].append(number)
        if not _ENDS.search(row.text) and number + 1 < len(rows):
            before[number + 1].append(number)
    return rows, before


def _last(before: Sequence[Sequence[int]], number: int, wanted: Callable[[int], bool]) -> list[int]:
    """Return the last rows that are wanted before a row, on any way to it."""
    found: list[int] = []
    left, seen = list(before[number]), set(before[number])
    while left:
        row = left.pop()
        if wanted(row):
            found.append(row)
            continue
        for earlier in before[row]:
            if earlier not in seen:
                seen.add(earlier)
                left.append(earlier)
    return sorted(found)
