"""What the interpreter watches for on request: races, unwritten memory, promises that do not hold.

A race is two programs that write the same element, at least one of them by a plain store, neither
of which knows of the other. A program knows of another one after an atomic on an address on which
that one did an atomic before: that is how locks and counters order programs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.interpreter.recording import Finding, Race
from workbench.ir import Array, Op, shape_of
from workbench.ops import (
    Assume,
    AtomicCompareExchange,
    AtomicUpdate,
    DeviceAssert,
    Promise,
)
from workbench.source import LaunchError

if TYPE_CHECKING:
    from workbench.interpreter.machine import Machine

#: Findings of one sort at one op beyond this many say nothing new.
MOST_FINDINGS = 20
ATOMICS = (AtomicUpdate, AtomicCompareExchange)


class Races:
    """Who wrote each element last, and which programs know of each other."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.writers: dict[str, Array] = {}
        #: The same for atomics.
        self.updaters: dict[str, Array] = {}
        #: address -> programs that are known to whoever does an atomic there
        self.released: dict[int, set[int]] = {}
        self.known: dict[int, set[int]] = {}

    def entered(
        self, op: Op, program: int, flat: Array, where: Array, *, write: bool
    ) -> list[Race]:
        """Enter an access to live addresses and return the races that it makes."""
        if isinstance(op, ATOMICS):
            # An atomic reads, then writes: its reading says it all.
            return [] if write else self.atomic(op, program, flat, where)
        return self.written(op, program, flat, where) if write else []

    def atomic(self, op: Op, program: int, flat: Array, where: Array) -> list[Race]:
        """Enter an atomic on live addresses and return the races that it makes.

        The program learns of all that did an atomic here, and is known to those that come.
        """
        found = self._unordered(op, program, flat, where, (self.writers,), self.updaters)
        known = self.known.setdefault(program, {program})
        for address in flat.tolist():
            released = self.released.setdefault(address, set())
            known |= released
            released |= known
        return found

    def written(self, op: Op, program: int, flat: Array, where: Array) -> list[Race]:
        """Enter a store to live addresses and return the races that it makes."""
        earlier = (self.writers, self.updaters)
        return self._unordered(op, program, flat, where, earlier, self.writers)

    def _unordered(
        self,
        op: Op,
        program: int,
        flat: Array,
        where: Array,
        earlier: tuple[dict[str, Array], ...],
        entered: dict[str, Array],
    ) -> list[Race]:
        """Return the races with who wrote the addresses earlier; enter the program."""
        found: list[Race] = []
        known = self.known.get(program, ())
        for number in (int(n) for n in np.unique(where)):
            allocation = self.machine.global_memory.allocations[number]
            offsets = flat[where == number] - allocation.start
            raced: set[int] = set()
            for programs in (table.get(allocation.name) for table in earlier):
                before = programs[offsets] if programs is not None else np.empty(0, np.int64)
                for place in np.flatnonzero((before >= 0) & (before != program)):
                    first, offset = int(before[place]), int(offsets[place])
                    if first not in known and offset not in raced:
                        raced.add(offset)
                        element = allocation.element_at(offset + allocation.start)
                        found.append(Race(op.id, allocation.name, element, first, program))
            if allocation.name not in entered:
                entered[allocation.name] = np.full(len(allocation.bytes), -1, np.int64)
            entered[allocation.name][offsets] = program
        return found


class Watcher:
    """Looks at every access and every promise of a run."""

    def __init__(self, machine: Machine, uninitialised: Collection[str] = ()) -> None:
        self.machine = machine
        self.races = Races(machine)
        self._counts: dict[tuple[str, int], int] = {}
        self._unwritten: dict[int, Array] = {
            number: np.ones(len(allocation.bytes), bool)
            for number, allocation in enumerate(machine.global_memory.allocations)
            if allocation.name in uninitialised
        }

    def find(self, kind: str, op: Op, program: int, message: str) -> None:
        """Enter a finding, the first ones of an op only."""
        key = kind, op.id
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= MOST_FINDINGS:
            where = self.machine.shown_program(program)
            finding = Finding(kind, op.id, op.span, where, message)
            self.machine.recording.findings.append(finding)

    # -- memory ---------------------------------------------------------------------------
    def access(self, op: Op, program: int, flat: Array, where: Array, *, write: bool) -> None:
        """An access to live addresses, all of which lie in allocations."""
        size = 1
        for race in self.races.entered(op, program, flat, where, write=write):
            self.machine.recording.races.append(race)
            first = self.machine.shown_program(race.first_program)
            name = f"{race.argument}[{race.element}]"
            self.find("race", op, program, f"{name} was already stored by program {first}")
        for number, unwritten in self._unwritten.items():
            allocation = self.machine.global_memory.allocations[number]
            size = allocation.itemsize
            here = flat[where == number]
            places = (here - allocation.start)[:, None] + np.arange(size)
            if write:
                unwritten[places] = False
                continue
            for address in here[unwritten[places].any(1)][:MOST_FINDINGS]:
                name = f"{allocation.name}[{allocation.element_at(int(address))}]"
                self.find("uninitialised", op, program, f"{name} is read before anything wrote it")

    # -- what the author says --------------------------------------------------------------
    def before(self, op: Op, frame: Any) -> None:
        """Look at an op that promises or asserts something."""
        match op:
            case Promise():
                self._promise(op, np.asarray(frame[op.source]), frame.number)
            case Assume():
                values = np.asarray(frame[op.condition])
                if not values.all():
                    place = _first(~values)
                    self.find("assumption", op, frame.number, f"the assumption is false{place}")
            case DeviceAssert():
                self._assert(op, frame)
            case _:
                pass

    def _promise(self, op: Promise, values: Array, program: int) -> None:
        rank = max(1, len(shape_of(op.source.type)))
        held = np.reshape(values, shape_of(op.source.type) or (1,))
        for axis in range(rank):
            line = np.moveaxis(held, axis, 0)
            for steps, words in ((op.contiguous, "consecutive"), (op.constant, "equal")):
                length = steps[axis] if steps else 1
                inside = np.arange(1, line.shape[0]) % max(1, length) != 0
                wrong = np.diff(line, axis=0) != (1 if words == "consecutive" else 0)
                if (bad := wrong[inside]).any():
                    row = np.arange(1, line.shape[0])[inside][np.argwhere(bad)[0][0]]
                    self.find(
                        "promise", op, program,
                        f"runs of {length} {words} numbers are promised along axis {axis}, but "
                        f"element {row} is {_one(line[row])} after {_one(line[row - 1])}",
                    )  # fmt: skip
            multiple = op.divisible[axis] if op.divisible else 1
            if multiple > 1:
                self._multiples(op, program, line, axis, multiple)

    def _multiples(self, op: Promise, program: int, line: Array, axis: int, multiple: int) -> None:
        """Look at the first number of each run of consecutive ones, which is what is promised.

        multiple_of(start + arange(0, 16), 16) says that the runs begin at multiples of 16.
        """
        first = np.ones(line.shape, bool)
        first[1:] = np.diff(line, axis=0) != 1
        if (bad := first & (line % multiple != 0)).any():
            self.find(
                "promise", op, program,
                f"multiples of {multiple} are promised along axis {axis}, but there is "
                f"{line[tuple(np.argwhere(bad)[0])]}",
            )  # fmt: skip

    def _assert(self, op: DeviceAssert, frame: Any) -> None:
        condition, mask = np.asarray(frame[op.condition]), np.asarray(frame.get(op.mask, True))
        failed = (condition == 0) & mask
        if failed.any():
            program = self.machine.shown_program(frame.number)
            words = f": {op.message}" if op.message else ""
            count = f"{int(failed.sum())} of {failed.size} elements fail"
            raise LaunchError(
                f"assertion failed in program {program}{_first(failed)}{words}",
                op.span,
                code="K510",
                notes=[count] if failed.ndim else [],
            )


def _first(wrong: Array) -> str:
    """Say which element is the first wrong one, nothing for a scalar."""
    if not wrong.ndim:
        return ""
    return f" at element {tuple(int(i) for i in np.argwhere(wrong)[0])}"


def _one(values: Array) -> Any:
    return np.ravel(values)[0]
