"""Global memory: addresses, vector width, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.analysis.transfer import MOVES
from workbench.ir import Op, Pointer, Scalar, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.ops import AddPointer, Load, Store, pointee_of
from workbench.targets.simt.arithmetic import literal
from workbench.targets.simt.hardware import GLOBAL, Transfer, pointer_to
from workbench.targets.simt.lowering import Lowering, Place, llvm_type, memory_type, split_limit
from workbench.targets.simt.owners import answer, answer_scratch, first_of_copies, owner_of
from workbench.targets.simt.passes.costs import (
    access_cost,
    coalesced,
    coalesced_within,
    places_within,
    repeated_places,
    vector_width,
)
from workbench.targets.simt.room import room_in
from workbench.targets.simt.rules import (
    NO_SCRATCH,
    SAME,
    Access,
    Device,
    Layouts,
    Scratch,
    Setting,
    elementwise,
)
from workbench.targets.simt.table import SIMT


def access_layouts(op: Op, on: Setting) -> Layouts:
    """Pointers, mask and values in one layout, best one in which whole sectors are accessed."""
    pointers = op.operands[0]
    mask = getattr(op, "mask", None)
    itemsize = pointee_of(pointers.type).itemsize
    plain = isinstance(op, Load) and not op.volatile and not op.cache
    loaded = op.result if plain else None
    return Layouts(
        work=op.results[0] if op.results else None,
        own=None if op.results else shape_of(pointers.type),
        operands=(SAME,) * len(op.operands),
        cost=lambda layout: access_cost(on, pointers, mask, layout, itemsize, loaded),
        offers=lambda: [coalesced(on, pointers, mask, itemsize)],
        within=None
        if op.results
        else lambda held: coalesced_within(on, pointers, mask, itemsize, held),
    )


@SIMT.access(Load, Store)
def plain_access(op: Load | Store) -> Access:
    return Access(op.pointers, op.mask, lambda mask: op.changed(mask=mask))


#: Addresses of a thread from which on it matters in which order they are added up.
_MANY = 8

SIMT.layouts(Load, Store)(access_layouts)
SIMT.layouts(AddPointer)(elementwise)


@SIMT.scratch(Load)
def load_scratch(op: Load, chip: Device, num_warps: int, used: bool) -> Scratch:
    """What others may write is read once and told to all who hold a copy."""
    return answer_scratch(op, chip, num_warps, used) if op.volatile else NO_SCRATCH


@SIMT.lower(AddPointer)
def lower_add_pointer(low: Lowering, op: AddPointer) -> None:
    pointee = pointee_of(op.pointer.type)
    offset = element_of(op.offset.type)
    assert isinstance(offset, Scalar)
    emit, size = low.emit, pointee.itemsize
    exact = _is_exact(op.offset)
    room = room_in(low.module)
    flags = "nsw " if room.has(op.offset) and room.has(op.pointer) else ""

    def register(r: int) -> Place:
        base, moved, constant, terms = low.place(op.pointer, r)
        if exact:
            root, extra = low.pair(op.offset, r)
        else:
            root, extra = low.register(op.offset, r), 0
            if root.lstrip("-").isdigit():
                root, extra = "0", int(root)
        if offset.kind == "int":
            wide = emit.sext(root, llvm_type(offset), "i64")
        else:
            wide = emit.zext(root, llvm_type(offset), "i64")
        more = [emit.mul("i64", wide, str(size), flags)]
        constant += extra * size
        if not split_limit(constant):
            more, constant = [*more, str(constant)], 0
        for term in more:
            moved = emit.add("i64", moved, term, flags)
        return Place(base, moved, constant, (*terms, *more))

    low.set_lazy(op.result, register)


def _is_exact(offset: Value) -> bool:
    """Say whether the offset's pairs may be widened part by part (nothing in it wrapped)."""
    element = element_of(offset.type)
    return isinstance(element, Scalar) and element.bits >= 32


@dataclass(frozen=True, slots=True)
class Vectors:
    """How a tile of pointers is accessed: groups of registers, each one instruction.

    `groups` are tuples of neighbouring registers, `width` how many; `axis` is the axis along
    which they lie side by side (None for single elements).
    """

    groups: tuple[tuple[int, ...], ...]
    width: int
    axis: int | None


def plan_access(
    low: Lowering, pointers: Value, mask: Value | None, itemsize: int, repeated: int = 0
) -> Vectors:
    """Return the widest vectors that layout, addresses and mask allow.

    `repeated`: places, as bits of the flat place, that hold what the place without them holds.
    """
    if not shape_of(pointers.type):
        return Vectors(((0,),), 1, None)
    layout = low.layout(pointers)
    table = layout.table("register")
    unique = [r for r in first_of_copies(low, pointers) if not table[r] & repeated]
    width, axis = vector_width(low.affine, pointers, mask, layout, itemsize, low.chip.widest_bytes)
    if axis is None:
        return Vectors(tuple((r,) for r in unique), 1, None)
    return Vectors(_vectors(layout, unique, width, axis), width, axis)


def _vectors(
    layout: LinearLayout, unique: Sequence[int], width: int, axis: int
) -> tuple[tuple[int, ...], ...]:
    """Group registers whose coordinates along the axis are one aligned run."""
    table = layout.table("register")
    below = sum(layout.bits[axis + 1 :])
    runs: dict[int, list[tuple[int, int]]] = {}
    for r in unique:
        inside = (table[r] >> below) & (width - 1)
        runs.setdefault(table[r] & ~((width - 1) << below), []).append((inside, r))
    return tuple(tuple(r for _, r in sorted(run)) for run in runs.values())


def _pieces(bytes_: int, element: Scalar | Pointer) -> tuple[int, int]:
    """Return (number of words, bits of each) in which an instruction moves some bytes."""
    if element.itemsize == 8:
        return bytes_ // 8, 64
    return (bytes_ // 4, 32) if bytes_ >= 4 else (1, bytes_ * 8)


@SIMT.lower(Load)
def lower_load(low: Lowering, op: Load) -> None:
    element = pointee_of(op.pointers.type)
    low.loaded.append((low.emit.scope_id, []))
    if op.volatile and answer_scratch(op, low.chip, low.num_warps, op.result in low.used).bytes:
        owner = owner_of(low, op.pointers)
        unique = first_of_copies(low, op.pointers)
        values = [_load_group(low, op, element, (r,), owner)[0] for r in unique]
        answer(low, op, op.pointers, values)
        return
    repeated = 0
    if shape_of(op.result.type):
        repeated = repeated_places(low.affine, op.result, low.layout(op.result))
    access = plan_access(low, op.pointers, op.mask, element.itemsize, repeated)
    count = low.layout(op.result).registers() if shape_of(op.result.type) else 1
    registers: list[str | None] = [None] * count
    places = _shared_first(low, op.pointers, access)
    alike = _masked_alike(low, op) if places else {}
    for group in access.groups:
        first = group[0]
        loaded = _load_group(
            low, op, element, group, place=places.get(first), like=alike.get(first, -1)
        )
        for register, operand in zip(group, loaded, strict=True):
            registers[register] = operand
    if shape_of(op.result.type):
        _copy_duplicates(low, op.result, registers, repeated)
    low.set_registers(op.result, registers)


def _shared_first(low: Lowering, pointers: Value, access: Vectors) -> dict[int, Place]:
    """Return where a thread loads many single elements, sums that several share computed first.

    Of `base + row + column` in so many registers the one of which there are fewer is a pointer,
    to which each register adds one number: an instruction.
    """
    if access.width > 1 or len(access.groups) < _MANY or _additions(pointers) < 2:
        return {}
    places = {group[0]: low.place(pointers, group[0]) for group in access.groups}
    count = {len(place.terms) for place in places.values()}
    if len(count) > 1 or len({place.base for place in places.values()}) > 1:
        return {}
    columns = [[place.terms[n] for place in places.values()] for n in range(*count)]
    order = sorted(range(*count), key=lambda n: len({*columns[n]}))
    found: dict[int, Place] = {}
    for register, (base, _, constant, terms) in places.items():
        for n in order[:-1]:
            base = pointer_to(low.emit, Place(base, terms[n], 0))
        found[register] = Place(base, terms[order[-1]], constant) if order else places[register]
    return found


def _additions(pointers: Value) -> int:
    """Return how often numbers are added to what a tile of pointers is made of."""
    count, made = 0, pointers.op
    while made is not None and (isinstance(made, AddPointer) or type(made) in MOVES):
        count += isinstance(made, AddPointer)
        made = made.operands[0].op
    return count


def _masked_alike(low: Lowering, op: Load) -> dict[int, int]:
    """Return for registers of a load's tile the first in whose run of the mask they lie."""
    if op.mask is None:
        return {}
    layout, extents = low.layout(op.mask), shape_of(op.mask.type)
    runs = [low.affine.mask_run(op.mask, axis, extent) for axis, extent in enumerate(extents)]
    inside, table = places_within(layout, runs), layout.table("register")
    first = {flat: r for r, flat in reversed([*enumerate(table)])}
    return {r: first[flat & ~inside] for r, flat in enumerate(table)}


def _copy_duplicates(
    low: Lowering, value: Value, registers: list[str | None], repeated: int
) -> None:
    table = low.layout(value).table("register")
    first = {table[r]: operand for r, operand in enumerate(registers) if operand is not None}
    for r in low.live(value):
        if registers[r] is None:
            registers[r] = first[table[r] & ~repeated]


def access_condition(
    low: Lowering, op: Op, pointers: Value, mask: Value | None, register: int, like: int = -1
) -> str | None:
    """Return the i1 under which a register is accessed; None for always.

    like: a register whose mask is known to be the same.
    """
    conditions: list[str | None] = []
    if mask is not None:
        conditions.append(low.register(mask, register if like < 0 else like))
    if shape_of(pointers.type):
        conditions.append(low.inside(low.layout(pointers), register))
    return low.and_all(conditions)


def _load_group(
    low: Lowering,
    op: Load,
    element: Scalar | Pointer,
    group: tuple[int, ...],
    owner: str | None = None,
    place: Place | None = None,
    like: int = -1,
) -> list[str]:
    type = memory_type(element)
    condition = access_condition(low, op, op.pointers, op.mask, group[0], like)
    condition = low.and_all([condition, owner])
    if condition == "false":
        return [_other(low, op, element, r) for r in group]
    bytes_ = element.itemsize * len(group)
    pieces, bits = _pieces(bytes_, element)
    start: list[str] = []
    if condition is not None:
        others = [_other(low, op, element, r) for r in group]
        start = _pack_words(low, others, bits, element, type)
    place = place or low.place(op.pointers, group[0])
    transfer = Transfer(place, pieces, bits, condition, op.cache, op.eviction, op.volatile)
    words = low.chip.load(low.emit, transfer, start)
    low.loaded[-1][1].append((bits, words[0]))
    return _unpack_words(low, words, bits, element, type, len(group))


def _other(low: Lowering, op: Load, element: Scalar | Pointer, register: int) -> str:
    if op.other is None:
        return "null" if isinstance(element, Pointer) else literal(0, element)
    return low.register(op.other, register)


def _unpack_words(
    low: Lowering, words: list[str], bits: int, element: Scalar | Pointer, type: str, count: int
) -> list[str]:
    """Return the elements that lie in loaded words, in registers' types."""
    emit = low.emit
    size = element.itemsize * 8
    if size == bits:
        raw = words
        if type != f"i{bits}":
            raw = [emit.pure(f"bitcast i{bits} {w} to {type}") for w in words]
    else:
        each = bits // size
        raw: list[str] = []
        for word in words:
            if bits == 32 or (bits, type) == (16, "i8"):
                raw += low.packing.unpack(emit.zext(word, f"i{bits}", "i32"), type, each)
                continue
            vector = emit.pure(f"bitcast i{bits} {word} to <{each} x {type}>")
            raw += emit.elements(type, each, vector)
    if isinstance(element, Pointer):
        return [emit.pure(f"inttoptr i64 {w} to {GLOBAL}") for w in raw]
    if element.kind == "bool":
        return [emit.pure(f"icmp ne i8 {w}, 0") for w in raw]
    return raw[:count]


def _pack_words(
    low: Lowering, elements: list[str], bits: int, element: Scalar | Pointer, type: str
) -> list[str]:
    """Return register operands packed into integers of `bits` bits."""
    emit = low.emit
    if isinstance(element, Pointer):
        return [
            emit.pure(f"ptrtoint {GLOBAL} {v} to i64") if v != "null" else "0" for v in elements
        ]
    if element.kind == "bool":
        elements = [emit.zext(v, "i1", "i8") for v in elements]
    size = element.itemsize * 8
    if size == bits:
        if type == f"i{bits}":
            return elements
        return [emit.pure(f"bitcast {type} {v} to i{bits}") for v in elements]
    each = bits // size
    vectors = [emit.vector(type, elements[i : i + each]) for i in range(0, len(elements), each)]
    return [emit.pure(f"bitcast <{each} x {type}> {v} to i{bits}") for v in vectors]


@SIMT.lower(Store)
def lower_store(low: Lowering, op: Store) -> None:
    element = pointee_of(op.pointers.type)
    access = plan_access(low, op.pointers, op.mask, element.itemsize)
    owner = owner_of(low, op.pointers)
    for group in access.groups:
        condition = access_condition(low, op, op.pointers, op.mask, group[0])
        _store_group(low, op, element, group, low.and_all([condition, owner]))


def _store_group(
    low: Lowering,
    op: Store,
    element: Scalar | Pointer,
    group: tuple[int, ...],
    condition: str | None,
) -> None:
    type = memory_type(element)
    if condition == "false":
        return
    bytes_ = element.itemsize * len(group)
    pieces, bits = _pieces(bytes_, element)
    words = low.whole_words(op.value, group) if bits == 32 else None
    if words is None:
        words = _pack_words(low, [low.register(op.value, r) for r in group], bits, element, type)
    place = low.place(op.pointers, group[0])
    transfer = Transfer(place, pieces, bits, condition, op.cache, op.eviction)
    low.chip.store(low.emit, transfer, words)
