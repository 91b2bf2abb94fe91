"""A kernel whose warps part: numbers stay before, tiles and effects go to the consumers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from workbench.analysis.memory import Memory
from workbench.ir import Block, Builder, Effect, Module, Op, Value, shape_of
from workbench.ops import Yield
from workbench.targets.simt.ops import EachProgram, Roles


@dataclass(frozen=True, slots=True)
class Carried:
    """What a role carries from one program to the next: first, in the body, and on.

    A block takes at most `rounds` programs; `blocks` of them are a cluster. `drawn`: the first of
    what is carried is the number of the next program.
    """

    inits: tuple[Value, ...]
    arguments: tuple[Value, ...]
    yields: tuple[Value, ...]
    rounds: int
    blocks: int = 1
    drawn: bool = False


def part_warps(
    module: Module,
    producer: Block,
    *,
    warps: int = 1,
    registers: tuple[int, ...] = (),
    stays: Sequence[Op] = (),
    carried: Carried | None = None,
) -> Module:
    """Return the kernel with its work in the consumers' region, and a producer beside it.

    What stays before the warps part: numbers computed from arguments alone, for both, and `stays`
    (buffers and barriers that both use). What follows from a program's number each role computes
    for itself: so consumers meet the producer before they do. With `carried` they do their work for
    each program of a block that stays; the producer is given so.
    """
    *ops, end = module.body.ops
    own = carried.arguments if carried is not None else ()
    before = stays_before(module, own, programs=True) | set(stays)
    builder = Builder(module.next_id)
    work = tuple(op for op in ops if op not in before)
    consumers = _region(builder, each_program(builder, work, carried) if carried else work)
    with builder.block() as body:
        for op in ops:
            if op in before:
                builder.insert(op)
        builder.insert(Roles(producer, consumers, warps=warps, registers=registers))
        builder.insert(end)
    return replace(module, body=Block((), tuple(body)), next_id=builder.next_id)


def each_program(builder: Builder, work: Sequence[Op], carried: Carried) -> tuple[Op, ...]:
    """Return what does some work for each program of a block."""
    with builder.block() as last:
        builder.insert(Yield(carried.yields))
    with builder.block() as made:
        body = Block(carried.arguments, (*work, *last))
        builder.insert(EachProgram(
            carried.inits, body, most_rounds=carried.rounds, blocks=carried.blocks,
            drawn=carried.drawn,
        ))  # fmt: skip
    return tuple(made)


def _region(builder: Builder, ops: Sequence[Op]) -> Block:
    with builder.block() as last:
        builder.insert(Yield(()))
    return Block((), (*ops, *last))


def stays_before(
    module: Module,
    carried: Sequence[Value] = (),
    *,
    programs: bool = False,
    memory: Memory | None = None,
) -> frozenset[Op]:
    """Return the ops at the top of a kernel that all warps may run: all get the same from them.

    Numbers of arguments, and of memory that no program writes, unless what is written before may
    overlap it. With `programs` only those that are the same for all programs of a launch, of which
    nothing follows from what is `carried` from one to the next.
    """
    key = ("stays before", tuple(carried), programs)
    return module.once(key, lambda: _stays_before(module, carried, programs, memory))


def _stays_before(
    module: Module, carried: Sequence[Value], programs: bool, memory: Memory | None
) -> frozenset[Op]:
    found: set[Op] = set()
    elsewhere: set[Value] = set(carried)
    memory, written = memory or Memory(module), list[Effect]()
    for op in module.body.ops:
        effects = [effect for effect in op.effects() if effect.space == "global"]
        late = any(memory.may_meet(effect, write) for effect in effects for write in written)
        written += (effect for effect in effects if effect.writes)
        repeats = op.pure or (not late and memory.may_repeat(op))
        if repeats and _is_same(op, elsewhere, programs=programs):
            found.add(op)
        else:
            elsewhere.update(op.results)
    return frozenset(found)


def _is_same(op: Op, elsewhere: Container[Value], *, programs: bool) -> bool:
    """Say whether an op and those in it make numbers of nothing that is computed elsewhere."""
    if programs and op.of_program:
        return False
    if any(shape_of(v.type) or v in elsewhere for v in (*op.operands, *op.results)):
        return False
    inside = (inner for region in op.regions for inner in region.ops)
    return all(_is_same(inner, elsewhere, programs=programs) for inner in inside)
