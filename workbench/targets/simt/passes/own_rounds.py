"""Loads that an author makes a round before they are needed go to the round that needs them.

Who writes a loop of products often loads the next round's numbers beside this round's work:

    x = load p(0)                                 for i:
    for i:                                            x = load p(i)
        ... x ...                         ->          ... x ...
        x = load p(i + 1) if it is reached

What is carried so is in registers, one round ahead. A load of the round itself goes through a ring,
as many rounds ahead as there are stages; the author's round is one more of them.

It is the same memory if the address of the round before the first, continued backwards, is that of
the load in front of the loop, and if nothing is written between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, all_atoms
from workbench.analysis.masks import implies
from workbench.analysis.products import is_line
from workbench.ir import (
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    copy_op,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import Constant, Elementwise, For, counted
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.rounds import read_by, reading_from
from workbench.targets.simt.passes.staged_loads import Early, Known
from workbench.targets.simt.rules import Access, Device

#: Resident warps beyond which more hide no waiting: four on each of a multiprocessor's schedulers.
_ENOUGH_WARPS = 16
#: Bytes side by side in memory that a copy to shared memory moves, at least.
_LEAST_BYTES = 4


@dataclass(frozen=True, slots=True)
class _Carried:
    """A tile that is loaded for the next round: its place among those, its load, what moves it."""

    place: int
    load: Op
    moves: tuple[Op, ...]
    access: Access

    @property
    def is_line(self) -> bool:
        """Whether it has one axis at most."""
        return is_line(shape_of(self.load.result.type))


def load_in_own_round(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Load in a round of a loop of products what the author loads for it in the round before.

    Needs: tile IR whose integers have their widths. Keeps: every value.
    """
    if not any(_carries_loads(loop) for op in module.walk() if (loop := counted(op))):
        return module
    known, narrow = Known(module, chip), False

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        nonlocal narrow
        loop = counted(op)
        if loop is None or not _carries_loads(loop) or not known.hides(loop.body):
            return None
        depth = loop.stages_in(module.attributes)
        early = Early(loop, known)
        rounds = _Rounds(early)
        found = [way for place in range(len(loop.inits)) if (way := rounds.carried(place))]
        if depth < 2 or all(way.is_line for way in found):
            return None
        stages = _stages(early, depth)
        if stages is None:
            text = f"stays in registers, a round ahead: {depth} stages of the loop do not fit"
            remarks.note(found[0].load, text, "missed")
            return None
        for way in found:
            remarks.note(way.load, "loaded in the round that needs it, not before it", "applied")
            narrow = narrow or element_of(way.load.result.type).itemsize < _LEAST_BYTES
        return rounds.written(found, stages, builder)

    done = rebuild(module, rewrite)
    if done is module:
        return module
    if narrow:  # a row of them beside the tile, for which all would wait
        done = replace(done, attributes={"copy_narrow": True, **done.attributes})
    return drop_dead(done, remarks)


def _carries_loads(loop: For) -> bool:
    """Say whether a loop hands tiles on that it has loaded."""
    return any(
        shape_of(value.type) and value.op in loop.body.ops and _is_loaded(value)
        for value in loop.body.yields
    )


def _is_loaded(value: Value) -> bool:
    while value.op is not None and value.op.moves:
        value = value.op.operands[0]
    return value.op is not None and any(
        e.space == "global" and e.reads and not e.writes for e in value.op.own_effects()
    )


def _stages(early: Early, depth: int) -> int | None:
    """Return the stages of a loop that loads all it needs: as asked, and one for the author's.

    As asked if with one more fewer warps would be resident. None if even those do not fit.
    """
    known, on = early.known, early.known.on
    loaded = [op for op in early.loop.body.ops if known.rules.access_of(op) and op.results]
    types = [op.result.type for op in loaded]
    each = sum(prod(shape_of(type)) * element_of(type).itemsize for type in types)

    def warps(stages: int) -> int:
        return min(on.num_warps * (on.chip.shared_bytes // max(1, stages * each)), _ENOUGH_WARPS)

    if warps(depth) == 0:
        return None
    return depth + 1 if warps(depth + 1) == warps(depth) else depth


class _Rounds:
    """A loop whose rounds are to load what they need themselves."""

    def __init__(self, early: Early) -> None:
        self.early = early
        self.loop = early.loop
        self.facts: Affine = early.known.on.facts
        self.trip: Atom = self.facts.atom("trip", self.loop.counter)
        #: What a carried value, or the counter, was in the round before the first.
        self._before: dict[Value, Value | int | None] = {}

    # -- what may move --------------------------------------------------------------------
    def carried(self, place: int) -> _Carried | None:
        """Return how a carried tile is loaded for the next round; None if that is to stay."""
        loop, known = self.loop, self.early.known
        argument, value = loop.body.arguments[1 + place], loop.body.yields[place]
        if argument not in known.operands or known.uses.get(loop.results[place]):
            return None
        moves = list[Op]()
        user, op, first = loop.body.terminator, value.op, loop.inits[place].op
        while op is not None and op.moves and first is not None and self._is_one(op, first, user):
            moves.append(op)
            user, op, first = op, op.operands[0].op, first.operands[0].op
        if op is None or first is None or not self._is_one(op, first, user):
            return None
        access, start = known.rules.access_of(op), known.rules.access_of(first)
        if access is None or start is None or start.mask is not None:
            return None
        if any(e.writes for e in op.own_effects()) or not known.memory.is_kept(first, loop):
            return None
        if not self._is_earlier(access, start) or not self._is_on_if_reached(access.mask):
            return None
        may_move = not self.early.obstacle(op) and self._knows(access.pointers)
        way = _Carried(place, op, tuple(reversed(moves)), access)
        return way if may_move and self._is_copied(way) else None

    def _is_one(self, op: Op, first: Op, user: Op) -> bool:
        """Say whether an op of the loop, of which only `user` reads, does what one before did."""
        same = type(op) is type(first) and op.attributes == first.attributes
        inside = op in self.loop.body.ops and len(op.results) == 1
        return same and inside and self.early.known.uses.get(op.result, []) == [user]

    def _is_copied(self, way: _Carried) -> bool:
        """Say whether copies can bring it: enough of it lies side by side."""
        pointers = way.access.pointers
        axes = range(len(shape_of(pointers.type)))
        most = max(self.facts.vector(pointers, axis) for axis in axes)
        return most * element_of(way.load.result.type).itemsize >= _LEAST_BYTES

    def _is_earlier(self, access: Access, start: Access) -> bool:
        """Say whether the address of a load, a round before the first, is that of another."""
        form, begin = (self.facts.form(one.pointers) for one in (access, start))
        before = None if form is None else self._a_round_before(form)
        if before is None:
            return False
        return begin == Form({m: c for m, c in before.terms.items() if self.trip not in m})

    def _is_on_if_reached(self, mask: Value | None) -> bool:
        """Say whether a mask is on in each round behind which there is another one."""
        loop, facts = self.loop, self.facts
        if mask is None:
            return True
        step = constant_of(loop.step)
        index, upper = facts.form(loop.counter), facts.form(loop.upper)
        if not step or index is None or upper is None:
            return False
        reached = index - upper if step > 0 else upper - index
        held = map(self._a_round_before, facts.conjuncts(mask))
        return all(h is not None and implies(reached, h, shape_of(mask.type)) for h in held)

    def _a_round_before(self, form: Form) -> Form | None:
        """Return what a form was one round earlier; None if that is not known."""
        found = form
        for monomial, factor in form.terms.items():
            rest = tuple(atom for atom in monomial if atom is not self.trip)
            if len(rest) < len(monomial) - 1 or self.trip in all_atoms(Form({rest: 1})):
                return None
            if rest != monomial:
                found = found - Form({rest: factor})
        return found

    # -- numbers of the round before ------------------------------------------------------
    def _knows(self, pointers: Value) -> bool:
        """Say whether an address can be computed of the numbers of the round before."""
        ops = self.early.slice_of((pointers,))
        if ops is None or not all(op.pure and not op.regions for op in ops):
            return False
        return all(self.before(value) is not None for value in self._carried_in(ops, pointers))

    def _carried_in(self, ops: list[Op], pointers: Value) -> list[Value]:
        """Return what some ops read of what a round begins with."""
        reads = {pointers, *(v for op in ops for v in read_by(op))}
        return [argument for argument in self.loop.body.arguments if argument in reads]

    def before(self, argument: Value) -> Value | int | None:
        """Return what a carried value, or the counter, was in the round before the first.

        A value, or a number of its type; None if there is neither.
        """
        if argument not in self._before:
            self._before[argument] = self._found_before(argument)
        return self._before[argument]

    def _found_before(self, argument: Value) -> Value | int | None:
        loop, facts = self.loop, self.facts
        if argument is loop.counter:
            init, change = loop.lower, facts.form(loop.step)
        else:
            place = loop.body.arguments.index(argument) - 1
            init = loop.inits[place]
            after, now = (facts.form(v) for v in (loop.body.yields[place], argument))
            change = None if after is None or now is None else after - now
        begin = facts.form(init)
        if begin is None or change is None:
            return None
        wanted = begin - change
        element = element_of(init.type)
        number = wanted.constant
        if number is not None and isinstance(element, Scalar) and element.is_integer:
            most = 1 << (element.bits - 1)
            return number if -most <= number < most else None
        made_of = () if init.op is None else init.op.operands
        same = (v for v in made_of if v.type == init.type and facts.form(v) == wanted)
        return next(same, None)

    # -- writing --------------------------------------------------------------------------
    def written(self, found: list[_Carried], stages: int, builder: Builder) -> tuple[Value, ...]:
        """Insert the loop; returns its results. What it carries for nobody now, others drop."""
        loop, (counter, *arguments) = self.loop, self.loop.body.arguments
        ops = self.early.slice_of(tuple(way.access.pointers for way in found)) or []
        needed = [a for way in found for a in self._carried_in(ops, way.access.pointers)]
        inits = {a: self._value(a, builder) for a in dict.fromkeys(needed)}
        shadows = {a: Value(a.type, a.hint) for a in inits}
        with builder.block() as body:
            values = dict(shadows)
            for op in ops:
                builder.insert(copy_op(op, values, builder))
            for way in found:
                self._load(way, values, builder)
            loaded = {arguments[w.place]: values[loop.body.yields[w.place]] for w in found}
            ends = self._rest(found, loaded, builder)
            ends += [self._next(argument, values, builder) for argument in shadows]
            builder.insert(loop.body.terminator.changed(values=tuple(ends)))
        block = Block((counter, *arguments, *shadows.values()), tuple(body))
        carried = (*loop.inits, *inits.values())
        new = builder.insert(loop.changed(inits=carried, body=block, stages=stages))
        return new.results[: len(loop.results)]

    def _load(self, way: _Carried, values: dict[Value, Value], builder: Builder) -> None:
        """Load and move a tile with the numbers of the round before, in a round that is reached."""
        load: Op | Value = copy_op(way.load, values, builder)
        if way.access.mask is not None:
            load = load.where_on((way.access.mask,))
        assert isinstance(load, Op)
        values[way.load.result] = builder.insert(load).result
        for op in way.moves:
            builder.insert(copy_op(op, values, builder))

    def _rest(
        self, found: list[_Carried], loaded: dict[Value, Value], builder: Builder
    ) -> list[Value]:
        """Insert the other ops of a round, of what is loaded in it; returns what it hands on."""
        body, values = self.loop.body, dict(loaded)
        gone = {id(op) for way in found for op in (way.load, *way.moves)}
        for op in body.ops[:-1]:
            if id(op) not in gone:
                new = builder.insert(reading_from(op, values))
                if new is not op:
                    values.update(zip(op.results, new.results, strict=True))
        ends = [values.get(value, value) for value in body.yields]
        for way in found:
            ends[way.place] = body.arguments[1 + way.place]
        return ends

    def _next(self, argument: Value, values: dict[Value, Value], builder: Builder) -> Value:
        """Return what the number of the round before will be in the next one."""
        loop = self.loop
        if argument is loop.counter:
            return builder.add(Elementwise("add", (values[argument], loop.step), no_wrap=True))
        after = loop.body.yields[loop.body.arguments.index(argument) - 1]
        return values.get(after, after)

    def _value(self, argument: Value, builder: Builder) -> Value:
        found = self.before(argument)
        assert found is not None
        if isinstance(found, Value):
            return found
        return builder.add(Constant(found, argument.type))


__all__ = ["load_in_own_round"]
