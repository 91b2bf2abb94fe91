"""Tiles times factors that are mostly 1: a warp whose factors all are does not multiply.

What an online softmax has summed is scaled in every round by what the rows' maxima have risen; in
most rounds none of a warp's rows has a larger one. A warp votes: one comparison for each factor
that a thread has, which are few beside what they multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from workbench.ir import F32, Value, element_of, shape_of
from workbench.ops import Elementwise
from workbench.targets.llvm.emit import float_literal
from workbench.targets.nvidia.ops import Scale, ScaleProducts
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.warpgroup_code import waited
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.rules import SAME, Layouts, Neutral, Setting


def _times(op: Elementwise) -> tuple[Value, Value] | None:
    """Return the tile and the factors of a product with one number for each row or column."""
    if op.function != "mul" or element_of(op.result.type) != F32:
        return None
    for factors, source in (op.inputs, op.inputs[::-1]):
        repeats = factors.op
        if repeats is not None and repeats.spreads and shape_of(repeats.operands[0].type):
            return source, factors
    return None


@NVIDIA.waiting(Elementwise)
def waiting(op: Elementwise, sums: Value) -> ScaleProducts | None:
    """A product times one number for each row (or column), most of which may be 1."""
    found = _times(op)
    return ScaleProducts(*found) if found is not None and found[0] is sums else None


@NVIDIA.neutral(Elementwise)
def neutral(op: Elementwise) -> Neutral | None:
    """A product by 1 is what it multiplies: zeros keep their sign, what is no number stays none."""
    found = _times(op)
    if found is None:
        return None
    source, factors = found
    assert factors.op is not None
    return Neutral(source, factors.op.operands[0], partial(Scale, source, factors))


@NVIDIA.layouts(Scale, ScaleProducts)
def scale_layouts(op: Scale | ScaleProducts, on: Setting) -> Layouts:
    others = len(op.operands) - 2
    return Layouts(work=op.result, operands=(SAME, SAME, *[None] * others))


@NVIDIA.lower(Scale)
def lower_scale(low: Lowering, op: Scale) -> None:
    """What the reader of the result reads besides is packed where it is computed.

    Behind the branch nothing would go on beside that.
    """
    for value in op.besides:
        low.set_words(value, low.words(value))
    held = low.registers(op.source)
    _scaled(low, op.result, op.factors, lambda: list(held))


@NVIDIA.lower(ScaleProducts)
def lower_scale_products(low: Lowering, op: ScaleProducts) -> None:
    """Both ways wait: ptxas moves a wait up in its block, past what is to go on beside it."""
    _scaled(low, op.result, op.factors, lambda: waited(low, op.accumulator, op.pending))


def _scaled(
    low: Lowering, result: Value, factors: Value, source: Callable[[], list[str | None]]
) -> None:
    """Write a branch by what a warp's factors are; `source` writes what they multiply."""
    emit, live = low.emit, low.live(result)
    by = low.registers(factors)
    differ = "false"
    for factor in dict.fromkeys(f for f in by if f is not None):
        # Unordered: what is no number is no 1.
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
            held = source()
            if label == scales:
                for r in live:
                    held[r] = emit.effect(f"fmul float {held[r]}, {by[r]}")
        edges.append((held, emit.block))
        emit.jump(end)
    emit.label(end)
    made = list(by)
    for r in live:
        made[r] = emit.phi("float", [(str(held[r]), block) for held, block in edges])
    low.set_registers(result, made)
