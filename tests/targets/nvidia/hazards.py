"""A simulator of shared memory: runs GPU IR and finds what a missing barrier would break.

Between two barriers threads run in any order, so two accesses to one byte of which one writes
need a barrier between them. Each access is an event in an epoch (barriers count epochs). Bytes also
have an owner, the buffer whose data they hold: a read of another's bytes finds overlapping
buffers that live at the same time. Asynchronous copies write from their start until they are
waited for. Slots of rings are the numbers that the kernel really uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.interpreter.machine import Machine, _ProgramFrame
from workbench.ir import Array, Block, Module, Op, Shared, Value
from workbench.layouts import SharedPlan
from workbench.ops import ConvertLayout, Reduce, Scan
from workbench.ops.program import Barrier
from workbench.targets.nvidia.layout import convert_plan
from workbench.targets.nvidia.ops import (
    AsyncCopy,
    BlockBarrier,
    CommitCopies,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
    WaitCopies,
)
from workbench.targets.nvidia.reductions import warp_scratch
from workbench.targets.nvidia.scans import scan_scratch
from workbench.targets.nvidia.staged import is_staged, staged_bytes

Range = tuple[int, int]


class RaceError(AssertionError):
    """Two threads may touch a byte in the wrong order."""


class Simulator(_ProgramFrame):
    """One program instance with shared memory byte by byte."""

    def __init__(self, machine: Machine, offsets: dict[int, int], total: int) -> None:
        super().__init__(machine, (0, 0, 0))
        self.offsets = offsets
        self.warps: int = machine.module.attributes["num_warps"]
        self.epoch = 1
        size = max(1, total)
        #: Epoch of the last read and write of each byte, and the buffer whose data it holds.
        self.read_in, self.written_in, self.owner = (np.zeros(size, np.int64) for _ in range(3))
        self.writer = np.zeros(size, np.int64)
        self.reader = np.zeros(size, np.int64)
        self.allocated: dict[Value, int] = {}
        self.started: list[tuple[Range, int]] = []
        self.groups: list[list[tuple[Range, int]]] = []
        self.step = 0
        self.accesses = 0

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        for name, array in zip(block.arguments, arguments, strict=True):
            self.values[name] = array
        for op in block.ops:
            self.step += 1
            self.see(op)
            results = op.interpret(self)  # type: ignore[arg-type]
            held = results if isinstance(results, tuple) else (results,) * len(op.results)
            for value, array in zip(op.results, held, strict=True):
                self.values[value] = np.asarray(array)
        return tuple(self.values[value] for value in block.ops[-1].operands)

    # -- events ---------------------------------------------------------------------------
    def see(self, op: Op) -> None:
        """Note what an op does to shared memory."""
        if isinstance(op, BlockBarrier | Barrier):
            self.barrier()
        elif isinstance(op, SharedAllocate):
            self.allocated[op.result] = op.id
        elif isinstance(op, SharedStore):
            self.put(*self.place(op.buffer, op.slot), op)
        elif isinstance(op, SharedLoad):
            self.get_bytes(*self.place(op.buffer, op.slot), op)
        elif isinstance(op, SharedDot):
            for buffer in (op.a, op.b):
                self.get_bytes(*self.place(buffer, None), op)
        elif isinstance(op, AsyncCopy | CommitCopies | WaitCopies):
            self.copy(op)
        elif op.id in self.offsets:
            self.exchange(op, self.scratch(op))

    def copy(self, op: AsyncCopy | CommitCopies | WaitCopies) -> None:
        """Start copies, close a group of them, or let groups arrive."""
        if isinstance(op, AsyncCopy):
            where, owner = self.place(op.buffer, op.slot)
            self.put(where, owner, op)
            self.started.append((where, owner))
        elif isinstance(op, CommitCopies):
            self.groups.append(self.started)
            self.started = []
        else:
            while len(self.groups) > op.pending:
                for where, owner in self.groups.pop(0):
                    # It is there for this thread now, for others after a barrier.
                    self.put(where, owner, op, again=True)

    def scratch(self, op: Op) -> int:
        """Return the bytes that an op needs for itself."""
        if isinstance(op, ConvertLayout):
            plan = convert_plan(op)
            assert isinstance(plan, SharedPlan)
            return plan.scratch_bytes
        if isinstance(op, Reduce):
            return warp_scratch(op, self.warps)
        if isinstance(op, Scan):
            return scan_scratch(op, self.warps)
        assert is_staged(op), f"{op.name} with scratch is not simulated"
        return staged_bytes(op)

    def exchange(self, op: Op, size: int) -> None:
        """Write scratch, wait, and read it."""
        where = (self.offsets[op.id], self.offsets[op.id] + size)
        alone = isinstance(op, ConvertLayout) and convert_plan(op).barrier == "warp"
        self.put(where, op.id, op)
        if not alone:  # else every warp has bytes of its own
            self.barrier()
        self.get_bytes(where, op.id, op, own=alone)

    def barrier(self) -> None:
        self.epoch += 1

    def place(self, buffer: Value, slot: Value | None) -> tuple[Range, int]:
        """Return the bytes of a slot of a buffer, and a number for whose data that is."""
        op = self.allocated[buffer]
        type = buffer.type
        assert isinstance(type, Shared)
        start, number, size = self.offsets[op], 0, type.bytes
        if slot is not None:
            number, size = int(self.values[slot]), type.bytes // type.shape[0]
            assert 0 <= number < type.shape[0]
        return (start + number * size, start + (number + 1) * size), op * 64 + number

    def put(self, where: Range, owner: int, op: Op, *, again: bool = False) -> None:
        span = slice(*where)
        self.conflict(self.read_in[span], self.reader[span], op, "read")
        if not again:
            self.conflict(self.written_in[span], self.writer[span], op, "written")
            self.in_flight(where, op)
        self.written_in[span] = self.epoch
        self.writer[span] = self.step
        self.owner[span] = owner
        self.accesses += 1

    def get_bytes(self, where: Range, owner: int, op: Op, *, own: bool = False) -> None:
        span = slice(*where)
        if not own:
            self.conflict(self.written_in[span], self.writer[span], op, "written")
        self.in_flight(where, op)
        if np.any(self.owner[span] != owner):
            raise RaceError(f"{op!r} reads bytes {where} that hold something else")
        self.read_in[span] = self.epoch
        self.reader[span] = self.step
        self.accesses += 1

    def conflict(self, epochs: Array, steps: Array, op: Op, word: str) -> None:
        bad = (epochs == self.epoch) & (steps != self.step)
        if bad.any():
            raise RaceError(f"{op!r} touches bytes that were {word} since the last barrier")

    def in_flight(self, where: Range, op: Op) -> None:
        for group in [*self.groups, self.started]:
            for (low, high), _ in group:
                if low < where[1] and where[0] < high:
                    raise RaceError(f"{op!r} touches bytes that a copy is still writing")


def simulate(
    module: Module, offsets: dict[int, int], total: int, grid: Sequence[int], arguments: list[Any]
) -> int:
    """Run the first program instance; returns how many accesses there were. Raises RaceError."""
    frame = Simulator(Machine(module, grid, arguments), offsets, total)
    with np.errstate(all="ignore"):
        frame.run(module.body, ())
    return frame.accesses
