"""What of products by warpgroups may come after its turn, and who waits for it then."""

from __future__ import annotations

from workbench.ir import F32, Value, element_of, shape_of
from workbench.ops import Elementwise
from workbench.targets.nvidia.ops import ScaleProducts, WaitProducts, WarpgroupDot
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.warpgroups import fragment_of, unit_of
from workbench.targets.simt.rules import Later


@NVIDIA.later(WarpgroupDot)
def what_goes_on(op: WarpgroupDot) -> Later | None:
    """A product whose sums are kept as the instruction adds them."""
    unit = unit_of(op)
    if op.long_after:
        return None
    if unit is None or element_of(op.accumulator.type) != unit.accumulator:
        return None
    return Later(
        sums=op.accumulator,
        operands=frozenset((op.a, op.b)),
        held=op.first
        if fragment_of(op) is not None and op.shapes[0][1] % (2 * unit.k) == 0
        else None,
        slots=tuple(slot for slot in (op.slot_a, op.slot_b) if slot is not None),
        late=op.stage,
        flight=op.in_flight,
        going=lambda most: {"in_flight": most},
        in_parts=lambda parts: {"parts": parts},
        started=lambda late: {"stage": late},
        waited=lambda value, most: WaitProducts(value, pending=most),
    )


@NVIDIA.waiting(Elementwise)
def scaled(op: Elementwise, sums: Value) -> ScaleProducts | None:
    """A product times one number for each row (or column), most of which may be 1."""
    others = [value for value in op.inputs if value is not sums]
    if op.function != "mul" or element_of(sums.type) != F32 or len(others) != 1:
        return None
    repeats = others[0].op
    if repeats is None or not repeats.spreads or not shape_of(repeats.operands[0].type):
        return None
    return ScaleProducts(sums, others[0])
