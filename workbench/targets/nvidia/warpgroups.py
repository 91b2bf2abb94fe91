"""Matrix products by warpgroups: wgmma, whose operands lie in shared memory (A also in registers).

PTX ISA 9.0, wgmma.mma_async (sm_90a). Four warps multiply 64 rows by up to 256 columns, 32 bytes
of k at a time. Accumulators are layouts.wgmma_d, A in registers layouts.wgmma_a; how a tile has to
lie in shared memory is in layouts/warpgroup_access.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    I32,
    Builder,
    Scalar,
    Shared,
    Tile,
    Value,
    element_of,
    layout_of,
    shape_of,
)
from workbench.layouts import (
    LinearLayout,
    WarpgroupPlan,
    swizzled,
    warpgroup_fits,
    wgmma_a,
    wgmma_d,
)
from workbench.ops import Constant, Dot, Elementwise
from workbench.targets.llvm.emit import float_literal
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.ops import (
    FenceProducts,
    ScaleProducts,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.casts import cast
from workbench.targets.simt.dots import ACCUMULATOR_FIRST, smaller_product
from workbench.targets.simt.lowering import Lowering, element_scalar, llvm_type, zero
from workbench.targets.simt.rules import (
    SAME,
    Along,
    InPlace,
    Layouts,
    Setting,
    Stored,
    Told,
    as_they_are,
)
from workbench.targets.simt.shared import slot_base

#: Rows of one instruction, and the most columns.
ROWS, MOST_COLUMNS = 64, 256
_SMALL = (F8E4M3, F8E5M2)
#: Registers that an instruction needs beside its sums, four of them where A is in registers. ptxas
#: (13.0) refuses one that has fewer: what runs on cannot be spilled (C7602, "register target of
#: 158" for 128 sums).
_BESIDE_SUMS = 30
#: Shared addresses have 18 bits in a descriptor; above lies a block's rank in its cluster.
_ADDRESS = 0x3FFFF

NVIDIA.layouts(FenceProducts)(as_they_are)


@dataclass(frozen=True, slots=True)
class WarpgroupUnit:
    """One type of wgmma: elements of k in an instruction and in a register, and its name.

    `turns`: whether operands may lie with k as rows. `accumulator`: what it adds in.
    """

    k: int
    kw: int
    types: str
    turns: bool
    accumulator: Scalar


def warpgroup_unit(a: Scalar, b: Scalar, c: Scalar) -> WarpgroupUnit | None:
    """Return the instruction for operands a, b and an accumulator c; None if there is none."""
    if a == b and a in (F16, BF16) and c in (F16, F32):
        return WarpgroupUnit(16, 2, f"f32.{a}.{a}", True, F32)
    if a == b == c == F32:  # read as tf32: the instruction cuts what is below
        return WarpgroupUnit(8, 1, "f32.tf32.tf32", False, F32)
    if a == b == I8 and c == I32:
        return WarpgroupUnit(32, 4, "s32.s8.s8", False, I32)
    if a in _SMALL and b in _SMALL and c in (F16, F32):
        first, second = (str(element).removeprefix("f8") for element in (a, b))
        return WarpgroupUnit(32, 4, f"f32.{first}.{second}", False, F32)
    return None


def unit_of(op: Dot | WarpgroupDot) -> WarpgroupUnit | None:
    """Return the instruction that computes a product; None if there is none."""
    elements = [element_of(v.type) for v in (op.a, op.b, op.accumulator)]
    if not all(isinstance(element, Scalar) for element in elements):
        return None
    if isinstance(op, Dot) and elements[0] == F32 and op.precision != "tf32":
        return None
    return warpgroup_unit(*elements)  # type: ignore[arg-type]


# -- layouts --------------------------------------------------------------------------------------
def warpgroup_layouts(op: Dot, on: Setting) -> Layouts | None:
    """Return the layouts of a dot that wgmma computes; None if another instruction has to."""
    unit, shape = unit_of(op), shape_of(op.result.type)
    chip = chip_of(on.chip)
    if unit is None or not chip.has_warpgroups or obstacle(op, chip, on.options):
        return None
    splits = _splits(shape, on.num_warps)
    fragments = {
        wgmma_d(shape, on.num_warps, across): wgmma_a(
            shape_of(op.a.type), unit.kw, on.num_warps, across
        )
        for across in splits
    }
    a = None if _is_read(op.a, on) else Along(fragments.get, None)
    return Layouts(
        work=op.result,
        operands=(a, None, SAME),
        order=ACCUMULATOR_FIRST,
        offers=lambda: fragments,
        fixed=True,
        becomes=partial(_becomes, op),
    )


def obstacle(op: Dot, chip: Chip, options: Mapping[str, Any]) -> str:
    """Say why wgmma does not compute a dot on a chip that has it; empty if it does."""
    if not options.get("wgmma", True):
        return "wgmma=False"
    a, b = element_of(op.a.type), element_of(op.b.type)
    into, unit = element_of(op.result.type), unit_of(op)
    if unit is None:
        return f"there is none for {a} and {b} into {into}"
    inner = shape_of(op.a.type)[-1]
    if inner % unit.k:
        return f"K = {inner} of {a} is no multiple of {unit.k}"
    if 0 < op.imprecise_limit < inner:
        return f"max_num_imprecise_acc = {op.imprecise_limit} is less than K = {inner}"
    return _obstacle_of_shape(shape_of(op.result.type), chip, options)


def _obstacle_of_shape(shape: tuple[int, ...], chip: Chip, options: Mapping[str, Any]) -> str:
    warps = options["num_warps"]
    if warps % 4:
        return f"it needs four warps, num_warps is {warps}"
    if len(shape) != 2:
        return "it knows no batches"
    if shape[0] <= ROWS // 2:
        return f"most of its {ROWS} rows would be copies of the tile's {shape[0]}"
    if shape[0] % 8 or shape[1] % 8:
        return f"operands lie in groups of 8 rows, the tile is {shape[0]} x {shape[1]}"
    sums, have = _sums(shape, warps), chip.most_registers(warps)
    have = min(have, options.get("maxnreg") or have)
    if sums + _BESIDE_SUMS > have:
        return f"its sums fill {sums} registers of a thread, which has {have}"
    return ""


def _sums(shape: tuple[int, ...], num_warps: int) -> int:
    """Return the registers of a thread that the sums of a tile fill."""
    (rows, columns), (across,) = shape, _splits(shape, num_warps)
    columns = _own_columns(columns, across)
    return -(-rows // (ROWS * (num_warps // 4 // across))) * -(-columns // 8) * 4


def _own_columns(columns: int, across: int) -> int:
    """Return the columns of one of several warpgroups that divide them: 8 at least."""
    if across == 1:
        return columns
    return max(8, (1 << (columns - 1).bit_length()) // across)


def _splits(shape: tuple[int, ...], num_warps: int) -> list[int]:
    """Return among how many warpgroups the columns may be divided: the fewest that leave rows."""
    groups, across = num_warps // 4, 1
    rows = 1 << (shape[0] - 1).bit_length()
    while rows < ROWS * (groups // across) and across < groups:
        across *= 2
    return [across]


def _is_read(value: Value, on: Setting) -> bool:
    """Say whether a tile is memory's, its elements perhaps moved: it goes to shared memory as is.

    What is computed stays in registers.
    """
    while value.op is not None and value.op.moves:
        value = value.op.operands[0]
    return value.op is not None and on.chip.rules.access_of(value.op) is not None


def _becomes(op: Dot, builder: Builder, operands: Sequence[Value]) -> tuple[Value, ...]:
    a, b, start = operands
    if not op.imprecise_limit:
        return (builder.add(WarpgroupDot(a, b, start), op.result.hint),)
    # The sums of the instruction are short ones (for 8-bit floats): each goes to a long one.
    assert isinstance(start.type, Tile)
    nothing = builder.add(Constant(0.0, start.type))
    part = builder.add(WarpgroupDot(a, b, nothing))
    return (builder.add(Elementwise("add", (start, part)), op.result.hint),)


@NVIDIA.layouts(WarpgroupDot)
def product_layouts(op: WarpgroupDot, on: Setting) -> Layouts:
    along: dict[Value, Along | None] = {op.accumulator: SAME}
    if fragment := fragment_of(op):
        along[op.a] = Along(lambda layout: fragment, None)
    return Layouts(work=op.result, operands=tuple(along.get(v) for v in op.operands))


@NVIDIA.advice(WarpgroupDot)
def smaller_product_of(op: WarpgroupDot, found: int, allowed: int) -> str:
    (m, k), (_, n) = op.shapes
    return smaller_product(m, k, n, found, allowed)


@NVIDIA.layouts(WaitProducts)
def wait_layouts(op: WaitProducts, on: Setting) -> Layouts:
    return Layouts(work=op.result, operands=(SAME,))


@NVIDIA.layouts(ScaleProducts)
def scale_layouts(op: ScaleProducts, on: Setting) -> Layouts:
    return Layouts(work=op.result, operands=(SAME, SAME))


def columns_split(op: WarpgroupDot, num_warps: int) -> int:
    """Return among how many warpgroups the columns of a product are divided."""
    shape, layout = shape_of(op.result.type), layout_of(op.result.type)
    across = 1
    while wgmma_d(shape, num_warps, across) != layout:
        across *= 2
    return across


def fragment_of(op: WarpgroupDot) -> LinearLayout | None:
    """Return the layout in which A is read from registers, if it is in that."""
    unit, held = unit_of(op), layout_of(op.a.type)
    if unit is None or held is None:
        return None
    warps = held.size("warp")
    wanted = wgmma_a(shape_of(op.a.type), unit.kw, warps, columns_split(op, warps))
    return wanted if held == wanted else None


# -- operands in shared memory --------------------------------------------------------------------
@NVIDIA.staged(WarpgroupDot)
def staged_operands(op: WarpgroupDot) -> tuple[Value, ...]:
    """What is read while the product goes on; copies hide behind it."""
    return tuple(v for v in (op.a, op.b) if isinstance(v.type, Tile))


@NVIDIA.in_place(WarpgroupDot)
def buffer_for(op: WarpgroupDot, operand: Value, buffer: Shared, turned: bool) -> InPlace | None:
    """The order of axes in memory stays, since that is how a copy fills it."""
    names = [name for name in ("a", "b") if getattr(op, name) is operand]
    if operand not in staged_operands(op) or not names:
        return None
    shape, size = buffer.shape, buffer.element.itemsize
    order = (0, 1) if _first_axis_inside(buffer) else (1, 0)

    def fields(held: Value, slot: Value) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in names:
            found |= {name: held, f"slot_{name}": slot, f"turned_{name}": turned}
        return found

    for layout in (buffer.layout, swizzled(shape, size, order, exchange=False)):
        wanted = replace(buffer, layout=layout)
        if all(_plan(op, wanted, turned, name == "a") is not None for name in names):
            return InPlace(wanted, fields)
    return None


@NVIDIA.stored(WarpgroupDot)
def stored_operands(op: WarpgroupDot) -> list[Stored]:
    """Fragments stay in registers."""
    names = ["b"] if fragment_of(op) is not None else ["a", "b"]
    tiles = [(name, getattr(op, name)) for name in names]
    return [
        Stored(name, tile, stored_buffer(op, tile, is_a=name == "a"))
        for name, tile in tiles
        if isinstance(tile.type, Tile)
    ]


@NVIDIA.told(WarpgroupDot)
def told_of_product(op: WarpgroupDot, on: Setting) -> Told:
    held = ", a in registers" if fragment_of(op) is not None else ""
    return Told(f"product by warpgroups (wgmma){held}", "applied")


@NVIDIA.told(Dot)
def told_of_dot(op: Dot, on: Setting) -> Told | None:
    chip = chip_of(on.chip)
    if not chip.has_warpgroups:
        return None
    reason = obstacle(op, chip, on.options)
    return Told(f"product by warps, not warpgroups (wgmma): {reason}", "missed")


def stored_buffer(op: WarpgroupDot, operand: Value, is_a: bool) -> Shared:
    """Return the buffer to which a tile in registers is stored for a product to read as a or b."""
    shape, element, unit = shape_of(operand.type), element_scalar(operand), unit_of(op)
    assert unit is not None
    layout = layout_of(operand.type)
    assert layout is not None
    k_axis = int(is_a)
    run = max(range(2), key=lambda axis: (layout.consecutive("register", axis), axis))
    orders = [(run, 1 - run)] if unit.turns else []
    for order in (*orders, (k_axis, 1 - k_axis)):
        type = Shared(shape, element, swizzled(shape, element.itemsize, order, exchange=False))
        if _plan(op, type, False, is_a) is not None:
            return type
    raise AssertionError(f"{op!r} takes {operand!r} in no order")


def _first_axis_inside(buffer: Shared) -> bool:
    """Say whether neighbours along axis 0 lie side by side."""
    assert buffer.layout is not None
    return buffer.layout.unflatten(buffer.layout.flat("offset")[0])[0] == 1


def _plan(op: WarpgroupDot, buffer: Shared, turned: bool, is_a: bool) -> WarpgroupPlan | None:
    """Return how an operand of a product is read from a buffer of a type."""
    assert buffer.layout is not None
    k_axis = int(is_a) ^ turned
    columns = shape_of(op.result.type)[1]
    count = ROWS if is_a else min(MOST_COLUMNS, columns)
    plan = warpgroup_fits(buffer.layout, buffer.element.itemsize, k_axis, count)
    if plan is None or (buffer.slots and buffer.slot_bytes % plan.atom_bytes):
        return None
    return plan


# -- code -----------------------------------------------------------------------------------------
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
    held, letter = ("float", "f") if unit.accumulator == F32 else ("i32", "r")
    element = element_scalar(op.accumulator)
    have = [
        r and cast(low, r, element, unit.accumulator, op) for r in low.registers(op.accumulator)
    ]
    instructions = _instructions(low, op, unit)
    used = sorted({r for i in instructions for r in i.registers})
    number = {register: place for place, register in enumerate(used)}
    # Outputs come first, each input tied to its output, then what the instructions read.
    arguments: list[str] = []
    constraints = [f"=&{letter}"] * len(used)
    from_zero = _is_zero(op.accumulator)
    if not from_zero:
        arguments = [f"{held} {have[r] or zero(held)}" for r in used]
        constraints = [f"={letter}"] * len(used) + [str(place) for place in range(len(used))]
    names: dict[str, int] = {}

    def name(argument: str, constraint: str) -> str:
        if argument not in names:
            names[argument] = len(constraints)
            arguments.append(argument)
            constraints.append(constraint)
        return f"${names[argument]}"

    text = "{ .reg .b64 A, B; wgmma.fence.sync.aligned; "
    begun: set[range] = set()
    for instruction in instructions:
        adds = int(not from_zero or instruction.registers in begun)
        begun.add(instruction.registers)
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
        text += f"{instruction.word} {{{own}}}, {first}, B, {adds}{instruction.ending}; "
    text += f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {op.in_flight}; }}"
    results = _in_and_out(low, text, constraints, arguments, held, len(used))
    sums: list[str | None] = list(have)
    for register, result in zip(used, results, strict=True):
        if have[register] is not None:
            sums[register] = cast(low, result, unit.accumulator, element, op)
    low.set_registers(op.result, sums)


def _is_zero(sums: Value) -> bool:
    """Say whether all sums are +0, to which nothing has to be added."""
    op = sums.op
    return isinstance(op, Constant) and op.value == 0 and not str(op.value).startswith("-")


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


def _instructions(low: Lowering, op: WarpgroupDot, unit: WarpgroupUnit) -> list[_Instruction]:
    (rows, inner), (_, columns) = op.shapes
    across = columns_split(op, low.num_warps)
    groups = low.num_warps // 4 // across  # along the rows
    padded = 1 << (columns - 1).bit_length()
    own = _own_columns(columns, across)
    room = max(8, padded // across) // 2  # registers of its 64 rows
    group = _warpgroup(low)
    b = _operand(low, op, False, [0] * (groups.bit_length() - 1) + _steps(own, across), group)
    a: _Operand | None = None
    words: list[str] = []
    places: dict[tuple[int, ...], int] = {}
    if isinstance(op.a.type, Shared):
        a = _operand(low, op, True, _steps(ROWS, groups), group)
    else:
        words = low.words(op.a)
        layout = low.layout(op.a)
        for register, flat in enumerate(layout.table("register")):
            places.setdefault(layout.unflatten(flat), register)
    found: list[_Instruction] = []
    for block, row in enumerate(range(0, rows, ROWS * groups)):
        for column in range(0, own, MOST_COLUMNS):
            count = _columns(min(MOST_COLUMNS, own - column), unit)
            first = block * room + column // 2
            word = f"wgmma.mma_async.sync.aligned.m64n{count}k{unit.k}.{unit.types}"
            for k in range(0, inner, unit.k):
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
                    start, b.start(column, k),
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
    plan = _plan(op, value.type, turned, is_a)
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
    low.set_registers(op.result, _waited(low, op.accumulator, op.pending))


def _waited(low: Lowering, value: Value, pending: int) -> list[str | None]:
    """Accumulators go in and come out, so that nobody reads them before."""
    type = llvm_type(element_scalar(value))
    letter = {"float": "f", "i32": "r"}[type]
    live = low.live(value)
    have = low.registers(value)
    text = f"wgmma.wait_group.sync.aligned {pending};"
    constraints = [f"={letter}"] * len(live) + [str(place) for place in range(len(live))]
    arguments = [f"{type} {have[r]}" for r in live]
    results = _in_and_out(low, text, constraints, arguments, type, len(live))
    sums: list[str | None] = list(have)
    for register, result in zip(live, results, strict=True):
        sums[register] = result
    return sums


@NVIDIA.lower(ScaleProducts)
def lower_scale(low: Lowering, op: ScaleProducts) -> None:
    """Both ways wait: ptxas moves a wait up in its block, past what is to go on beside it."""
    emit, live = low.emit, low.live(op.result)
    factors = low.registers(op.factors)
    differ = "false"
    for factor in dict.fromkeys(f for f in factors if f is not None):
        one = emit.pure(f"fcmp une float {factor}, {float_literal(1.0, 'float')}")
        differ = one if differ == "false" else emit.bitwise("or", "i1", differ, one)
    name = "llvm.nvvm.vote.any.sync"
    emit.declare(name, f"declare i1 @{name}(i32, i1) convergent nounwind")
    any_differs = emit.effect(f"call i1 @{name}(i32 -1, i1 {differ})")
    scales, stays, end = emit.fresh("scales"), emit.fresh("stays"), emit.fresh("scaled")
    emit.branch(any_differs, scales, stays)
    edges: list[tuple[list[str | None], str]] = []
    for label in (scales, stays):
        emit.label(label)
        with emit.scope():
            sums = _waited(low, op.accumulator, op.pending)
            if label == scales:
                for r in live:
                    sums[r] = emit.effect(f"fmul float {sums[r]}, {factors[r]}")
        edges.append((sums, emit.block))
        emit.jump(end)
    emit.label(end)
    result = list(factors)
    for r in live:
        result[r] = emit.phi("float", [(str(sums[r]), block) for sums, block in edges])
    low.set_registers(op.result, result)


@NVIDIA.lower(FenceProducts)
def lower_fence(low: Lowering, op: FenceProducts) -> None:
    where = "" if op.arrays else ".shared::cta"
    low.emit.do(f'call void asm sideeffect "fence.proxy.async{where};", "~{{memory}}"()')


def _in_and_out(
    low: Lowering,
    text: str,
    constraints: Sequence[str],
    arguments: Sequence[str],
    type: str,
    count: int,
) -> list[str]:
    """Write a statement with `count` results of one type; return them."""
    returned = type if count == 1 else "{" + ", ".join([type] * count) + "}"
    call = low.emit.effect(
        f'call {returned} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
        f"({', '.join(arguments)}) convergent"
    )
    if count == 1:
        return [call]
    return [low.emit.effect(f"extractvalue {returned} {call}, {i}") for i in range(count)]


__all__ = [
    "WarpgroupUnit",
    "obstacle",
    "stored_buffer",
    "unit_of",
    "warpgroup_layouts",
    "warpgroup_unit",
]
