"""Matrix products by warpgroups: wgmma, whose operands lie in shared memory (A also in registers).

PTX ISA 9.0, wgmma.mma_async (sm_90a). Four warps multiply 64 rows by up to 256 columns, 32 bytes
of k at a time. Accumulators are layouts.wgmma_d, A in registers layouts.wgmma_a; how a tile has to
lie in shared memory is in layouts/warpgroup_access.py.

Only the first operand may be in registers. The second operand of a dot is that where it is
computed of what memory holds, as weights are that become floats: what is multiplied then is
C.T = B.T @ A.T (`computed_first=False` is the twin). Nobody stores it, fences, and meets the others
for it. A product is turned if the layout of its sums is (`WarpgroupDot.is_turned`).

With `swap_operands` so are products of few rows: of an instruction's 64 most would be copies, while
it may have few columns.
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
from workbench.layouts.between import from_memory
from workbench.ops import Dot
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.ops import (
    FenceProducts,
    ScaleProducts,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.dots import ACCUMULATOR_FIRST, smaller_product
from workbench.targets.simt.lowering import element_scalar
from workbench.targets.simt.passes.costs import run_along
from workbench.targets.simt.rules import (
    SAME,
    Along,
    InPlace,
    Layouts,
    Parts,
    Setting,
    Stored,
    Told,
    as_they_are,
)

#: Rows of one instruction, and the most columns.
ROWS, MOST_COLUMNS = 64, 256
_SMALL = (F8E4M3, F8E5M2)
#: Registers that an instruction needs beside its sums, four of them where A is in registers. ptxas
#: (13.0) refuses one that has fewer: what runs on cannot be spilled (C7602, "register target of
#: 158" for 128 sums).
_BESIDE_SUMS = 30
#: Registers of a thread that are not for sums where a producer has some of them.
_BESIDE_A_PRODUCER = 48
#: The fewest bytes side by side of which there are copies to shared memory.
_COPIED_BYTES = 4

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
    if isinstance(op, WarpgroupDot) and op.is_turned:
        elements[:2] = elements[1::-1]
    return warpgroup_unit(*elements)  # type: ignore[arg-type]


# -- layouts --------------------------------------------------------------------------------------
def warpgroup_layouts(op: Dot, on: Setting) -> Layouts | None:
    """Return the layouts of a dot that wgmma computes; None if another instruction has to."""
    unit, shape = unit_of(op), shape_of(op.result.type)
    chip = chip_of(on.chip)
    turned = is_to_be_turned(op, on)
    reason = _obstacle_of_type(op, on.options) if turned else obstacle(op, chip, on.options)
    if unit is None or not chip.has_warpgroups or reason:
        return None
    first = shape_of(op.a.type)
    if turned:
        shape, first = shape[::-1], shape_of(op.b.type)[::-1]
    fragments = {
        wgmma_d(shape, on.num_warps, across): wgmma_a(first, unit.kw, on.num_warps, across)
        for across in _splits(shape, on.num_warps)
    }
    if turned:
        fragments = {d.transpose((1, 0)): a.transpose((1, 0)) for d, a in fragments.items()}
    held = Along(fragments.get, None)
    a = _turning(op, op.a, on) if turned or _is_read(op.a, on) else held
    b = held if turned and not _is_read(op.b, on) else _turning(op, op.b, on)
    return Layouts(
        work=op.result,
        operands=(a, b, SAME),
        order=ACCUMULATOR_FIRST,
        offers=lambda: fragments,
        fixed=True,
        far=turned,
        becomes=partial(_becomes, op, on),
    )


def _turning(op: Dot, operand: Value, on: Setting) -> Along | None:
    """Return the layout of a tile that is turned on its way from a load to shared memory.

    That is one that memory has with k as rows where wgmma takes no such operand, and one that it
    takes both ways and no copy brings: element by element it is loaded along one axis, and stored
    in vectors along the other.
    """
    unit, is_a = unit_of(op), operand is op.a
    inner, width = _order_in_memory(operand, on)
    shape, itemsize = shape_of(operand.type), element_of(operand.type).itemsize
    if unit is None or inner is None or not on.options.get("through_registers", False):
        return None
    if width * itemsize >= _COPIED_BYTES if unit.turns else inner == int(is_a):
        return None
    target = swizzled(shape, itemsize, (1 - inner, inner), exchange=False)
    found = from_memory(target, inner, width, itemsize, on.lanes, on.num_warps, on.chip.banks)
    return None if found is None else Along(lambda layout: found, None)


def _order_in_memory(value: Value, on: Setting) -> tuple[int | None, int]:
    """Return the axis along which a tile lies side by side in memory, and how much in one access.

    None for one that no load gives, or only moved otherwise than by exchanging two axes.
    """
    turned = False
    while value.op is not None and value.op.exchanges_axes:
        value, turned = value.op.operands[0], not turned
    access = None if value.op is None else on.chip.rules.access_of(value.op)
    if access is None or len(shape_of(value.type)) != 2:
        return None, 1
    pointers, mask = access.pointers, access.mask
    steps = [on.facts.usual_stride(pointers, axis, mask) for axis in range(2)]
    if steps.count(1) != 1:
        return None, 1
    axis = steps.index(1)
    most = on.chip.widest_bytes // element_of(value.type).itemsize
    return axis ^ turned, run_along(on.facts, pointers, mask, axis, most)


def obstacle(op: Dot, chip: Chip, options: Mapping[str, Any]) -> str:
    """Say why wgmma does not compute a dot on a chip that has it; empty if it does."""
    return _obstacle_of_type(op, options) or _obstacle_of_shape(
        shape_of(op.result.type), chip, options
    )


def _obstacle_of_type(op: Dot, options: Mapping[str, Any]) -> str:
    if not options.get("wgmma", True):
        return "wgmma=False"
    a, b = element_of(op.a.type), element_of(op.b.type)
    into, unit = element_of(op.result.type), unit_of(op)
    if unit is None:
        return f"there is none for {a} and {b} into {into}"
    inner = shape_of(op.a.type)[-1]
    if inner % unit.k:
        return f"K = {inner} of {a} is no multiple of {unit.k}"
    if op.imprecise_limit and inner % _long_after(op, unit):
        limit = op.imprecise_limit
        return f"K = {inner} is no multiple of what max_num_imprecise_acc = {limit} adds at once"
    return ""


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
    columns = own_columns(columns, across)
    return -(-rows // (ROWS * (num_warps // 4 // across))) * -(-columns // 8) * 4


def own_columns(columns: int, across: int) -> int:
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


def is_to_be_turned(op: Dot, on: Setting) -> bool:
    """Say whether the second operand of a dot is to be the first of the instruction.

    The other one is memory's, which goes to shared memory by a copy. A loop adds to the sums: what
    lies turned is turned back once, behind it. What is computed is turned unasked, if there are
    rows enough, what memory has where there are few and the author asks (`swap_operands`).
    """
    if op.imprecise_limit or not _is_read(op.a, on):
        return False
    if op.accumulator.op is not None:  # sums that a loop does not go on with are read as they lie
        return False
    users = [user for user in on.module.walk() if op.result in user.operands]
    if not all(user.ends_block or user.pointwise for user in users):
        return False
    shape = shape_of(op.result.type)
    few = shape[0] <= ROWS // 2
    if few and not on.options.get("swap_operands", False):
        return False
    if _is_read(op.b, on):
        if not few:
            return False
    elif not on.options.get("computed_first", True) or not _is_made_of_memory(op.b, on):
        return False
    return not _obstacle_of_shape(shape[::-1], chip_of(on.chip), on.options)


def _is_made_of_memory(value: Value, on: Setting) -> bool:
    """Say whether a tile is made element by element of loads, one at least.

    Those can be read in the layout of fragments; results of other ops lie as they leave them.
    """
    loads, seen, work = 0, set[Value](), [value]
    while work:
        op = work.pop().op
        if op is None:
            return False
        if on.chip.rules.access_of(op) is not None:
            loads += 1
        elif op.moves or op.pointwise or op.pairs:
            tiles = [v for v in op.operands if v.type.takes_layout and v not in seen]
            seen.update(tiles)
            work += tiles
        elif op.operands:
            return False
    return loads > 0


def _becomes(
    op: Dot, on: Setting, builder: Builder, operands: Sequence[Value]
) -> tuple[Value, ...]:
    a, b, start = operands
    unit, product = unit_of(op), WarpgroupDot(a, b, start)
    if op.imprecise_limit and unit is not None and unit.accumulator == F32:
        # The sums of the instruction are short ones (for 8-bit floats): each goes to a long one.
        after, columns = _long_after(op, unit), _columns_of_piece(op, on)
        product = WarpgroupDot(a, b, start, long_after=after, columns=columns)
    return (builder.add(product, op.result.hint),)


def _long_after(op: Dot, unit: WarpgroupUnit) -> int:
    """Return of how many k the instruction may add sums before they go to longer ones."""
    inner = shape_of(op.a.type)[-1]
    return min(inner, max(unit.k, op.imprecise_limit // unit.k * unit.k))


def _columns_of_piece(op: Dot, on: Setting) -> int:
    """Return of how many columns of 64 rows short sums are added to the long ones at a time.

    Their registers must be there beside those of the long sums. Beside a producer a thread has
    fewer, and two groups of warps take turns there.
    """
    shape, warps = shape_of(op.result.type), on.num_warps
    (across,) = _splits(shape, warps)
    own = own_columns(shape[1], across)
    have = min(chip_of(on.chip).most_registers(warps), on.options.get("maxnreg") or MOST_COLUMNS)
    spare = (have - _BESIDE_A_PRODUCER - _sums(shape, warps)) * 2
    pieces = -(-own // max(8, min(own, MOST_COLUMNS, spare // 8 * 8)))
    return -(-own // pieces // 8) * 8


@NVIDIA.layouts(WarpgroupDot)
def product_layouts(op: WarpgroupDot, on: Setting) -> Layouts:
    along: dict[Value, Along | None] = {op.accumulator: SAME}
    if fragment := fragment_of(op):
        along[op.first] = Along(lambda layout: fragment, None)
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


def instruction_shape(op: WarpgroupDot) -> tuple[int, int]:
    """Return the rows and columns of a product as the instruction has them."""
    rows, columns = shape_of(op.result.type)
    return (columns, rows) if op.is_turned else (rows, columns)


def columns_split(op: WarpgroupDot, num_warps: int) -> int:
    """Return among how many warpgroups the columns of a product are divided."""
    layout, across = layout_of(op.result.type), 1
    assert layout is not None
    if op.is_turned:
        layout = layout.transpose((1, 0))
    while wgmma_d(instruction_shape(op), num_warps, across) != layout:
        across *= 2
    return across


def fragment_of(op: WarpgroupDot) -> LinearLayout | None:
    """Return the layout in which the first operand is read from registers, if it is in that."""
    unit, held = unit_of(op), layout_of(op.first.type)
    if unit is None or held is None:
        return None
    warps, shape = held.size("warp"), shape_of(op.first.type)
    across = columns_split(op, warps)
    if op.is_turned:
        wanted = wgmma_a(shape[::-1], unit.kw, warps, across).transpose((1, 0))
    else:
        wanted = wgmma_a(shape, unit.kw, warps, across)
    return wanted if held == wanted else None


@NVIDIA.parts(WarpgroupDot)
def parts_along_k(op: WarpgroupDot) -> Parts | None:
    """The first operand, in registers: of each part those of so many k."""
    if not op.parts:
        return None
    layout, each = layout_of(op.first.type), op.shapes[0][1] // op.parts
    assert layout is not None
    k_axis = int(not op.is_turned)
    parts: list[list[int]] = [[] for _ in range(op.parts)]
    table = layout.table("register")
    for register in layout.live_registers():
        parts[layout.unflatten(table[register])[k_axis] // each].append(register)
    return Parts(op.first, tuple(map(tuple, parts)))


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
        if all(plan_of(op, wanted, turned, name == "a") is not None for name in names):
            return InPlace(wanted, fields)
    return None


@NVIDIA.stored(WarpgroupDot)
def stored_operands(op: WarpgroupDot) -> list[Stored]:
    """Fragments stay in registers."""
    names = ["a", "b"]
    if fragment_of(op) is not None:
        names.remove("b" if op.is_turned else "a")
    tiles = [(name, getattr(op, name)) for name in names]
    return [
        Stored(name, tile, stored_buffer(op, tile, is_a=name == "a"))
        for name, tile in tiles
        if isinstance(tile.type, Tile)
    ]


@NVIDIA.told(WarpgroupDot)
def told_of_product(op: WarpgroupDot, on: Setting) -> Told:
    held = ""
    if fragment_of(op) is not None:
        held = ", turned, b in registers" if op.is_turned else ", a in registers"
    elif op.is_turned:
        held = ", turned"
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
        if plan_of(op, type, False, is_a) is not None:
            return type
    raise AssertionError(f"{op!r} takes {operand!r} in no order")


def _first_axis_inside(buffer: Shared) -> bool:
    """Say whether neighbours along axis 0 lie side by side."""
    assert buffer.layout is not None
    return buffer.layout.unflatten(buffer.layout.flat("offset")[0])[0] == 1


def plan_of(op: WarpgroupDot, buffer: Shared, turned: bool, is_a: bool) -> WarpgroupPlan | None:
    """Return how an operand of a product is read from a buffer of a type."""
    assert buffer.layout is not None
    k_axis = int(is_a) ^ turned
    _, columns = instruction_shape(op)
    count = ROWS if is_a != op.is_turned else min(MOST_COLUMNS, columns)
    plan = warpgroup_fits(buffer.layout, buffer.element.itemsize, k_axis, count)
    if plan is None or (buffer.slots and buffer.slot_bytes % plan.atom_bytes):
        return None
    return plan


__all__ = [
    "WarpgroupUnit",
    "obstacle",
    "stored_buffer",
    "unit_of",
    "warpgroup_layouts",
    "warpgroup_unit",
]
