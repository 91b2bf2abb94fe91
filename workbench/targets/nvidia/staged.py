"""Ops that move elements anywhere in the tile: through shared memory, row-major.

Every element is written once to its place, the block waits, and each thread reads what its
registers of the result need. No layout is asked for, so operands come as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from workbench.ir import Element, Op, Pointer, Tile, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.layouts.coordinates import reshape_is_linear
from workbench.ops import Concatenate, Gather, Histogram, Reshape
from workbench.targets.nvidia.lowering import Lowering, element_scalar, llvm_type
from workbench.targets.nvidia.memory import first_of_copies
from workbench.targets.nvidia.program import barrier
from workbench.targets.nvidia.shared import at
from workbench.targets.nvidia.table import NVIDIA


def is_staged(op: Op) -> bool:
    """Say whether an op takes its operands in any layout and goes through shared memory."""
    if isinstance(op, Reshape):
        before, after = shape_of(op.source.type), op.shape
        return bool(before and after) and not reshape_is_linear(before, after)
    return isinstance(op, Gather | Concatenate | Histogram)


def staged_bytes(op: Op) -> int:
    """Return the bytes of shared memory that a staged op needs while it runs."""
    if isinstance(op, Histogram):
        return 4 * op.bins
    held = op.result.type if isinstance(op, Concatenate) else op.operands[0].type
    assert isinstance(held, Tile)
    return prod(held.shape) * max(1, held.element.itemsize)


def stored_type(element: Element) -> tuple[str, int]:
    """Return the LLVM type and bytes of an element in shared memory."""
    if isinstance(element, Pointer):
        return "i64", 8
    return ("i8", 1) if element.bits == 1 else (llvm_type(element), element.itemsize)


def raw(low: Lowering, value: str, element: Element) -> str:
    """Return a register as it is stored."""
    if isinstance(element, Pointer):
        return low.emit.pure(f"ptrtoint ptr addrspace(1) {value} to i64")
    if element.bits == 1:
        return low.emit.zext({"true": "1", "false": "0"}.get(value, value), "i1", "i8")
    return value


def cooked(low: Lowering, value: str, element: Element) -> str:
    """Return a stored value as a register holds it."""
    if isinstance(element, Pointer):
        return low.emit.effect(f"inttoptr i64 {value} to ptr addrspace(1)")
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


def write_tile(low: Lowering, value: Value, base: str) -> None:
    """Write every element of a tile to its row-major place."""
    layout, element = low.layout(value), element_of(value.type)
    type, size = stored_type(element)
    strides = row_major(shape_of(value.type))
    owner = low.owner(layout)
    for register in first_of_copies(low, value):

        def store(register: int = register) -> None:
            held = raw(low, low.register(value, register), element)
            place = low.emit.mul("i32", flat_place(low, layout, register, strides), str(size))
            address = at(low, base, place)
            low.emit.do(f"store {type} {held}, ptr addrspace(3) {address}, align {size}")

        when(low, low.and_all([owner, low.inside(layout, register)]), store, "stage")


def read_tile(
    low: Lowering, result: Value, base: str, place: Callable[[int], str], element: Element
) -> None:
    """Give a result the elements at `place(register)`; registers that hold nothing read nothing."""
    type, size = stored_type(element)
    layout = low.layout(result)
    table, live = layout.table("register"), set(low.live(result))
    found: dict[int, str] = {}
    for register in first_of_copies(low, result):
        address = at(low, base, low.emit.mul("i32", place(register), str(size)))
        held = low.emit.effect(f"load {type}, ptr addrspace(3) {address}, align {size}")
        found[table[register]] = cooked(low, held, element)
    registers = [found[f] if r in live else None for r, f in enumerate(table)]
    if isinstance(element, Pointer):
        low.set_lazy(result, lambda r: (registers[r] or "null", "0", 0))
    else:
        low.set_registers(result, registers)


def _clamped(low: Lowering, place: str, count: int) -> str:
    """Return a place that lies in the buffer: registers in holes compute ones that do not."""
    if place.lstrip("-").isdigit():
        return str(min(max(0, int(place)), count - 1))
    return low.emit.call("i32", "llvm.umin.i32", f"i32 {place}, i32 {count - 1}", "i32, i32")


@NVIDIA.lower(Concatenate)
def lower_concatenate(low: Lowering, op: Concatenate) -> None:
    base, element = low.shared(low.offsets[op.id]), element_of(op.result.type)
    _, size = stored_type(element)
    write_tile(low, op.first, base)
    write_tile(low, op.second, at(low, base, str(shape_of(op.first.type)[0] * size)))
    barrier(low)
    _read_row_major(low, op.result, base)


def lower_reshape(low: Lowering, op: Reshape) -> None:
    """A reshape that no layout follows: padding lies elsewhere in the two shapes."""
    base = low.shared(low.offsets[op.id])
    write_tile(low, op.source, base)
    barrier(low)
    _read_row_major(low, op.result, base)


def _read_row_major(low: Lowering, result: Value, base: str) -> None:
    shape, layout = shape_of(result.type), low.layout(result)
    strides, padded = row_major(shape), shape != layout.padded

    def place(register: int) -> str:
        found = flat_place(low, layout, register, strides)
        return _clamped(low, found, prod(shape)) if padded else found

    read_tile(low, result, base, place, element_of(result.type))


@NVIDIA.lower(Gather)
def lower_gather(low: Lowering, op: Gather) -> None:
    base, source = low.shared(low.offsets[op.id]), shape_of(op.source.type)
    write_tile(low, op.source, base)
    barrier(low)
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

    read_tile(low, op.result, base, place, element_of(op.source.type))


@NVIDIA.lower(Histogram)
def lower_histogram(low: Lowering, op: Histogram) -> None:
    """Counters in shared memory. PTX ISA 9.0, red.shared (sm_60)."""
    emit, base = low.emit, low.shared(low.offsets[op.id])
    threads = 32 * low.num_warps
    for start in range(0, op.bins, threads):
        here = emit.add("i32", low.thread, str(start))
        inside = emit.pure(f"icmp ult i32 {here}, {op.bins}") if start + threads > op.bins else None

        def clear(here: str = here) -> None:
            address = at(low, base, emit.mul("i32", here, "4"))
            emit.do(f"store i32 0, ptr addrspace(3) {address}, align 4")

        when(low, inside, clear, "clear")
    barrier(low)
    layout, type = low.layout(op.source), llvm_type(element_of(op.source.type))
    owner = low.owner(layout)
    for register in first_of_copies(low, op.source):
        value = low.register(op.source, register)
        wide = type if int(type[1:]) > 32 else "i32"
        signed = element_scalar(op.source).kind == "int"
        held = (emit.sext if signed else emit.zext)(value, type, wide)
        counted = emit.pure(f"icmp ult {wide} {held}, {op.bins}")
        mask = None if op.mask is None else low.register(op.mask, register)

        def count(held: str = held, wide: str = wide) -> None:
            place = emit.mul("i32", emit.trunc(held, wide, "i32"), "4")
            address = at(low, base, place)
            emit.effect(f"atomicrmw add ptr addrspace(3) {address}, i32 1 monotonic, align 4")

        when(low, low.and_all([owner, low.inside(layout, register), mask, counted]), count, "count")
    barrier(low)
    _read_row_major(low, op.result, base)
