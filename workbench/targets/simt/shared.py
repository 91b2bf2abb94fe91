"""Shared memory: stores and loads of whole tiles.

A thread's byte offset in a buffer is T XOR c: T depends on lane and warp alone and is written once,
c on the register. Its address is base + its place, which is the offset but for tiles with holes
(layouts/packing.py). Bits of c that T never has are an immediate.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from workbench.ir import Shared, Value, element_of, layout_of
from workbench.layouts import LinearLayout, MatrixPlan, Packing, stmatrix_fits
from workbench.layouts.packing import Field
from workbench.targets.simt.hardware import Hardware
from workbench.targets.simt.lowering import Lowering, at, llvm_type
from workbench.targets.simt.ops import SharedAllocate, SharedLoad, SharedStore
from workbench.targets.simt.owners import first_of_copies
from workbench.targets.simt.rules import as_they_are
from workbench.targets.simt.table import SIMT

SIMT.layouts(SharedAllocate, SharedStore, SharedLoad)(as_they_are)


@SIMT.lower(SharedAllocate)
def lower_allocate(low: Lowering, op: SharedAllocate) -> None:
    low.set_scalar(op.result, low.shared(low.offset(op)))


def slot_base(low: Lowering, buffer: Value, slot: Value | None) -> str:
    """Return the address of a slot of a buffer."""
    base = low.scalar(buffer)
    if slot is None:
        return base
    type = buffer.type
    assert isinstance(type, Shared)
    bytes_ = type.slot_bytes
    held = low.scalar(slot)
    kind = llvm_type(element_of(slot.type))
    if kind == "i64":
        held = low.emit.trunc(held, "i64", "i32")
    offset = low.emit.mul("i32", held, str(bytes_))
    return at(low, base, offset)


class Addresses:
    """Addresses of one access pattern: base + place(T XOR c) for constants c."""

    def __init__(
        self,
        low: Lowering,
        base: str,
        lane: Sequence[int],
        warp: Sequence[int],
        packing: Packing | None = None,
    ) -> None:
        self.low = low
        self.base = base
        self.packing = packing
        self.thread = low.thread_part(lane, warp)
        self.image = 0
        for column in (*lane, *warp):
            self.image |= column

    def __call__(self, constant: int) -> str:
        address, fixed = self.parts(constant)
        return at(self.low, address, fixed)

    def parts(self, constant: int) -> tuple[str, str]:
        """Return an address that some constants share, and the bytes from there on."""
        low = self.low
        fixed, mixed = constant & ~self.image, constant & self.image
        if self.packing is None or len(self.packing.fields) == 1:
            place = low.emit.bitwise("xor", "i32", self.thread, str(mixed))
            return at(low, self.base, place), str(fixed)
        address = self.base
        for field in self.packing.fields:
            if self.image & field.mask:
                address = at(low, address, self._part(field, mixed & field.mask))
        return address, str(self.packing.place(fixed))

    def _part(self, field: Field, mixed: int) -> str:
        """Return the place of one field of T XOR c."""
        emit, part = self.low.emit, self.thread
        if self.image & ~field.mask:
            part = emit.bitwise("and", "i32", part, str(field.mask))
        part = emit.bitwise("xor", "i32", part, str(mixed))
        if field.unit == 1 << field.start:
            return part
        return emit.mul("i32", emit.shift("lshr", "i32", part, field.start), str(field.unit))

    def moved(self, by: str, columns: Sequence[int]) -> Addresses:
        """Return these addresses with T XOR `by`, an XOR of some of the columns."""
        new = copy(self)
        new.thread = self.low.emit.bitwise("xor", "i32", self.thread, by)
        for column in columns:
            new.image |= column
        return new


def addresses_of(low: Lowering, base: str, places: LinearLayout, buffer: Value) -> Addresses:
    """Return the addresses of a tile whose elements lie at `places` of (a slot of) a buffer."""
    itemsize = element_of(buffer.type).itemsize
    lane, warp = ([c * itemsize for c in places.flat(d)] for d in ("lane", "warp"))
    return Addresses(low, base, lane, warp, packing_of(buffer))


def packing_of(buffer: Value) -> Packing:
    """Return where the offsets of (one slot of) a buffer lie, in bytes."""
    assert isinstance(buffer.type, Shared)
    return buffer.type.packing


def buffer_layout(buffer: Value) -> LinearLayout:
    """Return the offset layout of (one slot of) a buffer."""
    assert isinstance(buffer.type, Shared)
    assert buffer.type.layout is not None
    return buffer.type.layout


@SIMT.lower(SharedStore)
def lower_store(low: Lowering, op: SharedStore) -> None:
    """Write each element once, in vectors as wide as both layouts allow."""
    layout, shared = low.layout(op.source), buffer_layout(op.buffer)
    itemsize = element_of(op.source.type).itemsize
    base = slot_base(low, op.buffer, op.slot)
    if (plan := matrix_stores(op, low.chip)) is not None:
        _store_matrices(low, op, plan, base)
        return
    unique = first_of_copies(low, op.source)
    pieces: list[tuple[str | None, list[int]]] = [(None, unique)]
    if op.part is not None:
        axis, start = op.part
        count = shared.shape[axis]
        pieces = _part(low, layout, unique, axis, start, count)
        layout = _modulo(layout, axis, count)
    places = shared.offsets(layout)
    addresses = addresses_of(low, base, places, op.buffer)
    table = places.table("register")
    owner = low.layout(op.source).owners().get("warp", 0)
    guard = None
    if owner:
        bits = low.emit.bitwise("and", "i32", low.warp, str(owner))
        guard = low.emit.pure(f"icmp eq i32 {bits}, 0")
    widest = low.chip.widest_bytes // itemsize
    for condition, registers in pieces:
        for inside, existing in _existing(low, op.source, registers):
            groups = vector_groups(existing, table, widest, places, itemsize)
            where = low.and_all([guard, condition, inside])
            _store_where(low, op, where, groups, addresses, table)


def matrix_stores(op: SharedStore, chip: Hardware) -> MatrixPlan | None:
    """Return how a chip that stores matrices stores a whole tile of fragments, each once."""
    layout, element = layout_of(op.source.type), element_of(op.source.type)
    if not chip.stores_matrices or op.part is not None or element.itemsize != 2:
        return None
    if layout is None or layout.owners().get("warp", 0) or layout.padded != layout.shape:
        return None
    shared = buffer_layout(op.buffer)
    plans = (stmatrix_fits(shared, layout, 2, turned) for turned in (False, True))
    return next((plan for plan in plans if plan is not None), None)


def _store_matrices(low: Lowering, op: SharedStore, plan: MatrixPlan, base: str) -> None:
    addresses = Addresses(low, base, plan.lane, plan.warp, packing_of(op.buffer))
    words, stored = low.words(op.source), set[int]()
    for step in plan.instructions:
        if step.offset not in stored:
            stored.add(step.offset)
            held = [words[first // 2] for first in step.registers]
            low.chip.store_matrices(low.emit, addresses(step.offset), held, turned=plan.trans)


def _existing(
    low: Lowering, value: Value, registers: Sequence[int]
) -> list[tuple[str | None, list[int]]]:
    """Return registers by the condition under which their elements exist; None: always."""
    found: dict[str | None, list[int]] = {}
    for register in registers:
        inside = low.inside(low.layout(value), register)
        if inside != "false":
            found.setdefault(inside, []).append(register)
    return list(found.items())


def _part(
    low: Lowering, layout: LinearLayout, registers: Sequence[int], axis: int, start: int, count: int
) -> list[tuple[str | None, list[int]]]:
    """Return registers whose coordinate along an axis lies in a part of it, and where it does.

    Whether it does may differ between threads: then there is a condition.
    """
    below = sum(layout.bits[axis + 1 :])
    high = ((1 << layout.bits[axis]) - 1 & -count) << below
    lane, warp = ([c & high for c in layout.flat(d)] for d in ("lane", "warp"))
    table, image = layout.table("register"), 0
    for column in (*lane, *warp):
        image |= column
    by_thread: dict[int, list[int]] = {}
    for register in registers:
        by_thread.setdefault((table[register] & high) ^ start << below, []).append(register)
    if not image:
        return [(None, by_thread.get(0, []))]
    thread = low.thread_part(lane, warp)
    return [
        (low.emit.pure(f"icmp eq i32 {thread}, {needed}"), found)
        for needed, found in by_thread.items()
        if not needed & ~image
    ]


def _modulo(layout: LinearLayout, axis: int, count: int) -> LinearLayout:
    """Return where elements lie in the part of an axis that holds them."""
    bases = {
        name: [
            tuple(c & (count - 1) if d == axis else c for d, c in enumerate(vector))
            for vector in vectors
        ]
        for name, vectors in layout.bases.items()
    }
    return LinearLayout(bases, tuple(count if d == axis else e for d, e in enumerate(layout.shape)))


def _store_where(
    low: Lowering,
    op: SharedStore,
    condition: str | None,
    groups: list[tuple[int, ...]],
    addresses: Addresses,
    table: Sequence[int],
) -> None:
    if condition is None:
        _store_groups(low, op, groups, addresses, table)
        return
    emit = low.emit
    then, end = emit.fresh("store"), emit.fresh("stored")
    emit.branch(condition, then, end)
    emit.label(then)
    with emit.scope():
        _store_groups(low, op, groups, addresses, table)
    emit.jump(end)
    emit.label(end)


def _store_groups(
    low: Lowering,
    op: SharedStore,
    groups: list[tuple[int, ...]],
    addresses: Addresses,
    table: Sequence[int],
) -> None:
    emit, element = low.emit, element_of(op.source.type)
    type, itemsize = llvm_type(element), element.itemsize
    held_type = "i8" if type == "i1" else type
    for group in groups:
        values = [low.register(op.source, r) for r in group]
        if type == "i1":
            values = [emit.zext(v, "i1", "i8") for v in values]
        store_vector(low, addresses(table[group[0]] * itemsize), values, held_type, itemsize)


def store_vector(
    low: Lowering, address: str, operands: Sequence[str], type: str, itemsize: int
) -> None:
    """Store operands side by side in shared memory, as one instruction."""
    count, held = len(operands), low.emit.vector(type, operands)
    kind = type if count == 1 else f"<{count} x {type}>"
    low.store_shared(kind, held, address, itemsize * count)


def load_vector(low: Lowering, address: str, count: int, type: str, itemsize: int) -> list[str]:
    """Load elements that lie side by side in shared memory, as one instruction."""
    if type == "i8" and count % 4 == 0:
        held = load_vector(low, address, count // 4, "i32", 4)
        return [byte for word in held for byte in low.packing.unpack(word, type)]
    if type == "i8" and count == 2:
        pair = low.emit.zext(low.load_shared("i16", address, 2), "i16", "i32")
        return low.packing.unpack(pair, type, 2)
    kind = type if count == 1 else f"<{count} x {type}>"
    whole = low.load_shared(kind, address, itemsize * count)
    return low.emit.elements(type, count, whole)


def vector_groups(
    registers: Sequence[int],
    table: Sequence[int],
    widest: int,
    places: LinearLayout,
    itemsize: int,
) -> list[tuple[int, ...]]:
    """Group registers whose offsets are aligned runs that no other place bit disturbs."""
    width = 1
    low_bits = 0
    for column in (*places.flat("lane"), *places.flat("warp")):
        low_bits |= column
    registers_image = 0
    for column in places.flat("register"):
        registers_image |= column
    while width * 2 <= widest and registers_image & width and not low_bits & (width * 2 - 1):
        width *= 2
    by_start: dict[int, dict[int, int]] = {}
    for r in registers:
        by_start.setdefault(table[r] & ~(width - 1), {})[table[r] & (width - 1)] = r
    groups: list[tuple[int, ...]] = []
    for run in by_start.values():
        if len(run) == width:
            groups.append(tuple(run[i] for i in range(width)))
        else:
            groups += [(r,) for r in run.values()]
    return groups


@SIMT.lower(SharedLoad)
def lower_load(low: Lowering, op: SharedLoad) -> None:
    """Read each element once, in vectors as wide as both layouts allow."""
    emit, layout, shared = low.emit, low.layout(op.result), buffer_layout(op.buffer)
    element = op.type.element
    itemsize, type = element.itemsize, llvm_type(element)
    held_type = "i8" if type == "i1" else type
    places = shared.offsets(layout)
    addresses = addresses_of(low, slot_base(low, op.buffer, op.slot), places, op.buffer)
    table = places.table("register")
    unique = first_of_copies(low, op.result)
    loaded: dict[int, str] = {}
    for group in vector_groups(unique, table, low.chip.widest_bytes // itemsize, places, itemsize):
        address = addresses(table[group[0]] * itemsize)
        values = load_vector(low, address, len(group), held_type, itemsize)
        if type == "i1":
            values = [emit.effect(f"icmp ne i8 {v}, 0") for v in values]
        loaded.update(zip(group, values, strict=True))
    first = {table[r]: v for r, v in loaded.items()}
    registers: list[str | None] = [None] * layout.registers()
    for r in low.live(op.result):
        registers[r] = first[table[r]]
    low.set_registers(op.result, registers)
