"""Operands in registers that all rounds of a loop read, kept alive by more than products."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import replace

from workbench.ir import Block, Builder, Module, Op, Value, layout_of, walk
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import StillRead
from workbench.targets.simt.rules import Device, RuleTable


def still_read(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Say behind a loop which tiles its products have read from registers in all rounds.

    Before:
        %q.1 = gpu.convert_layout %q {layout = #L1} : tile<64x64xf16, #L1>
        %1 = tile.for %low, %high, %step, [%0] {
        ^(%i: i32, %sums: tile<64x64xf32, #L1>):
          %2 = gpu.wgmma %q.1, %k, %sums : tile<64x64xf32, #L1>
          tile.yield [%2]
        } : tile<64x64xf32, #L1>
    After:
        the same, and
        gpu.still_read %q.1

    Needs: layouts. Keeps: every value.
    """
    builder = Builder(module.next_id)

    def within(block: Block, around: AbstractSet[Value]) -> Block:
        ops: list[Op] = []
        with builder.block() as ops:
            for op in block.ops:
                read = dict.fromkeys(_read_in_all_rounds(op, chip.rules)) if op.repeats else {}
                inside = {*around, *read}
                regions = {
                    name: within(region, inside)
                    for name, region in zip(op.region_names, op.regions, strict=True)
                }
                builder.span, builder.origins = op.span, (op.id,)
                builder.insert(op.noted(**regions) if regions else op)
                for tile in read:
                    if tile not in around:
                        builder.insert(StillRead(tile))
        return Block(block.arguments, tuple(ops))

    body = within(module.body, frozenset())
    return replace(module, body=body, next_id=builder.next_id)


def _read_in_all_rounds(loop: Op, rules: RuleTable) -> Iterator[Value]:
    """Yield the tiles from outside of a loop that ops of it read from registers as they go on."""
    inside = [op for region in loop.regions for op in walk(region)]
    made = {value for op in inside for value in op.results}
    blocks = [*loop.regions, *(region for op in inside for region in op.regions)]
    made |= {value for block in blocks for value in block.arguments}
    for op in inside:
        how = rules.in_registers_of(op)
        if how is not None and how.operand not in made:
            if layout_of(how.operand.type) == how.layout:
                yield how.operand
