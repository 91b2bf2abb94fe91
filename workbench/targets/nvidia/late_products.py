"""What of products by warpgroups may come after its turn."""

from __future__ import annotations

from workbench.ir import element_of
from workbench.targets.nvidia.ops import WaitProducts, WarpgroupDot
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
