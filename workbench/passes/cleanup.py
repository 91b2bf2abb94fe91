"""Removes work done twice, work nobody needs, and work repeated in loops."""

from __future__ import annotations

from typing import Any

from workbench.ir import DROP, Block, Builder, Drop, Module, Op, Value, rebuild
from workbench.ops import For, If, Load, While, Yield
from workbench.passes.manager import Remarks


def merge_equal(module: Module, remarks: Remarks) -> Module:
    """Replace an op by an equal one that was computed before it in the same or an outer block.

    Before:
        %1 = tile.mul [%x, %y] : f32
        %2 = tile.mul [%x, %y] : f32
        %3 = tile.add [%1, %2] : f32
    After:
        %1 = tile.mul [%x, %y] : f32
        %3 = tile.add [%1, %1] : f32

    Keeps: every result; only ops without effects and regions are merged.
    """
    known: dict[Any, tuple[int, tuple[Value, ...]]] = {}
    home: dict[int, int] = {}
    parents: dict[int, int] = {0: -1}
    _number_blocks(module.body, 0, parents, home)

    def visible(there: int, here: int) -> bool:
        while here != -1:
            if here == there:
                return True
            here = parents[here]
        return False

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not op.pure or op.regions or not op.results:
            return None
        attributes = tuple(map(_exactly, op.attributes.values()))
        key = (type(op), tuple(map(id, op.operands)), attributes, op.layouts)
        here = home.get(op.id, 0)
        found = known.get(key)
        if found is not None and visible(found[0], here):
            return found[1]
        known[key] = (here, op.results)
        return None

    return rebuild(module, rewrite)


def _exactly(value: object) -> tuple[type, object]:
    """Return a key for an attribute: 0.0 == -0.0 and 1 == True, yet they are not the same."""
    return type(value), repr(value) if isinstance(value, float) else value


def _number_blocks(
    block: Block, number: int, parents: dict[int, int], home: dict[int, int]
) -> None:
    for op in block.ops:
        home[op.id] = number
        for region in op.regions:
            inner = len(parents)
            parents[inner] = number
            _number_blocks(region, inner, parents, home)


def drop_dead(module: Module, remarks: Remarks) -> Module:
    """Drop ops whose results nobody uses, and loop values that only feed themselves.

    Before:
        %1 = tile.mul [%x, %y] : f32
        tile.return
    After:
        tile.return

    Keeps: every effect. A load that nobody uses is dropped unless it is volatile.
    """
    needed: set[Value] = set()
    before = -1
    while len(needed) != before:
        before = len(needed)
        _mark(module.body, needed)

    def rewrite(op: Op, builder: Builder) -> Op | tuple[Value, ...] | Drop | None:
        if _removable(op) and not isinstance(op, Yield) and needed.isdisjoint(original[op.id]):
            return DROP
        if isinstance(op, For) and op.results:
            return _without_dead_carries(op, original[op.id], needed, builder)
        return None

    original = {op.id: op.results for op in module.walk()}
    return rebuild(module, rewrite)


def _removable(op: Op) -> bool:
    """Say whether an op may go if its results are not needed."""
    if isinstance(op, Load):
        return not op.volatile
    if isinstance(op, For | If):
        return all(_removable(inner) for region in op.regions for inner in region.ops)
    return op.pure or isinstance(op, Yield)


def _mark(block: Block, needed: set[Value]) -> None:
    """Mark, last op first, every value that an effect or a needed value reads."""
    for op in reversed(block.ops):
        if isinstance(op, For | While):
            _mark_loop(op, needed)
        elif isinstance(op, If):
            if not _removable(op) or not needed.isdisjoint(op.results):
                needed.update((op.condition, *op.then.yields, *op.otherwise.yields))
            _mark(op.then, needed)
            _mark(op.otherwise, needed)
        elif isinstance(op, Yield):
            continue
        elif not _removable(op) or not needed.isdisjoint(op.results):
            needed.update(op.operands)
            for region in op.regions:
                needed.update(region.yields)
                _mark(region, needed)


def _mark_loop(op: For | While, needed: set[Value]) -> None:
    body = op.body
    if isinstance(op, While):
        # A while may run for ever, so its condition and all it carries count as needed.
        needed.update((*op.inits, *body.arguments, *body.yields, *op.condition.yields))
        _mark(op.condition, needed)
    else:
        for i, argument in enumerate(body.arguments[1:]):
            if argument in needed or op.results[i] in needed:
                needed.update((argument, body.yields[i], op.inits[i]))
        if not _removable(op) or not needed.isdisjoint(op.results):
            needed.update((op.lower, op.upper, op.step))
    _mark(body, needed)


def _without_dead_carries(
    op: For, results: tuple[Value, ...], needed: set[Value], builder: Builder
) -> tuple[Value, ...] | None:
    """Return the results of a loop that carries only what is needed."""
    arguments = op.body.arguments[1:]
    keep = [i for i, a in enumerate(arguments) if a in needed or results[i] in needed]
    if len(keep) == len(arguments):
        return None
    end = op.body.terminator
    body = Block(
        (op.body.arguments[0], *(arguments[i] for i in keep)),
        (*op.body.ops[:-1], end.changed(values=tuple(op.body.yields[i] for i in keep))),
    )
    new = builder.insert(op.changed(inits=tuple(op.inits[i] for i in keep), body=body))
    found = dict(zip(keep, new.results, strict=True))
    # A dead result needs no replacement; its start value stands in because something must.
    return tuple(found.get(i, op.inits[i]) for i in range(len(results)))


def hoist_invariants(module: Module, remarks: Remarks) -> Module:
    """Move ops without effects out of loops in which their operands do not change.

    Before:
        %3 = tile.for %lo, %hi, %step, [%x] {
        ^(%i: index, %a: f32):
          %1 = tile.mul [%y, %y] : f32
          %2 = tile.add [%a, %1] : f32
          tile.yield [%2]
        } : f32
    After:
        %1 = tile.mul [%y, %y] : f32
        %3 = tile.for %lo, %hi, %step, [%x] {
        ^(%i: index, %a: f32):
          %2 = tile.add [%a, %1] : f32
          tile.yield [%2]
        } : f32

    Keeps: every result. Loads stay where they are.
    """

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if not isinstance(op, For | While):
            return None
        varying: set[Value] = set(op.body.arguments)
        stay: list[Op] = []
        for inner in op.body.ops:
            if (
                inner.pure
                and inner.results
                and not inner.regions
                and not any(v in varying for v in inner.operands)
            ):
                builder.insert(inner)
                continue
            stay.append(inner)
            varying.update(inner.results)
        if len(stay) == len(op.body.ops):
            return None
        return op.changed(body=Block(op.body.arguments, tuple(stay)))

    return rebuild(module, rewrite)
