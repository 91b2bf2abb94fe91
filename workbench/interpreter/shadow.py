"""Shadow memory: who touched which bytes last, as arrays beside the memory itself.

Every unit of memory has two lists of accesses: writes, and reads since the last plain write. Lists
are heads of chains in one table of accesses, so that the units that one op touched together share
theirs, and a step over a tile is a few array operations. A unit is as wide as the narrowest access
so far; it is split when one comes that is narrower or that lies across.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from workbench.interpreter.memory import Allocation
from workbench.ir import Array

#: Bytes of a unit of memory that is no argument, until something narrower touches it.
_ADOPTED = 8


class Accesses:
    """A table of accesses; number 0 is none. A list is the number of its latest access."""

    _COLUMNS = ("program", "epoch", "op", "parent", "plain", "same", "any_plain")

    def __init__(self) -> None:
        self.count = 1
        self.program, self.epoch, self.op, self.parent = (np.zeros(64, np.int32) for _ in range(4))
        #: Not an atomic of the device; a write that left the value as it was; a list with a plain.
        self.plain, self.same, self.any_plain = (np.zeros(64, bool) for _ in range(3))

    def add(
        self, program: int, epoch: int, op: int, parents: Array, *, plain: bool, same: bool = False
    ) -> Array:
        """Enter one access for each list that goes on from `parents`; returns their numbers."""
        first, last = self.count, self.count + len(parents)
        if last > len(self.program):
            room = max(last, 2 * len(self.program))
            for name in self._COLUMNS:
                old = getattr(self, name)
                grown = np.zeros(room, old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)
        self.program[first:last] = program
        self.epoch[first:last] = epoch
        self.op[first:last] = op
        self.parent[first:last] = parents
        self.plain[first:last] = plain
        self.same[first:last] = same
        self.any_plain[first:last] = plain | self.any_plain[parents]
        self.count = last
        return np.arange(first, last)


@dataclass(slots=True, eq=False)
class Extent:
    """A run of memory and its shadow; arguments that overlap lie in one."""

    start: int
    end: int
    unit: int
    #: Lists by unit, and the number of the clock that a release left there.
    writes: Array
    reads: Array
    released: Array

    @staticmethod
    def over(start: int, end: int, unit: int) -> Extent:
        """Return an extent that nobody has touched."""
        count = -(-(end - start) // unit)
        return Extent(start, end, unit, *(np.zeros(count, np.int32) for _ in range(3)))

    def units(self, addresses: Array, size: int) -> Array:
        """Return the units of accesses, access by access: each has `size` // `unit` of them."""
        offsets = addresses - self.start
        if size % self.unit or (self.unit > 1 and np.any(offsets % self.unit)):
            self._split(int(np.gcd.reduce(offsets, initial=np.gcd(self.unit, size))))
        first = offsets // self.unit
        if size == self.unit:
            return first
        return (first[:, None] + np.arange(size // self.unit)).ravel()

    def _split(self, unit: int) -> None:
        times = self.unit // unit
        count = -(-(self.end - self.start) // unit)
        self.writes, self.reads, self.released = (
            np.repeat(held, times)[:count] for held in (self.writes, self.reads, self.released)
        )
        self.unit = unit

    def absorb(self, other: Extent) -> None:
        """Take over the shadow of an extent that lies in this one; nobody touched the rest of it.

        Both have the same unit.
        """
        first = (other.start - self.start) // self.unit
        for mine, theirs in (
            (self.writes, other.writes),
            (self.reads, other.reads),
            (self.released, other.released),
        ):
            mine[first : first + len(theirs)] = theirs

    def split_to(self, unit: int) -> None:
        """Make units as narrow as `unit`, which divides their width."""
        if unit != self.unit:
            self._split(unit)


class Shadow:
    """The shadow of all memory that is watched."""

    def __init__(self) -> None:
        self.accesses = Accesses()
        self.extents: list[Extent] = []
        self._of: dict[int, Extent] = {}

    def extent(self, allocation: Allocation) -> Extent:
        """Return the extent that an allocation lies in."""
        known = self._of.get(id(allocation))
        if known is None:
            known = self._enter(allocation)
            self._of[id(allocation)] = known
        return known

    def enter(self, allocations: Iterable[Allocation]) -> None:
        """Enter allocations beforehand, so that those that overlap share their extent."""
        for allocation in allocations:
            self.extent(allocation)

    def _enter(self, allocation: Allocation) -> Extent:
        start, end = allocation.start, allocation.end
        if start == end:
            return Extent.over(start, end, 1)
        meets = [e for e in self.extents if e.start < end and start < e.end]
        if len(meets) == 1 and meets[0].start <= start and end <= meets[0].end:
            return meets[0]
        low = min(start, *(e.start for e in meets)) if meets else start
        high = max(end, *(e.end for e in meets)) if meets else end
        unit = allocation.itemsize if allocation.owner is not None else _ADOPTED
        for extent in meets:
            unit = int(np.gcd.reduce([unit, extent.unit, extent.start - low]))
        joined = Extent.over(low, high, unit)
        for extent in meets:
            extent.split_to(unit)
            joined.absorb(extent)
            self.extents.remove(extent)
        self.extents.append(joined)
        for key, held in self._of.items():
            if held in meets:
                self._of[key] = joined
        return joined

    def released(self) -> set[int]:
        """Return the numbers of all clocks that somebody may still acquire."""
        return {int(n) for e in self.extents for n in np.unique(e.released) if n}
