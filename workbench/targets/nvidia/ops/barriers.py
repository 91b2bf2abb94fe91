"""Barriers that count arrivals and copied bytes: their ops, and how the interpreter runs them.

A barrier is in one phase at a time. The phase ends when as many have arrived as the barrier asks
for and all bytes that were expected have come; then the next begins. Who waits names the parity of
a phase, so nobody can tell a phase from the one two before it: a phase must have been waited for
before the next one ends.

Copies land when somebody waits, as late as possible: what is read too early is poison. A wait that
finds its phase not ended lets other roles of the program go on (`Frame.until`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from workbench.ir import (
    I64,
    Array,
    Effect,
    Effects,
    Frame,
    Op,
    Shared,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    writes,
)
from workbench.source import KernelTypeError, LaunchError, ShapeError
from workbench.targets.nvidia.ops.clusters import verify_cluster


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


class Barriers(Op, mnemonic="gpu.barriers", exact=True, begins=True):
    """A ring of barriers in shared memory, each of whose phases ends after so many arrivals.

    And after the arrival of all bytes that it was told to expect. The other threads may use them
    after a block barrier. PTX ISA 9.0, mbarrier.init and fence.mbarrier_init.

        %0 = gpu.barriers {count = 3} : shared<1xi64, slots=3>
    """

    count: int
    arrivals: int = attribute(default=1)

    def infer(self) -> Type:
        return Shared((1,), I64, None, self.count)

    def verify(self) -> None:
        if self.count < 1 or not 1 <= self.arrivals < 1 << 20:
            raise ShapeError(f"{self.name}: {self.count} of {self.arrivals} arrivals", self.span)

    def own_effects(self) -> Effects:
        return (writes("shared", self.result),)

    def interpret(self, frame: Frame) -> Array:
        key = len(frame.memory)
        frame.memory[key] = [Barrier(self.arrivals) for _ in range(self.count)]
        return np.asarray(key)


class RenewBarriers(Op, mnemonic="gpu.renew_barriers", exact=True):
    """Let all barriers of a ring begin again: each is in its first phase, and nobody has arrived.

    Nobody may wait or copy meanwhile, so the block meets before, and the other threads may use them
    after a block barrier. Memory that holds a barrier becomes another one, or anything else, only
    once that has been given up. PTX ISA 9.0, mbarrier.inval.

        gpu.renew_barriers %0
    """

    barriers: Value
    arrivals: int = attribute(default=1)

    def verify(self) -> None:
        verify_barriers(self, self.barriers)

    def own_effects(self) -> Effects:
        return (_counted(self.barriers, "release"),)

    def interpret(self, frame: Frame) -> None:
        ring: list[Barrier] = frame.memory[int(frame[self.barriers])]
        for barrier in ring:
            barrier.give_up(self)
        ring[:] = [Barrier(self.arrivals) for _ in ring]


class Expect(Op, mnemonic="gpu.expect", exact=True):
    """Arrive at barrier `turn`, and have its phase wait for so many bytes of copies too.

    One thread does, if `when` holds. PTX ISA 9.0, mbarrier.arrive.expect_tx.

        gpu.expect %0, %1 {bytes = 4096}
    """

    barriers: Value
    turn: Value
    when: Value | None = None
    bytes: int = attribute()

    def verify(self) -> None:
        verify_barriers(self, self.barriers)

    def own_effects(self) -> Effects:
        return (_counted(self.barriers, "release"),)

    def interpret(self, frame: Frame) -> None:
        if frame.get(self.when, True):
            barrier_of(frame, self.barriers, self.turn).expect(self, self.bytes)


class Arrive(Op, mnemonic="gpu.arrive", exact=True):
    """Arrive at barrier `turn`: one thread does, if `when` holds.

    With `warps` one thread of each warp does, of which the block (or the role) has so many. With
    `blocks` it does so at that barrier of each block of a cluster, and at its own for those that
    have no program: each then gets as many arrivals.
    What this thread did before, those who wait for the phase see. PTX ISA 9.0, mbarrier.arrive.

        gpu.arrive %0, %1
    """

    barriers: Value
    turn: Value
    when: Value | None = None
    warps: int = attribute(default=0)
    blocks: int = attribute(default=1)

    def verify(self) -> None:
        verify_cluster(self, self.blocks)
        verify_barriers(self, self.barriers)

    def own_effects(self) -> Effects:
        return (_counted(self.barriers, "release"),)

    def interpret(self, frame: Frame) -> None:
        if frame.get(self.when, True):
            times = (self.warps or 1) * self.blocks
            barrier_of(frame, self.barriers, self.turn).arrive(self, times)


class Await(Op, mnemonic="gpu.await", exact=True):
    """Wait until the phase of barrier `turn` with a parity has ended (0: of the first).

    All threads do. A phase before the first counts as ended, with parity 1; parities alternate.
    PTX ISA 9.0, mbarrier.try_wait.parity.

        gpu.await %0, %1, %2
    """

    barriers: Value
    turn: Value
    parity: Value

    def verify(self) -> None:
        verify_barriers(self, self.barriers)
        verify_integers(self, (self.parity,))

    def own_effects(self) -> Effects:
        return (_counted(self.barriers, "acquire"),)

    def interpret(self, frame: Frame) -> None:
        barrier_of(frame, self.barriers, self.turn).wait(frame, self, int(frame[self.parity]) & 1)


def _counted(barriers: Value, order: str) -> Effect:
    return Effect("shared", reads=True, writes=True, through=barriers, order=order, scope="cta")  # type: ignore[arg-type]


def verify_integers(op: Op, values: Sequence[Value]) -> None:
    """Raise KernelTypeError if an operand is no integer of at least 32 bits."""
    for value in values:
        held = element_of(value.type) if not shape_of(value.type) else None
        if held is None or not held.is_integer or held.bits < 32:
            raise KernelTypeError(f"{op.name} got a {value.type} for an integer", op.span)
