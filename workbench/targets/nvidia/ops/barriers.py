"""Barriers that count arrivals and copied bytes, as the interpreter runs them.

A barrier is in one phase at a time. The phase ends when as many have arrived as the barrier asks
for and all bytes that were expected have come; then the next begins. Who waits names the parity of
a phase, so nobody can tell a phase from the one two before it: a phase must have been waited for
before the next one ends.

One thread of execution stands for all threads of a program here, so what a wait does not find ended
by then, with all copies landed, nobody will end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workbench.ir import I64, Array, Frame, Op, Shared, Value
from workbench.source import KernelTypeError, LaunchError


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
    #: Where each goes, what it brings, and how many bytes that is in memory.
    copies: list[tuple[Array, Array, int]] = field(default_factory=list[tuple[Array, Array, int]])

    def expect(self, op: Op, count: int) -> None:
        """Arrive, and have the phase wait for `count` bytes."""
        self.missing += count
        self.arrive(op)

    def arrive(self, op: Op) -> None:
        """Arrive once; raise LaunchError for more arrivals than the phase has."""
        if self.arrived == self.arrivals:
            self._land(op)
        if self.arrived == self.arrivals:
            raise _wrong(op, f"a phase of {self.arrivals} arrivals gets one more")
        self.arrived += 1
        self._turn(op)

    def copy(self, op: Op, where: Array, values: Array, count: int) -> None:
        """Start a copy of `count` bytes that lands when somebody waits for it, at the latest."""
        if any(np.shares_memory(where, other) for other, _, _ in self.copies):
            raise _wrong(op, "a slot is filled again before its copy has landed")
        self.copies.append((where, values, count))

    def wait(self, op: Op, parity: int) -> None:
        """Wait for the end of a phase; raise LaunchError if nobody will end it."""
        if self.phase & 1 == parity:
            self._land(op)
        if self.phase & 1 == parity:
            raise _wrong(
                op,
                f"nobody ends phase {self.phase}, which is waited for: {self.arrived} of "
                f"{self.arrivals} have arrived, {self.missing} bytes are missing",
            )
        self.awaited = max(self.awaited, self.phase - 1)

    def _land(self, op: Op) -> None:
        for where, values, count in self.copies:
            where[...] = values
            self.missing -= count
        self.copies.clear()
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
