"""Barriers that count arrivals and copied bytes, as the interpreter runs them.

A barrier is in one phase at a time. The phase ends when as many have arrived as the barrier asks
for and all bytes that were expected have come; then the next begins. Who waits names the parity of
a phase, so nobody can tell a phase from the one two before it: a phase must have been waited for
before the next one ends.

Copies land when somebody waits, as late as possible: what is read too early is poison. A wait that
finds its phase not ended lets other roles of the program go on (`Frame.until`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from workbench.ir import I64, Array, Frame, Op, Shared, Value
from workbench.source import KernelTypeError, LaunchError


@dataclass(eq=False, slots=True)
class _Copy:
    """A copy under way: where it goes, what it brings, and how many bytes that is in memory."""

    where: Array
    values: Array
    bytes: int


@dataclass
class Barrier:
    """One barrier: its phase, what it still waits for, and copies that have not landed."""

    arrivals: int
    phase: int = 0
    arrived: int = 0
    #: Bytes that are expected and have not come.
    missing: int = 0
    #: The latest phase that somebody waited for.
    awaited: int = -1
    copies: list[_Copy] = field(default_factory=list[_Copy])

    def expect(self, op: Op, count: int) -> None:
        """Arrive, and have the phase wait for `count` bytes."""
        self.missing += count
        self.arrive(op)

    def arrive(self, op: Op, times: int = 1) -> None:
        """Arrive; raise LaunchError for more arrivals than the phase has."""
        if self.arrived + times > self.arrivals:
            raise _wrong(
                op, f"phase {self.phase} of {self.arrivals} arrivals gets {self.arrived + times}"
            )
        self.arrived += times
        self._turn(op)

    def copy(self, frame: Frame, op: Op, where: Array, values: Array, count: int) -> None:
        """Start a copy of `count` bytes that lands when somebody waits for it, at the latest."""
        if any(np.shares_memory(where, other.where) for other in self.copies):
            raise _wrong(op, "a slot is filled again before its copy has landed")
        copy = _Copy(where, values, count)
        self.copies.append(copy)
        frame.later(partial(self._land, op, copy))

    def wait(self, frame: Frame, op: Op, parity: int) -> None:
        """Wait for the end of a phase; raise LaunchError if nobody will end it."""
        frame.until(op, lambda: self.phase & 1 != parity, self._words)
        self.awaited = max(self.awaited, self.phase - 1)

    def give_up(self, op: Op) -> None:
        """End; raise LaunchError where something of a phase has happened that has not ended."""
        if self.arrived or self.missing or self.copies:
            raise _wrong(op, f"phase {self.phase} of a barrier is under way")

    def _words(self) -> str:
        return (
            f"the end of phase {self.phase}, which nobody ends: {self.arrived} of "
            f"{self.arrivals} have arrived, {self.missing} bytes are missing"
        )

    def _land(self, op: Op, copy: _Copy) -> None:
        copy.where[...] = copy.values
        self.missing -= copy.bytes
        self.copies.remove(copy)
        self._turn(op)

    def _turn(self, op: Op) -> None:
        if self.arrived < self.arrivals or self.missing or self.copies:
            return
        if self.awaited < self.phase - 1:
            raise _wrong(op, f"phase {self.phase} ends, and nobody waited for the one before")
        self.phase += 1
        self.arrived = 0


def barrier_of(frame: Frame, barriers: Value, turn: Value) -> Barrier:
    """Return one barrier of a ring; raise LaunchError for one that it does not have."""
    ring: list[Barrier] = frame.memory[int(frame[barriers])]
    place = int(frame[turn])
    if not 0 <= place < len(ring):
        raise LaunchError(f"there is no barrier {place} in a ring of {len(ring)}")
    return ring[place]


def verify_barriers(op: Op, barriers: Value) -> None:
    """Raise KernelTypeError unless a value is a ring of barriers."""
    type = barriers.type
    if not isinstance(type, Shared) or (type.shape, type.element) != ((1,), I64) or not type.slots:
        raise KernelTypeError(f"{op.name} needs a ring of barriers, not a {type}", op.span)


def _wrong(op: Op, what: str) -> LaunchError:
    return LaunchError(f"{op.name}: {what}", op.span, code="K515")
