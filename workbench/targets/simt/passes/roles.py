"""A kernel whose warps part: numbers stay before, tiles and effects go to the consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.ir import Block, Builder, Module, Op, Value, shape_of, walk
from workbench.ops import Yield
from workbench.targets.simt.ops import Roles


def part_warps(
    module: Module,
    producer: Block,
    *,
    warps: int = 1,
    registers: tuple[int, ...] = (),
    stays: Sequence[Op] = (),
) -> Module:
    """Return the kernel with its work in the consumers' region, and a producer beside it.

    What stays before the warps part: numbers computed from arguments alone, for both, and `stays`
    (buffers and barriers that both use).
    """
    *ops, end = module.body.ops
    before = stays_before(module) | set(stays)
    builder = Builder(module.next_id)
    with builder.block() as last:
        builder.insert(Yield(()))
    consumers = Block((), (*(op for op in ops if op not in before), *last))
    with builder.block() as body:
        for op in ops:
            if op in before:
                builder.insert(op)
        builder.insert(Roles(producer, consumers, warps=warps, registers=registers))
        builder.insert(end)
    return replace(module, body=Block((), tuple(body)), next_id=builder.next_id)


def stays_before(module: Module) -> set[Op]:
    """Return the ops at the top of a kernel that all warps may run: numbers of arguments."""
    found: set[Op] = set()
    elsewhere: set[Value] = set()
    for op in module.body.ops:
        inside = [inner for region in op.regions for inner in walk(region)]
        values = [v for held in (op, *inside) for v in (*held.operands, *held.results)]
        if op.pure and not any(_tiled(v) or v in elsewhere for v in values):
            found.add(op)
        else:
            elsewhere.update(op.results)
    return found


def _tiled(value: Value) -> bool:
    return bool(shape_of(value.type))
