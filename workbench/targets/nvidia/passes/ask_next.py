"""What threads load first for a program is asked for while they finish the one before.

A product waits for its operands, and what no box brings threads load when a program begins: then
memory is far. Where blocks draw their programs the producer knows the next one some rounds before
the consumers, and its warps have little to do. So it has the L2 fetch the lines of what they will
load, in front of its copies:

    for each program:
        producer: prefetch what consumers load before their loops, then copy for each round
        consumers: load, multiply, store

Where these tiles lie follows from the program's number and from memory that no program writes, as
what the producer copies does. Tiles lie on the consumers' warps, whose part each warp of the
producer takes by turns (`gpu.as_consumers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from workbench.ir import Block, Op, Value, copy_op, shape_of
from workbench.ops import Yield, pointee_of
from workbench.targets.nvidia.ops import Prefetch
from workbench.targets.nvidia.passes.role_rings import Roles
from workbench.targets.simt.ops import AsConsumers
from workbench.targets.simt.passes.rounds import read_by
from workbench.targets.simt.rules import Access

#: The fewest bytes of a tile for which it is worth the arithmetic, and how many consumers a warp of
#: the producer stands in for at most.
LEAST_BYTES, MOST_TURNS = 4096, 4


@dataclass(frozen=True, slots=True)
class Asking:
    """A load, and the ops that its pointers and its mask are made of in each program."""

    load: Op
    access: Access
    ops: tuple[Op, ...]


def _asked(roles: Roles) -> list[Asking]:
    """Return the loads before all loops that threads make, whose lines may be asked for early."""
    warps = roles.loops[0].decided("warps")
    wanted = roles.drawn and roles.module.attributes.get("ask_next", True)
    if not wanted or roles.warps % warps or roles.warps // warps > MOST_TURNS:
        return []
    body, found = roles.module.body.ops, list[Asking]()
    gone = {id(load.op) for channel in roles.held for load in channel.loads}
    for op in body[: body.index(roles.loops[0])]:
        access = roles.known.rules.access_of(op)
        if access is None or id(op) in gone or len(op.results) != 1 or op.regions:
            continue
        size = prod(shape_of(op.result.type)) * pointee_of(access.pointers.type).itemsize
        writes = any(effect.writes for effect in op.own_effects())
        if not shape_of(op.result.type) or size < LEAST_BYTES or writes:
            continue
        if (ops := _made_of(roles, access)) is not None:
            found.append(Asking(op, access, ops))
    return found


def _made_of(roles: Roles, access: Access) -> tuple[Op, ...] | None:
    """Return what the place of a load follows from; None where a warp may not do that again."""
    known, module = roles.known, roles.module
    stays = known.stays(programs=True)
    outside = {r: op for op in module.body.ops for r in op.results}
    work = [v for v in (access.pointers, access.mask) if v is not None]
    seen, needed = set[Value](), set[int]()
    while work:
        value = work.pop()
        op = outside.get(value)
        if value in seen or op is None or op in stays:
            continue
        seen.add(value)
        scratch = roles.chip.rules.scratch_of(op, roles.chip, roles.warps, True)
        if scratch.bytes or not (op.pure or known.memory.may_repeat(op)):
            return None
        needed.add(id(op))
        work += read_by(op)
    return tuple(op for op in module.body.ops if id(op) in needed)


def ask_next(roles: Roles) -> None:
    """Write the prefetches of a program that was drawn, if any: numbers first, then tiles."""
    asked = _asked(roles)
    if not asked:
        return
    builder, values = roles.builder, dict[Value, Value]()
    made = list(dict.fromkeys(op for asking in asked for op in asking.ops))
    order = {id(op): place for place, op in enumerate(roles.module.body.ops)}
    made.sort(key=lambda op: order[id(op)])
    tiles = [op for op in made if any(shape_of(v.type) for v in (*op.operands, *op.results))]
    for op in made:
        if op not in tiles:
            builder.insert(copy_op(op, values, builder))
    with builder.block() as body:
        for op in tiles:
            builder.insert(copy_op(op, values, builder))
        for asking in asked:
            roles.at(asking.load)
            pointers, mask = asking.access.pointers, asking.access.mask
            given = None if mask is None else values.get(mask, mask)
            builder.insert(Prefetch(values.get(pointers, pointers), given))
        builder.insert(Yield(()))
    roles.at(asked[0].load)
    builder.insert(AsConsumers(Block((), tuple(body))))
    for asking in asked:
        text = "asked for while the program before goes on"
        roles.remarks.note(asking.load, text, "applied")


__all__ = ["ask_next"]
