"""Removes work done twice, work nobody needs, and work repeated in loops."""

from __future__ import annotations

from typing import Any

from workbench.ir import DROP, Block, Builder, Drop, Module, Op, Value, rebuild
from workbench.ops import For, While
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
        mine = home.get(op.id, 0), op.results
        found = known.setdefault(key, mine)  # once: to hash a key is most of the work
        if found is mine:
            return None
        if visible(found[0], mine[0]):
            return found[1]
        known[key] = mine
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
    """Drop ops whose results nobody uses, and what loops and branches hand on for nobody.

    Before:
        %1 = tile.mul [%x, %y] : f32
        tile.return
    After:
        tile.return

    Keeps: every effect but plain reads, which nobody misses.
    """
    needed: set[Value] = set()
    before = -1
    while len(needed) != before:
        before = len(needed)
        _mark(module.body, needed)

    def rewrite(op: Op, builder: Builder) -> Op | tuple[Value, ...] | Drop | None:
        if op.removable and not op.ends_block and needed.isdisjoint(original[op.id]):
            return DROP
        if op.results and op.decided_by():
            return _without_dead_carries(op, original[op.id], needed, builder)
        return None

    original = {op.id: op.results for op in module.walk()}
    return rebuild(module, rewrite)


def _mark(block: Block, needed: set[Value]) -> None:
    """Mark, last op first, every value that an effect or a needed value reads."""
    for op in reversed(block.ops):
        if op.ends_block:
            continue
        live = not op.removable or not needed.isdisjoint(op.results)
        decisive = op.decided_by()
        if decisive:
            needed.update(given for given, received in op.flows() if received in needed)
            needed.update(decisive if live else ())
        elif live:
            needed.update(op.operands)
            for region in op.regions:
                needed.update(region.yields)
        if live:
            for region in op.regions:
                _mark(region, needed)


def _without_dead_carries(
    op: Op, results: tuple[Value, ...], needed: set[Value], builder: Builder
) -> tuple[Value, ...] | None:
    """Return the results of control flow that hands on only what is needed."""
    places = zip(results, op.handed_on(), strict=True)
    keep = [i for i, held in enumerate(places) if not needed.isdisjoint((held[0], *held[1]))]
    if len(keep) == len(results):
        return None
    new = builder.insert(op.keeping(keep))
    found = dict(zip(keep, new.results, strict=True))
    # A dead result needs no replacement: nobody reads it.
    return tuple(found.get(i, result) for i, result in enumerate(results))


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

    Keeps: every result. Loads stay where they are, and everything in a loop with `disable_licm`.
    """

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if not isinstance(op, For | While):
            return None
        if op.keeps_invariants:
            remarks.note(op, "disable_licm: what does not change stays in the loop", "applied")
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
