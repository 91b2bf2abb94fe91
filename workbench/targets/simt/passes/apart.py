"""Loops that store to one argument and copy ahead from another, where nobody says that they differ.

Arguments may overlap, then a round may load what the one before it stored. Whether they do in a
loop follows from where it accesses them: the intervals of all addresses, written before the loop
as instructions. A loop that could copy ahead if they lie apart is written twice, behind that
question; in the first writing (`schedule` "apart") the arguments of these pairs do not meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
from workbench.analysis.memory import ANYWHERE
from workbench.ir import (
    I64,
    Block,
    Builder,
    Effect,
    Module,
    Op,
    Pointer,
    Value,
    copy_op,
    element_of,
    rebuild,
    shape_of,
    walk,
)
from workbench.ops import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    For,
    If,
    ProgramId,
    Yield,
    counted,
    counted_loops,
)
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.staged_loads import APART, Early, Known, staged_load
from workbench.targets.simt.rules import Device

#: Loops that access more places than this are not written twice.
_MOST_ACCESSES = 24

Pairs = tuple[tuple[str, str], ...]
#: Lowest and highest value, scalars of 64 bits.
Ends = tuple[Value, Value]


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
        except _UnknownError:
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
class _UnknownError(Exception):
    """Where an access lies cannot be told before the loop."""


class _Question:
    """Writes whether the accesses of a loop lie apart, in 64 bits, in front of it."""

    def __init__(self, loop: For, facts: Affine, module: Module, builder: Builder) -> None:
        self.loop = loop
        self.facts = facts
        self.builder = builder
        self.parameters = {p.name: p.value for p in module.parameters}
        self.counters = {loop.counter: loop for loop in counted_loops(module.walk())}
        self.inside = {
            *loop.body.arguments,
            *(result for op in walk(loop.body) for result in op.results),
        }
        #: What must hold beside: numbers that do not wrap.
        self.beside: list[Value] = []

    def all_apart(self, accesses: Sequence[Effect], pairs: Pairs, known: Known) -> Value:
        """Return whether no access of one argument of a pair meets one of the other.

        Raises _UnknownError where that does not follow from what is known before the loop.
        """
        if len(accesses) > _MOST_ACCESSES:
            raise _UnknownError
        ends: dict[str, list[Ends]] = {}
        for access in accesses:
            for root in known.memory.roots(access):
                ends.setdefault(root, []).append(self._addresses(access))
        holds: list[Value] = []
        for one, other in pairs:
            for low, high in ends[one]:
                for first, last in ends[other]:
                    below, above = self._of("lt", high, first), self._of("lt", last, low)
                    holds.append(self._of("or", below, above))
        found, *rest = [*holds, *self.beside]
        for value in rest:
            found = self._of("and", found, value)
        return found

    def _addresses(self, access: Effect) -> Ends:
        """Return the first and last byte of all that an access may touch in the loop."""
        pointer = access.through
        form = None if pointer is None else self.facts.form(pointer)
        if pointer is None or form is None:
            raise _UnknownError
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        size = element.pointee.itemsize
        bases = [m[0] for m in form.terms if len(m) == 1 and self._is_pointer(m[0])]
        if len(bases) != 1 or form.terms[(bases[0],)] != 1:
            raise _UnknownError
        rest = form - Form({(bases[0],): 1})
        shape = shape_of(pointer.type)
        low, high = self._ends(rest, shape)
        start = self.builder.add(Bitcast(self.parameters[bases[0].key], I64))
        width = self._number(size)
        first = self._of("add", start, self._of("mul", low, width))
        past = self._of("add", start, self._of("mul", high, width))
        return first, self._of("add", past, self._number(size - 1))

    def _is_pointer(self, atom: Atom) -> bool:
        if atom.kind != "arg" or atom.key not in self.parameters:
            return False
        return isinstance(element_of(self.parameters[atom.key].type), Pointer)

    def _ends(self, form: Form, shape: tuple[int, ...]) -> Ends:
        low = high = self._number(0)
        for monomial, coefficient in form.terms.items():
            here = _point(self._number(coefficient))
            for atom in monomial:
                here = self._product(here, self._of_atom(atom, shape))
            low, high = self._of("add", low, here[0]), self._of("add", high, here[1])
        return low, high

    def _product(self, one: Ends, other: Ends) -> Ends:
        products = {
            (a, b): self._of("mul", a, b) for a in dict.fromkeys(one) for b in dict.fromkeys(other)
        }
        low, *rest = products.values()
        high = low
        for value in rest:
            low, high = self._of("min", low, value), self._of("max", high, value)
        return low, high

    def _of_atom(self, atom: Atom, shape: tuple[int, ...]) -> Ends:
        """Return the values that an atom may have in the loop."""
        if atom.kind == "x":
            axis: int = atom.key
            return self._number(0), self._number(shape[axis] - 1)
        if atom.kind == "arg" and not self._is_pointer(atom):
            return _point(self._wide(self.parameters[atom.key]))
        if atom.kind == "pid":
            return _point(self.builder.add(ProgramId(axis=atom.key, type=I64)))
        if atom.kind == "trip":
            return self._trips(atom.key)
        if atom.kind in ("min", "max"):
            one, other = (self._ends(part, shape) for part in atom.parts)
            low, high = (self._of(atom.kind, *pair) for pair in zip(one, other, strict=True))
            return low, high
        if atom.kind == "value" and not shape_of(atom.key.type):
            if atom.key not in self.inside:
                return _point(self._wide(atom.key))
            unwrapped = self.facts.unwrapped(atom)
            if unwrapped is not None:
                return self._unwrapped(self._ends(unwrapped, ()))
        raise _UnknownError

    def _trips(self, counter: Value) -> Ends:
        """Return the numbers of the rounds of this loop, or that of the round of one around it."""
        loop = self.counters.get(counter)
        step = None if loop is None else constant_of(loop.step)
        if loop is None or step is None or step <= 0:
            raise _UnknownError
        each = self._number(step)
        if counter is not self.loop.body.arguments[0]:
            if counter in self.inside:
                raise _UnknownError
            distance = self._of("sub", self._wide(counter), self._wide(loop.lower))
            return _point(self._of("div", distance, each))
        distance = self._of("sub", self._wide(loop.upper), self._wide(loop.lower))
        last = self._of("div", self._of("sub", distance, self._number(1)), each)
        zero = self._number(0)
        return zero, self._of("max", last, zero)

    def _unwrapped(self, ends: Ends) -> Ends:
        """Return ends of a number of 32 bits; where they do not fit, nothing is said."""
        low, high = ends
        self.beside.append(self._of("ge", low, self._number(-(1 << 31))))
        self.beside.append(self._of("lt", high, self._number(1 << 31)))
        return ends

    def _wide(self, value: Value) -> Value:
        return value if element_of(value.type) == I64 else self.builder.add(Cast(value, I64))

    def _number(self, value: int) -> Value:
        return self.builder.add(Constant(value, I64))

    def _of(self, function: str, *inputs: Value) -> Value:
        return self.builder.add(Elementwise(function, inputs))


def _point(value: Value) -> Ends:
    return value, value
