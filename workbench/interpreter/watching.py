"""What the interpreter watches for on request: races, unwritten memory, claims that do not hold.

Races are in races.py. What an op claims of its values, it says itself (`Op.broken`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from workbench.interpreter.dependence import Exit
from workbench.interpreter.memory import Allocation
from workbench.interpreter.races import Conflict, Races
from workbench.interpreter.recording import Finding, Race, Severity
from workbench.interpreter.run import Run
from workbench.ir import Array, Element, Op
from workbench.ops.numbers import decode
from workbench.source import LaunchError, Note, Span

#: Findings of one sort at one op beyond this many say nothing new.
MOST_FINDINGS = 20
_GROUPING = (
    "which elements are combined first differs by target and num_warps: take a function for which "
    "that does not matter, or go through the elements in a loop"
)
#: Races beyond this many are not written down.
MOST_RACES = 10_000


class Watcher:
    """Looks at every access and every claim of a run."""

    def __init__(self, machine: Run, uninitialised: Collection[str] = ()) -> None:
        self.machine = machine
        self.races = Races(machine)
        self._ops: dict[int, Op] = {op.id: op for op in machine.module.walk()}
        self._counts: dict[tuple[str, Severity, int], int] = {}
        #: By class: whether its ops claim anything.
        self._claims: dict[type[Op], Callable[..., Any] | None] = {}
        self._unwritten: dict[int, Array] = {
            id(allocation): _within(allocation)
            for allocation in machine.global_memory.allocations
            if allocation.name in uninitialised
        }

    def find(
        self,
        kind: str,
        op: Op,
        program: int,
        message: str,
        *,
        severity: Severity = "error",
        notes: tuple[Note, ...] = (),
        hint: str | None = None,
    ) -> None:
        """Enter a finding, the first ones of an op only."""
        key = kind, severity, op.id
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= MOST_FINDINGS:
            where = self.machine.shown_program(program)
            finding = Finding(kind, op.id, op.span, where, message, severity, notes, hint)
            self.machine.recording.findings.append(finding)

    def polls(self, decided: Exit) -> None:
        """Hear of a loop that may wait, before it goes round."""
        self.races.polls(decided)

    def ended(self, program: int) -> None:
        """Hear that a program has ended."""
        self.races.clocks.forget(program)

    def last_written(self, address: int) -> tuple[int, Span | None] | None:
        """Return the program that wrote an address last, and where; None: nobody did."""
        found = self.races.last_written(address)
        return None if found is None else (found[0], self._ops[found[1]].span)

    # -- memory ---------------------------------------------------------------------------
    def outside_view(self, op: Op, program: int, allocation: Allocation) -> None:
        """An access in an argument's storage but not in the argument: once for each op."""
        if ("outside", "remark", op.id) in self._counts:
            return
        if allocation.owner is None:
            words = "checked against mapped memory only: the pointer is data"
        else:
            words = f"outside {allocation.name}, but inside the storage of which it is a view"
        self.find("outside", op, program, words, severity="remark")

    def read(
        self, op: Op, program: int, allocation: Allocation, addresses: Array, size: int
    ) -> None:
        """A read of live addresses, all of which lie in an allocation; before it is done."""
        for conflict in self.races.read(op, program, allocation, addresses, size):
            self._race(op, program, conflict)
        unwritten = self._unwritten.get(id(allocation))
        if unwritten is not None:
            places = (addresses - allocation.start)[:, None] + np.arange(size)
            for address in addresses[unwritten[places].any(1)][:MOST_FINDINGS]:
                name = f"{allocation.name}[{allocation.element_at(int(address))}]"
                self.find(
                    "uninitialised", op, program, f"{name} is read before anything wrote it",
                    hint="store it first, or mask it in the load",
                )  # fmt: skip

    def write(
        self,
        op: Op,
        program: int,
        allocation: Allocation,
        addresses: Array,
        element: Element,
        same: Array,
        bits: Array,
    ) -> None:
        """A write of bits to live addresses; `same` says where it leaves memory as it was."""
        size = element.itemsize
        for address in _doubled(addresses, element, bits)[:MOST_FINDINGS]:
            if all(effect.order != "plain" for effect in op.own_effects()):
                break  # an atomic's lanes come one after the other
            name = f"{allocation.name}[{allocation.element_at(int(address))}]"
            self.find(
                "doubled", op, program, f"several elements of the tile go to {name}",
                hint="let one of them go there (mask the others off), or combine them, e.g. with "
                "tl.atomic_add",
            )  # fmt: skip
        for conflict in self.races.write(op, program, allocation, addresses, size, same):
            self._race(op, program, conflict)
        unwritten = self._unwritten.get(id(allocation))
        if unwritten is not None:
            unwritten[(addresses - allocation.start)[:, None] + np.arange(size)] = False

    def _race(self, op: Op, program: int, found: Conflict) -> None:
        first = self._ops[found.op]
        name = self.machine.shown_place(found.address)
        other = self.machine.shown_program(found.program)
        if found.poll:
            load, by = (
                (op, other) if not found.writes else (first, self.machine.shown_program(program))
            )
            reader = program if load is op else found.program
            self.find(
                "acquire", load, reader,
                f"{name}, which program {by} writes, decides how long a loop goes round: acquire "
                "missing, this load orders nobody's data",
                severity="remark",
                hint="wait with tl.atomic_add(flag, 0, sem='acquire')",
            )  # fmt: skip
            return
        races = self.machine.recording.races
        if len(races) < MOST_RACES:
            allocation, element = self.machine.element_at(found.address)
            races.append(
                Race(op.id, allocation, element, found.program, program, first.id, found.same)
            )
        done = "already " + ("stored" if found.written else "read")
        words = f"{name} was {done} by program {other}"
        if not found.writes:
            words = f"{name}, read here, was {done} by program {other}"
        notes = [
            Note(f"program {other} {'wrote' if found.written else 'read'} it here", first.span)
        ]
        if found.same:
            notes.append(Note("the value stayed the same"))
        elif found.missed is not None:
            notes.append(Note(found.missed.words, self._ops[found.missed.op].span))
        self.find(
            "race", op, program, words,
            severity="remark" if found.same else "error", notes=tuple(notes), hint=_hint(found),
        )  # fmt: skip

    # -- what the author says --------------------------------------------------------------
    def before(self, op: Op, frame: Any) -> None:
        """Look at an op that claims something; raises LaunchError K510 for an assertion."""
        kind = type(op)
        if kind not in self._claims:
            self._claims[kind] = None if kind.broken is Op.broken else kind.broken
        claims = self._claims[kind]
        if claims is None:
            return
        for broken in claims(op, frame):
            if broken.kind == "assertion":
                program = self.machine.shown_program(frame.number)
                raise LaunchError(
                    f"assertion failed in program {program}{broken.message}",
                    op.span,
                    code="K510",
                    notes=broken.notes,
                    hint="launch with values for which it holds, or mend what comes before it",
                )
            hint = _GROUPING if broken.kind == "grouping" else None
            self.find(broken.kind, op, frame.number, broken.message, hint=hint)


def _within(allocation: Allocation) -> Array:
    """Return for each byte of a storage whether it belongs to the argument."""
    found = np.zeros(len(allocation.bytes), bool)
    found[allocation.low - allocation.start : allocation.high - allocation.start] = True
    return found


def _doubled(addresses: Array, element: Element, bits: Array) -> Array:
    """Return addresses to which elements of one write go that do not leave the same there."""
    size = element.itemsize
    steps = np.diff(addresses)
    if not len(steps) or steps.min() >= size or steps.max() <= -size:
        return addresses[:0]
    order = np.argsort(addresses, kind="stable")
    places, values = addresses[order], bits[order]
    steps = np.diff(places)
    differ = values[1:].view(f"u{bits.itemsize}") != values[:-1].view(f"u{bits.itemsize}")
    if element.is_float and differ.any():
        unknown = np.isnan(decode(values, element))
        differ &= ~(unknown[1:] & unknown[:-1])
    return np.unique(places[1:][(steps < size) & ((steps > 0) | differ)])


def _hint(found: Conflict) -> str:
    if found.narrow:
        return 'scope="cta" is indivisible within one program only; use scope="gpu"'
    if found.mixed:
        return "make the plain access an atomic too, or let a release and an acquire order the two"
    return (
        "let one program touch the element, or order the two: a release after the first access, "
        "an acquire of the same atomic before the second"
    )
