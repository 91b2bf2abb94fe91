"""Stores by copies that go on while a block that stays begins its next program."""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Value, rebuild, walk
from workbench.passes.manager import Remarks
from workbench.targets.simt.rules import Device


def leave_stores(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Have stores of a block that stays wait for shared memory when they need it again.

    Before:
        gpu.each_program [%0] {most_rounds = 32} {
        ^(%slot: i32):
          gpu.tensor_store %map, [%row, %column], %c {axes = (0, 1)}
          tile.yield [%slot]
        }
    After:
        gpu.each_program [%0] {most_rounds = 32} {
        ^(%slot: i32):
          gpu.tensor_store %map, [%row, %column], %c {axes = (0, 1), kept = True}
          tile.yield [%slot]
        }
        gpu.await_stores

    Needs: layouts. Keeps: what is stored; what is read from shared memory is nobody else's then.
    """
    rules, inside, around = chip.rules, set[int](), dict[int, Op]()
    for op in module.walk():
        if op.per_program:
            for inner in (inner for region in op.regions for inner in walk(region)):
                if (found := rules.lasting_of(inner)) is not None:
                    inside.add(inner.id)
                    around[op.id] = found.drain
    if len(inside) != 1:  # of each its bytes would be its own, though one is under way at a time
        return module

    def rewrite(op: Op, builder: Builder) -> Op | tuple[Value, ...] | None:
        found = rules.lasting_of(op) if op.id in inside else None
        if found is not None:
            remarks.note(op, "copied to memory while the next program begins", "applied")
            return found.kept
        if op.id not in around:
            return None
        builder.insert(op)
        builder.insert(around[op.id])
        return op.results

    return rebuild(module, rewrite)
