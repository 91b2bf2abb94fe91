"""What each program knows of the others: vector clocks.

A program's time passes when it releases: everything it did until then carries one number, its
epoch. A release leaves the program's clock (how far it knows each other program) where others may
acquire it; whoever does knows all of that afterwards. An access is ordered before another one if
the program of the later one knows the epoch of the earlier one.

Mattern, "Virtual Time and Global States of Distributed Systems", 1989; for races as in Flanagan
and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", PLDI 2009.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from workbench.ir import Array

#: Programs of a clock that are kept together. Parts that did not change are shared by clocks.
_PART = 256

#: How far each program is known, by parts of consecutive programs; parts never change.
Clock = dict[int, Array]


class Clocks:
    """The clocks of all programs, and those that releases left behind, by number."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        self._known: dict[int, Clock] = {}
        self._released: dict[int, Clock] = {}
        self._next = 1

    def epoch(self, program: int) -> int:
        """Return the number that accesses of a program carry now; 1 at the beginning."""
        return self._epochs.get(program, 1)

    def knows(self, program: int, others: Array, epochs: Array) -> Array:
        """Say for each (other program, epoch) whether the program comes after it."""
        known = others == program
        clock = self._known.get(program)
        if clock:
            parts = others // _PART
            for number in np.unique(parts):
                part = clock.get(int(number))
                if part is not None:
                    here = parts == number
                    known[here] |= part[others[here] % _PART] >= epochs[here]
        return known

    def release(self, program: int, joined: int = 0) -> int:
        """Leave a program's clock behind and return its number; its next epoch begins.

        `joined` is the number of a clock that the new one goes on from: of a release to the same
        place, after which nothing but atomics wrote there.
        """
        clock = dict(self._known.get(program, {}))
        _enter(clock, program, self.epoch(program))
        self._epochs[program] = self.epoch(program) + 1
        if joined:
            _join(clock, self._released[joined])
        number = self._next
        self._next += 1
        self._released[number] = clock
        return number

    def acquire(self, program: int, numbers: Iterable[int]) -> None:
        """Let a program know what the releases of these numbers knew."""
        clock = self._known.setdefault(program, {})
        for number in numbers:
            _join(clock, self._released[number])

    @property
    def count(self) -> int:
        """How many clocks of releases are kept."""
        return len(self._released)

    def keep(self, numbers: Collection[int]) -> None:
        """Forget the clocks of releases that nobody can acquire any more."""
        self._released = {number: self._released[number] for number in numbers}

    def forget(self, program: int) -> None:
        """Forget what a program knew that has ended."""
        self._known.pop(program, None)


def _enter(clock: Clock, program: int, epoch: int) -> None:
    number, place = divmod(program, _PART)
    part = clock.get(number)
    part = np.zeros(_PART, np.int32) if part is None else part.copy()
    part[place] = epoch
    clock[number] = part


def _join(clock: Clock, other: Clock) -> None:
    for number, part in other.items():
        mine = clock.get(number)
        if mine is None:
            clock[number] = part
        elif mine is not part:
            clock[number] = np.maximum(mine, part)
