"""convert_layout: register renaming, shuffles, or a trip through shared memory, as planned."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Pointer, Scalar, element_of, layout_of
from workbench.layouts import (
    RegisterPlan,
    SharedInstruction,
    SharedPlan,
    ShufflePlan,
    plan_convert,
)
from workbench.layouts.f2 import table
from workbench.ops import ConvertLayout
from workbench.targets.simt.hardware import GLOBAL, Hardware, Shuffle
from workbench.targets.simt.lowering import Lowering, memory_type, zero
from workbench.targets.simt.program import barrier, warp_barrier
from workbench.targets.simt.rules import NO_SCRATCH, Device, Scratch, as_they_are
from workbench.targets.simt.shared import Addresses, load_vector, store_vector
from workbench.targets.simt.table import SIMT


def convert_plan(op: ConvertLayout, chip: Hardware) -> RegisterPlan | ShufflePlan | SharedPlan:
    """Return how a conversion is carried out."""
    element, source = element_of(op.source.type), layout_of(op.source.type)
    assert source is not None
    bits = 8 if element.bits == 1 else element.bits
    return plan_convert(source, op.layout, bits, chip.most_scratch, chip.banks)


SIMT.layouts(ConvertLayout)(as_they_are)


@SIMT.scratch(ConvertLayout)
def convert_scratch(op: ConvertLayout, chip: Device, num_warps: int, used: bool) -> Scratch:
    """The tile, or a part of it where it goes in rounds."""
    plan = convert_plan(op, chip)
    if not isinstance(plan, SharedPlan):
        return NO_SCRATCH
    name = op.result.hint or op.source.hint or "a value"
    return Scratch(
        plan.scratch_bytes, f"{name} on its way to other threads", alone=plan.barrier == "warp"
    )


@SIMT.lower(ConvertLayout)
def lower_convert(low: Lowering, op: ConvertLayout) -> None:
    plan = convert_plan(op, low.chip)
    if isinstance(plan, RegisterPlan):
        sources = plan.sources
        low.set_lazy(op.result, lambda r: low.held(op.source, sources[r] or 0))
        return
    if isinstance(plan, SharedPlan) and low.is_packed(op.source):
        words = plan.of_words(low.pack_of(op.source)[1])
        if words is not None:
            _move_words(low, op, words)
            return
    element = element_of(op.source.type)
    registers = [None if r is None else _raw(low, r, element) for r in low.registers(op.source)]
    type = memory_type(element)
    if isinstance(plan, ShufflePlan):
        moved = _shuffled(low, plan, registers, type)
    else:
        moved = _staged(low, plan, registers, type, low.offset(op))
    final = [None if r is None else _cooked(low, r, element) for r in moved]
    if isinstance(element, Pointer):
        low.set_pointers(op.result, final)
    else:
        low.set_registers(op.result, final)


def _move_words(low: Lowering, op: ConvertLayout, plan: SharedPlan) -> None:
    """Move a tile that is packed in words, of which none is taken apart."""
    moved = _staged(low, plan, low.words(op.source), "i32", low.offset(op))
    count = low.layout(op.result).registers() // low.pack_of(op.result)[1]
    moved += [None] * (count - len(moved))
    low.set_words(op.result, [word or "0" for word in moved])


def _raw(low: Lowering, value: str, element: Scalar | Pointer) -> str:
    if isinstance(element, Pointer):
        return low.emit.pure(f"ptrtoint {GLOBAL} {value} to i64")
    if element.kind == "bool":
        return low.emit.zext(value, "i1", "i8")
    return value


def _cooked(low: Lowering, value: str, element: Scalar | Pointer) -> str:
    if isinstance(element, Pointer):
        return low.emit.pure(f"inttoptr i64 {value} to {GLOBAL}")
    if element.kind == "bool":
        return low.emit.pure(f"icmp ne i8 {value}, 0")
    return value


def _shuffled(
    low: Lowering, plan: ShufflePlan, registers: Sequence[str | None], type: str
) -> list[str | None]:
    """Run the rounds of a shuffle plan; see layouts/shuffles.py for its meaning."""
    emit = low.emit
    if type in ("i64", "double"):
        halves = [
            [None if r is None else _half(low, r, type, shift) for r in registers]
            for shift in (0, 32)
        ]
        lower, upper = (_shuffled(low, plan, half, "i32") for half in halves)
        return [
            None if a is None or b is None else _whole(low, a, b, type)
            for a, b in zip(lower, upper, strict=True)
        ]
    words = [_offered_word(low, [registers[r] or zero(type) for r in w], type) for w in plan.words]
    offer = low.thread_part(plan.offer, plan.warp_offer)
    lane = low.thread_part(plan.source, plan.warp_source)
    file = low.thread_part(plan.file, ())
    received: dict[int, str] = {}
    for step in plan.rounds:
        offered = _choose(low, words, offer, step.word)
        if plan.is_local(step):
            received[step.index] = offered
            continue
        if plan.is_butterfly:
            received[step.index] = shuffle(low, "xor", offered, str(step.lane))
        else:
            source = emit.bitwise("xor", "i32", lane, str(step.lane))
            received[step.index] = shuffle(low, "index", offered, source)
    filed: dict[int, str] = {}
    found: list[str | None] = []
    for target in plan.filed:
        if target is None:
            found.append(None)
            continue
        number, part = target
        if number not in filed:
            filed[number] = _filed(low, received, file, plan.file, number)
        found.append(_part(low, filed[number], type, part, len(plan.words[0])))
    return found


def _offered_word(low: Lowering, operands: list[str], type: str) -> str:
    return low.packing.pack(operands, type) if len(operands) > 1 else _word(low, operands[0], type)


def _half(low: Lowering, value: str, type: str, shift: int) -> str:
    bits = low.emit.pure(f"bitcast double {value} to i64") if type == "double" else value
    return low.emit.trunc(low.emit.shift("lshr", "i64", bits, shift), "i64", "i32")


def _whole(low: Lowering, a: str, b: str, type: str) -> str:
    emit = low.emit
    high = emit.shift("shl", "i64", emit.zext(b, "i32", "i64"), 32)
    both = emit.bitwise("or", "i64", emit.zext(a, "i32", "i64"), high)
    return emit.pure(f"bitcast i64 {both} to double") if type == "double" else both


def _word(low: Lowering, value: str, type: str) -> str:
    emit = low.emit
    bits = {"half": "i16", "bfloat": "i16", "float": "i32"}.get(type, type)
    if bits != type:
        value = emit.pure(f"bitcast {type} {value} to {bits}")
    return emit.zext(value, bits, "i32")


def _part(low: Lowering, word: str, type: str, part: int, each: int) -> str:
    emit = low.emit
    bits = {"half": "i16", "bfloat": "i16", "float": "i32"}.get(type, type)
    width = int(bits[1:])
    value = emit.shift("lshr", "i32", word, part * width) if each > 1 else word
    value = emit.trunc(value, "i32", bits)
    return emit.pure(f"bitcast {bits} {value} to {type}") if bits != type else value


def _choose(low: Lowering, words: Sequence[str], index: str, constant: int) -> str:
    """Return words[index ^ constant] by selects; the index differs between lanes."""
    held = [
        words[i ^ constant] if i ^ constant < len(words) else words[0]
        for i in range(_next(len(words)))
    ]
    return _select_tree(low, held, index)


def _next(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _select_tree(low: Lowering, held: list[str], index: str) -> str:
    emit = low.emit
    if index.isdigit():
        return held[int(index)]
    bit = 0
    while len(held) > 1:
        pairs = [(held[i], held[i + 1]) for i in range(0, len(held), 2)]
        held = []
        for even, odd in pairs:
            if even == odd:
                held.append(even)
                continue
            test = emit.bitwise("and", "i32", index, str(1 << bit))
            is_odd = emit.pure(f"icmp ne i32 {test}, 0")
            held.append(emit.pure(f"select i1 {is_odd}, i32 {odd}, i32 {even}"))
        bit += 1
    return held[0]


def _filed(
    low: Lowering, received: dict[int, str], file: str, columns: Sequence[int], number: int
) -> str:
    """Return the word that was filed as `number`: round index ^ file(lane) = number."""
    image = set(table(columns))
    count = _next(max(received, default=0) + 1)
    held = [received.get(number ^ v, "0") if v in image else "0" for v in range(count)]
    # Values that no lane files are never chosen; let them repeat a neighbour to save selects.
    known = next(h for v, h in enumerate(held) if v in image)
    held = [h if v in image else known for v, h in enumerate(held)]
    return _select_tree(low, held, file)


def shuffle(low: Lowering, kind: Shuffle, word: str, lane: str) -> str:
    """Return the i32 that another lane of the warp offers."""
    return low.chip.shuffle(low.emit, kind, word, lane)


def _staged(
    low: Lowering, plan: SharedPlan, registers: Sequence[str | None], type: str, offset: int
) -> list[str | None]:
    """Store, wait, load; see layouts/staging.py for the meaning of a plan."""
    base = low.shared(offset)
    itemsize = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4}.get(type, 8)
    wait = barrier if plan.barrier == "cta" else warp_barrier
    loaded = [r for steps in plan.load.rounds for step in steps for r in step.registers]
    written = [r for r in loaded if r is not None] + [target for target, _ in plan.copies]
    found: list[str | None] = [None] * (1 + max(written))
    for number, (stores, loads) in enumerate(zip(plan.store.rounds, plan.load.rounds, strict=True)):
        if number or plan.barrier == "warp":  # its lanes may still read what was there before
            wait(low)
        _store_round(low, plan, stores, registers, type, itemsize, base)
        wait(low)
        addresses = Addresses(low, base, plan.load.lane, plan.load.warp)
        swap = low.thread_part(plan.load.lane_swap, plan.load.warp_swap)
        columns = [*plan.load.lane_swap, *plan.load.warp_swap]
        for step in loads:
            address = addresses(step.offset)
            held = load_vector(low, address, len(step.registers), type, itemsize)
            held = _swapped(low, held, swap, columns, type)
            for register, value in zip(step.registers, held, strict=True):
                if register is not None:
                    found[register] = value
    for target, source in plan.copies:
        found[target] = found[source]
    return found


def _store_round(
    low: Lowering, plan: SharedPlan, steps: Sequence[SharedInstruction],
    registers: Sequence[str | None], type: str, itemsize: int, base: str,
) -> None:  # fmt: skip
    emit = low.emit
    addresses = Addresses(low, base, plan.store.lane, plan.store.warp)
    swap = low.thread_part(plan.store.lane_swap, plan.store.warp_swap)
    columns = [*plan.store.lane_swap, *plan.store.warp_swap]
    end = ""
    if plan.owner_warps:
        bits = emit.bitwise("and", "i32", low.warp, str(plan.owner_warps))
        then, end = emit.fresh("stage"), emit.fresh("staged")
        emit.branch(emit.pure(f"icmp eq i32 {bits}, 0"), then, end)
        emit.label(then)
    with emit.scope():
        for step in steps:
            held = [(registers[r] if r is not None else None) or zero(type) for r in step.registers]
            held = _swapped(low, held, swap, columns, type)
            store_vector(low, addresses(step.offset), held, type, itemsize)
    if end:
        emit.jump(end)
        emit.label(end)


def _swapped(
    low: Lowering, held: list[str], swap: str, columns: Sequence[int], type: str
) -> list[str]:
    """Exchange the positions i and i ^ swap of a vector, where swap differs between threads."""
    if not any(columns):
        return held
    emit = low.emit
    for bit in range((len(held) - 1).bit_length()):
        if not any(c >> bit & 1 for c in columns):
            continue
        test = emit.bitwise("and", "i32", swap, str(1 << bit))
        moves = emit.pure(f"icmp ne i32 {test}, 0")
        held = [
            emit.pure(f"select i1 {moves}, {type} {held[i ^ 1 << bit]}, {type} {held[i]}")
            for i in range(len(held))
        ]
    return held
