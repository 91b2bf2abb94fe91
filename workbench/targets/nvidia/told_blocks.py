"""How many blocks ptxas is told that a multiprocessor has at once.

ptxas saves registers for more warps than gain anything: a product of 32 x 64 by four warps takes 56
of them, of which its loads of operands and its products take turns in the same eight, each waiting
for the other. Told of sixteen warps it has 128, and starts loads ahead. Of more it would load all
of a round before it multiplies, which is slower again (64x64x32 of two warps, an H100: 10.8 us with
128 registers, 11.7 with 153).

Where an operand is computed in registers, a part in front of each product, there is little to load
but much to compute: numbers of several parts at once are what fills the time until each is there.
So no registers are saved there for blocks that shared memory has no room for.
"""

from __future__ import annotations

from workbench.ir import Module, Op
from workbench.targets.nvidia.chip import Chip, residency
from workbench.targets.simt.ops import all_warps, roles_of
from workbench.targets.simt.parts import registers_of

#: Resident warps beyond which more hide no waiting: four on each of a multiprocessor's schedulers.
ENOUGH_WARPS = 16
#: What a loop of products has beside its sums at least: operands and addresses.
_OTHER_REGISTERS = 24


def told_blocks(module: Module, unit: Chip, shared_bytes: int) -> int:
    """Return how many blocks ptxas leaves registers for, 0: it decides.

    Only of loops in which warps multiply: what warpgroups multiply lies in no registers.
    `shared_bytes`: what a block has of shared memory.
    """
    asked = module.attributes
    off = asked.get("maxnreg") is not None or not asked.get("tell_blocks", True)
    if off or roles_of(module) is not None:
        return 0
    rules, products = unit.rules, list[list[Op]]()
    for op in module.walk():
        if rules.later_of(op) is not None:
            return 0
        if op.repeats:
            products.append(_products_of(op, unit))
    sums = max((sum(registers_of(op.result) for op in ops) for ops in products), default=0)
    warps = all_warps(module)
    blocks = max(1, ENOUGH_WARPS // warps)
    if not 0 < sums <= unit.most_registers(warps * blocks) - _OTHER_REGISTERS:
        return 0
    computed = all(rules.parts_of(op) is not None for ops in products for op in ops)
    if not computed:
        return blocks
    room = residency(unit, warps, 1, shared_bytes).warps // warps
    return max(1, min(blocks, room))


def _products_of(loop: Op, unit: Chip) -> list[Op]:
    """Return the products that stand in a loop itself."""
    return [op for region in loop.regions for op in region.ops if unit.rules.staged_of(op)]
