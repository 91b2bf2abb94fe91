"""Matrix products by warpgroups: wgmma, whose operands lie in shared memory (A also in registers).

PTX ISA 9.0, wgmma.mma_async (sm_90a). Four warps multiply 64 rows by up to 256 columns, 32 bytes
of k at a time. Accumulators are layouts.wgmma_d, A in registers layouts.wgmma_a; how a tile has to
lie in shared memory is in layouts/warpgroup_access.py.

Only the first operand may be in registers; which it is is decided in warpgroup_choice.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    I32,
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
from workbench.ops import Dot
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.ops import (
    FenceProducts,
    StillRead,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.dots import smaller_product
from workbench.targets.simt.lowering import element_scalar
from workbench.targets.simt.rules import (
    SAME,
    Along,
    InPlace,
    InRegisters,
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

NVIDIA.layouts(FenceProducts, StillRead)(as_they_are)


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
def obstacle(op: Dot, chip: Chip, options: Mapping[str, Any]) -> str:
    """Say why wgmma does not compute a dot on a chip that has it; empty if it does."""
    return obstacle_of_type(op, options) or obstacle_of_shape(
        shape_of(op.result.type), chip, options
    )


def obstacle_of_type(op: Dot, options: Mapping[str, Any]) -> str:
    if not options.get("wgmma", True):
        return "wgmma=False"
    a, b = element_of(op.a.type), element_of(op.b.type)
    into, unit = element_of(op.result.type), unit_of(op)
    if unit is None:
        return f"there is none for {a} and {b} into {into}"
    if op.factors is not None:
        return "its sums are multiplied by factors run by run, and each would be waited for"
    inner = shape_of(op.a.type)[-1]
    if inner % unit.k:
        return f"K = {inner} of {a} is no multiple of {unit.k}"
    if op.imprecise_limit and inner % long_after(op, unit):
        limit = op.imprecise_limit
        return f"K = {inner} is no multiple of what max_num_imprecise_acc = {limit} adds at once"
    return ""


def obstacle_of_shape(shape: tuple[int, ...], chip: Chip, options: Mapping[str, Any]) -> str:
    warps = options["num_warps"]
    if warps % 4:
        return f"it needs four warps, num_warps is {warps}"
    if len(shape) != 2:
        return "it knows no batches"
    if shape[0] <= ROWS // 2:
        return f"most of its {ROWS} rows would be copies of the tile's {shape[0]}"
    if shape[0] % 8 or shape[1] % 8:
        return f"operands lie in groups of 8 rows, the tile is {shape[0]} x {shape[1]}"
    sums, have = sums_of(shape, warps), chip.most_registers(warps)
    have = min(have, options.get("maxnreg") or have)
    if sums + _BESIDE_SUMS > have:
        return f"its sums fill {sums} registers of a thread, which has {have}"
    return ""


@dataclass(frozen=True, slots=True)
class Shares:
    """Among how many warpgroups columns are divided, and whether eight by eight in turns."""

    across: int = 1
    in_turns: bool = False

    def own(self, columns: int) -> int:
        """Return the columns of one of them: 8 at least."""
        if self.across == 1:
            return columns
        if self.in_turns:
            return columns // self.across
        return max(8, (1 << (columns - 1).bit_length()) // self.across)

    def column(self, own: int) -> int:
        """Return which column of the tile a column of the first of them is."""
        return own + own // 8 * 8 * (self.across - 1) if self.in_turns else own

    def steps(self, columns: int) -> list[int]:
        """Return by how many columns each bit of their number moves."""
        first = 8 if self.in_turns else self.own(columns)
        return [first << bit for bit in range(self.across.bit_length() - 1)]

    def padded(self, shape: tuple[int, ...], num_warps: int) -> tuple[int, int]:
        """Return the rows and columns that all of them multiply."""
        rows = ROWS * (num_warps // 4 // self.across)
        return -(-shape[0] // rows) * rows, self.own(shape[1]) * self.across


def sums_of(shape: tuple[int, ...], num_warps: int) -> int:
    """Return the registers of a thread that the sums of a tile fill."""
    shares = shares_of(shape, num_warps)
    rows, columns = shares.padded(shape, num_warps)
    own = -(-columns // shares.across // 8) * 8
    return rows // (ROWS * (num_warps // 4 // shares.across)) * own // 2


def shares_of(shape: tuple[int, ...], num_warps: int, *, in_turns: bool = False) -> Shares:
    """Return among how many warpgroups columns are divided: the fewest that leave rows.

    Or as many as multiply least beside the tile: two have 192 rows by 256 columns without a row too
    many, and of 176 columns if they may take these `in_turns`.
    """
    groups, across = num_warps // 4, 1
    rows = 1 << (shape[0] - 1).bit_length()
    while rows < ROWS * (groups // across) and across < groups:
        across *= 2
    ways = [1 << bit for bit in range(1, groups.bit_length())]
    found = [Shares(across), *(Shares(way) for way in ways if shape[1] % (64 * way) == 0)]
    if in_turns:
        found += [Shares(way, in_turns=True) for way in ways if shape[1] % (8 * way) == 0]
    return min(found, key=lambda shares: prod(shares.padded(shape, num_warps)))


def long_after(op: Dot, unit: WarpgroupUnit) -> int:
    """Return of how many k the instruction may add sums before they go to longer ones."""
    inner = shape_of(op.a.type)[-1]
    return min(inner, max(unit.k, op.imprecise_limit // unit.k * unit.k))


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


def instruction_shape(op: WarpgroupDot) -> tuple[int, int]:
    """Return the rows and columns of a product as the instruction has them."""
    rows, columns = shape_of(op.result.type)
    return (columns, rows) if op.is_turned else (rows, columns)


def columns_split(op: WarpgroupDot, num_warps: int) -> Shares:
    """Return how the columns of a product are divided among warpgroups."""
    return _arrangement(op, num_warps)[0]


def rows_of(op: WarpgroupDot, num_warps: int) -> tuple[int, ...]:
    """Return which bit of a row of the tile each bit of a row of the instructions is.

    Empty: their rows are the tile's.
    """
    return _arrangement(op, num_warps)[1]


def _arrangement(op: WarpgroupDot, num_warps: int) -> tuple[Shares, tuple[int, ...]]:
    layout = layout_of(op.result.type)
    assert layout is not None
    if op.is_turned:
        layout = layout.transpose((1, 0))
    return _arranged(layout, instruction_shape(op), num_warps)


@lru_cache(1024)
def _arranged(
    layout: LinearLayout, shape: tuple[int, ...], num_warps: int
) -> tuple[Shares, tuple[int, ...]]:
    """Return how a layout of sums divides columns, and the order of its rows."""
    for bit, in_turns in product(range((num_warps // 4).bit_length()), (False, True)):
        across = 1 << bit
        plain = wgmma_d(shape, num_warps, across, (), in_turns)
        if plain == layout:
            return Shares(across, in_turns), ()
        rows = _permuted(plain, layout)
        if rows and wgmma_d(shape, num_warps, across, rows, in_turns) == layout:
            return Shares(across, in_turns), rows
    raise AssertionError(f"no product by warpgroups has sums that lie as {layout}")


def _permuted(plain: LinearLayout, layout: LinearLayout) -> tuple[int, ...]:
    """Return which bit of a row stands in a layout where a plain one has each; empty: none does."""
    found: dict[int, int] = {}
    for name, vectors in plain.bases.items():
        # With another share of the columns there are more of the one and fewer of the other.
        for (row, _), (other, _) in zip(vectors, layout.bases[name], strict=False):
            if row and other:
                found[row.bit_length() - 1] = other.bit_length() - 1
    bits = range(plain.bits[0])
    return tuple(found[bit] for bit in bits) if sorted(found) == [*bits] else ()


def fragment_of(op: WarpgroupDot) -> LinearLayout | None:
    """Return the layout in which the first operand is read from registers, if it is in that."""
    held = layout_of(op.first.type)
    wanted = None if held is None else fragment_for(op)
    return wanted if held == wanted else None


def fragment_for(op: WarpgroupDot) -> LinearLayout | None:
    """Return the layout in which the first operand could be read from registers."""
    unit, sums = unit_of(op), layout_of(op.result.type)
    if unit is None or sums is None:
        return None
    warps, shape = sums.size("warp"), op.shapes[int(op.is_turned)]
    shares, rows = _arrangement(op, warps)
    if op.is_turned:
        return wgmma_a(shape[::-1], unit.kw, warps, shares.across, rows).transpose((1, 0))
    return wgmma_a(shape, unit.kw, warps, shares.across, rows)


@NVIDIA.in_registers(WarpgroupDot)
def operand_in_registers(op: WarpgroupDot) -> InRegisters | None:
    """The first operand, in registers for as long as it stays the same."""
    layout, name = fragment_for(op), "b" if op.is_turned else "a"
    if layout is None:
        return None

    def fields(tile: Value) -> dict[str, Any]:
        return {name: tile, f"slot_{name}": None, f"turned_{name}": False}

    return InRegisters(op.first, layout, fields)


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
    run = max(range(2), key=lambda axis: (layout.side_by_side("register", axis), axis))
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
    k_axis, apart, count = int(is_a) ^ turned, 1, ROWS
    if is_a == op.is_turned:
        layout = layout_of(op.result.type)
        shares = columns_split(op, layout.size("warp")) if layout is not None else Shares()
        count = min(MOST_COLUMNS, instruction_shape(op)[1])
        apart = shares.across if shares.in_turns else 1
    plan = warpgroup_fits(buffer.layout, buffer.element.itemsize, k_axis, count, apart)
    if plan is None or (buffer.slots and buffer.slot_bytes % plan.atom_bytes):
        return None
    return plan


__all__ = [
    "WarpgroupUnit",
    "obstacle",
    "stored_buffer",
    "unit_of",
    "warpgroup_unit",
]
