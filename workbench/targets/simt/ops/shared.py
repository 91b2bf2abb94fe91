"""Buffers in shared memory and the ways in and out of them; waiting for each other."""

from __future__ import annotations

from typing import Self

import numpy as np

from workbench.ir import (
    BLOCK_FENCE,
    Array,
    Effect,
    Effects,
    Element,
    Frame,
    Op,
    Product,
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
from workbench.layouts import LinearLayout
from workbench.ops.dots import Precision, product
from workbench.ops.numbers import value_dtype
from workbench.source import ShapeError

#: Keeps accesses of a thread where they are, and orders nobody else's.
_ISSUE_FENCE: Effects = (Effect("shared", order="relaxed", scope="cta"),)


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
        verify_slot(self, self.buffer, shape, element_of(type), self.slot)

    def buffer_moved(self) -> Value | None:
        return self.buffer if self.part is None else None

    def own_effects(self) -> Effects:
        return (writes("shared", self.buffer),)

    def interpret(self, frame: Frame) -> None:
        values = frame[self.source]
        if self.part is not None:
            axis, start = self.part
            count = shape_of(self.buffer.type)[axis]
            values = np.take(values, range(start, start + count), axis)
        slot_of(frame, self.buffer, self.slot)[...] = values
        stored(frame).add(place_of(frame, self.buffer, self.slot))


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
        verify_slot(self, self.buffer, self.type.shape, self.type.element, self.slot)

    def buffer_moved(self) -> Value | None:
        return self.buffer

    def in_layout(self, layout: LinearLayout) -> Self:
        return self.changed(type=self.type.with_layout(layout), layouts=None)

    def own_effects(self) -> Effects:
        return (reads("shared", self.buffer),)

    def interpret(self, frame: Frame) -> Array:
        return np.array(slot_of(frame, self.buffer, self.slot))


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

    def multiplies(self) -> Product:
        return Product(self.a, self.b, self.accumulator)

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


class BlockBarrier(Op, mnemonic="gpu.barrier", effects=BLOCK_FENCE, exact=True):
    """All threads of the block wait for each other; memory written before is seen after.

    With `when` they do so only if it holds, which is the same in all of them.

        gpu.barrier %0
    """

    when: Value | None = None

    def interpret(self, frame: Frame) -> None:
        return None


class WarpBarrier(Op, mnemonic="gpu.warp_barrier", effects=_ISSUE_FENCE, exact=True):
    """The lanes of each warp wait for each other; what they have asked memory for is under way.

    No assembler asks for it later than this, as it would where an op that may have to wait, a
    product that queues behind the one before, comes in between.

        gpu.warp_barrier
    """

    def interpret(self, frame: Frame) -> None:
        return None


class Asked(Op, mnemonic="gpu.asked", effects=_ISSUE_FENCE, exact=True):
    """What a thread has asked memory for is under way before it computes anything of what follows.

    A barrier orders accesses, between which an assembler puts arithmetic as it likes; here ends
    what it orders at one time. `loads` are how many ops in front of this one load what it means;
    what these bring stays in front of it.

        gpu.asked {loads = 2}
    """

    loads: int = attribute(default=0)

    def interpret(self, frame: Frame) -> None:
        return None


def slot_of(frame: Frame, buffer: Value, slot: Value | None) -> Array:
    """Return the contents of a slot of a buffer (None: of all of it), to be read or written."""
    held = frame.memory[int(frame[buffer])]
    return held if slot is None else held[int(frame[slot])]


def place_of(frame: Frame, buffer: Value, slot: Value | None) -> tuple[int, int]:
    """Return what tells a slot of a buffer from all others."""
    return int(frame[buffer]), -1 if slot is None else int(frame[slot])


def stored(frame: Frame) -> set[tuple[int, int]]:
    """Return the slots that threads wrote themselves, and no fence has shown to others' ways."""
    return frame.memory.setdefault("stored", set())


def verify_slot(
    op: Op, buffer: Value, shape: tuple[int, ...], element: Element, slot: Value | None
) -> None:
    """Raise ShapeError unless a slot of a buffer holds a tile of a shape and element type."""
    type = buffer.type
    if not isinstance(type, Shared):
        raise ShapeError(f"{op.name} needs a buffer in shared memory, not a {type}", op.span)
    if (type.shape, type.element) != (shape, element):
        tile = "x".join([*map(str, shape), str(element)])
        raise ShapeError(f"{op.name} of a tile of {tile} and a {type}", op.span)
    if (slot is None) != (type.slots == 0):
        found = "no slot" if slot is None else "a slot"
        raise ShapeError(f"{op.name} names {found} of a {type}", op.span)
