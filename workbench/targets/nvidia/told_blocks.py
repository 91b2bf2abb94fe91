"""How many blocks ptxas is told that a multiprocessor has at once.

ptxas saves registers for more warps than gain anything: a product of 32 x 64 by four warps takes 56
of them, of which its loads of operands and its products take turns in the same eight, each waiting
for the other. Told of sixteen warps it has 128, and starts loads ahead. Of more it would load all
of a round before it multiplies, which is slower again (64x64x32 of two warps, an H100: 10.8 us with
128 registers, 11.7 with 153).
"""

from __future__ import annotations

from workbench.ir import Module, Op
from workbench.targets.nvidia.chip import Chip
from workbench.targets.simt.ops import all_warps, roles_of
from workbench.targets.simt.parts import registers_of

#: Resident warps beyond which more hide no waiting: four on each of a multiprocessor's schedulers.
ENOUGH_WARPS = 16
#: What a loop of products has beside its sums at least: operands and addresses.
_OTHER_REGISTERS = 24


def told_blocks(module: Module, unit: Chip) -> int:
    """Return how many blocks ptxas leaves registers for, 0: it decides.

    Only of loops in which warps multiply: what warpgroups multiply lies in no registers.
    """
    asked = module.attributes
    off = asked.get("maxnreg") is not None or not asked.get("tell_blocks", True)
    if off or roles_of(module) is not None:
        return 0
    rules, sums = unit.rules, 0
    for op in module.walk():
        if rules.later_of(op) is not None:
            return 0
        if op.repeats:
            sums = max(sums, _sums_of(op, unit))
    warps = all_warps(module)
    blocks = max(1, ENOUGH_WARPS // warps)
    return blocks if 0 < sums <= unit.most_registers(warps * blocks) - _OTHER_REGISTERS else 0


def _sums_of(loop: Op, unit: Chip) -> int:
    """Return the registers of a thread that the products of a loop add to; 0: it has none."""
    ops = [op for region in loop.regions for op in region.ops if unit.rules.staged_of(op)]
    return sum(registers_of(op.result) for op in ops)
