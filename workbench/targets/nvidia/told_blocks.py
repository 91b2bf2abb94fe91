"""How many blocks ptxas is told that a multiprocessor has at once.

Rings lie in memory whose size only a launch says. ptxas, which does not know of it, saves registers
for blocks that will not be there: a product of 32 x 64 by four warps takes 56, of which its loads
of operands and its products take turns in the same eight, each waiting for the other, though of
128 nobody else would have any. Told of as many blocks as their shared memory leaves room for, it
starts loads ahead.
"""

from __future__ import annotations

from workbench.ir import Module, Op
from workbench.targets.nvidia.chip import Chip, residency
from workbench.targets.simt.ops import all_warps, roles_of

#: Resident warps beyond which more hide no waiting: four on each of a multiprocessor's schedulers.
ENOUGH_WARPS = 16


def told_blocks(module: Module, unit: Chip, shared_bytes: int) -> int:
    """Return how many blocks are to be resident at least, 0: ptxas decides.

    Only of loops in which warps multiply: what warpgroups multiply lies in no registers.
    """
    asked = module.attributes
    off = asked.get("maxnreg") is not None or not asked.get("tell_blocks", True)
    if off or not shared_bytes or roles_of(module) is not None:
        return 0
    rules, multiplies = unit.rules, False
    for op in module.walk():
        if rules.later_of(op) is not None:
            return 0
        multiplies = multiplies or (op.repeats and _multiplies(op, unit))
    if not multiplies:
        return 0
    warps = all_warps(module)
    fits = residency(unit, warps, 1, shared_bytes).warps // warps
    return max(1, min(fits, ENOUGH_WARPS // warps))


def _multiplies(loop: Op, unit: Chip) -> bool:
    return any(unit.rules.staged_of(op) for region in loop.regions for op in region.ops)
