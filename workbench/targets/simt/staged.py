"""Ops that move elements anywhere in the tile: through shared memory, row-major.

Every element is written once to its place, the block waits, and each thread reads what its
registers of the result need. No layout is asked for, so operands come as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from workbench.ir import Element, Pointer, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.layouts.coordinates import reshape_is_linear
from workbench.ops import Concatenate, Gather, Histogram, Reshape
from workbench.targets.simt.hardware import GLOBAL, Hardware
from workbench.targets.simt.lowering import (
    Lowering,
    Place,
    at,
    element_scalar,
    llvm_type,
    zero,
)
from workbench.targets.simt.memory import first_of_copies
from workbench.targets.simt.program import barrier
from workbench.targets.simt.rules import SAME, Device, Layouts, Scratch, Setting
from workbench.targets.simt.table import SIMT


@SIMT.layouts(Concatenate)
def concatenate_layouts(op: Concatenate, on: Setting) -> Layouts:
    return Layouts(work=op.result, operands=(None, None))


@SIMT.layouts(Gather)
def gather_layouts(op: Gather, on: Setting) -> Layouts:
    """The index is read beside the result."""
    return Layouts(work=op.result, operands=(None, SAME))


@SIMT.layouts(Histogram)
def histogram_layouts(op: Histogram, on: Setting) -> Layouts:
    """The mask is read beside the source; the counts are in any layout."""
    return Layouts(work=op.source, operands=(None, SAME)[: len(op.operands)])


@SIMT.scratch(Concatenate)
def concatenate_scratch(op: Concatenate, chip: Device, num_warps: int, used: bool) -> Scratch:
    return staged_scratch(op.result, chip)


@SIMT.scratch(Gather)
def gather_scratch(op: Gather, chip: Device, num_warps: int, used: bool) -> Scratch:
    return staged_scratch(op.source, chip)


@SIMT.scratch(Histogram)
def histogram_scratch(op: Histogram, chip: Device, num_warps: int, used: bool) -> Scratch:
    return Scratch(4 * _window(op.bins, 4, chip).count)


def is_staged_reshape(op: Reshape) -> bool:
    """Say whether a reshape goes through shared memory: no layout follows where padding moves."""
    before, after = shape_of(op.source.type), op.shape
    return bool(before and after) and not reshape_is_linear(before, after)


@dataclass(frozen=True, slots=True)
class Window:
    """The elements that are in shared memory at one time, by their row-major places.

    start: the place of the first, an i32; `whole`: it is 0 and all elements are there.
    """

    start: str
    count: int
    whole: bool


def window_of(value: Value, chip: Hardware) -> Window:
    """Return what of a tile is in shared memory in the first round."""
    return _window(prod(shape_of(value.type)), max(1, element_of(value.type).itemsize), chip)


def _window(total: int, itemsize: int, chip: Hardware) -> Window:
    # In rounds every access is under a condition: that has to be worth it.
    whole = total * itemsize <= 2 * chip.most_scratch
    return Window("0", total if whole else chip.most_scratch // itemsize, whole)


def staged_scratch(value: Value, chip: Hardware) -> Scratch:
    """Return what a tile takes that is stored row-major, in rounds if it is large."""
    return Scratch(window_of(value, chip).count * max(1, element_of(value.type).itemsize))


def stored_type(element: Element) -> tuple[str, int]:
    """Return the LLVM type and bytes of an element in shared memory."""
    if isinstance(element, Pointer):
        return "i64", 8
    return ("i8", 1) if element.bits == 1 else (llvm_type(element), element.itemsize)


def raw(low: Lowering, value: str, element: Element) -> str:
    """Return a register as it is stored."""
    if isinstance(element, Pointer):
        return low.emit.pure(f"ptrtoint {GLOBAL} {value} to i64")
    if element.bits == 1:
        return low.emit.zext({"true": "1", "false": "0"}.get(value, value), "i1", "i8")
    return value


def cooked(low: Lowering, value: str, element: Element) -> str:
    """Return a stored value as a register holds it."""
    if isinstance(element, Pointer):
        return low.emit.effect(f"inttoptr i64 {value} to {GLOBAL}")
    if element.bits == 1:
        return low.emit.effect(f"icmp ne i8 {value}, 0")
    return value


def flat_place(
    low: Lowering,
    layout: LinearLayout,
    register: int,
    strides: tuple[int, ...],
    replaced: dict[int, str] | None = None,
) -> str:
    """Return the sum of a register's coordinates times strides, i32; some may be replaced."""
    emit, total, constant = low.emit, "0", 0
    for axis, stride in enumerate(strides):
        if replaced is not None and axis in replaced:
            total = emit.add("i32", total, emit.mul("i32", replaced[axis], str(stride)))
            continue
        root, own = low.coordinate(layout, axis, register)
        total = emit.add("i32", total, emit.mul("i32", root, str(stride)))
        constant += own * stride
    return emit.add("i32", total, str(constant))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tile in row-major order."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def when(low: Lowering, condition: str | None, body: Callable[[], None], word: str) -> None:
    """Run a body in the threads where a condition holds (None: in all)."""
    emit = low.emit
    if condition == "false":
        return
    if condition is None or condition == "true":
        body()
        return
    then, end = emit.fresh(word), emit.fresh(f"{word}_end")
    emit.branch(condition, then, end)
    emit.label(then)
    with emit.scope():
        body()
    emit.jump(end)
    emit.label(end)


def write_tile(low: Lowering, value: Value, base: str, window: Window, ahead: int = 0) -> None:
    """Write every element of a tile to its row-major place, `ahead` further on, if it is there."""
    layout, element = low.layout(value), element_of(value.type)
    type, size = stored_type(element)
    strides = row_major(shape_of(value.type))
    owner = low.owner(layout)
    base = at(low, base, str(ahead * size)) if window.whole else base
    for register in first_of_copies(low, value):
        found, inside = flat_place(low, layout, register, strides), None
        if not window.whole:
            found = _from_start(low, low.emit.add("i32", found, str(ahead)), window)
            inside = low.emit.pure(f"icmp ult i32 {found}, {window.count}")

        def store(register: int = register, found: str = found) -> None:
            held = raw(low, low.register(value, register), element)
            address = at(low, base, low.emit.mul("i32", found, str(size)))
            low.store_shared(type, held, address, size)

        when(low, low.and_all([owner, low.inside(layout, register), inside]), store, "stage")


def _from_start(low: Lowering, place: str, window: Window) -> str:
    """Return a place counted from the start of a window; those before it are huge numbers."""
    return low.emit.pure(f"sub i32 {place}, {window.start}")


def read_tile(
    low: Lowering,
    result: Value,
    base: str,
    place: Callable[[int], str],
    window: Window,
    total: int,
    fill: Callable[[Window], None],
    *sources: Value,
) -> None:
    """Give a result the elements at `place(register)`; registers that hold nothing read nothing.

    `fill` puts the elements of a window there, and does so for every window of `total` elements.
    The tiles `sources` that it takes them from are computed once, not in every round.
    """
    emit, element = low.emit, element_of(result.type)
    type, size = stored_type(element)
    layout = low.layout(result)
    table, live = layout.table("register"), set(low.live(result))
    unique = first_of_copies(low, result)

    def load(here: str) -> str:
        address = at(low, base, emit.mul("i32", here, str(size)))
        return low.load_shared(type, address, size)

    found: dict[int, str] = {}
    if window.whole:
        fill(window)
        barrier(low)
        for r in unique:
            found[table[r]] = cooked(low, load(place(r)), element)
    else:
        for source in sources:
            for r in first_of_copies(low, source):
                low.register(source, r)
        held = _read_rounds(low, [place(r) for r in unique], window, total, fill, load, type)
        for r, value in zip(unique, held, strict=True):
            found[table[r]] = cooked(low, value, element)
    registers = [found[f] if r in live else None for r, f in enumerate(table)]
    if isinstance(element, Pointer):
        low.set_lazy(result, lambda r: Place(registers[r] or "null", "0", 0))
    else:
        low.set_registers(result, registers)


def _read_rounds(
    low: Lowering,
    places: Sequence[str],
    window: Window,
    total: int,
    fill: Callable[[Window], None],
    load: Callable[[str], str],
    type: str,
) -> list[str]:
    """Return what lies at places, in a loop over windows: each element is there in one of them."""
    emit, nothing = low.emit, zero(type)
    body, end, entry = emit.fresh("window"), emit.fresh("after"), emit.block
    with emit.loop():
        emit.jump(body)
        emit.label(body)
        start = emit.effect(f"phi i32 [ 0, %{entry} ], [ ?, ? ]")
        carried = [emit.effect(f"phi {type} [ {nothing}, %{entry} ], [ ?, ? ]") for _ in places]
        here = Window(start, window.count, whole=False)
        barrier(low)  # the last round has been read
        fill(here)
        barrier(low)
        found: list[str] = []
        for place, before in zip(places, carried, strict=True):
            inner = _from_start(low, place, here)
            inside = emit.pure(f"icmp ult i32 {inner}, {here.count}")
            value = load(_clamped(low, inner, here.count))
            found.append(emit.effect(f"select i1 {inside}, {type} {value}, {type} {before}"))
        following = emit.effect(f"add nuw i32 {start}, {here.count}")
        latch = emit.block
        rows = {start: f"phi i32 [ 0, %{entry} ], [ {following}, %{latch} ]"}
        for name, new in zip(carried, found, strict=True):
            rows[name] = f"phi {type} [ {nothing}, %{entry} ], [ {new}, %{latch} ]"
        emit.patch_all(rows)
        emit.branch(emit.pure(f"icmp ult i32 {following}, {total}"), body, end)
    emit.label(end)
    return [emit.phi(type, [(value, latch)]) for value in found]


def _clamped(low: Lowering, place: str, count: int) -> str:
    """Return a place that lies in the buffer: registers in holes compute ones that do not."""
    if place.lstrip("-").isdigit():
        return str(min(max(0, int(place)), count - 1))
    return low.emit.call("i32", "llvm.umin.i32", f"i32 {place}, i32 {count - 1}", "i32, i32")


@SIMT.lower(Concatenate)
def lower_concatenate(low: Lowering, op: Concatenate) -> None:
    base = low.shared(low.offset(op))

    def fill(window: Window) -> None:
        write_tile(low, op.first, base, window)
        write_tile(low, op.second, base, window, ahead=prod(shape_of(op.first.type)))

    _read_row_major(low, op.result, base, window_of(op.result, low.chip), fill, op.first, op.second)


def lower_reshape(low: Lowering, op: Reshape) -> None:
    """A reshape that no layout follows: padding lies elsewhere in the two shapes."""
    base = low.shared(low.offset(op))
    fill = partial(write_tile, low, op.source, base)
    _read_row_major(low, op.result, base, window_of(op.source, low.chip), fill, op.source)


def _read_row_major(
    low: Lowering,
    result: Value,
    base: str,
    window: Window,
    fill: Callable[[Window], None],
    *sources: Value,
) -> None:
    shape, layout = shape_of(result.type), low.layout(result)
    strides, padded = row_major(shape), shape != layout.padded

    def place(register: int) -> str:
        found = flat_place(low, layout, register, strides)
        return _clamped(low, found, prod(shape)) if padded else found

    read_tile(low, result, base, place, window, prod(shape), fill, *sources)


@SIMT.lower(Gather)
def lower_gather(low: Lowering, op: Gather) -> None:
    base, source = low.shared(low.offset(op)), shape_of(op.source.type)
    layout, strides = low.layout(op.result), row_major(source)
    padded = layout.shape != layout.padded
    element = element_scalar(op.index)
    type = llvm_type(element)
    wide = "i64" if type == "i64" else "i32"
    widen = low.emit.zext if element.kind == "uint" else low.emit.sext
    last = source[op.axis] - 1

    def place(register: int) -> str:
        index = widen(low.register(op.index, register), type, wide)
        limited = low.emit.call(
            wide, f"llvm.umin.{wide}", f"{wide} {index}, {wide} {last}", f"{wide}, {wide}"
        )
        limited = low.emit.trunc(limited, wide, "i32")
        found = flat_place(low, layout, register, strides, {op.axis: limited})
        return _clamped(low, found, prod(source)) if padded else found

    fill = partial(write_tile, low, op.source, base)
    window = window_of(op.source, low.chip)
    read_tile(low, op.result, base, place, window, prod(source), fill, op.source)


@SIMT.lower(Histogram)
def lower_histogram(low: Lowering, op: Histogram) -> None:
    """Counters in shared memory, as many at a time as it has room for."""
    base = low.shared(low.offset(op))
    window, fill = _window(op.bins, 4, low.chip), partial(_count, low, op, base)
    masks = () if op.mask is None else (op.mask,)
    _read_row_major(low, op.result, base, window, fill, op.source, *masks)


def _count(low: Lowering, op: Histogram, base: str, window: Window) -> None:
    """Count the values of a window of bins."""
    emit, bins = low.emit, window.count
    threads = low.lanes * low.num_warps
    for start in range(0, bins, threads):
        here = emit.add("i32", low.thread, str(start))
        inside = emit.pure(f"icmp ult i32 {here}, {bins}") if start + threads > bins else None

        def clear(here: str = here) -> None:
            address = at(low, base, emit.mul("i32", here, "4"))
            low.store_shared("i32", "0", address, 4)

        when(low, inside, clear, "clear")
    barrier(low)
    layout, type = low.layout(op.source), llvm_type(element_of(op.source.type))
    owner = low.owner(layout)
    for register in first_of_copies(low, op.source):
        value = low.register(op.source, register)
        wide = type if int(type[1:]) > 32 else "i32"
        signed = element_scalar(op.source).kind == "int"
        held = (emit.sext if signed else emit.zext)(value, type, wide)
        if not window.whole:
            start = emit.zext(window.start, "i32", wide)
            held = emit.pure(f"sub {wide} {held}, {start}")
        counted = emit.pure(f"icmp ult {wide} {held}, {bins}")
        mask = None if op.mask is None else low.register(op.mask, register)

        def count(held: str = held, wide: str = wide) -> None:
            place = emit.mul("i32", emit.trunc(held, wide, "i32"), "4")
            address = at(low, base, place)
            emit.effect(f"atomicrmw add {low.shared_pointer} {address}, i32 1 monotonic, align 4")

        when(low, low.and_all([owner, low.inside(layout, register), mask, counted]), count, "count")
