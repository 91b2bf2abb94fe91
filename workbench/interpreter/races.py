"""Races: accesses of two programs to one byte, one of them a write, that nothing orders.

The model is that of PTX and C++. Within a program, program order. Between programs, an acquire
that reads what a release wrote (or what atomics made of that since) orders everything before the
release before everything after the acquire, if both have the scope of the device. Atomics of that
scope do not race with each other. Relaxed ones, and ones of scope "cta", order nobody; the latter
are no atomics for other programs.

PTX ISA 9.0, chapter "Memory Consistency Model".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.interpreter.clocks import Clocks
from workbench.interpreter.dependence import Exit, writers
from workbench.interpreter.memory import Allocation
from workbench.interpreter.run import Run
from workbench.interpreter.shadow import Extent, Shadow
from workbench.ir import Array, Op

#: Elements of one access of which races are told.
MOST_ELEMENTS = 20
#: Clocks of releases are looked through for forgotten ones when there are more than this.
_MANY_CLOCKS = 4096


class Manner(NamedTuple):
    """How an op touches memory, as other programs see it."""

    #: Both reads and writes, at once.
    updates: bool
    #: Indivisible for other programs.
    strong: bool
    acquires: bool
    releases: bool
    #: Indivisible, but for its own program only.
    narrow: bool


class Missed(NamedTuple):
    """An atomic that looked at what another program wrote, but orders nobody."""

    op: int
    words: str


class Conflict(NamedTuple):
    """An access that races with an earlier one: `op` and `program` made that one.

    `written`, `writes`: whether the earlier and the later access write. `same`: a value was
    written that was there before. `poll`: a load that decides how long a loop goes round is one of
    the two. `narrow`: one is an atomic of its program only; `mixed`: one is an atomic.
    """

    address: int
    op: int
    program: int
    written: bool
    writes: bool
    same: bool
    poll: bool
    narrow: bool
    mixed: bool
    missed: Missed | None


class Races:
    """Every access so far, and what programs know of each other."""

    def __init__(self, machine: Run) -> None:
        self.machine = machine
        self.clocks = Clocks()
        self.shadow = Shadow()
        self.shadow.enter(machine.global_memory.allocations)
        self._manners: dict[int, Manner] = {}
        #: Plain loads that decide how long a loop goes round, by id.
        self._polls: set[int] = set()
        self._narrow: set[int] = set()
        self._missed: dict[int, Missed] = {}
        self._many_clocks = _MANY_CLOCKS
        self._written = self._reached(machine)

    def _reached(self, machine: Run) -> set[int] | None:
        """Return the extents that some op may write, by id; None: any of them."""
        found: set[int] = set()
        for op in writers(machine.module):
            homes = machine.homes(op)
            if homes.open:
                return None
            allocations = machine.global_memory.allocations
            found |= {id(self.shadow.extent(allocations[number])) for number in homes.numbers}
        return found

    def polls(self, decided: Exit) -> None:
        """Hear of a loop whose exit memory decides."""
        self._polls |= {op.id for op in decided.reads if not self._manner(op).strong}

    def last_written(self, address: int) -> tuple[int, int] | None:
        """Return the program and the op that wrote an address last."""
        for extent in self.shadow.extents:
            if extent.start <= address < extent.end:
                number = int(extent.writes[(address - extent.start) // extent.unit])
                table = self.shadow.accesses
                return (int(table.program[number]), int(table.op[number])) if number else None
        return None

    # -- accesses -------------------------------------------------------------------------
    def read(
        self, op: Op, program: int, allocation: Allocation, addresses: Array, size: int
    ) -> list[Conflict]:
        """Enter a read and return the races that it makes."""
        extent = self.shadow.extent(allocation)
        if self._written is not None and id(extent) not in self._written:
            return []
        manner = self._manner(op)
        units = extent.units(addresses, size)
        plain = not manner.strong
        # An atomic does not order its own access: it might as well have come first.
        racing = self._racing(program, extent.writes[units], plain_only=not plain)
        if manner.strong or manner.narrow or op.id in self._polls:
            self._look(op, program, extent, units, manner)
        found = self._conflicts(
            op, program, extent, units, racing, writes=manner.updates, written=True
        )
        lists = extent.reads[units]
        extent.reads[units] = self._extended(program, op, lists, plain=plain)
        return found

    def write(
        self,
        op: Op,
        program: int,
        allocation: Allocation,
        addresses: Array,
        size: int,
        same: Array,
    ) -> list[Conflict]:
        """Enter a write and return the races that it makes."""
        extent = self.shadow.extent(allocation)
        manner = self._manner(op)
        units = extent.units(addresses, size)
        if len(units) != len(same):
            same = np.repeat(same, len(units) // len(same))
        plain = not manner.strong
        writes, reads = extent.writes[units], extent.reads[units]
        found: list[Conflict] = []
        if not manner.updates:  # else its reading found them
            racing = self._racing(program, writes, plain_only=not plain)
            found += self._conflicts(
                op, program, extent, units, racing, writes=True, written=True, same=same
            )
        racing = self._racing(program, reads, plain_only=not plain)
        found += self._conflicts(
            op, program, extent, units, racing, writes=True, written=False, same=same
        )
        if plain and not same.any():
            number = self.shadow.accesses.add(
                program, self.clocks.epoch(program), op.id, np.zeros(1, np.int32), plain=True
            )
            extent.writes[units] = number[0]
            extent.reads[units] = 0
        else:
            self._enter_write(op, program, extent, units, same, plain=plain)
        self._release(program, extent, units, manner)
        return found

    def _enter_write(
        self, op: Op, program: int, extent: Extent, units: Array, same: Array, *, plain: bool
    ) -> None:
        """Enter a write before which earlier ones stay of interest, for some units at least."""
        for alike in (True, False):
            chosen = units[same == alike]
            if not len(chosen):
                continue
            lists = extent.writes[chosen]
            if plain and not alike:
                lists = np.zeros_like(lists)
                extent.reads[chosen] = 0
            extent.writes[chosen] = self._extended(program, op, lists, plain=plain, same=alike)

    # -- order ----------------------------------------------------------------------------
    def _manner(self, op: Op) -> Manner:
        known = self._manners.get(op.id)
        if known is None:
            effects = [e for e in op.own_effects() if e.space == "global" and (e.reads or e.writes)]
            ordered = [e for e in effects if e.order != "plain"]
            wide = [e for e in ordered if e.scope != "cta"]
            known = Manner(
                updates=any(e.reads and e.writes for e in effects),
                strong=bool(wide),
                acquires=any(e.acquires for e in wide),
                releases=any(e.releases for e in wide),
                narrow=bool(ordered) and not wide,
            )
            self._manners[op.id] = known
            if known.narrow:
                self._narrow.add(op.id)
        return known

    def _look(self, op: Op, program: int, extent: Extent, units: Array, manner: Manner) -> None:
        """An atomic looks at what is there: it acquires, or misses to."""
        released = extent.released[units]
        if manner.acquires and released.any():
            self.clocks.acquire(program, (int(n) for n in np.unique(released) if n))
            self._missed.pop(program, None)
            return
        table = self.shadow.accesses
        latest = int(extent.writes[units[0]]) if len(units) else 0
        if not latest or int(table.program[latest]) == program:
            return
        other = self.machine.shown_program(int(table.program[latest]))
        if manner.acquires:
            words = f"the write of program {other} here, which is acquired, releases nothing"
            self._missed[program] = Missed(int(table.op[latest]), words)
        else:
            how = 'has scope "cta"' if manner.narrow else "does not acquire"
            words = f"this looks at what program {other} wrote, but {how}: it orders nobody"
            self._missed[program] = Missed(op.id, words)

    def _release(self, program: int, extent: Extent, units: Array, manner: Manner) -> None:
        if not manner.strong:
            if self.clocks.count:
                extent.released[units] = 0
            return
        if not manner.releases:
            return  # what was released before goes on through atomics
        before = extent.released[units]
        if manner.acquires or not before.any():
            extent.released[units] = self.clocks.release(program)
        else:
            for number in np.unique(before):
                mine = self.clocks.release(program, int(number))
                extent.released[units[before == number]] = mine
        if self.clocks.count > self._many_clocks:
            self.clocks.keep(self.shadow.released())
            self._many_clocks = max(_MANY_CLOCKS, 2 * self.clocks.count)

    # -- lists of accesses ----------------------------------------------------------------
    def _racing(self, program: int, lists: Array, *, plain_only: bool) -> Array | None:
        """Return for each list the latest access in it that the program does not come after.

        0 stands for none, None for none in any list. Writes that changed nothing count if there
        is no other. `plain_only`: atomics do not count.
        """
        heads, back = _distinct(lists)
        if len(heads) == 1 and not heads[0]:
            return None
        table = self.shadow.accesses
        found = np.zeros(len(heads), np.int64)
        places = np.flatnonzero(heads)
        at = heads[places]
        while len(at):
            candidate = table.program[at] != program
            if plain_only:
                candidate &= table.plain[at]
            if candidate.any():
                bad = candidate & ~self.clocks.knows(program, table.program[at], table.epoch[at])
                better = bad & ((found[places] == 0) | ~table.same[at])
                found[places[better]] = at[better]
            done = (found[places] != 0) & ~table.same[found[places]]
            at = table.parent[at]
            more = ~done & (at != 0)
            if plain_only:
                more &= table.any_plain[at]
            places, at = places[more], at[more]
        if not found.any():
            return None
        return found if back is None else found[back]

    def _extended(
        self, program: int, op: Op, lists: Array, *, plain: bool, same: bool = False
    ) -> Array:
        """Return lists with an access of a program in front."""
        heads, back = _distinct(lists)
        table = self.shadow.accesses
        epoch = self.clocks.epoch(program)
        own = (heads != 0) & (table.program[heads] == program) & (table.same[heads] == same)
        current = own & (table.epoch[heads] == epoch) & (table.plain[heads] | (not plain))
        parents = np.where(own & (plain | ~table.plain[heads]), table.parent[heads], heads)
        # One that comes before this one, and that is not plain where this one is not, says nothing
        # more: whoever comes after this one comes after that.
        last = (parents != 0) & (table.parent[parents] == 0) & (plain | ~table.plain[parents])
        if not same and (places := np.flatnonzero(last & ~current)).size:
            known = parents[places]
            before = self.clocks.knows(program, table.program[known], table.epoch[known])
            parents[places[before]] = 0
        result = heads.astype(np.int64)
        needed = ~current
        if needed.any():
            result[needed] = table.add(
                program, epoch, op.id, parents[needed], plain=plain, same=same
            )
        if back is None:
            return np.broadcast_to(result, lists.shape)
        return result[back]

    def _conflicts(
        self,
        op: Op,
        program: int,
        extent: Extent,
        units: Array,
        racing: Array | None,
        *,
        writes: bool,
        written: bool,
        same: Array | None = None,
    ) -> list[Conflict]:
        """Return what is to be told of units that race, each element once, the first of them."""
        if racing is None:
            return []
        table = self.shadow.accesses
        racing = np.broadcast_to(racing, units.shape)
        alike = table.same[racing] if same is None else same
        found: dict[tuple[str, int, bool], Conflict] = {}
        for wanted in (False, True):
            places = np.flatnonzero((racing != 0) & (alike == wanted))
            for place in places[: MOST_ELEMENTS * 8]:
                number = int(racing[place])
                address = extent.start + int(units[place]) * extent.unit
                key = (*self.machine.element_at(address), wanted)
                first = int(table.op[number])
                if key in found or len(found) >= MOST_ELEMENTS:
                    continue
                ops = (op.id, first)
                found[key] = Conflict(
                    address, first, int(table.program[number]), written, writes, wanted,
                    poll=any(one in self._polls for one in ((first,) if writes else (op.id,))),
                    narrow=any(one in self._narrow for one in ops),
                    mixed=self._manner(op).strong or not table.plain[number],
                    missed=self._missed.get(program),
                )  # fmt: skip
        return list(found.values())


def _distinct(lists: Array) -> tuple[Array, Array | None]:
    """Return the distinct lists, and for each unit which one it has; None: all the only one."""
    if not len(lists) or (lists == lists[0]).all():
        return lists[:1], None
    heads, back = np.unique(lists, return_inverse=True)
    return heads, back
