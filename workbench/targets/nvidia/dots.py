"""Matrix products: mma.sync on fragments (warpgroups.py has wgmma, simt/dots.py multiply-adds).

PTX ISA 9.0, mma.sync.aligned (sm_80; 8-bit floats sm_89). The fragments are layouts.mma_a, mma_b,
mma_c; the register order inside a fragment is the instruction's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    I8,
    I32,
    Module,
    Scalar,
    Value,
    element_of,
    layout_of,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops import Dot
from workbench.source import ResourceError
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.fragments import (
    factors_layout,
    fragments_of,
    is_turned,
    neighbours_of,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.warpgroup_choice import warpgroup_layouts
from workbench.targets.simt.casts import cast
from workbench.targets.simt.dots import ACCUMULATOR_FIRST, smaller_dot
from workbench.targets.simt.dots import dot_layouts as multiply_add_layouts
from workbench.targets.simt.lowering import Lowering, element_scalar, zero
from workbench.targets.simt.rules import SAME, Along, Layouts, Parts, Setting

#: The most instructions of one product that are written out for a warp: twice what 256 × 256 × 512
#: takes for eight warps.
MOST_PRODUCTS = 4096


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """One shape of mma.sync: words of A, B per lane and what the instruction is called.

    `kw`: elements of k in a 32-bit register; `k`: extent of k of one instruction; `accumulator`:
    what it adds in. Sums of an fp16 result are added in f32 too and rounded once, at the end of
    the dot: with fp16 accumulators the instruction rounds after every k, as often as K / k.
    """

    k: int
    kw: int
    a_words: int
    b_words: int
    types: str
    accumulator: Scalar


def matrix_unit(op: Dot, chip: Chip) -> MatrixUnit | None:
    """Return the mma.sync shape for a dot; None if it has to be multiply-adds.

    A tile with less of k than one instruction takes is left to multiply-adds, since the rest of
    the fragment would be copies and count twice.
    """
    unit = _unit_of_types(op, chip)
    if unit is None or 1 << (shape_of(op.a.type)[-1] - 1).bit_length() < unit.k:
        return None
    return unit


def _unit_of_types(op: Dot, chip: Chip) -> MatrixUnit | None:
    a, b = element_of(op.a.type), element_of(op.b.type)
    c = element_of(op.accumulator.type)
    if op.factors is not None and len(shape_of(op.accumulator.type)) != 2:
        return None
    if a == b and a in (F16, BF16) and c in (F16, F32):
        return MatrixUnit(16, 2, 4, 2, f"f32.{a}.{a}.f32", F32)
    if a == b == F32 and c == F32 and op.precision == "tf32":
        return MatrixUnit(8, 1, 4, 2, "f32.tf32.tf32.f32", F32)
    if a == b == I8 and c == I32:
        return MatrixUnit(32, 4, 4, 2, "s32.s8.s8.s32", I32)
    small = (F8E4M3, F8E5M2)
    if a in small and b in small and c in (F16, F32) and chip.capability >= 89:
        first, second = (str(element).removeprefix("f8") for element in (a, b))
        return MatrixUnit(32, 4, 4, 2, f"f32.{first}.{second}.f32", F32)
    return None


@NVIDIA.staged(Dot)
def staged_operands(op: Dot) -> tuple[Value, ...]:
    """A product takes long enough to hide copies, and its fragments come out of shared memory."""
    return op.operands


@NVIDIA.layouts(Dot)
def dot_layouts(op: Dot, on: Setting) -> Layouts:
    """Fragments of wgmma or mma.sync, where there is one for the types."""
    by_warpgroups = warpgroup_layouts(op, on)
    if by_warpgroups is not None:
        return by_warpgroups
    unit = matrix_unit(op, chip_of(on.chip))
    if unit is None:
        return multiply_add_layouts(op, on)
    _check_length(op, on.num_warps)
    product, a, b = fragments_of(op, unit.kw, on)
    return Layouts(
        work=op.result,
        operands=(
            Along(lambda layout: a if layout == product else None, None),
            Along(lambda layout: b if layout == product else None, None),
            SAME,
            *([Along(partial(factors_layout, op), None)] if op.factors is not None else ()),
        ),
        order=(*ACCUMULATOR_FIRST, *range(3, len(op.operands))),
        offers=lambda: [product],
        fixed=True,
        far=is_turned(product),
    )


def _check_length(op: Dot, num_warps: int) -> None:
    """Refuse products that would be written out for minutes, to spill nearly all they hold."""
    (*batches, m, k), n = shape_of(op.a.type), shape_of(op.b.type)[-1]
    deep = 32 // element_of(op.a.type).itemsize
    count = prod(batches) * -(-m // 16) * -(-n // 8) * -(-k // deep) // num_warps
    if count <= MOST_PRODUCTS:
        return
    shown = " × ".join(map(str, (m, n, k)))
    raise ResourceError(
        f"a dot of {shown} is {count:,} instructions for each of {num_warps} warps, "
        f"expected at most {MOST_PRODUCTS:,}",
        op.span,
        hint=smaller_dot(op, count, MOST_PRODUCTS) + ", in a loop over the rest",
        code="K402",
    )


def options_for_weights(module: Module, chip: Chip) -> dict[str, bool]:
    """Return the options that products of narrower numbers, read in runs along k, choose.

    They are so fast that a round would wait for scales that it has loaded a round ahead. Of few
    rows (by warps) memory is what bounds, and a round may read short pieces of its rows.
    """
    on, chosen = Setting(module, chip), dict[str, bool]()
    for op in module.walk():
        if isinstance(op, Dot) and (unit := matrix_unit(op, chip)) and neighbours_of(op, unit.kw):
            chosen["copy_narrow"] = True
            if warpgroup_layouts(op, on) is None:
                chosen["prefetch_short_rows"] = True
    return chosen


@NVIDIA.lower(Dot)
def lower_dot(low: Lowering, op: Dot) -> None:
    unit = matrix_unit(op, chip_of(low.chip))
    assert unit is not None, "assign_layouts gives every other dot to shared memory"
    _matrix_product(low, op, unit)


def _coordinates(layout: LinearLayout) -> dict[tuple[int, ...], int]:
    """Return register by coordinate (of lane 0, warp 0)."""
    found: dict[tuple[int, ...], int] = {}
    for r, flat in enumerate(layout.table("register")):
        found.setdefault(layout.unflatten(flat), r)
    return found


def _along(layout: LinearLayout, axis: int) -> list[int]:
    """Return the coordinates along an axis of lane 0's registers, in the order of its registers."""
    found = [0]
    for vector in layout.bases["register"]:
        if vector[axis]:
            found += [vector[axis] ^ other for other in found]
    return found


def _steps_along_k(layout: LinearLayout, axis: int, kw: int) -> list[list[int]]:
    """Return the coordinates along k of lane 0 that each instruction multiplies, in order."""
    along = _along(layout, axis)
    return [along[first : first + 2 * kw] for first in range(0, len(along), 2 * kw)]


@NVIDIA.parts(Dot)
def parts_along_k(op: Dot) -> Parts | None:
    """What is computed of narrower numbers: an instruction's part is written in front of it.

    So instructions wait for each other while the next ones' numbers are made, in few registers.
    """
    product = layout_of(op.result.type)
    if product is None or not is_turned(product):
        return None
    operand = next((v for v in (op.b, op.a) if v.op is not None and not v.op.effects()), None)
    if operand is None:
        return None
    layout, axis = layout_of(operand.type), 1 if operand is op.a else 0
    if layout is None or layout.rank != 2:
        return None
    table = [layout.unflatten(flat)[axis] for flat in layout.table("register")]
    live = layout.live_registers()
    steps = _steps_along_k(layout, axis, 4 // element_of(operand.type).itemsize)
    registers = tuple(tuple(r for r in live if table[r] in step) for step in steps)
    return Parts(operand, registers, loads=False)


def _matrix_product(low: Lowering, op: Dot, unit: MatrixUnit) -> None:
    emit = low.emit
    parts = parts_along_k(op) if low.comes_in_parts(op) else None
    words = {
        value: _words(low, unit, op, value)
        for value in (op.a, op.b)
        if parts is None or value is not parts.operand
    }
    first_operand, second_operand = op.a, op.b
    a_layout, b_layout, c_layout = map(low.layout, (op.a, op.b, op.accumulator))
    if is_turned(c_layout):  # fragments are those of C.T = B.T @ A.T
        first_operand, second_operand = op.b, op.a
        turned = [layout.transpose((1, 0)) for layout in (b_layout, a_layout, c_layout)]
        a_layout, b_layout, c_layout = turned
    a_at, b_at, rows_at = map(_coordinates, (a_layout, b_layout, c_layout))
    extent_k = a_layout.shape[-1]
    live = set(c_layout.live_registers())
    element = element_scalar(op.accumulator)
    accumulators = _cast(low, low.registers(op.accumulator), element, unit.accumulator, op)
    # Fragments start where the first registers (columns 0, 1; rows 0, 8) are zero.
    starts = sorted((p for p, r in rows_at.items() if r % 4 == 0), key=lambda p: rows_at[p])
    k_words = unit.kw
    below = c_layout.bases["register"][1][-2]  # how far its row 8 lies below row 0
    held, instruction = _instruction(unit)
    total, steps = accumulators, _steps_along_k(a_layout, a_layout.rank - 1, k_words)
    for number, step in enumerate(steps):
        if step[0] >= extent_k:
            continue
        if op.factors is not None and step[0] % op.run == 0:
            accumulators = [zero(held)] * len(total)
        halves = step[0], step[k_words]
        if parts is not None:
            low.write_part(op, parts.operand, parts.registers[number])
            words[parts.operand] = _words(low, unit, op, parts.operand)
        a, b = words[first_operand], words[second_operand]
        for *batch, m0, n0 in starts:
            register = rows_at[*batch, m0, n0]
            if live.isdisjoint(range(register, register + 4)):
                continue
            # Registers of A: (m, k), (m+8, k), (m, k+half), (m+8, k+half); of B: (k), (k+half),
            # where k and k + half are what a lane has next.
            # Coordinates wrap in fragments larger than the tile: those words are copies.
            a_words = [a[_wrapped(a_at, a_layout, (*batch, m0 + dm, k)) // k_words]
                       for k in halves for dm in (0, below)]  # fmt: skip
            b_words = [b[_wrapped(b_at, b_layout, (*batch, k, n0)) // k_words] for k in halves]
            # A dead register of a live fragment holds anything; 0 will do.
            sums = [accumulators[register + i] or zero(held) for i in range(4)]
            arguments = [f"i32 {w}" for w in (*a_words, *b_words)] + [f"{held} {s}" for s in sums]
            call = emit.pure(f"{instruction}({', '.join(arguments)})")
            returned = _struct(held)
            for i in range(4):
                accumulators[register + i] = emit.pure(f"extractvalue {returned} {call}, {i}")
        if op.factors is not None and (
            number + 1 == len(steps) or steps[number + 1][0] % op.run == 0
        ):
            total = _with_factors(low, op, total, accumulators, step[0] // op.run)
            accumulators = total
    low.set_registers(op.result, _cast(low, accumulators, unit.accumulator, element, op))


def _with_factors(
    low: Lowering, op: Dot, total: Sequence[str | None], sums: Sequence[str | None], run: int
) -> list[str | None]:
    """Return a thread's total plus the sums of a run of K times the factors of their columns."""
    assert op.factors is not None
    emit, layout = low.emit, low.layout(op.accumulator)
    at = _coordinates(low.layout(op.factors))
    found, live = list(total), set(layout.live_registers())
    for register, flat in enumerate(layout.table("register")):
        if register in live:
            factor = low.register(op.factors, at[layout.unflatten(flat)[1], run])
            values = ", ".join(f"float {v}" for v in (sums[register], factor, total[register]))
            found[register] = emit.call("float", "llvm.fma.f32", values, "float, float, float")
    return found


def _cast(
    low: Lowering, sums: Sequence[str | None], have: Scalar, want: Scalar, op: Dot
) -> list[str | None]:
    return [s and cast(low, s, have, want, op) for s in sums]


def _instruction(unit: MatrixUnit) -> tuple[str, str]:
    """Return (type of an accumulator's four registers, the call without arguments)."""
    held = "float" if unit.accumulator == F32 else "i32"
    letter = "f" if held == "float" else "r"
    groups = (4, unit.a_words, unit.b_words, 4)
    names: list[str] = []
    for number, size in enumerate(groups):
        first = sum(groups[:number])
        names.append("{" + ", ".join(f"${first + i}" for i in range(size)) + "}")
    text = f"mma.sync.aligned.m16n8k{unit.k}.row.col.{unit.types} {', '.join(names)};"
    inputs = ["r"] * (unit.a_words + unit.b_words) + [letter] * 4
    constraints = ",".join([f"={letter}"] * 4 + inputs)
    return held, f'call {_struct(held)} asm "{text}", "{constraints}"'


def _struct(type: str) -> str:
    return "{" + ", ".join([type] * 4) + "}"


def _words(low: Lowering, unit: MatrixUnit, op: Dot, value: Value) -> list[str]:
    """Return an operand's words as the instruction takes them."""
    words = _operand_words(low, value, low.layout(value).rank - (1 if value is op.a else 2))
    return _to_tf32(low, words) if unit.types.startswith("f32.tf32") else words


def _operand_words(low: Lowering, value: Value, k_axis: int) -> list[str]:
    """Return an operand's words; coordinates beyond the extent of k are made 0 (0 times NaN...)."""
    layout = low.layout(value)
    if layout.shape[k_axis] == layout.padded[k_axis]:
        return low.words(value)
    (type, each), live = low.pack_of(value), set(low.live(value))
    held = low.words(value)
    words: list[str] = []
    for first in range(0, layout.registers(), each):
        registers = range(first, first + each)
        inside = [low.inside(layout, r, [k_axis]) if r in live else "false" for r in registers]
        if not any(inside):
            words.append(held[first // each])
            continue
        parts = [_where(low, i, value, r, type) for i, r in zip(inside, registers, strict=True)]
        words.append(low.packing.pack(parts, type))
    return words


def _where(low: Lowering, inside: str | None, value: Value, register: int, type: str) -> str:
    """Return a register where a condition holds (None: always), else 0."""
    if inside == "false":
        return zero(type)
    held = low.register(value, register)
    if inside is None:
        return held
    return low.emit.pure(f"select i1 {inside}, {type} {held}, {type} {zero(type)}")


def _wrapped(at: dict[tuple[int, ...], int], layout: LinearLayout, place: tuple[int, ...]) -> int:
    return at[tuple(c % extent for c, extent in zip(place, layout.padded, strict=True))]


def _to_tf32(low: Lowering, words: list[str]) -> list[str]:
    """Round f32 words to tf32, ties away from zero. PTX ISA 9.0, cvt.rna.tf32.f32 (sm_80)."""
    text = "cvt.rna.tf32.f32 $0, $1;"
    return [low.emit.pure(f'call i32 asm "{text}", "=r,r"(i32 {w})') for w in words]


__all__ = ["MatrixUnit", "lower_dot", "matrix_unit"]
