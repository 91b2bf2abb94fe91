"""Copies for several rounds at once: runs of memory into shared memory, sorted out by round there.

A row of a tile is a run: what n rounds read of one element lies side by side, then comes the next
element. Each warp copies its rows to scratch of its own by cp.async, 16 bytes a lane, as memory has
them. Then a lane reads the n * 16 bytes that hold n rounds of 16 bytes of elements, puts those of
a round together by permutes, and stores them to that round's slot.
"""

from __future__ import annotations

from workbench.ir import Shared, shape_of
from workbench.layouts import LinearLayout
from workbench.layouts.f2 import log2
from workbench.targets.nvidia.instructions import address_of
from workbench.targets.nvidia.ops import CopyRounds
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering, at
from workbench.targets.simt.program import warp_barrier
from workbench.targets.simt.rules import SAME, Device, Layouts, Scratch, Setting
from workbench.targets.simt.shared import addresses_of, buffer_layout, load_vector, store_vector

#: Bytes of a copy, and the only size of elements that permutes sort out.
VECTOR, ITEMSIZE = 16, 2
_ELEMENTS = VECTOR // ITEMSIZE
#: Bytes of scratch, for what is sorted out behind one wait, that a block takes at most.
_MOST_SCRATCH = 80 << 10


def layout_for(
    shape: tuple[int, ...], axis: int, num_warps: int, lanes: int
) -> LinearLayout | None:
    """Return the layout in which a tile is copied: lanes next to each other share a row.

    None where rows are not made of vectors, or there are too few for all threads.
    """
    if len(shape) != 2 or any(extent & (extent - 1) for extent in shape):
        return None
    other = 1 - axis
    steps = [[0, 0] for _ in range(log2(shape[axis]) + log2(shape[other]))]
    for bit in range(log2(shape[axis])):
        steps[bit][axis] = 1 << bit
    for bit in range(log2(shape[other])):
        steps[log2(shape[axis]) + bit][other] = 1 << bit
    places = [(row, column) for row, column in steps]
    inside, threads = log2(_ELEMENTS), log2(lanes) + log2(num_warps)
    if shape[axis] < _ELEMENTS or shape[axis] > _ELEMENTS * lanes:
        return None
    if len(places) < inside + threads:
        return None
    last = inside + log2(lanes)
    bases = {
        "register": places[:inside] + places[inside + threads :],
        "lane": places[inside:last],
        "warp": places[last : inside + threads],
    }
    return LinearLayout(bases, shape)


@NVIDIA.layouts(CopyRounds)
def layouts(op: CopyRounds, on: Setting) -> Layouts:
    """Pointers and mask are computed in the one layout in which rows are copied."""
    shape = shape_of(op.pointers.type)
    layout = layout_for(shape, op.axis, on.num_warps, on.lanes)
    assert layout is not None
    return Layouts(
        own=shape,
        operands=tuple(None if operand is op.buffer else SAME for operand in op.operands),
        offers=lambda: [layout],
        fixed=True,
    )


@NVIDIA.scratch(CopyRounds)
def scratch(op: CopyRounds, chip: Device, num_warps: int, used: bool) -> Scratch:
    """The rows that each warp copies at one time."""
    size = num_warps * _at_once(op, num_warps, chip.lanes) * chip.lanes * VECTOR * _slots(op)
    return Scratch(size, "rows that are sorted out by round", alone=True)


def _slots(op: CopyRounds) -> int:
    assert isinstance(op.buffer.type, Shared)
    return op.buffer.type.slots


def _at_once(op: CopyRounds, num_warps: int, lanes: int) -> int:
    """Return how many vectors of elements a lane sorts out behind one wait."""
    rows, columns = shape_of(op.pointers.type)
    threads = lanes * num_warps
    most = max(1, _MOST_SCRATCH // (threads * VECTOR * _slots(op)))
    return min(1 << most.bit_length() - 1, rows * columns // _ELEMENTS // threads)


@NVIDIA.lower(CopyRounds)
def lower(low: Lowering, op: CopyRounds) -> None:
    layout = low.layout(op.pointers)
    vectors = range(0, layout.registers(), _ELEMENTS)
    count = _at_once(op, low.num_warps, low.chip.lanes)
    warp_bytes = count * low.chip.lanes * VECTOR * _slots(op)
    own = low.emit.mul("i32", low.warp, str(warp_bytes))
    base = at(low, low.shared(low.offset(op)), own)
    for first in range(0, len(vectors), count):
        warp_barrier(low)
        some = vectors[first : first + count]
        _copy(low, op, some, base)
        low.emit.do('call void asm sideeffect "cp.async.commit_group;", ""()')
        low.emit.do('call void asm sideeffect "cp.async.wait_group 0;", ""()')
        warp_barrier(low)
        _sort(low, op, some, base)


def _copy(low: Lowering, op: CopyRounds, vectors: range, base: str) -> None:
    """Copy the rows of some vectors: lanes that share a row bring its pieces in turns.

    PTX ISA 9.0, cp.async: a source that is ignored writes zeros.
    """
    emit, rounds = low.emit, _slots(op)
    sharing = min(shape_of(op.pointers.type)[op.axis] // _ELEMENTS, low.chip.lanes)
    part = emit.bitwise("and", "i32", low.lane, str(sharing - 1))
    row = emit.bitwise("and", "i32", low.lane, str(low.chip.lanes - sharing))
    # The pieces of a row begin where its first lane points.
    back = emit.mul("i32", part, str(-VECTOR * (rounds - 1)))
    place = emit.add(
        "i32",
        emit.mul("i32", row, str(VECTOR * rounds)),
        emit.mul("i32", part, str(VECTOR)),
    )
    for number, register in enumerate(vectors):
        source, beside = address_of(emit, low.place(op.pointers, register))
        source = emit.pure(f"getelementptr i8, ptr addrspace(1) {source}, i32 {back}")
        on = None if op.mask is None else _of_row(low, low.register(op.mask, register), row)
        start = at(low, base, place)
        for piece in range(rounds):
            moved = piece * sharing * VECTOR
            target = at(low, start, str(number * low.chip.lanes * VECTOR * rounds + moved))
            address = emit.pure(f"ptrtoint ptr addrspace(3) {target} to i32")
            offset = int(beside.removeprefix("+") or 0) + moved
            text = f"cp.async.cg.shared.global [$0], [$1+{offset}], {VECTOR}"
            arguments = [f"i32 {address}", f"ptr addrspace(1) {source}"]
            constraints = ["r", "l"]
            if on is not None:
                # Who points at a piece's elements: of each there are as many pieces as rounds.
                pieces = emit.add("i32", part, str(piece * sharing))
                owner = emit.pure(f"udiv i32 {pieces}, {rounds}")
                bit = emit.bitwise("and", "i32", emit.pure(f"lshr i32 {on}, {owner}"), "1")
                arguments.append(f"i1 {emit.pure(f'icmp eq i32 {bit}, 0')}")
                constraints.append("b")
                text += ", $2"
            emit.do(
                f'call void asm sideeffect "{text};", "{",".join(constraints)}"'
                f"({', '.join(arguments)})"
            )


def _of_row(low: Lowering, mask: str, row: str) -> str:
    """Return the masks of the lanes that share a row as bits, that of its first lane lowest."""
    name = "llvm.nvvm.vote.ballot.sync"
    low.emit.declare(name, f"declare i32 @{name}(i32, i1) nounwind convergent")
    bits = low.emit.effect(f"call i32 @{name}(i32 -1, i1 {mask})")
    return low.emit.pure(f"lshr i32 {bits}, {row}")


def _sort(low: Lowering, op: CopyRounds, vectors: range, base: str) -> None:
    """Read what n rounds need of a vector of elements, and store it by round."""
    emit, rounds = low.emit, _slots(op)
    type, layout = op.buffer.type, low.layout(op.pointers)
    assert isinstance(type, Shared)
    places = buffer_layout(op.buffer).offsets(layout)
    table = places.table("register")
    own = at(low, base, emit.mul("i32", low.lane, str(VECTOR * rounds)))
    addresses = addresses_of(low, low.scalar(op.buffer), places, op.buffer)
    name = "llvm.nvvm.prmt"
    emit.declare(name, f"declare i32 @{name}(i32, i32, i32) nounwind memory(none)")
    for number, register in enumerate(vectors):
        first = table[register]
        if any(table[register + n] != first + n for n in range(_ELEMENTS)):
            raise AssertionError(f"{op!r} stores what does not lie side by side")
        words: list[str] = []
        for piece in range(rounds):
            start = number * low.chip.lanes * VECTOR * rounds + piece * VECTOR
            words += load_vector(low, at(low, own, str(start)), VECTOR // 4, "i32", 4)
        target = addresses(first * ITEMSIZE)
        for slot in range(rounds):
            sorted_out: list[str] = []
            for pair in range(0, _ELEMENTS, 2):
                low_half, high_half = (rounds * (pair + n) + slot for n in range(2))
                chosen = (0x76 if high_half % 2 else 0x54) << 8 | (0x32 if low_half % 2 else 0x10)
                two = f"i32 {words[low_half // 2]}, i32 {words[high_half // 2]}"
                sorted_out.append(emit.pure(f"call i32 @{name}({two}, i32 {chosen})"))
            address = at(low, target, str(slot * type.slot_bytes))
            store_vector(low, address, sorted_out, "i32", 4)


__all__ = ["ITEMSIZE", "VECTOR", "layout_for"]
