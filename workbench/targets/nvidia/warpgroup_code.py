"""Products by warpgroups as they are written: wgmma, its descriptors, fences and waits.

Each product is one statement: fence, all instructions, commit, wait. What runs on may not be
touched in between, so sums go into a statement and come out of it.

Products whose sums are long ones (`long_after`) are several: an instruction adds 8-bit floats in
some 14 bits, so each piece of the tile, so many of k and so many columns, is summed by itself and
then added to the sums. All pieces have the same registers.

PTX ISA 9.0, wgmma.mma_async (sm_90a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import F32, Shared, Value
from workbench.layouts import WarpgroupPlan
from workbench.ops import Constant
from workbench.targets.nvidia.ops import (
    FenceProducts,
    StillRead,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.warpgroups import (
    MOST_COLUMNS,
    ROWS,
    WarpgroupUnit,
    columns_split,
    instruction_shape,
    parts_along_k,
    plan_of,
    rows_of,
    unit_of,
)
from workbench.targets.simt.casts import cast
from workbench.targets.simt.lowering import Lowering, element_scalar, llvm_type, zero
from workbench.targets.simt.shared import slot_base

#: Shared addresses have 18 bits in a descriptor; above lies a block's rank in its cluster.
_ADDRESS = 0x3FFFF
#: A predicate that never holds, which ptxas does not know: of a piece that surely adds to nothing
#: it would take other registers, start it before the last one has been added, and spill.
_NEVER = ".reg .pred NEVER; .reg .b32 N; mov.u32 N, %nsmid; setp.eq.u32 NEVER, N, 0;"


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand in shared memory: an i64 with all of its descriptor but `start` added up."""

    descriptor: str
    plan: WarpgroupPlan

    def start(self, mn: int, k: int) -> int:
        """Return what to add to the descriptor for the matrix that starts at a place."""
        return self.plan.start(mn, k) >> 4


@NVIDIA.lower(WarpgroupDot)
def lower_product(low: Lowering, op: WarpgroupDot) -> None:
    """One statement: fence, all instructions, commit, wait. Accumulators go in and come out.

    Sums that start at zero do not go in: the first instruction adds to nothing. Zeros that go in
    ptxas may write into every register (one number for them and for a coordinate is enough).
    """
    unit = unit_of(op)
    assert unit is not None
    if op.long_after:
        _lower_pieces(low, op, unit)
        return
    element = element_scalar(op.accumulator)
    sums = [
        r and cast(low, r, element, unit.accumulator, op) for r in low.registers(op.accumulator)
    ]
    zero_first, in_flight = _is_zero(op.accumulator), op.in_flight
    parts = parts_along_k(op)
    if parts is None or not low.comes_in_parts(op):
        in_flight = 0 if parts is not None else in_flight
        _statement(low, _instructions(low, op, unit), sums, unit, in_flight, new=zero_first)
    else:
        for number, registers in enumerate(parts.registers):
            # Not behind the part before: warps meet and start copies while both are multiplied.
            low.emit.do(f'call void asm sideeffect "{_wait(in_flight)}", ""()')
            low.write_part(op, parts.operand, registers)
            each = op.shapes[0][1] // op.parts
            inside = range(number * each, (number + 1) * each)
            instructions = _instructions(low, op, unit, inside)
            new = zero_first and not number
            _statement(low, instructions, sums, unit, None, new=new)
    low.set_registers(op.result, [r and cast(low, r, unit.accumulator, element, op) for r in sums])


def _statement(
    low: Lowering, instructions: Sequence[_Instruction], sums: list[str | None],
    unit: WarpgroupUnit, in_flight: int | None, *, new: bool,
) -> None:  # fmt: skip
    """Write one statement, which adds to the sums; `new`: they start at zero.

    in_flight: how many statements go on behind it; None if it waits for none.
    """
    held, letter = ("float", "f") if unit.accumulator == F32 else ("i32", "r")
    used = sorted({r for i in instructions for r in i.registers})
    number = {register: place for place, register in enumerate(used)}
    # Outputs come first, each input tied to its output, then what the instructions read.
    arguments: list[str] = []
    constraints, adds = [f"=&{letter}"] * len(used), "0"
    if not new:
        arguments = [f"{held} {sums[r] or zero(held)}" for r in used]
        constraints = [f"={letter}"] * len(used) + [str(place) for place in range(len(used))]
        adds = "1"
    text = "{ .reg .b64 A, B; wgmma.fence.sync.aligned; "
    text += _started(instructions, number, arguments, constraints, adds)
    text += "}" if in_flight is None else f"{_wait(in_flight)} }}"
    results = _in_and_out(low, text, constraints, arguments, held, len(used))
    for register, result in zip(used, results, strict=True):
        if sums[register] is not None:
            sums[register] = result


def _started(
    instructions: Sequence[_Instruction], number: Mapping[int, int], arguments: list[str],
    constraints: list[str], adds: str,
) -> str:  # fmt: skip
    """Return the text of instructions and of their commit; what they read becomes arguments.

    number: the operand of each accumulator. adds: the predicate by which the first instruction
    into each adds to what is there.
    """
    begun: set[range] = set()
    names: dict[str, int] = {}

    def name(argument: str, constraint: str) -> str:
        if argument not in names:
            names[argument] = len(constraints)
            arguments.append(argument)
            constraints.append(constraint)
        return f"${names[argument]}"

    text = ""
    for instruction in instructions:
        own = ", ".join(f"${number[r]}" for r in instruction.registers)
        columns = name(f"i64 {instruction.b.descriptor}", "l")
        text += f"add.s64 B, {columns}, {instruction.start_b}; "
        if isinstance(instruction.a, _Operand):
            rows = name(f"i64 {instruction.a.descriptor}", "l")
            text += f"add.s64 A, {rows}, {instruction.start_a}; "
            first = "A"
        else:
            words = [name(f"i32 {word}", "r") for word in instruction.a]
            first = "{" + ", ".join(words) + "}"
        added = "1" if instruction.registers in begun else adds
        begun.add(instruction.registers)
        text += f"{instruction.word} {{{own}}}, {first}, B, {added}{instruction.ending}; "
    return text + "wgmma.commit_group.sync.aligned; "


def _wait(pending: int) -> str:
    return f"wgmma.wait_group.sync.aligned {pending};"


def _is_zero(sums: Value) -> bool:
    """Say whether all sums are +0, to which nothing has to be added."""
    op = sums.op
    return isinstance(op, Constant) and op.value == 0 and not str(op.value).startswith("-")


def _lower_pieces(low: Lowering, op: WarpgroupDot, unit: WarpgroupUnit) -> None:
    """A statement for each piece, whose sums are added to the long ones before the next begins."""
    element = element_scalar(op.accumulator)
    sums = [
        r and cast(low, r, element, unit.accumulator, op) for r in low.registers(op.accumulator)
    ]
    pieces: dict[tuple[int, int], list[_Instruction]] = {}
    for instruction in _instructions(low, op, unit):
        key = instruction.registers.start, instruction.k // op.long_after
        pieces.setdefault(key, []).append(instruction)
    held = ["undef"] * max(len(piece[0].registers) for piece in pieces.values())
    for piece in pieces.values():
        registers = piece[0].registers
        count = len(registers)
        constraints = ["=f"] * count + [str(place) for place in range(count)]
        arguments = [f"float {value}" for value in held[:count]]
        number = {register: place for place, register in enumerate(registers)}
        text = f"{{ .reg .b64 A, B; {_NEVER} wgmma.fence.sync.aligned; "
        text += _started(piece, number, arguments, constraints, "NEVER")
        text += f"{_wait(0)} }}"
        held[:count] = _in_and_out(low, text, constraints, arguments, "float", count)
        for register, value in zip(registers, held[:count], strict=True):
            if sums[register] is not None:
                sums[register] = low.emit.pure(f"fadd float {sums[register]}, {value}")
    low.set_registers(op.result, [r and cast(low, r, unit.accumulator, element, op) for r in sums])


@dataclass(frozen=True, slots=True)
class _Instruction:
    """One wgmma: what it is called, its accumulators, and where its matrices start."""

    word: str
    ending: str
    registers: range
    a: _Operand | list[str]
    b: _Operand
    start_a: int
    start_b: int
    k: int


def _instructions(
    low: Lowering, op: WarpgroupDot, unit: WarpgroupUnit, inside: range | None = None
) -> list[_Instruction]:
    """Return the instructions of a product, or those of the part of it with such k."""
    (rows, columns), inner = instruction_shape(op), op.shapes[0][1]
    first_is_a = not op.is_turned
    shares, most = columns_split(op, low.num_warps), op.columns or MOST_COLUMNS
    groups = low.num_warps // 4 // shares.across  # along the rows
    padded = 1 << (columns - 1).bit_length()
    own = shares.own(columns)
    room = max(8, padded // shares.across) // 2  # registers of its 64 rows
    group = _warpgroup(low)
    steps = [0] * (groups.bit_length() - 1) + shares.steps(columns)
    b = _operand(low, op, not first_is_a, steps, group)
    a: _Operand | None = None
    words: list[str] = []
    places: dict[tuple[int, ...], int] = {}
    if isinstance(op.first.type, Shared):
        assert not rows_of(op, low.num_warps), f"{op!r} reads rows where they lie in another order"
        a = _operand(low, op, first_is_a, _steps(ROWS, groups), group)
    else:
        words = low.words(op.first)
        layout = low.layout(op.first)
        order = rows_of(op, low.num_warps)
        for register, flat in enumerate(layout.table("register")):
            row, k = layout.unflatten(flat)[:: 1 if first_is_a else -1]
            if order:
                row = sum((row >> bit & 1) << place for place, bit in enumerate(order))
            places.setdefault((row, k), register)
    found: list[_Instruction] = []
    for block, row in enumerate(range(0, rows, ROWS * groups)):
        for column in range(0, own, most):
            count = _columns(min(most, own - column), unit)
            first = block * room + column // 2
            word = f"wgmma.mma_async.sync.aligned.m64n{count}k{unit.k}.{unit.types}"
            for k in range(0, inner, unit.k) if inside is None else inside[:: unit.k]:
                held: _Operand | list[str]
                if a is not None:
                    held, start = a, a.start(row, k)
                else:
                    # Registers of A: (m, k), (m+8, k), (m, k+half), (m+8, k+half).
                    start, half = 0, 4 * unit.kw
                    held = [
                        words[places[row + dm, k + dk] // unit.kw]
                        for dk in (0, half) for dm in (0, 8)
                    ]  # fmt: skip
                found.append(_Instruction(
                    word, _ending(unit, a, b), range(first, first + count // 2), held, b,
                    start, b.start(shares.column(column), k), k,
                ))  # fmt: skip
    return found


def _columns(count: int, unit: WarpgroupUnit) -> int:
    """Return the columns of the smallest instruction for so many: a multiple of 8.

    More than 24 of integers go by 16. What lies beyond the tile's columns nobody reads.
    """
    step = 16 if not unit.accumulator.is_float and count > 24 else 8
    return -(-count // step) * step


def _ending(unit: WarpgroupUnit, a: _Operand | None, b: _Operand) -> str:
    """Return what follows whether to add to the sums: signs, which operands have k as rows."""
    if not unit.accumulator.is_float:
        return ""
    ending = ", 1, 1"
    if unit.turns:
        if a is not None:
            ending += f", {int(not a.plan.k_major)}"
        ending += f", {int(not b.plan.k_major)}"
    return ending


def _steps(first: int, count: int) -> list[int]:
    """Return the coordinates by which the bits of a number up to `count` move, from `first` on."""
    return [first << bit for bit in range(count.bit_length() - 1)]


def _warpgroup(low: Lowering) -> str:
    """Return the number of this warpgroup, i32, which all lanes of a warp agree on."""
    if low.num_warps == 4:
        return "0"
    number = low.emit.shift("lshr", "i32", low.thread, low.lane_bits + 2)
    # The same in all lanes as it is; the shuffle says so to ptxas, which keeps descriptors in
    # uniform registers then.
    return low.chip.shuffle(low.emit, "index", number, "0")


def _operand(
    low: Lowering, op: WarpgroupDot, is_a: bool, steps: Sequence[int], group: str
) -> _Operand:
    """Return an operand; steps[i]: the rows (columns) that bit i of the warpgroup moves by."""
    emit = low.emit
    value, slot, turned = (op.a, op.slot_a, op.turned_a) if is_a else (op.b, op.slot_b, op.turned_b)
    assert isinstance(value.type, Shared)
    plan = plan_of(op, value.type, turned, is_a)
    assert plan is not None, f"{value!r} lies as no product reads it"
    place = emit.pure(f"ptrtoint ptr addrspace(3) {slot_base(low, value, slot)} to i32")
    for bit, step in enumerate(steps):
        if not step:
            continue
        bits = emit.bitwise("and", "i32", emit.shift("lshr", "i32", group, bit), "1")
        place = emit.add("i32", place, emit.mul("i32", bits, str(plan.start(step, 0))))
    place = emit.shift("lshr", "i32", emit.bitwise("and", "i32", place, str(_ADDRESS)), 4)
    rest = plan.swizzle << 62 | (plan.stride >> 4) << 32 | (plan.leading >> 4) << 16
    if rest >= 1 << 63:
        rest -= 1 << 64
    return _Operand(emit.bitwise("or", "i64", emit.zext(place, "i32", "i64"), str(rest)), plan)


@NVIDIA.lower(WaitProducts)
def lower_wait(low: Lowering, op: WaitProducts) -> None:
    low.set_registers(op.result, waited(low, op.accumulator, op.pending))


def waited(low: Lowering, value: Value, pending: int) -> list[str | None]:
    """Wait for a product; returns its accumulators.

    They go in and come out, so that nobody reads them before.
    """
    type = llvm_type(element_scalar(value))
    letter = {"float": "f", "i32": "r"}[type]
    live = low.live(value)
    have = low.registers(value)
    text = _wait(pending)
    constraints = [f"={letter}"] * len(live) + [str(place) for place in range(len(live))]
    arguments = [f"{type} {have[r]}" for r in live]
    results = _in_and_out(low, text, constraints, arguments, type, len(live))
    sums: list[str | None] = list(have)
    for register, result in zip(live, results, strict=True):
        sums[register] = result
    return sums


@NVIDIA.lower(FenceProducts)
def lower_fence(low: Lowering, op: FenceProducts) -> None:
    where = "" if op.arrays else ".shared::cta"
    low.emit.do(f'call void asm sideeffect "fence.proxy.async{where};", "~{{memory}}"()')


@NVIDIA.lower(StillRead)
def lower_still_read(low: Lowering, op: StillRead) -> None:
    """Stores that never happen, of as many words as an instruction reads of its first operand."""
    words = low.words(op.tile)
    text = f"{{ {_NEVER} "
    for first in range(0, len(words), 4):
        names = [f"${n}" for n in range(first, min(first + 4, len(words)))]
        many = f".v{len(names)}" if len(names) > 1 else ""
        text += f"@NEVER st.shared{many}.b32 [N], {{{', '.join(names)}}}; "
    arguments = ", ".join(f"i32 {word}" for word in words)
    constraints = ",".join("r" for _ in words)
    low.emit.do(f'call void asm sideeffect "{text}}}", "{constraints}"({arguments})')


def _in_and_out(
    low: Lowering,
    text: str,
    constraints: Sequence[str],
    arguments: Sequence[str],
    type: str,
    count: int,
) -> list[str]:
    """Write a statement with `count` results of one type; return them."""
    returned = type if count == 1 else low.emit.struct(type, count)
    call = low.emit.effect(
        f'call {returned} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
        f"({', '.join(arguments)}) convergent"
    )
    if count == 1:
        return [call]
    return [low.emit.effect(f"extractvalue {returned} {call}, {i}") for i in range(count)]
