"""Nested loops become one, so that what is copied ahead goes on from one outer round to the next.

A ring (pipeline_loads.py) fills at the beginning of its loop and drains at the end. Where that is
an inner loop of few rounds (the channels of one tap of a convolution), waiting for the first copies
is most of the time. As one loop of all the rounds it fills once:

    for r:                      r, s = first of both;  x = f(r)
      x = f(r)                  for all rounds of all rounds:
      for s:                      body(x, s)
        body(x, s)                s = next s
                                  if s is past its end:  s = first;  r = next r;  x = f(r)

What the outer loop computes is carried and computed again where it changes, behind a branch that
all threads take alike. Carried tiles say nothing of how they count along their axes, so of rows and
columns that is only done with those that say nothing anyway (quotients, what was loaded); all else
is made of them in every round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.analysis.affine import Affine
from workbench.ir import (
    I32,
    I64,
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
    walk,
)
from workbench.ops import (
    Cast,
    Constant,
    Elementwise,
    For,
    If,
    Select,
    Yield,
    count_rounds,
    counted,
    counted_loops,
)
from workbench.passes.cleanup import drop_dead, hoist_invariants
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.rounds import read_by
from workbench.targets.simt.passes.shared_memory import scratch_of
from workbench.targets.simt.passes.staged_loads import Early, Known, staged_load
from workbench.targets.simt.rules import Device

HINT = "flatten"


@dataclass(frozen=True, slots=True)
class _Nest:
    """A loop that only prepares and runs another one.

    before: the ops in front of the inner loop.
    handed: for each value that the inner loop carries, the place of the outer loop's that it goes
        on with, None for one that begins anew in each outer round.
    """

    outer: For
    inner: For
    before: tuple[Op, ...]
    handed: tuple[int | None, ...]


def flatten_loops(module: Module, remarks: Remarks, chip: Device, *, boxes: bool = False) -> Module:
    """Make one loop of two whose inner one copies loads ahead, if the outer one only prepares it.

    With `boxes` loops of copies of whole tiles, which warps may part for, else those of others.
    Needs: layouts, whole-tile copies decided (raise-tma). Keeps: every value, and the order of all
    rounds.
    """
    said: set[int] = set()
    if boxes and next(_nests(module), None) is not None:
        module = drop_dead(module, remarks)  # pointers and masks of what boxes bring
    while nests := {nest.outer.id: nest for nest in _nests(module)}:
        known = Known(module, chip)
        chosen = {number: nest for number, nest in nests.items() if _pays(nest, known, boxes)}
        if not chosen:
            break

        def rewrite(
            op: Op, builder: Builder, chosen: dict[int, _Nest] = chosen, known: Known = known
        ) -> tuple[Value, ...] | None:
            nest = chosen.get(op.id)
            if nest is None:
                return None
            assert op is nest.outer
            said.add(op.id)
            remarks.note(op, "one loop with the loop in it: copies go on between rounds", "applied")
            return _Flat(nest, known.on.facts, builder).write()

        # The number of rounds is the same in each of a loop around this one.
        module = hoist_invariants(rebuild(module, rewrite), remarks)
    if boxes:  # others may still be obeyed
        return module
    unheard = {op.span: op for op in module.walk() if op.hinted(HINT) and op.id not in said}
    for op in unheard.values():  # once, however many copies unrolling made
        remarks.note(op, f"{HINT}=True is not obeyed: nested loops stay nested", "missed")
    return module


# -- deciding -------------------------------------------------------------------------------------
def _nests(module: Module) -> Iterator[_Nest]:
    return filter(None, map(_nest, counted_loops(module.walk())))


def _nest(outer: For) -> _Nest | None:
    """Return a loop as a nest of two, if that is its form."""
    *before, last = outer.body.ops[:-1] or (outer,)
    inner = counted(last)
    if inner is None or inner is outer or outer.schedule or inner.schedule:
        return None
    if outer.may_wrap or inner.may_wrap:
        return None  # what follows the last round is compared with the end
    plain = all(op.pure and op.results and not op.regions for op in before)
    if not plain or any(op.repeats for op in walk(inner.body)):
        return None
    if outer.stages is not None or any(name != HINT for name, _ in outer.hints):
        return None  # what is said of the rounds of one is not said of the rounds of both
    inside = {*outer.body.arguments, *(result for op in before for result in op.results)}
    steps = constant_of(outer.step), constant_of(inner.step)
    if not inside.isdisjoint((inner.lower, inner.upper)) or any(n is None or n <= 0 for n in steps):
        return None
    handed = _handed(outer, inner)
    return None if handed is None else _Nest(outer, inner, tuple(before), handed)


def _handed(outer: For, inner: For) -> tuple[int | None, ...] | None:
    """Return where what the inner loop carries stands in the outer one; None: not only there."""
    carried = outer.body.arguments[1:]
    elsewhere = {v for op in walk(outer.body) if op is not inner for v in op.operands}
    found: list[int | None] = []
    for init, result in zip(inner.inits, inner.results, strict=True):
        place = carried.index(init) if init in carried else None
        given = [n for n, value in enumerate(outer.body.yields) if value is result]
        if given != ([] if place is None else [place]):
            return None
        found.append(place)
    places = sorted(place for place in found if place is not None)
    read = any(argument in elsewhere for argument in carried)
    return None if read or places != list(range(len(carried))) else tuple(found)


def _pays(nest: _Nest, known: Known, boxes: bool) -> bool:
    """Say whether the inner loop has loads that are copied ahead again each time.

    As `boxes`, or one by one.
    """
    inner, on = nest.inner, known.on
    if inner.stages_in(on.options) < 2 or not known.hides(inner.body):
        return False
    used = known.uses.keys()
    if any(scratch_of(op, on.chip, on.num_warps, used).bytes for op in nest.before):
        return False
    early = Early(inner, known)
    staged = [s for op in inner.body.ops if (s := staged_load(early, op, Remarks())) is not None]
    return bool(staged) and all((one.box is not None) is boxes for one in staged)


# -- writing --------------------------------------------------------------------------------------
class _Flat:
    """Writes a nest as one loop."""

    def __init__(self, nest: _Nest, facts: Affine, builder: Builder) -> None:
        self.nest = nest
        self.facts = facts
        self.builder = builder
        self.made = {result: op for op in nest.before for result in op.results}
        #: Ops of the outer loop that every round has again, and values that it carries.
        self.again: dict[Op, None] = {}
        self.kept: dict[Value, None] = {}
        read = {v for op in nest.inner.body.ops for v in read_by(op)}
        for value in [v for v in (nest.outer.body.arguments[0], *self.made) if v in read]:
            self._keep(value)

    def _keep(self, value: Value) -> None:
        op = self.made.get(value)
        if op is not None and self._is_made_again(op):
            for operand in op.operands:
                self._keep(operand)
            self.again[op] = None
        elif op is not None:
            self.kept[value] = None

    def _is_made_again(self, op: Op) -> bool:
        """Say whether an op is to be in every round: it has several axes, or counts along one."""
        axes = sum(extent > 1 for extent in shape_of(op.result.type))
        if not (op.moves or op.pointwise) or op.converts or not axes:
            return False
        return axes > 1 or self._counts(op.result)

    def _counts(self, value: Value) -> bool:
        """Say whether a tile, or each that it is made of, is a sum of coordinates and scalars."""
        form = self.facts.form(value)
        if form is not None:
            return not any(atom.axes and atom.kind != "x" for atom in form.atoms())
        made = value.op
        if made is None or not (made.pointwise or made.moves):
            return False
        return all(map(self._counts, made.operands))

    def write(self) -> tuple[Value, ...]:
        """Insert the loop; returns what the outer one gave."""
        outer, inner, builder = self.nest.outer, self.nest.inner, self.builder
        counter, kept = outer.body.arguments[0], (*self.kept,)
        anew = [n for n, place in enumerate(self.nest.handed) if place is None]
        first = {counter: outer.lower}
        begun = self._computed(first, [*kept, *(inner.inits[n] for n in anew)])
        starts = dict(zip(anew, begun[len(kept) :], strict=True))
        inits = [
            starts[n] if place is None else outer.inits[place]
            for n, place in enumerate(self.nest.handed)
        ]
        rounds = self._rounds()
        zero, one = (self._number(n, element_of(rounds.type)) for n in (0, 1))
        held = {value: Value(value.type, value.hint) for value in (counter, *kept)}
        arguments = (Value(rounds.type, "round"), *inner.body.arguments, *held.values())
        with builder.block() as ops:
            values = dict(held)
            for op in self.again:
                builder.insert(copy_op(op, values, builder))
            for op in inner.body.ops[:-1]:
                builder.insert(copy_op(op, values, builder))
            yields = [values.get(v, v) for v in inner.body.yields]
            following = self._of("add", inner.body.arguments[0], inner.step, no_wrap=True)
            past = self._of("ge", following, inner.upper)
            here = builder.add(Select(past, inner.lower, following))
            changing = self._next(past, held, kept, [yields[n] for n in anew], anew)
            for number, value in zip(anew, changing[1 + len(kept) :], strict=True):
                yields[number] = value
            builder.insert(Yield((here, *yields, *changing[: 1 + len(kept)])))
        made = For(
            zero, rounds, one, (inner.lower, *inits, outer.lower, *begun[: len(kept)]),
            Block(arguments, tuple(ops)), stages=inner.stages, hints=inner.hints,
        )  # fmt: skip
        results = builder.insert(made).results[1:]
        places = {place: n for n, place in enumerate(self.nest.handed) if place is not None}
        return tuple(results[places[place]] for place in range(len(outer.results)))

    def _next(
        self, past: Value, held: dict[Value, Value], kept: Sequence[Value],
        yields: Sequence[Value], anew: Sequence[int],
    ) -> tuple[Value, ...]:  # fmt: skip
        """Insert the end of a round: the outer counter, what is kept, what restarts.

        They are of the next outer round where the inner loop is past its end: behind a branch, or
        numbers, which are chosen.
        """
        outer, inner, builder = self.nest.outer, self.nest.inner, self.builder
        counter = outer.body.arguments[0]
        wanted = [*kept, *(inner.inits[n] for n in anew)]
        same = held[counter], *(held[value] for value in kept), *yields
        if not any(shape_of(value.type) for value in wanted):
            following = self._of("add", held[counter], outer.step, no_wrap=True)
            others = following, *self._computed({counter: following}, wanted)
            pairs = zip(others, same, strict=True)
            return tuple(builder.add(Select(past, other, one)) for other, one in pairs)
        with builder.block() as then:
            following = self._of("add", held[counter], outer.step, no_wrap=True)
            builder.insert(Yield((following, *self._computed({counter: following}, wanted))))
        with builder.block() as otherwise:
            builder.insert(Yield(same))
        none = ()
        made = If(past, Block(none, tuple(then)), Block(none, tuple(otherwise)))
        return builder.insert(made).results

    def _computed(self, values: dict[Value, Value], wanted: Sequence[Value]) -> list[Value]:
        """Insert copies of what leads from the outer counter to some values; returns these."""
        needed, work = set[Op](), [*wanted]
        while work:
            op = self.made.get(work.pop())
            if op is not None and op not in needed:
                needed.add(op)
                work += op.operands
        for op in self.nest.before:
            if op in needed:
                self.builder.insert(copy_op(op, values, self.builder))
        return [values.get(value, value) for value in wanted]

    def _rounds(self) -> Value:
        """Return how many rounds there are in all, in 64 bits if that is not known."""
        bounds = [
            tuple(constant_of(v) for v in (loop.lower, loop.upper, loop.step))
            for loop in (self.nest.outer, self.nest.inner)
        ]
        total = 1
        for lower, upper, step in bounds:
            if lower is None or upper is None:
                break
            total *= count_rounds(lower, upper, step)
        else:
            if total < 1 << 30:  # rounds ahead are counted, too
                return self._number(total, I32)
        one, other = (self._count(loop) for loop in (self.nest.outer, self.nest.inner))
        return self._of("mul", one, other)

    def _count(self, loop: For) -> Value:
        lower, upper = (
            v if element_of(v.type) == I64 else self.builder.add(Cast(v, I64))
            for v in (loop.lower, loop.upper)
        )
        step = constant_of(loop.step)
        assert step is not None
        distance = self._of("sub", upper, lower)
        raised = self._of("add", distance, self._number(step - 1, I64))
        whole = self._of("div", raised, self._number(step, I64))
        return self._of("max", whole, self._number(0, I64))

    def _number(self, value: int, type: object) -> Value:
        assert isinstance(type, Scalar)
        return self.builder.add(Constant(value, type))

    def _of(self, function: str, *inputs: Value, no_wrap: bool = False) -> Value:
        return self.builder.add(Elementwise(function, inputs, no_wrap=no_wrap))
