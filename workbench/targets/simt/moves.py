"""What each access to memory costs, before anything runs: from layouts and addresses alone.

One request is one instruction of one warp. What it moves is told by the addresses of its lanes: in
global memory the 32-byte sectors that they touch, in shared memory the times that one bank is asked
for (layouts/predict.py). Here are the rules of ops that any GPU has; a target adds its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from workbench.ir import Module, Op, Value, element_of, layout_of, shape_of
from workbench.layouts import LinearLayout, MatrixPlan, Packing, SharedAccess, SharedPlan, f2
from workbench.layouts.predict import SECTOR_BYTES, phases, sectors, wavefronts
from workbench.ops import (
    AtomicCompareExchange,
    AtomicUpdate,
    ConvertLayout,
    Load,
    Store,
    pointee_of,
)
from workbench.targets.simt.layout import convert_plan
from workbench.targets.simt.ops import SharedLoad, SharedStore
from workbench.targets.simt.passes.costs import repeated_places, vector_width
from workbench.targets.simt.rules import Device, Setting
from workbench.targets.simt.shared import (
    buffer_layout,
    matrix_stores,
    packing_of,
    vector_groups,
)
from workbench.targets.simt.table import SIMT

#: Rows whose distance nobody knows lie so far apart, in bytes.
_APART = 1 << 24


Direction = Literal["load", "store", "atomic"]


@dataclass(frozen=True, slots=True)
class Move:
    """The requests of an op to one memory.

    Attributes:
        direction: what is done there.
        space: which memory.
        how: the instruction's own name where it is not a plain load or store.
        vector: elements of a lane's access, side by side.
        bytes: of a lane's access.
        requests: that each warp makes.
        addresses: bytes from the tile's first element at which the lanes of the first warp access
            in the first request; None: the lane does not.
        apart: the distance of rows is not known, so they are taken to share no sector.
    """

    direction: Direction
    space: Literal["global", "shared"]
    how: str
    vector: int
    bytes: int
    requests: int
    addresses: tuple[int | None, ...]
    apart: bool = False

    @property
    def sectors(self) -> int | None:
        """The sectors of one request; None in shared memory."""
        return sectors(self.addresses, self.bytes) if self.space == "global" else None

    @property
    def ideal(self) -> int:
        """The fewest sectors of global memory, or wavefronts of shared memory, for these lanes."""
        live = {a for a in self.addresses if a is not None}
        if self.space == "shared":
            return phases(self.bytes, len(self.addresses))
        return max(1, -(-len(live) * self.bytes // SECTOR_BYTES))

    @property
    def wavefronts(self) -> int | None:
        """How often banks are asked in one request; None in global memory."""
        return wavefronts(self.addresses, self.bytes) if self.space == "shared" else None

    @property
    def conflicts(self) -> int | None:
        """By how much a request takes longer than without bank conflicts; 1: there are none."""
        taken = self.wavefronts
        return None if taken is None else -(-taken // self.ideal)


def moves_of(module: Module, chip: Device, on: Setting) -> list[tuple[Op, Move]]:
    """Return what each op of GPU IR moves, in program order."""
    return [(op, move) for op in module.walk() for move in chip.rules.moves_of(op, on)]


@SIMT.moves(Load, Store, AtomicUpdate, AtomicCompareExchange)
def global_moves(op: Op, on: Setting) -> list[Move]:
    """A load, store or atomic update of global memory."""
    pointers: Value = op.operands[0]
    direction: Direction
    direction = "load" if isinstance(op, Load) else "store" if isinstance(op, Store) else "atomic"
    move = global_move(pointers, getattr(op, "mask", None), on, direction)
    layout = layout_of(pointers.type)
    if not isinstance(op, Load) or layout is None or not shape_of(pointers.type):
        return [move]
    # Places of a thread that are known to hold the same are loaded once.
    repeated = repeated_places(on.facts, op.result, layout)
    table = layout.table("register")
    places = {table[r] & ~repeated for r in layout.live_registers()}
    return [replace(move, requests=max(1, len(places) // move.vector))]


def global_move(
    pointers: Value, mask: Value | None, on: Setting,
    direction: Direction, how: str = "",
) -> Move:  # fmt: skip
    """Return what accesses through a tile of pointers move; atomics take elements one by one."""
    itemsize = pointee_of(pointers.type).itemsize
    layout = layout_of(pointers.type)
    if layout is None or not shape_of(pointers.type):
        return Move(direction, "global", how, 1, itemsize, 1, (0, *[None] * (on.lanes - 1)))
    width = 1
    if direction != "atomic":
        widest = on.chip.widest_bytes
        width, _ = vector_width(on.facts, pointers, mask, layout, itemsize, widest)
    strides, apart = list[int](), False
    for axis, extent in enumerate(layout.shape):
        found = on.facts.usual_stride(pointers, axis, mask)
        known = isinstance(found, int)
        apart |= not known and extent > 1
        strides.append(found * itemsize if isinstance(found, int) else _APART << axis)
    table = layout.table("lane")
    addresses = tuple(
        sum(c * s for c, s in zip(layout.unflatten(flat), strides, strict=True)) for flat in table
    )
    lowest = min(addresses)
    places = {layout.table("register")[r] for r in layout.live_registers()}
    return Move(
        direction, "global", how, width, width * itemsize, max(1, len(places) // width),
        tuple(a - lowest for a in addresses), apart,
    )  # fmt: skip


@SIMT.moves(SharedStore)
def shared_store_moves(op: SharedStore, on: Setting) -> list[Move]:
    """A store to a buffer in shared memory."""
    layout = layout_of(op.source.type)
    assert layout is not None
    if (plan := matrix_stores(op, on.chip)) is not None:
        return [matrix_move(plan, packing_of(op.buffer), "store", "matrices", 8)]
    return [shared_move(layout, op.buffer, on, "store")]


@SIMT.moves(SharedLoad)
def shared_load_moves(op: SharedLoad, on: Setting) -> list[Move]:
    """A load from a buffer in shared memory, in vectors."""
    layout = layout_of(op.result.type)
    assert layout is not None
    return [shared_move(layout, op.buffer, on, "load")]


def matrix_move(
    plan: MatrixPlan, packing: Packing | None, direction: Direction, how: str, vector: int
) -> Move:
    """Return what a plan moves: of each row, `vector` elements, a lane gives the address."""
    places = tuple(f2.apply(plan.lane, lane) for lane in range(8 * plan.count))
    addresses = places if packing is None else tuple(map(packing.place, places))
    count = len({step.offset for step in plan.instructions})
    return Move(direction, "shared", how, vector, 16, count, addresses)


def shared_move(
    layout: LinearLayout, buffer: Value, on: Setting, direction: Direction,
    how: str = "", width: int = 0,
) -> Move:  # fmt: skip
    """Return what accesses of a buffer through a layout move; `width` 0: as wide as they can."""
    itemsize = element_of(buffer.type).itemsize
    places = buffer_layout(buffer).offsets(layout)
    table = places.table("register")
    unique = sorted({flat: r for r, flat in reversed(list(enumerate(table)))}.values())
    if not width:
        widest = on.chip.widest_bytes // itemsize
        width = len(vector_groups(unique, table, widest, places, itemsize)[0])
    packing = packing_of(buffer)
    addresses = tuple(packing.place(flat * itemsize) for flat in places.table("lane"))
    requests = max(1, len(unique) // width)
    return Move(direction, "shared", how, width, width * itemsize, requests, addresses)


@SIMT.moves(ConvertLayout)
def convert_moves(op: ConvertLayout, on: Setting) -> list[Move]:
    """A tile on its way to other threads through shared memory; shuffles touch none."""
    plan = convert_plan(op, on.chip)
    if not isinstance(plan, SharedPlan):
        return []
    itemsize = max(1, element_of(op.source.type).itemsize)
    found: list[Move] = []
    sides: list[tuple[Direction, SharedAccess]] = [("store", plan.store), ("load", plan.load)]
    for direction, access in sides:
        addresses = _span(access.lane, on.lanes)
        requests = sum(len(round_) for round_ in access.rounds)
        size = access.vector * itemsize
        move = Move(direction, "shared", "convert", access.vector, size, requests, addresses)
        found.append(move)
    return found


def _span(bases: Sequence[int], lanes: int) -> tuple[int, ...]:
    return tuple(f2.apply(bases, lane) for lane in range(lanes))
