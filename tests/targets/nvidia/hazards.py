"""A simulator of memory: runs GPU IR and finds what a missing barrier would break.

Between two barriers threads run in any order, so two accesses to one byte of which one writes
need a barrier between them. Each access is an event in an epoch (barriers count epochs). Bytes also
have an owner, the buffer whose data they hold: a read of another's bytes finds overlapping
buffers that live at the same time. Asynchronous copies write from their start until they are
waited for, products read until then. Slots of rings are the numbers that the kernel really uses.

Products and copies of boxes reach shared memory by another way (the asynchronous proxy) than what
threads store and exchange: they find bytes that a thread wrote only once it has fenced them and a
barrier has come behind the fence.

Global memory is watched element by element: which warps touched it since the last barrier.

Roles count epochs of their own: a barrier in one orders nothing of the other's. What orders roles,
barriers in memory, is the interpreter's and the protocol checker's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from math import prod
from typing import Any

import numpy as np

from workbench.analysis.memory import Memory
from workbench.interpreter.machine import Machine
from workbench.interpreter.program import ProgramFrame
from workbench.interpreter.roles import Roles
from workbench.ir import (
    Array,
    Block,
    Effect,
    Module,
    Op,
    Shared,
    TensorMap,
    Value,
    layout_of,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops.program import Barrier
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import (
    AsyncCopy,
    CommitCopies,
    CopyRounds,
    FenceProducts,
    TensorCopy,
    TensorStore,
    WaitCopies,
    WarpgroupDot,
)
from workbench.targets.simt.lowering import used_values
from workbench.targets.simt.ops import (
    BlockBarrier,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
)
from workbench.targets.simt.passes.going import most_going
from workbench.targets.simt.rules import Device, Scratch

Range = tuple[int, int]
SM_80 = chip("sm_80")


class RaceError(AssertionError):
    """Two threads may touch a byte in the wrong order."""


class Simulator(ProgramFrame):
    """One program instance with shared memory byte by byte."""

    def __init__(self, machine: Machine, offsets: dict[int, int], total: int, chip: Device) -> None:
        super().__init__(machine, (0, 0, 0))
        self.chip = chip
        self.offsets = offsets
        self.warps: int = machine.module.attributes["num_warps"]
        self.epoch = 1
        size = max(1, total)
        #: Epoch of the last read and write of each byte, and the buffer whose data it holds.
        self.read_in, self.written_in, self.owner = (np.zeros(size, np.int64) for _ in range(3))
        self.writer = np.zeros(size, np.int64)
        #: Of bytes that warps share out: which range they are of; 0 for others.
        self.parts = np.zeros(size, np.int64)
        self.reader = np.zeros(size, np.int64)
        #: Of what threads wrote: which role did, until it has fenced that; in which epoch it has.
        self.who = 1
        self.unfenced, self.fenced_in = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.allocated: dict[Value, int] = {}
        self.started: list[tuple[Range, int]] = []
        self.groups: list[list[tuple[Range, int]]] = []
        #: What products under way read, and whose data that is, the first started first.
        self.going: list[list[tuple[Range, int]]] = []
        self.step = 0
        self.accesses = 0
        self.order = GlobalOrder(machine.module, self.warps)
        self.roles_epochs = count(1 << 32, 1 << 32)

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

    def of_role(self, roles: Roles) -> Simulator:
        own = super().of_role(roles)
        own.epoch = next(self.roles_epochs)
        own.who = own.epoch
        own.started, own.groups, own.going = [], [], []
        own.order = GlobalOrder(self.machine.module, self.warps)
        return own

    def programs(self, following: Callable[[], int] | None = None) -> Iterator[Simulator]:
        for program in super().programs(following):
            # Nobody minds in which order two programs touch global memory.
            program.order = GlobalOrder(self.machine.module, self.warps)
            yield program

    # -- events ---------------------------------------------------------------------------
    def see(self, op: Op) -> None:
        """Note what an op does to memory."""
        self.order.see(op, self.values, self.epoch)
        self.end(op)
        if isinstance(op, BlockBarrier | Barrier | FenceProducts):
            self.meet(op)
        elif isinstance(op, SharedAllocate):
            self.allocated[op.result] = op.id
        elif isinstance(op, SharedStore):
            self.put(*self.place(op.buffer, op.slot), op)
        elif isinstance(op, SharedLoad):
            self.get_bytes(*self.place(op.buffer, op.slot), op)
        elif isinstance(op, TensorCopy):
            self.fill(op)
        elif isinstance(op, SharedDot | WarpgroupDot):
            self.multiply(op)
        elif isinstance(op, AsyncCopy | CommitCopies | WaitCopies):
            self.copy(op)
        elif isinstance(op, CopyRounds):
            self.exchange(op, self.scratch(op))
            self.put_all(op)
        elif op.id in self.offsets:
            self.exchange(op, self.scratch(op))

    def meet(self, op: BlockBarrier | Barrier | FenceProducts) -> None:
        """Begin an epoch, or show what threads of this role wrote to products and copies."""
        if isinstance(op, FenceProducts):
            mine = self.unfenced == self.who
            self.unfenced[mine], self.fenced_in[mine] = 0, self.epoch
        elif all(self.values[when] for when in op.operands):
            self.barrier()

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

    def put_all(self, op: CopyRounds) -> None:
        """Write all slots of a buffer."""
        type = op.buffer.type
        assert isinstance(type, Shared)
        name = self.allocated[op.buffer]
        for slot in range(type.slots):
            first = self.offsets[name] + slot * type.slot_bytes
            self.put((first, first + type.slot_bytes), name * 64 + slot, op)

    def fill(self, op: TensorCopy) -> None:
        """Have bytes hold what a copy of a box brings: barriers in memory order who reads it.

        They do not order what was read or written there before: all threads of the role have met
        since, and no product is under way that still reads it.
        """
        if op.when is None or self.values[op.when]:
            where, owner = self.place(op.buffer, op.slot)
            span = slice(*where)
            self.conflict(self.read_in[span], self.reader[span], op, "read")
            self.conflict(self.written_in[span], self.writer[span], op, "written")
            self.under_way(where, op)
            self.shown(where, op)
            self.owner[span] = owner
            self.accesses += 1

    def shown(self, where: Range, op: Op) -> None:
        """Raise RaceError where threads wrote bytes that no fence has shown to the other proxy."""
        span = slice(*where)
        if np.any(self.unfenced[span]):
            raise RaceError(f"{op!r} touches bytes that threads wrote and have not fenced")
        if self.warps > 1 and np.any(self.fenced_in[span] == self.epoch):
            raise RaceError(f"{op!r} touches bytes that some threads have not fenced yet")

    def multiply(self, op: SharedDot | WarpgroupDot) -> None:
        """Read operands that lie in buffers."""
        slots = (op.slot_a, op.slot_b) if isinstance(op, WarpgroupDot) else (None, None)
        places = [
            self.place(buffer, slot)
            for buffer, slot in zip((op.a, op.b), slots, strict=True)
            if isinstance(buffer.type, Shared)
        ]
        for where, owner in places:
            self.get_bytes(where, owner, op)
            if isinstance(op, WarpgroupDot):
                self.shown(where, op)
        if isinstance(op, WarpgroupDot):
            self.going.append(places)
            self.end(op)

    def end(self, op: Op) -> None:
        """End the products that do not go on behind an op: till then they have read."""
        most = most_going(op, self.chip.rules)
        while most is not None and len(self.going) > most:
            for where, owner in self.going.pop(0):
                self.get_bytes(where, owner, op)

    def under_way(self, where: Range, op: Op) -> None:
        """Raise RaceError where a product that goes on may still read bytes that are written."""
        for (low, high), _ in (place for places in self.going for place in places):
            if low < where[1] and where[0] < high:
                raise RaceError(f"{op!r} writes bytes that a product is still reading")

    def scratch(self, op: Op) -> Scratch:
        """Return the bytes that an op needs for itself."""
        return self.chip.rules.scratch_of(op, self.chip, self.warps, used=True)

    def exchange(self, op: Op, scratch: Scratch) -> None:
        """Write scratch, wait, and read it."""
        where = (self.offsets[op.id], self.offsets[op.id] + scratch.bytes)
        owner, alone = -op.id, scratch.alone
        # Every warp has an equal part of its own, the same one for whoever shares these bytes out.
        self.put(where, owner, op, parts=where[0] << 32 | where[1] if alone else 0)
        if not alone:
            self.barrier()
        self.get_bytes(where, owner, op, own=alone)
        if isinstance(op, TensorStore):  # who stores boxes fences them itself
            self.unfenced[slice(*where)], self.fenced_in[slice(*where)] = 0, self.epoch

    def barrier(self) -> None:
        self.epoch += 1

    def place(self, buffer: Value, slot: Value | None) -> tuple[Range, int]:
        """Return the bytes of a slot of a buffer, and a number for whose data that is."""
        op = self.allocated[buffer]
        type = buffer.type
        assert isinstance(type, Shared)
        start, number, size = self.offsets[op], 0, type.bytes
        if slot is not None:
            number, size = int(self.values[slot]), type.slot_bytes
            assert 0 <= number < type.slots
        return (start + number * size, start + (number + 1) * size), op * 64 + number

    def put(self, where: Range, owner: int, op: Op, *, again: bool = False, parts: int = 0) -> None:
        span = slice(*where)
        others = np.ones(where[1] - where[0], bool)
        if parts:
            others = self.parts[span] != parts
        self.conflict(self.read_in[span][others], self.reader[span][others], op, "read")
        self.under_way(where, op)
        if not again:
            self.conflict(self.written_in[span][others], self.writer[span][others], op, "written")
            self.in_flight(where, op)
        self.parts[span] = parts
        self.written_in[span] = self.epoch
        self.writer[span] = self.step
        self.unfenced[span] = self.who
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


@cache
def _holders(layout: LinearLayout, alone: bool) -> list[int]:
    """Return for each element of a tile the warps, as bits, that hold it; its owner's if alone.

    Asked for each access, of which a simulation makes thousands by few layouts.
    """
    places = (layout.unflatten(flat) for flat in range(1 << layout.tile_bits))
    numbers = [
        int(np.ravel_multi_index(place, layout.shape))
        if all(c < e for c, e in zip(place, layout.shape, strict=True)) else None
        for place in places
    ]  # fmt: skip
    found = [0] * prod(layout.shape)
    copies = layout.owners().get("warp", 0) if alone else 0
    registers, lanes = layout.table("register"), layout.table("lane")
    for warp, begin in enumerate(layout.table("warp")):
        if warp & copies:
            continue
        for lane in lanes:
            for register in registers:
                number = numbers[begin ^ lane ^ register]
                if number is not None:
                    found[number] |= 1 << warp
    return found


class GlobalOrder:
    """Which warps have touched which element of global memory since the last barrier.

    Elements are told apart by their addresses, so all accesses to an array have one width.
    """

    def __init__(self, module: Module, warps: int) -> None:
        self.memory = Memory(module)
        self.warps = warps
        self.used = used_values(module)
        self.epoch = 0
        #: For each address the accesses since the last barrier: op, warps, whether it wrote.
        self.touched: dict[int, list[tuple[Op, int, int, bool]]] = {}
        self.times = 0  # accesses so far, of ops as a whole
        self.seen: list[Op] = []
        self.acquired: Op | None = None

    def see(self, op: Op, values: dict[Value, Array], epoch: int) -> None:
        """Note the accesses of an op; raises RaceError."""
        if epoch != self.epoch:
            self.epoch, self.touched, self.seen, self.acquired = epoch, {}, [], None
        for effect in op.own_effects():
            if effect.space != "global" or not (effect.reads or effect.writes):
                continue
            if effect.through is not None and isinstance(effect.through.type, TensorMap):
                continue  # what copies of boxes read nobody writes
            settled = self.memory.is_settled(effect)
            if self.acquired is not None and not settled:
                raise RaceError(f"{op!r} may come before the acquire {self.acquired!r}")
            if effect.releases and effect.scope != "cta" and self.seen:
                raise RaceError(f"{op!r} releases what {self.seen[0]!r} may not have done yet")
            self.access(op, effect, values)
            if not settled:
                self.seen.append(op)
            if effect.acquires and effect.scope != "cta":
                self.acquired = op

    def access(self, op: Op, effect: Effect, values: dict[Value, Array]) -> None:
        assert effect.through is not None
        shape = shape_of(effect.through.type)
        mask = getattr(op, "mask", None)
        live = np.broadcast_to(True if mask is None else values[mask], shape).ravel()
        addresses = np.broadcast_to(values[effect.through], shape).ravel()
        alone = effect.writes or effect.order != "plain"
        self.times += 1
        for address, on, warps in zip(addresses, live, self.holders(effect, alone), strict=True):
            if on:
                self.touch(int(address), op, warps, effect.writes)

    def holders(self, effect: Effect, alone: bool) -> list[int]:
        """Return for each element the warps, as bits, that access it; only its owner's if alone."""
        assert effect.through is not None
        layout = layout_of(effect.through.type)
        if layout is None:
            return [1 if alone else (1 << self.warps) - 1]
        return _holders(layout, alone)

    def touch(self, address: int, op: Op, warps: int, writes: bool) -> None:
        known = self.touched.setdefault(address, [])
        for other, time, theirs, wrote in known:
            if time == self.times or not (writes or wrote) or (warps | theirs).bit_count() == 1:
                continue
            if other.commutes(op) and self.used.isdisjoint((*op.results, *other.results)):
                continue
            raise RaceError(f"{op!r} touches {address:#x}, which {other!r} of other warps touched")
        known.append((op, self.times, warps, writes))


def simulate(
    module: Module,
    offsets: dict[int, int],
    total: int,
    grid: Sequence[int],
    arguments: list[Any],
    unit: Device = SM_80,
    blocks: int = 0,
) -> int:
    """Run the first program instance; returns how many accesses there were. Raises RaceError.

    With so many `blocks` that stay all programs of the first one.
    """
    machine = Machine(module, grid, arguments)
    machine.blocks = blocks
    frame = Simulator(machine, offsets, total, unit)
    with np.errstate(all="ignore"):
        frame.run(module.body, ())
    return frame.accesses
