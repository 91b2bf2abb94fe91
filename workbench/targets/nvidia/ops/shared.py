"""Buffers in shared memory and the ways in and out of them."""

from __future__ import annotations

import numpy as np

from workbench.ir import (
    Array,
    Frame,
    Op,
    Shared,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
)
from workbench.ir.types import Scalar
from workbench.layouts import LinearLayout
from workbench.ops.dots import Precision, product
from workbench.ops.memory import pointee_of
from workbench.ops.numbers import round_to, value_dtype
from workbench.source import ShapeError


class SharedAllocate(Op, mnemonic="gpu.shared_allocate", pure=False):
    """A buffer in shared memory; a leading axis counts the slots of a ring.

    %0 = gpu.shared_allocate {type = shared<2x16x16xf16>} : shared<2x16x16xf16>
    """

    type: Shared

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        key = len(frame.memory)
        # Poisoned, so that a read before any write shows.
        poison = np.nan if self.type.element.is_float else 0x5A
        frame.memory[key] = np.full(self.type.shape, poison, value_dtype(self.type.element))
        return np.asarray(key)


class SharedStore(Op, mnemonic="gpu.shared_store", pure=False):
    """Write a tile into slot `slot` of a buffer (the whole buffer if it has no slots).

    gpu.shared_store %0, %1 slot %2
    """

    source: Value
    buffer: Value
    slot: Value | None = None

    def verify(self) -> None:
        _verify_slot(self, self.buffer, shape_of(self.source.type), self.slot)

    def interpret(self, frame: Frame) -> None:
        _slot(frame, self.buffer, self.slot)[...] = frame[self.source]


class SharedLoad(Op, mnemonic="gpu.shared_load", pure=False):
    """Read a tile out of slot `slot` of a buffer.

    %2 = gpu.shared_load %0 slot %1 {type = tile<16x16xf16>} : tile<16x16xf16>
    """

    buffer: Value
    slot: Value | None = None
    type: Tile = attribute()

    def infer(self) -> Type:
        return self.type

    def verify(self) -> None:
        _verify_slot(self, self.buffer, self.type.shape, self.slot)

    def interpret(self, frame: Frame) -> Array:
        return np.array(_slot(frame, self.buffer, self.slot))


class AsyncCopy(Op, mnemonic="gpu.async_copy", pure=False):
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
        _verify_slot(self, self.buffer, shape_of(self.pointers.type), self.slot)

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


class SharedDot(Op, mnemonic="gpu.shared_dot", pure=False):
    """accumulator + a @ b for operands that lie in shared memory; see tile.dot.

    %3 = gpu.shared_dot %0, %1, %2 {precision = "ieee"} : tile<16x16xf32>
    """

    a: Value
    b: Value
    accumulator: Value
    precision: Precision = attribute(default="ieee")

    def infer(self) -> Type:
        return self.accumulator.type

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


class CommitCopies(Op, mnemonic="gpu.commit_copies", pure=False):
    """Close a group of asynchronous copies.

    gpu.commit_copies
    """

    def interpret(self, frame: Frame) -> None:
        frame.memory.setdefault("groups", []).append(frame.memory.pop("started", []))


class WaitCopies(Op, mnemonic="gpu.wait_copies", pure=False):
    """Wait until at most `pending` of the latest groups are still under way.

    gpu.wait_copies {pending = 1}
    """

    pending: int

    def interpret(self, frame: Frame) -> None:
        groups = frame.memory.setdefault("groups", [])
        while len(groups) > self.pending:
            for where, values in groups.pop(0):
                where[...] = values


class BlockBarrier(Op, mnemonic="gpu.barrier", pure=False):
    """All threads of the block wait for each other; shared memory written before is seen after.

    gpu.barrier
    """

    def interpret(self, frame: Frame) -> None:
        return None


def _slot(frame: Frame, buffer: Value, slot: Value | None) -> Array:
    held = frame.memory[int(frame[buffer])]
    return held if slot is None else held[int(frame[slot])]


def _verify_slot(op: Op, buffer: Value, shape: tuple[int, ...], slot: Value | None) -> None:
    assert isinstance(buffer.type, Shared)
    held = buffer.type.shape if slot is None else buffer.type.shape[1:]
    if held != shape:
        raise ShapeError(f"{op.name} of a {shape} tile and a buffer of {held}", op.span)


def allocate_type(
    shape: tuple[int, ...], element: Scalar, layout: LinearLayout, slots: int = 0
) -> Shared:
    """Return the type of a buffer for a tile with an offset layout, or for a ring of `slots`."""
    return Shared((slots, *shape) if slots else shape, element, layout)
