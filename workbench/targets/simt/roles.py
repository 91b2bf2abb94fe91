"""Warps that part: a branch on the warp's number, and barriers of one role's threads."""

from __future__ import annotations

from workbench.ir import Block
from workbench.targets.simt.lowering import Lowering, Meeting, Role
from workbench.targets.simt.ops.roles import Roles
from workbench.targets.simt.rules import as_they_are
from workbench.targets.simt.table import SIMT

SIMT.layouts(Roles)(as_they_are)


@SIMT.lower(Roles)
def lower_roles(low: Lowering, op: Roles) -> None:
    """Warps branch as wholes; which way, all lanes of a warp agree.

    Where the block is to meet right before, a producer does so in front of the first thing that
    anybody notices: what it computes for that, a chain of quotients, is done while others begin.
    """
    emit, chip = low.emit, low.chip
    meeting, low.meeting = low.meeting, Meeting()
    number = emit.shift("lshr", "i32", low.thread, low.lane_bits)
    # The shuffle says to who assembles that all lanes have one number: control stays uniform.
    warp = chip.shuffle(emit, "index", number, "0")
    beyond = emit.pure(f"icmp uge i32 {warp}, {low.num_warps}")
    producer, consumers, end = emit.fresh("producer"), emit.fresh("consumers"), emit.fresh("met")
    emit.branch(beyond, producer, consumers)
    keeps, gets = op.registers or (0, 0)
    for label, region, role, registers, more in (
        (producer, op.producer, Role(low.num_warps, op.warps, 2, warp), keeps, False),
        (consumers, op.consumers, Role(0, low.num_warps, 1, warp), gets, True),
    ):
        emit.label(label)
        if registers:
            chip.take_registers(emit, registers, more=more)
        low.meeting = meeting
        if region is op.consumers:
            low.meet()
        _region(low, region, role)
        emit.jump(end)
    emit.label(end)


def _region(low: Lowering, region: Block, role: Role) -> None:
    low.role = role
    try:
        with low.emit.scope():
            low.block(region)
            low.meet()
    finally:
        low.role = None
