"""The first and last byte that accesses may touch, written in 64 bits where nothing is known yet.

Both follow from an access's form: each name in it lies between two ends, whose products and sums
are the ends of the whole. Masks are left aside, so more bytes are told than are touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, reduce

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, number
from workbench.ir import I1, I64, U64, Builder, Effect, Module, Pointer, Value, element_of, shape_of
from workbench.ops import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    NumPrograms,
    ProgramId,
    counted_loops,
)
from workbench.passes.rules import constant_of

#: Lowest and highest value, scalars of 64 bits.
Ends = tuple[Value, Value]


def point(value: Value) -> Ends:
    """Return the ends of one value."""
    return value, value


class UnknownError(Exception):
    """Where an access lies cannot be told yet."""


class Reaches:
    """Writes where accesses lie.

    `trips` gives the numbers that the rounds of the loop with a counter may have, `held` the ends
    of a scalar that nothing is known of; None, or UnknownError, where they cannot be told.
    """

    def __init__(
        self,
        module: Module,
        facts: Affine,
        builder: Builder,
        trips: Callable[[Value], Ends],
        held: Callable[[Value], Ends | None],
    ) -> None:
        self.facts = facts
        self.builder = builder
        self.parameters = {p.name: p.value for p in module.parameters}
        self._trips = trips
        self._held = held
        #: What must hold beside: numbers that do not wrap.
        self.beside: list[Value] = []

    def addresses(self, access: Effect) -> Ends:
        """Return the first and last byte of all that an access may touch."""
        pointer = access.through
        form = None if pointer is None else self.facts.form(pointer)
        if pointer is None or form is None:
            raise UnknownError
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        size = element.pointee.itemsize
        bases = [m[0] for m in form.terms if len(m) == 1 and self._is_pointer(m[0])]
        if len(bases) != 1 or form.terms[(bases[0],)] != 1:
            raise UnknownError
        rest = form - Form({(bases[0],): 1})
        low, high = self.ends(rest, shape_of(pointer.type))
        start = self.builder.add(Bitcast(self.parameters[bases[0].key], I64))
        width = self.number(size)
        first = self.of("add", start, self.of("mul", low, width))
        past = self.of("add", start, self.of("mul", high, width))
        return first, self.of("add", past, self.number(size - 1))

    def ends(self, form: Form, shape: tuple[int, ...]) -> Ends:
        """Return the lowest and highest value of a form over a tile."""
        low = high = self.number(0)
        for monomial, coefficient in form.terms.items():
            here = point(self.number(coefficient))
            for atom in monomial:
                here = self._product(here, self._of_atom(atom, shape))
            low, high = self.of("add", low, here[0]), self.of("add", high, here[1])
        return low, high

    def rounds(self, distance: Value, each: Value) -> Ends:
        """Return the numbers of the rounds that go over a distance by steps above 0."""
        zero = self.number(0)
        past = self.of("max", self.of("sub", distance, self.number(1)), zero)
        return zero, self.of("div", past, each)  # what is not negative is shifted

    def wide(self, value: Value) -> Value:
        """Return an integer in 64 bits."""
        return value if element_of(value.type) == I64 else self.builder.add(Cast(value, I64))

    def number(self, value: int) -> Value:
        """Return a number of 64 bits."""
        return self.builder.add(Constant(value, I64))

    def of(self, function: str, *inputs: Value) -> Value:
        """Return a function of numbers."""
        return self.builder.add(Elementwise(function, inputs))

    def _is_pointer(self, atom: Atom) -> bool:
        if atom.kind != "arg" or atom.key not in self.parameters:
            return False
        return isinstance(element_of(self.parameters[atom.key].type), Pointer)

    def _product(self, one: Ends, other: Ends) -> Ends:
        products = {
            (a, b): self.of("mul", a, b) for a in dict.fromkeys(one) for b in dict.fromkeys(other)
        }
        low, *rest = products.values()
        high = low
        for value in rest:
            low, high = self.of("min", low, value), self.of("max", high, value)
        return low, high

    def _of_atom(self, atom: Atom, shape: tuple[int, ...]) -> Ends:
        """Return the values that an atom may have."""
        match atom.kind:
            case "x":
                axis: int = atom.key
                return self.number(0), self.number(shape[axis] - 1)
            case "arg" if not self._is_pointer(atom):
                return point(self.wide(self.parameters[atom.key]))
            case "pid":
                return point(self.builder.add(ProgramId(axis=atom.key, type=I64)))
            case "programs":
                return point(self.builder.add(NumPrograms(axis=atom.key, type=I64)))
            case "trip":
                return self._trips(atom.key)
            case "div" | "rem" if (atom.parts[1].constant or 0) > 0:
                return self._quotient(atom, shape)
            case "min" | "max":
                one, other = (self.ends(part, shape) for part in atom.parts)
                low, high = (self.of(atom.kind, *pair) for pair in zip(one, other, strict=True))
                return low, high
            case "value" if not shape_of(atom.key.type):
                return self._of_value(atom)
            case _:
                raise UnknownError

    def _quotient(self, atom: Atom, shape: tuple[int, ...]) -> Ends:
        """Return the ends of a quotient or remainder by a number above 0."""
        inner, divisor = atom.parts
        by = divisor.constant
        assert by is not None
        if atom.kind == "rem":
            return self.number(1 - by), self.number(by - 1)
        low, high = self.ends(inner, shape)
        return self.of("div", low, self.number(by)), self.of("div", high, self.number(by))

    def _of_value(self, atom: Atom) -> Ends:
        held = self._held(atom.key)
        if held is not None:
            return held
        unwrapped = self.facts.unwrapped(atom)
        if unwrapped is None:
            raise UnknownError
        low, high = self.ends(unwrapped, ())  # where 32 bits do not hold them, nothing is said
        self.beside.append(self.of("ge", low, self.number(-(1 << 31))))
        self.beside.append(self.of("lt", high, self.number(1 << 31)))
        return low, high


class MeetAnywhere:
    """Writes, at a kernel's start, whether two accesses meet in any of a program's rounds."""

    def __init__(self, module: Module, facts: Affine, builder: Builder) -> None:
        self._module = module
        self._facts = facts
        self._builder = builder
        self._counters = {loop.counter: loop for loop in counted_loops(module.walk())}

    def ask(self, one: Iterable[Effect], other: Iterable[Effect]) -> Value:
        """Return whether the bytes between the ends of some accesses and of others meet.

        Raises UnknownError where the arguments of the launch do not tell where these are.
        """
        self._reaches = reaches = self._writer()
        (low, high), (first, last) = self._hull(one), self._hull(other)
        # first <= high and low <= last, in one comparison: 0 <= high - first <= both lengths.
        lengths = reaches.of("add", reaches.of("sub", high, low), reaches.of("sub", last, first))
        past = reaches.of("sub", high, first)
        near = reaches.of("le", *(self._builder.add(Bitcast(v, U64)) for v in (past, lengths)))
        wraps = [reaches.of("xor", v, self._builder.add(Constant(1, I1))) for v in reaches.beside]
        return reduce(lambda found, value: reaches.of("or", found, value), wraps, near)

    def ends_after(self, rounds: int, counter: Value) -> Value:
        """Return whether a loop has at most so many rounds."""
        self._reaches = reaches = self._writer()
        step, distance = self._distance(counter)
        return reaches.of("le", distance, reaches.number(rounds * step))

    def _writer(self) -> Reaches:
        return Reaches(self._module, self._facts, self._builder, self._trips, lambda _: None)

    def _hull(self, accesses: Iterable[Effect]) -> Ends:
        """Return the first and last byte of all of some accesses; many lie side by side."""
        rows: dict[tuple[Form | None, tuple[int, ...]], dict[int, Effect]] = {}
        for access in accesses:
            form = None if access.through is None else self._facts.form(access.through)
            if access.through is None or form is None:
                raise UnknownError
            constant = form.terms.get((), 0)
            row = rows.setdefault((form - number(constant), shape_of(access.through.type)), {})
            row.setdefault(constant, access)
        reaches, found = self._reaches, list[Ends]()
        for row in rows.values():
            (low, _), (_, high) = (reaches.addresses(row[end(row)]) for end in (min, max))
            found.append((low, high))
        lows, highs = zip(*found, strict=True)
        return reduce(partial(reaches.of, "min"), lows), reduce(partial(reaches.of, "max"), highs)

    def _trips(self, counter: Value) -> Ends:
        step, distance = self._distance(counter)
        return self._reaches.rounds(distance, self._reaches.number(step))

    def _distance(self, counter: Value) -> tuple[int, Value]:
        """Return the step of a loop and how far its counter goes."""
        loop, reaches = self._counters.get(counter), self._reaches
        step = None if loop is None else constant_of(loop.step)
        if loop is None or step is None or step <= 0:
            raise UnknownError
        lower, upper = (self._facts.form(value) for value in (loop.lower, loop.upper))
        if lower is None or upper is None:
            raise UnknownError
        return step, reaches.of("sub", reaches.ends(upper, ())[1], reaches.ends(lower, ())[0])
