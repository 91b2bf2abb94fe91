"""Loads and stores."""

from __future__ import annotations

from itertools import permutations

from workbench.analysis.distinct import is_one_to_one, moving_part
from workbench.analysis.forms import number
from workbench.ir import Value, element_of, shape_of
from workbench.ops import AddPointer, Load, Store
from workbench.ops.memory import pointee_of
from workbench.targets.cpu.addresses import Address, address_of, evaluate
from workbench.targets.cpu.chunks import (
    Chunk,
    Point,
    memory_type,
    register_type,
    suffix,
    uniform,
    vector,
)
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.numbers import from_memory, to_memory
from workbench.targets.cpu.sinks import Fill, Sink
from workbench.targets.cpu.table import CHUNKS, CPU
from workbench.targets.cpu.writer import Writer, origin

#: Launches that move more than this write past the caches (tests/bench/cpu.py, vector add).
STREAMED_BYTES = 48 << 20
#: The metadata node of non-temporal stores.
STREAM = "!2"
#: Axes whose strides are looked at in each order.
_MOST_ORDERED = 3


@CHUNKS.lower(AddPointer)
def add_pointer(w: Writer, op: AddPointer, point: Point, index: int) -> Chunk:
    base, offset = w.chunk(op.pointer, point), w.chunk(op.offset, point)
    lanes = max(base.lanes, offset.lanes)
    a = w.arithmetic(lanes)
    element = element_of(op.offset.type)
    type = register_type(element)
    text = w.widened(offset, type, lanes)
    text = a.cast("zext" if getattr(element, "kind", "") == "uint" else "sext", text, type, "i64")
    size = pointee_of(op.pointer.type).itemsize
    text = a.binary("mul", "i64", text, a.integer(size, "i64")) if size != 1 else text
    return Chunk(a.binary("add", "i64", w.widened(base, "i64", lanes), text), lanes)


def _pointer(w: Writer, text: str) -> str:
    return w.emit.pure(f"inttoptr i64 {text} to ptr")


def _pointers(w: Writer, text: str) -> str:
    return w.emit.pure(f"inttoptr <{w.lanes} x i64> {text} to <{w.lanes} x ptr>")


@CHUNKS.lower(Load)
def load(w: Writer, op: Load, point: Point, index: int) -> Chunk:
    element = pointee_of(op.pointers.type)
    stored = memory_type(element)
    mask = w.chunk(op.mask, point) if op.mask is not None else Chunk("true", 0)
    if mask.text == "false":
        return w.chunk(op.other, point) if op.other is not None else _zero(w, op)
    other = w.chunk(op.other, point) if op.other is not None else _zero(w, op)
    address = address_of(w, op.pointers, point)
    w.emit.at(op)
    if op.volatile:  # code generation moves no load over what may change all memory
        w.emit.do('call void asm sideeffect "", "~{memory}"()')
    if address.kind == "uniform" and not mask.lanes:
        text = _load_one(w, address.text, stored, mask.text, element)
        chunk = Chunk(text, 0)
        return chunk if mask.text == "true" else _masked_one(w, mask.text, chunk, other, element)
    lanes = w.lanes
    a = w.arithmetic(lanes)
    on = None if mask.text == "true" else w.widened(mask, "i1", lanes)
    if address.kind == "uniform":
        address = Address("scattered", a.spread(address.text, "i64"))
    plain = on is None or op.other is None or _is_zero(other)
    passed = None if on is None else ("zeroinitializer" if plain else "poison")
    text = _read(w, op, address, stored, on, passed, point)
    text = from_memory(a, text, element)
    if on is not None and not plain:
        type = register_type(element)
        text = a.select(on, text, w.widened(other, type, lanes), type)
    return Chunk(text, lanes)


def _zero(w: Writer, op: Load) -> Chunk:
    return Chunk(w.number(0, pointee_of(op.pointers.type)), 0)


def _is_zero(chunk: Chunk) -> bool:
    return chunk.text in ("0", "false", "0x0000000000000000", "0xH0000", "0xR0000")


def _load_one(w: Writer, address: str, stored: str, mask: str, element: object) -> str:
    """Read one element; masked off, the start of scratch memory is read instead."""
    if mask != "true":
        dummy = w.emit.pure("ptrtoint ptr %scratch to i64")
        address = w.arithmetic(0).select(mask, address, dummy, "i64")
    size = 8 if stored in ("i64", "double") else 1
    align = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4}.get(stored, size)
    text = w.emit.effect(f"load {stored}, ptr {_pointer(w, address)}, align {align}")
    return from_memory(w.arithmetic(0), text, element)  # type: ignore[arg-type]


def _masked_one(w: Writer, mask: str, chunk: Chunk, other: Chunk, element: object) -> Chunk:
    lanes = other.lanes
    a, type = w.arithmetic(lanes), register_type(element)  # type: ignore[arg-type]
    return Chunk(
        a.select(a.spread(mask, "i1"), w.widened(chunk, type, lanes), other.text, type), lanes
    )


def _read(
    w: Writer, op: Load, address: Address, stored: str, on: str | None, passed: str | None,
    point: Point,
) -> str:  # fmt: skip
    align = alignment(stored)
    if address.kind == "scattered":
        return w.gather(stored, w.lanes, _pointers(w, address.text), on, passed, align)
    if address.kind == "contiguous":
        return _read_row(w, address.text, stored, on, passed)
    type = vector(stored, w.lanes)

    def straight() -> list[tuple[str, str]]:
        return [(type, _read_row(w, address.text, stored, on, passed))]

    def in_two() -> list[tuple[str, str]]:
        return [(type, _read_in_two(w, address, stored, on, passed or "poison"))]

    def lane_by_lane() -> list[tuple[str, str]]:
        return [(type, _read_lanes(w, op, stored, on, passed or "poison", point))]

    def wrapped() -> list[tuple[str, str]]:
        return [(type, w.either(address.twice, in_two, lane_by_lane)[0])]

    return w.either(address.inside, straight, wrapped)[0]


def _read_in_two(w: Writer, address: Address, stored: str, on: str | None, passed: str) -> str:
    """Read the lanes before the wrap, then those after it."""
    a, bits = w.arithmetic(w.lanes), f"<{w.lanes} x i1>"
    left = a.spread(w.emit.trunc(address.left, "i64", "i32"), "i32")
    before = a.compare("icmp slt", "i32", a.iota("i32"), left)
    after = a.binary("xor", "i1", before, a.integer(1, "i1"))
    if on is not None:
        before, after = (w.emit.pure(f"and {bits} {part}, {on}") for part in (before, after))
    first = _read_row(w, address.text, stored, before, passed)
    rest = w.emit.sub("i64", address.text, address.back)
    return _read_row(w, rest, stored, after, first)


def _read_lanes(w: Writer, op: Load, stored: str, on: str | None, passed: str, point: Point) -> str:
    """Read one lane after the other: compact code for what hardly ever happens."""
    type, lanes = vector(stored, w.lanes), w.lanes
    moving = [d for d, c in enumerate(point) if c.kind == "lanes"]

    def lane(i: str, held: list[str]) -> list[str]:
        place = list(point)
        for d in moving:
            place[d] = uniform(w.emit.add("i64", point[d].text, i))
        address = address_of(w, op.pointers, tuple(place)).text
        bit = "true"
        if on is not None:
            bit = w.emit.pure(f"extractelement <{lanes} x i1> {on}, i64 {i}")
            dummy = w.emit.pure("ptrtoint ptr %scratch to i64")
            address = w.arithmetic(0).select(bit, address, dummy, "i64")
        one = w.emit.effect(f"load {stored}, ptr {_pointer(w, address)}, align {alignment(stored)}")
        new = w.emit.pure(f"insertelement {type} {held[0]}, {stored} {one}, i64 {i}")
        return [w.arithmetic(0).select(bit, new, held[0], type)]

    w.emit.at(op)
    return w.loop("0", str(lanes), 1, lane, [(type, passed)])[0]


def _write_lanes(
    w: Writer, op: Store, stored: str, text: str, on: str | None, point: Point
) -> None:
    type, lanes = vector(stored, w.lanes), w.lanes
    moving = [d for d, c in enumerate(point) if c.kind == "lanes"]

    def lane(i: str, _: list[str]) -> None:
        place = list(point)
        for d in moving:
            place[d] = uniform(w.emit.add("i64", point[d].text, i))
        address = address_of(w, op.pointers, tuple(place)).text
        bit = "true" if on is None else (
            w.emit.pure(f"extractelement <{lanes} x i1> {on}, i64 {i}")
        )  # fmt: skip
        one = w.emit.pure(f"extractelement {type} {text}, i64 {i}")
        _store_one(w, address, stored, one, bit)

    w.loop("0", str(lanes), 1, lane)


def alignment(stored: str) -> int:
    """Return the alignment of an element in memory."""
    return {"i8": 1, "i16": 2, "half": 2, "i64": 8, "double": 8}.get(stored, 4)


def _read_row(w: Writer, address: str, stored: str, on: str | None, passed: str | None) -> str:
    type, align = vector(stored, w.lanes), alignment(stored)
    place = _pointer(w, address)
    if on is None:
        return w.emit.effect(f"load {type}, ptr {place}, align {align}")
    name = f"llvm.masked.load.{suffix(stored, w.lanes)}.p0"
    bits = f"<{w.lanes} x i1>"
    w.emit.declare(name, f"declare {type} @{name}(ptr, {bits}, {type})")
    return w.emit.effect(
        f"call {type} @{name}(ptr align {align} {place}, {bits} {on}, {type} {passed})"
    )


class StoreSink(Sink):
    """Writes every element of a tile through its pointer."""

    def __init__(self, op: Store) -> None:
        extra = () if op.mask is None else (op.mask,)
        super().__init__(op, shape_of(op.pointers.type), (op.value, *extra, op.pointers))
        self.store = op
        self.mask = op.mask

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        write_point(w, self.store, point)
        return []

    def streams(self, w: Writer, first: Point) -> str | None:
        """Return whether a row starting at a point should bypass the caches (i1); None: never.

        That pays where the launch touches more than the last-level cache holds, and needs rows
        that start at a cache line; inside the caches it would cost half the speed.
        """
        size = pointee_of(self.store.pointers.type).itemsize * w.lanes
        touched = w.plan.touched_bytes(self.store)
        if not w.has_streams or w.compact or size % 64 or not touched:
            return None
        address = address_of(w, self.store.pointers, first)
        if address.kind != "contiguous":
            return None
        emit = w.emit
        programs = emit.mul("i64", emit.mul("i64", w.grid[0], w.grid[1]), w.grid[2])
        many = emit.pure(f"icmp sge i64 {programs}, {-(-STREAMED_BYTES // touched)}")
        inside = emit.pure(f"and i64 {address.text}, 63")
        aligned = emit.pure(f"icmp eq i64 {inside}, 0")
        w.streamed = True
        return emit.bitwise("and", "i1", many, aligned)


def write_point(w: Writer, op: Store, point: Point) -> None:
    """Store the elements at a point."""
    mask = w.chunk(op.mask, point) if op.mask is not None else Chunk("true", 0)
    if mask.text == "false":
        return
    element = pointee_of(op.pointers.type)
    stored, type = memory_type(element), register_type(element)
    value = w.chunk(op.value, point)
    lanes = w.lanes
    address = address_of(w, op.pointers, point)
    w.emit.at(op)
    a = w.arithmetic(lanes)
    text = to_memory(a, w.widened(value, type, lanes), element)
    if not lanes:
        _store_one(w, address.text, stored, text, mask.text)
        return
    on = None if mask.text == "true" else w.widened(mask, "i1", lanes)
    align = alignment(stored)
    if address.kind == "contiguous":
        _write_row(w, address.text, stored, text, on)
        return
    if address.kind == "wrapped":
        _write_lanes(w, op, stored, text, on, point)
        return
    places = a.spread(address.text, "i64") if address.kind == "uniform" else address.text
    w.scatter(stored, lanes, _pointers(w, places), text, on, align)


def _store_one(w: Writer, address: str, stored: str, text: str, mask: str) -> None:
    if mask != "true":
        dummy = w.emit.pure("ptrtoint ptr %scratch to i64")
        address = w.arithmetic(0).select(mask, address, dummy, "i64")
    place = _pointer(w, address)
    w.emit.do(f"store {stored} {text}, ptr {place}, align {alignment(stored)}")


def _write_row(w: Writer, address: str, stored: str, text: str, on: str | None) -> None:
    type, align = vector(stored, w.lanes), alignment(stored)
    place = _pointer(w, address)
    if on is None:
        stream = f", !nontemporal {STREAM}" if w.streaming else ""
        align = 64 if stream else align
        w.emit.do(f"store {type} {text}, ptr {place}, align {align}{stream}")
        return
    name = f"llvm.masked.store.{suffix(stored, w.lanes)}.p0"
    bits = f"<{w.lanes} x i1>"
    w.emit.declare(name, f"declare void @{name}({type}, ptr, {bits})")
    w.emit.do(f"call void @{name}({type} {text}, ptr align {align} {place}, {bits} {on})")


@CPU.lower(Store)
def store(w: Writer, op: Store) -> None:
    """Write what is pending first: it may read the memory written here."""
    w.flush()
    if not shape_of(op.pointers.type):
        with w.body(0):
            write_point(w, op, ())
        return
    loads = w.plan.checked.get(op, [])
    if not loads:
        schedule(w, StoreSink(op))
        w.flush()
        return

    def element_by_element() -> list[tuple[str, str]]:
        schedule(w, StoreSink(op))
        w.flush()
        return []

    def loads_first() -> list[tuple[str, str]]:
        w.compact = True
        with w.temporary():
            for load in loads:
                schedule(w, Fill(load.result, w.allocate(load.result)))
            w.flush()
            schedule(w, StoreSink(op))
            w.flush()
            for load in loads:
                del w.buffers[load.result]
        w.compact = False
        return []

    w.emit.at(op)
    w.either(_all_apart(w, op, loads), element_by_element, loads_first)


def _all_apart(w: Writer, op: Store, loads: list[Load]) -> str:
    """Return whether each load's tile is the store's own, element by element, or far from it."""
    emit = w.emit
    low, high, strides = tile_bounds(w, op.pointers)
    alone: str | None = None
    verdict = "true"
    for load in loads:
        first, last, own = tile_bounds(w, load.pointers)
        after = emit.pure(f"icmp sge i64 {first}, {high}")
        before = emit.pure(f"icmp sle i64 {last}, {low}")
        apart = emit.bitwise("or", "i1", after, before)
        if load.pointers.type == op.pointers.type and not w.plan.is_moved(load, op):
            alone = alone or _has_no_equal(w, op, strides)
            same = emit.pure(f"icmp eq i64 {first}, {low}")
            same = same if alone == "true" else emit.bitwise("and", "i1", same, alone)
            for one, two in zip(own, strides, strict=True):
                if one != two:
                    equal = emit.pure(f"icmp eq i64 {one}, {two}")
                    same = emit.bitwise("and", "i1", same, equal)
            apart = emit.bitwise("or", "i1", apart, same)
        verdict = apart if verdict == "true" else emit.bitwise("and", "i1", verdict, apart)
    return verdict


def _has_no_equal(w: Writer, op: Store, strides: list[str]) -> str:
    """Return whether the elements of a tile that goes straight have addresses of their own.

    They do where each stride leads past all that the smaller ones reach together, in some order.
    """
    emit, a, shape = w.emit, w.arithmetic(0), shape_of(op.pointers.type)
    form = w.affine.form(op.pointers)
    assert form is not None
    if is_one_to_one(form, shape):
        return "true"
    axes = [axis for axis, extent in enumerate(shape) if extent > 1]
    bent = any(sum(bool(atom.axes) for atom in monomial) > 1 for monomial in form.terms)
    if bent or len(axes) > _MOST_ORDERED:
        return "false"
    steps = [a.intrinsic("smax", "i64", [s, emit.sub("i64", "0", s)]) for s in strides]
    last = _last_stored(w, op)
    verdict = "false"
    for order in permutations(axes):
        reach, fine = "0", "true"
        for axis in order:
            past = emit.pure(f"icmp sgt i64 {steps[axis]}, {reach}")
            fine = past if fine == "true" else emit.bitwise("and", "i1", fine, past)
            far = emit.mul("i64", steps[axis], last[axis])
            reach = emit.add("i64", reach, far)
        verdict = fine if verdict == "false" else emit.bitwise("or", "i1", verdict, fine)
    return verdict


def _last_stored(w: Writer, op: Store) -> list[str]:
    """Return up to where along each axis a store's mask may be on."""
    a, shape = w.arithmetic(0), shape_of(op.pointers.type)
    last = [str(extent - 1) for extent in shape]
    for form in w.affine.conjuncts(op.mask) if op.mask is not None else ():
        moving = moving_part(form)
        for axis in moving.axes:
            if moving == w.affine.coordinate(axis):
                most = evaluate(w, moving - form - number(1), origin(shape))
                last[axis] = a.intrinsic("smin", "i64", [last[axis], most])
    return last


def tile_bounds(w: Writer, pointers: Value) -> tuple[str, str, list[str]]:
    """Return the lowest byte of a tile, past its highest, and the bytes between neighbours."""
    shape = shape_of(pointers.type)
    size = pointee_of(pointers.type).itemsize
    emit, a = w.emit, w.arithmetic(0)
    first = address_of(w, pointers, origin(shape)).text
    low = high = first
    strides: list[str] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            strides.append("0")
            continue
        found = w.affine.stride(pointers, axis)
        assert found is not None
        text = str(found) if isinstance(found, int) else evaluate(w, found, origin(shape))
        stride = emit.mul("i64", text, str(size))
        strides.append(stride)
        reach = emit.mul("i64", stride, str(extent - 1))
        low = emit.add("i64", low, a.intrinsic("smin", "i64", [reach, "0"]))
        high = emit.add("i64", high, a.intrinsic("smax", "i64", [reach, "0"]))
    return low, emit.add("i64", high, str(size)), strides
