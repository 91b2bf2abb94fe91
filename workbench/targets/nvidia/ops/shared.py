"""Buffers in shared memory and the ways in and out of them."""

from __future__ import annotations

import numpy as np

from workbench.ir import (
    BLOCK_FENCE,
    Array,
    Effect,
    Effects,
    Element,
    Frame,
    Op,
    Shared,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    reads,
    shape_of,
    writes,
)
from workbench.ops.dots import Precision, product
from workbench.ops.memory import pointee_of
from workbench.ops.numbers import round_to, value_dtype
from workbench.source import ShapeError

#: Orders the copies of this thread with what it does itself, nobody else's accesses.
_COPY_FENCE: Effects = (Effect("shared", order="relaxed", scope="cta"),)


class SharedAllocate(Op, mnemonic="gpu.shared_allocate", exact=True):
    """A buffer in shared memory for a tile, or a ring of slots with a tile in each.

    %0 = gpu.shared_allocate {type = shared<16x16xf16, slots=2>} : shared<16x16xf16, slots=2>
    """

    type: Shared

    def infer(self) -> Type:
        return self.type

    def own_effects(self) -> Effects:
        # Its bytes get a new owner; two allocations are never one.
        return (writes("shared", self.result),)

    def interpret(self, frame: Frame) -> Array:
        key = len(frame.memory)
        # Poisoned, so that a read before any write shows.
        poison = np.nan if self.type.element.is_float else 0x5A
        slots = (self.type.slots,) if self.type.slots else ()
        shape = (*slots, *self.type.shape)
        frame.memory[key] = np.full(shape, poison, value_dtype(self.type.element))
        return np.asarray(key)


class SharedStore(Op, mnemonic="gpu.shared_store", exact=True):
    """Write a tile into slot `slot` of a buffer (the whole buffer if it has no slots).

    With `part` = (axis, start): the elements from `start` on along an axis, as many as the buffer
    has, a power of two that divides `start`.

        gpu.shared_store %0, %1 slot %2
    """

    source: Value
    buffer: Value
    slot: Value | None = None
    part: tuple[int, ...] | None = attribute(default=None)

    def verify(self) -> None:
        type = self.source.type
        shape = shape_of(type)
        if self.part is not None:
            axis, start = self.part
            count = shape_of(self.buffer.type)[axis]
            if count & (count - 1) or start % count or start + count > shape[axis]:
                raise ShapeError(
                    f"{self.name} of {count} from {start} on along axis {axis} of {shape}",
                    self.span,
                )
            shape = (*shape[:axis], count, *shape[axis + 1 :])
        _verify_slot(self, self.buffer, shape, element_of(type), self.slot)

    def own_effects(self) -> Effects:
        return (writes("shared", self.buffer),)

    def interpret(self, frame: Frame) -> None:
        values = frame[self.source]
        if self.part is not None:
            axis, start = self.part
            count = shape_of(self.buffer.type)[axis]
            values = np.take(values, range(start, start + count), axis)
        _slot(frame, self.buffer, self.slot)[...] = values


class SharedLoad(Op, mnemonic="gpu.shared_load", exact=True):
    """Read a tile out of slot `slot` of a buffer.

    %2 = gpu.shared_load %0 slot %1 {type = tile<16x16xf16>} : tile<16x16xf16>
    """

    buffer: Value
    slot: Value | None = None
    type: Tile = attribute()

    def infer(self) -> Type:
        return self.type

    def verify(self) -> None:
        _verify_slot(self, self.buffer, self.type.shape, self.type.element, self.slot)

    def own_effects(self) -> Effects:
        return (reads("shared", self.buffer),)

    def interpret(self, frame: Frame) -> Array:
        return np.array(_slot(frame, self.buffer, self.slot))


class AsyncCopy(Op, mnemonic="gpu.async_copy", exact=True):
    """Start copying what the pointers point at into slot `slot`; masked-off elements become 0.

    The data may be read after a CommitCopies, a WaitCopies that covers it, and a barrier.
    PTX ISA 9.0, cp.async (sm_80).

        gpu.async_copy %0, %1 slot %2 mask %3 {cache = "cg"}
    """

    pointers: Value
    buffer: Value
    slot: Value | None = None
    mask: Value | None = None
    cache: str = attribute(default="")
    eviction: str = attribute(default="")

    def verify(self) -> None:
        type = self.pointers.type
        _verify_slot(self, self.buffer, shape_of(type), pointee_of(type), self.slot)

    def own_effects(self) -> Effects:
        arrival = Effect("shared", writes=True, through=self.buffer, later=True)
        return (reads("global", self.pointers), arrival)

    def interpret(self, frame: Frame) -> None:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        values = frame.read(self, frame[self.pointers], live, element)
        values = np.where(live, values, round_to(np.zeros(1), element))
        where = _slot(frame, self.buffer, self.slot)
        # What is in flight reads as poison until it is waited for.
        poison = np.nan if element.is_float else 0x5A
        where[...] = poison
        frame.memory.setdefault("started", []).append((where, values))


class SharedDot(Op, mnemonic="gpu.shared_dot"):
    """accumulator + a @ b for operands that lie in shared memory; see tile.dot.

    %3 = gpu.shared_dot %0, %1, %2 {precision = "ieee"} : tile<16x16xf32>
    """

    a: Value
    b: Value
    accumulator: Value
    precision: Precision = attribute(default="ieee")

    def infer(self) -> Type:
        return self.accumulator.type

    def verify(self) -> None:
        a, b, c = (shape_of(v.type) for v in (self.a, self.b, self.accumulator))
        if a[-1] != b[-2] or c != (*a[:-1], b[-1]) or a[:-2] != b[:-2]:
            raise ShapeError(f"{self.name} of {a} and {b} does not give {c}", self.span)

    def own_effects(self) -> Effects:
        return reads("shared", self.a), reads("shared", self.b)

    def interpret(self, frame: Frame) -> Array:
        a, b = (frame.memory[int(frame[v])] for v in (self.a, self.b))
        return product(
            a,
            b,
            frame[self.accumulator],
            element_of(self.a.type),
            element_of(self.accumulator.type),
            self.precision,
        )


class CommitCopies(Op, mnemonic="gpu.commit_copies", effects=_COPY_FENCE, exact=True):
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
            for where, values in groups.pop(0):
                where[...] = values


class BlockBarrier(Op, mnemonic="gpu.barrier", effects=BLOCK_FENCE, exact=True):
    """All threads of the block wait for each other; memory written before is seen after.

    With `when` they do so only if it holds, which is the same in all of them.

        gpu.barrier %0
    """

    when: Value | None = None

    def interpret(self, frame: Frame) -> None:
        return None


def _slot(frame: Frame, buffer: Value, slot: Value | None) -> Array:
    held = frame.memory[int(frame[buffer])]
    return held if slot is None else held[int(frame[slot])]


def _verify_slot(
    op: Op, buffer: Value, shape: tuple[int, ...], element: Element, slot: Value | None
) -> None:
    type = buffer.type
    if not isinstance(type, Shared):
        raise ShapeError(f"{op.name} needs a buffer in shared memory, not a {type}", op.span)
    if (type.shape, type.element) != (shape, element):
        tile = "x".join([*map(str, shape), str(element)])
        raise ShapeError(f"{op.name} of a tile of {tile} and a {type}", op.span)
    if (slot is None) != (type.slots == 0):
        found = "no slot" if slot is None else "a slot"
        raise ShapeError(f"{op.name} names {found} of a {type}", op.span)
