"""Copies from global to shared memory that go on while the thread does something else."""

from __future__ import annotations

import numpy as np

from workbench.ir import (
    Effect,
    Effects,
    Frame,
    Op,
    Shared,
    Value,
    attribute,
    element_of,
    reads,
    shape_of,
    writes,
)
from workbench.ops.memory import pointee_of
from workbench.ops.numbers import round_to
from workbench.source import ShapeError
from workbench.targets.simt.ops.shared import place_of, slot_of, stored, verify_slot

#: Orders the copies of this thread with what it does itself, nobody else's accesses.
_COPY_FENCE: Effects = (Effect("shared", order="relaxed", scope="cta"),)
#: The same, of copies that go on.
_COPIES_START: Effects = (Effect("shared", order="relaxed", scope="cta", later=True),)


class AsyncCopy(Op, mnemonic="gpu.async_copy", exact=True):
    """Start copying what the pointers point at into slot `slot`; masked-off elements become 0.

    The data may be read after a CommitCopies, a WaitCopies that covers it, and a barrier.
    `stage` -2: in its loop it copies what is read two rounds later. `prefetch`: so many bytes come
    to the L2 with each vector of 16, a hint, as is `eviction`: how long the L2 keeps them. PTX ISA
    9.0, cp.async (sm_80).

        gpu.async_copy %0, %1 slot %2 mask %3 {cache = "cg"}
    """

    pointers: Value
    buffer: Value
    slot: Value | None = None
    mask: Value | None = None
    cache: str = attribute(default="")
    eviction: str = attribute(default="")
    stage: int = attribute(default=0)
    prefetch: int = attribute(default=0)

    def verify(self) -> None:
        type = self.pointers.type
        verify_slot(self, self.buffer, shape_of(type), pointee_of(type), self.slot)

    def own_effects(self) -> Effects:
        arrival = Effect("shared", writes=True, through=self.buffer, later=True)
        return (reads("global", self.pointers), arrival)

    def interpret(self, frame: Frame) -> None:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        values = frame.read(self, frame[self.pointers], live, element)
        values = np.where(live, values, round_to(np.zeros(1), element))
        where = slot_of(frame, self.buffer, self.slot)
        # What is in flight reads as poison until it is waited for.
        poison = np.nan if element.is_float else 0x5A
        where[...] = poison
        place = place_of(frame, self.buffer, self.slot)
        frame.memory.setdefault("started", []).append((where, values, place))


class CommitCopies(Op, mnemonic="gpu.commit_copies", effects=_COPIES_START, exact=True):
    """Close a group of asynchronous copies.

    gpu.commit_copies
    """

    def interpret(self, frame: Frame) -> None:
        frame.memory.setdefault("groups", []).append(frame.memory.pop("started", []))


class WaitCopies(Op, mnemonic="gpu.wait_copies", effects=_COPY_FENCE, exact=True):
    """Wait until at most `pending` of the latest groups are still under way.

    gpu.wait_copies {pending = 1}
    """

    pending: int

    def interpret(self, frame: Frame) -> None:
        groups = frame.memory.setdefault("groups", [])
        while len(groups) > self.pending:
            for where, values, place in groups.pop(0):
                where[...] = values
                stored(frame).add(place)


class CopyRounds(Op, mnemonic="gpu.copy_rounds", exact=True):
    """Fill all slots of a buffer: slot t with what lies t elements behind the pointers.

    The pointers are as many elements apart along `axis` as there are slots, so a row of a tile is
    one run of memory, each byte of which is copied once. The first of each 16 bytes of elements
    along `axis` (of one mask) points at a multiple of 16 bytes. Masked-off elements become 0.

        gpu.copy_rounds %0, %1 mask %2 {axis = 1}
    """

    pointers: Value
    buffer: Value
    mask: Value | None = None
    axis: int = attribute(default=0)

    def verify(self) -> None:
        buffer, pointers = self.buffer.type, self.pointers.type
        fits = isinstance(buffer, Shared) and buffer.slots > 0
        fits = fits and shape_of(buffer) == shape_of(pointers)
        if not fits or element_of(buffer) != pointee_of(pointers):
            raise ShapeError(f"{self.name} of {pointers} does not fill a {buffer}", self.span)

    def own_effects(self) -> Effects:
        return (reads("global", self.pointers), writes("shared", self.buffer))

    def interpret(self, frame: Frame) -> None:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        slots = frame.memory[int(frame[self.buffer])]
        for slot in range(slots.shape[0]):
            places = frame[self.pointers] + slot * element.itemsize
            values = frame.read(self, places, live, element)
            slots[slot] = np.where(live, values, round_to(np.zeros(1), element))
            stored(frame).add((int(frame[self.buffer]), slot))
