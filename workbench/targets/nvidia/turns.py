"""Turns of groups of warps, by barriers at which one group waits and another only arrives.

PTX ISA 9.0, barrier.cta.sync and barrier.cta.arrive with a number of threads: those of two groups.
"""

from __future__ import annotations

from workbench.targets.nvidia.ops import AwaitTurn, PassTurn
from workbench.targets.nvidia.ops.turns import WARPS
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.rules import as_they_are

#: The barrier of the first group; roles have those below, groups that make boxes those above.
_FIRST = 3

NVIDIA.layouts(AwaitTurn, PassTurn)(as_they_are)


@NVIDIA.lower(AwaitTurn)
def lower_await_turn(low: Lowering, op: AwaitTurn) -> None:
    low.chip.wait_for_warps(low.emit, low.emit.add("i32", _group(low), str(_FIRST)), 2 * WARPS)


@NVIDIA.lower(PassTurn)
def lower_pass_turn(low: Lowering, op: PassTurn) -> None:
    emit, group, last = low.emit, _group(low), str(op.groups - 1)
    is_last = emit.pure(f"icmp eq i32 {group}, {last}")
    if not op.first:
        next_one = emit.add("i32", group, str(_FIRST + 1))
        number = emit.pure(f"select i1 {is_last}, i32 {_FIRST}, i32 {next_one}")
        low.chip.tell_warps(emit, number, 2 * WARPS)
        return
    tell, end = emit.fresh("begin"), emit.fresh("begun")
    emit.branch(is_last, tell, end)
    emit.label(tell)
    low.chip.tell_warps(emit, _FIRST, 2 * WARPS)
    emit.jump(end)
    emit.label(end)


def _group(low: Lowering) -> str:
    """Return the number of this warp's group, an i32 that all lanes are known to agree on."""
    assert low.role is not None
    return low.emit.shift("lshr", "i32", low.role.warp, WARPS.bit_length() - 1)
