"""A kernel whose warps part: numbers stay before, tiles and effects go to the consumers."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Block, Builder, Module, Op, Shared, Tile, Value
from workbench.ops import Yield
from workbench.targets.simt.ops import Roles


def part_warps(
    module: Module,
    producer: Block,
    *,
    warps: int = 1,
    registers: tuple[int, ...] = (),
    shared: tuple[Value, ...] = (),
) -> Module:
    """Return the kernel with its work in the consumers' region, and a producer beside it.

    What stays before the warps part: numbers computed from arguments alone, for both, and what
    gives `shared` (buffers and barriers that both use) with all that it needs.
    """
    *ops, end = module.body.ops
    wanted = set(shared)
    before: list[Op] = []
    inside: list[Op] = []
    known: set[Value] = set()
    for op in ops:
        number = op.pure and not op.regions and not any(map(_tiled, (*op.operands, *op.results)))
        gives = any(result in wanted for result in op.results)
        if (number or gives) and not any(v in known for v in op.operands):
            before.append(op)
        else:
            inside.append(op)
            known.update(op.results)
    builder = Builder(module.next_id)
    with builder.block() as last:
        builder.insert(Yield(()))
    consumers = Block((), (*inside, *last))
    with builder.block() as body:
        for op in before:
            builder.insert(op)
        builder.insert(Roles(producer, consumers, warps=warps, registers=registers))
        builder.insert(end)
    return replace(module, body=Block((), tuple(body)), next_id=builder.next_id)


def _tiled(value: Value) -> bool:
    return isinstance(value.type, Tile | Shared)
