"""Operands in registers that all rounds of a loop read, read once more behind it.

ptxas 12.8 and 13.0 take registers that only products read for free behind a product, though the
next round reads them again, where a round branches in between: the weights of attention came where
its queries were, and all rounds but the first were wrong. 13.5 does not. A reader behind the loop
that is no product keeps them; it costs an instruction for four registers, which does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from workbench.ir import Block, Builder, Module, Op, Value, layout_of, walk
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import StillRead
from workbench.targets.nvidia.passes.kept_operands import made_in
from workbench.targets.simt.rules import Device, RuleTable


def still_read(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Say behind a loop which tiles its ops have read from registers in all rounds.

    Before:
        %1 = tile.for %low, %high, %step, [%0] {
        ^(%i: i32, %sums: tile<64x64xf32, #L1>):
          %2 = gpu.wgmma %q, %k, %sums : tile<64x64xf32, #L1>
          tile.yield [%2]
        } : tile<64x64xf32, #L1>
    After:
        %1 = tile.for %low, %high, %step, [%0] {
        ^(%i: i32, %sums: tile<64x64xf32, #L1>):
          %2 = gpu.wgmma %q, %k, %sums : tile<64x64xf32, #L1>
          tile.yield [%2]
        } : tile<64x64xf32, #L1>
        gpu.still_read %q

    Needs: layouts. Keeps: every value. Of loops in each other the outermost that reads a tile says
    so.
    """
    del remarks
    builder = Builder(module.next_id)

    def within(block: Block, around: AbstractSet[Value]) -> Block:
        with builder.block() as ops:
            for op in block.ops:
                found = _read_in_all_rounds(op, chip.rules) if op.repeats else ()
                read = [tile for tile in dict.fromkeys(found) if tile not in around]
                regions = [within(region, around | {*read}) for region in op.regions]
                fields = dict(zip(op.region_names, regions, strict=True))
                builder.span, builder.origins = op.span, (op.id,)
                builder.insert(op.noted(**fields) if fields else op)
                for tile in read:
                    builder.insert(StillRead(tile))
        return Block(block.arguments, tuple(ops))

    body = within(module.body, frozenset())
    return replace(module, body=body, next_id=builder.next_id)


def _read_in_all_rounds(loop: Op, rules: RuleTable) -> Iterator[Value]:
    """Yield the tiles from outside of a loop that ops of it read from registers as they go on."""
    made = made_in(loop)
    for op in (op for region in loop.regions for op in walk(region)):
        how = rules.in_registers_of(op)
        if how is None or how.operand in made:
            continue
        if layout_of(how.operand.type) == how.layout:
            yield how.operand
