"""Extremes that are carried on: a warp whose lanes find nothing beyond them asks no further."""

from __future__ import annotations

from workbench.ir import shape_of
from workbench.layouts import LinearLayout, reduce_plan
from workbench.targets.llvm.emit import float_literal
from workbench.targets.nvidia.ops import Kept
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering, element_scalar, llvm_type
from workbench.targets.simt.reductions import Row, across_lanes, combine, in_threads
from workbench.targets.simt.rules import SAME, Along, Layouts, Setting


@NVIDIA.layouts(Kept)
def kept_layouts(op: Kept, on: Setting) -> Layouts:
    """As of a reduction; what is carried lies as its result would."""

    def left_in(layout: LinearLayout) -> LinearLayout:
        return reduce_plan(layout, op.axis).result

    rows = Along(left_in, None)
    return Layouts(
        own=shape_of(op.source.type),
        operands=(rows, SAME, *[rows] * len(op.others), *[SAME] * (op.unit is not None)),
        results=(left_in,),
    )


@NVIDIA.lower(Kept)
def lower_kept(low: Lowering, op: Kept) -> None:
    emit, type = low.emit, llvm_type(element_scalar(op.carried))
    layout = low.layout(op.source)
    plan = reduce_plan(layout, op.axis)
    own = in_threads(low, op, layout, plan)
    carried = [str(register) for register in low.registers(op.carried)]

    def become(rows: list[Row]) -> list[str]:
        others = [low.registers(v) for v in op.others]
        return [
            combine(low, op.after, [row.values[0], *(str(held[r]) for held in others)])[0]
            for r, row in enumerate(rows)
        ]

    differ = "false"
    for before, after in zip(carried, become(own), strict=True):
        one = _differs(low, type, before, after, op)
        differ = one if differ == "false" else emit.bitwise("or", "i1", differ, one)
    name = "llvm.nvvm.vote.any.sync"
    emit.declare(name, f"declare i1 @{name}(i32, i1) convergent nounwind")
    any_differs = emit.effect(f"call i1 @{name}(i32 -1, i1 {differ})")
    moves, end, before = emit.fresh("moves"), emit.fresh("kept"), emit.block
    emit.branch(any_differs, moves, end)
    emit.label(moves)
    with emit.scope():
        found = become(across_lanes(low, op, plan, own))
    here = emit.block
    emit.jump(end)
    emit.label(end)
    made = [
        emit.phi(type, [(new, here), (old, before)])
        for new, old in zip(found, carried, strict=True)
    ]
    low.set_registers(op.result, list(made))


def _differs(low: Lowering, type: str, before: str, after: str, op: Kept) -> str:
    """Return the i1 that says whether a carried number becomes another one, or none."""
    if not op.slack:
        return low.emit.pure(f"fcmp une {type} {before}, {after}")
    far = low.emit.pure(f"fsub {type} {after}, {before}")
    if op.unit is not None:
        far = low.emit.pure(f"fmul {type} {far}, {low.scalar(op.unit)}")
    suffix = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}[type]
    size = low.emit.call(type, f"llvm.fabs.{suffix}", f"{type} {far}", type)
    return low.emit.pure(f"fcmp ugt {type} {size}, {float_literal(op.slack, type)}")
