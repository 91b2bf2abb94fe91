"""Loops that store to one argument and copy ahead from another, where nobody says that they differ.

Arguments may overlap, then a round may load what the one before it stored. Whether they do in a
loop follows from where it accesses them: the intervals of all addresses, written before the loop
as instructions. A loop that could copy ahead if they lie apart is written twice, behind that
question; in the first writing (`schedule` "apart") the arguments of these pairs do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.analysis.affine import Affine
from workbench.analysis.memory import ANYWHERE
from workbench.ir import (
    Block,
    Builder,
    Effect,
    Module,
    Op,
    Value,
    copy_op,
    rebuild,
    walk,
)
from workbench.ops import For, If, Yield, counted, counted_loops
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.reaches import Ends, Reaches, UnknownError, point
from workbench.targets.simt.passes.staged_loads import APART, Early, Known, staged_load
from workbench.targets.simt.rules import Device

#: Loops that access more places than this are not written twice.
_MOST_ACCESSES = 24

Pairs = tuple[tuple[str, str], ...]


def split_by_overlap(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Write a loop twice that copies ahead only where two arguments do not overlap.

    Needs: layouts. Keeps: every value.
    """
    if not module.attributes.get("apart", True):
        return module
    loops = {loop.id for loop in counted_loops(module.walk()) if _stores(loop)}
    if not loops or any(op.side_by_side for op in module.walk()):
        return module
    known = Known(module, chip)

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        loop = counted(op) if op.id in loops else None
        if loop is None or not known.hides(loop.body):
            return None
        pairs = _pairs(loop, known) if loop.stages_in(module.attributes) > 1 else ()
        apart = loop.changed(schedule=(*loop.schedule, (APART, pairs))) if pairs else loop
        if _staged(apart, known) <= _staged(loop, known):
            return None
        accesses = {effect: None for effect in _accesses(loop) if _roots(effect, known, pairs)}
        question = _Question(loop, known.on.facts, module, builder)
        try:
            holds = question.all_apart([*accesses], pairs, known)
        except UnknownError:
            return None
        names = ", ".join(sorted({name for pair in pairs for name in pair}))
        remarks.note(op, f"written twice: copied ahead where {names} lie apart", "applied")
        with builder.block() as then:
            first = builder.insert(copy_op(apart, {}, builder))
            builder.insert(Yield(first.results))
        with builder.block() as otherwise:
            second = builder.insert(op.changed(stages=1))
            builder.insert(Yield(second.results))
        made = If(holds, Block((), tuple(then)), Block((), tuple(otherwise)))
        return builder.insert(made).results

    return rebuild(module, rewrite)


# -- deciding -------------------------------------------------------------------------------------
def _stores(loop: For) -> bool:
    inside = [*walk(loop.body)]
    return not any(op.repeats for op in inside) and any(
        effect.writes and effect.space == "global" for op in inside for effect in op.own_effects()
    )


def _accesses(loop: For) -> Iterator[Effect]:
    for op in walk(loop.body):
        yield from (effect for effect in op.own_effects() if effect.space == "global")


def _pairs(loop: For, known: Known) -> Pairs:
    """Return the pairs of arguments, read and written, that would have to lie apart."""
    memory, accesses = known.memory, [*_accesses(loop)]
    found: dict[tuple[str, str], None] = {}
    for one in accesses:
        for other in accesses:
            if other.writes and not one.writes and memory.may_meet(one, other):
                mine, theirs = memory.roots(one), memory.roots(other)
                found |= {(p, q): None for p in mine for q in theirs if ANYWHERE not in (p, q)}
    return tuple(sorted(pair for pair in found if pair[0] != pair[1]))


def _roots(effect: Effect, known: Known, pairs: Pairs) -> bool:
    names = {name for pair in pairs for name in pair}
    return not names.isdisjoint(known.memory.roots(effect))


def _staged(loop: For, known: Known) -> int:
    """Return how many loads of a loop are copied ahead."""
    early = Early(loop, known)
    return sum(staged_load(early, op, Remarks()) is not None for op in loop.body.ops)


# -- asking ---------------------------------------------------------------------------------------
class _Question:
    """Writes whether the accesses of a loop lie apart, in 64 bits, in front of it."""

    def __init__(self, loop: For, facts: Affine, module: Module, builder: Builder) -> None:
        self.loop = loop
        self.reaches = Reaches(module, facts, builder, self._trips, self._held)
        self.counters = {loop.counter: loop for loop in counted_loops(module.walk())}
        self.inside = {
            *loop.body.arguments,
            *(result for op in walk(loop.body) for result in op.results),
        }

    def all_apart(self, accesses: Sequence[Effect], pairs: Pairs, known: Known) -> Value:
        """Return whether no access of one argument of a pair meets one of the other.

        Raises UnknownError where that does not follow from what is known before the loop.
        """
        if len(accesses) > _MOST_ACCESSES:
            raise UnknownError
        reaches = self.reaches
        ends: dict[str, list[Ends]] = {}
        for access in accesses:
            for root in known.memory.roots(access):
                ends.setdefault(root, []).append(reaches.addresses(access))
        holds: list[Value] = []
        for one, other in pairs:
            for low, high in ends[one]:
                for first, last in ends[other]:
                    below, above = reaches.of("lt", high, first), reaches.of("lt", last, low)
                    holds.append(reaches.of("or", below, above))
        found, *rest = [*holds, *reaches.beside]
        for value in rest:
            found = reaches.of("and", found, value)
        return found

    def _held(self, value: Value) -> Ends | None:
        """Return what a scalar may be, where it is known before the loop."""
        return point(self.reaches.wide(value)) if value not in self.inside else None

    def _trips(self, counter: Value) -> Ends:
        """Return the numbers of the rounds of this loop, or that of the round of one around it."""
        loop, reaches = self.counters.get(counter), self.reaches
        step = None if loop is None else constant_of(loop.step)
        if loop is None or step is None or step <= 0:
            raise UnknownError
        each = reaches.number(step)
        if counter is not self.loop.body.arguments[0]:
            if counter in self.inside:
                raise UnknownError
            distance = reaches.of("sub", reaches.wide(counter), reaches.wide(loop.lower))
            return point(reaches.of("div", distance, each))
        distance = reaches.of("sub", reaches.wide(loop.upper), reaches.wide(loop.lower))
        return reaches.rounds(distance, each)
