"""Where the accesses of a launch lie at most, as plain data that launchers evaluate.

The *hull* of an access is the interval of all addresses that its live lanes may have in a launch.
It follows from the affine form of its pointers and from what its mask, and the branches around it,
say: each part of the form that a comparison bounds is one interval,

    ptr + s·(x + 128·pid), where x + 128·pid < n        ptr + s·u, u from 0 to n - 1

and the rest is the interval arithmetic of `ranges.py`, in steps of the same kinds and

| kind | interval |
|---|---|
| below(u, b), above(u, b) | u, which is known to be smaller (greater) than b |
| trip(lower, upper, step), trips(...) | the number of a loop's round; how many there were |

A kernel has no hulls where one of its accesses depends on what was read from memory. Arithmetic of
32 bits that depends on nothing read is taken as exact: launchers require that all steps fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, Monomial, number
from workbench.analysis.ranges import (
    FULL32,
    FULL64,
    Interval,
    Step,
    known_interval,
    most_trips,
    steps_from_data,
    steps_to_data,
)
from workbench.interpreter.dependence import accessed
from workbench.ir import (
    I32,
    INDEX,
    Block,
    Builder,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import Cast, Elementwise, For, If, counted_loops, pointee_of

#: Forms that name more atoms than this are not looked at.
_MOST_ATOMS = 64
#: Kinds of steps that only hulls have.
KINDS = frozenset(("below", "above", "trip", "trips"))


@dataclass(frozen=True, slots=True)
class Hull:
    """One access: offsets `step` (in elements of `size` bytes) from the array `root`."""

    root: str
    step: int
    size: int


@dataclass(frozen=True, slots=True)
class Hulls:
    """The hulls of all accesses of a kernel, where the steps `positive` are greater than 0."""

    steps: tuple[Step, ...]
    hulls: tuple[Hull, ...]
    positive: tuple[int, ...] = ()

    @property
    def closed(self) -> tuple[int, ...]:
        """The steps that launchers compute: all of them."""
        return tuple(range(len(self.steps)))

    def to_data(self) -> dict[str, Any]:
        """Return the hulls as plain data, for JSON."""
        hulls = [[hull.root, hull.step, hull.size] for hull in self.hulls]
        return {"steps": steps_to_data(self.steps), "hulls": hulls, "positive": [*self.positive]}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a launch must fulfil for code that was proven for such launches alone.

    All steps fit 32 bits, and those `at_least_0` are never negative.
    """

    steps: tuple[Step, ...]
    at_least_0: tuple[int, ...] = ()

    @property
    def closed(self) -> tuple[int, ...]:
        """The steps that launchers compute: all of them."""
        return tuple(range(len(self.steps)))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {"steps": steps_to_data(self.steps), "at_least_0": [*self.at_least_0]}


def asked_from_data(stored: Mapping[str, Any]) -> Asked:
    """Return what a launch is asked, in plain data; raises ValueError for data that is none."""
    steps = steps_from_data(stored["steps"], KINDS)
    at_least_0 = tuple(stored["at_least_0"])
    if not all(type(i) is int and 0 <= i < len(steps) for i in at_least_0):
        raise ValueError(f"of {len(steps)} steps {list(at_least_0)} are asked for")
    return Asked(steps, at_least_0)


def from_data(stored: Mapping[str, Any]) -> Hulls:
    """Return the hulls in plain data; raises ValueError for data that is none."""
    steps = steps_from_data(stored["steps"], KINDS)
    hulls = tuple(Hull(root, step, size) for root, step, size in stored["hulls"])
    positive = tuple(stored["positive"])
    known = range(len(steps))
    for hull in hulls:
        if type(hull.root) is not str or hull.step not in known or type(hull.size) is not int:
            raise ValueError(f"a hull is {hull}, where there are {len(steps)} steps")
    if not all(type(i) is int and i in known for i in positive):
        raise ValueError(f"{len(steps)} steps have positive ones at {list(positive)}")
    return Hulls(steps, hulls, positive)


class UnknownForm(Exception):  # noqa: N818 - an answer, never shown
    """What a form is, nobody can tell from a launch's integers and grid."""


def find_hulls(module: Module) -> Hulls | None:
    """Return the hulls of a kernel's accesses as the author wrote them, None if some have none."""
    exact, assumed = _taken_as_exact(module)
    writer = _Writer(exact)
    try:
        for value in assumed:
            writer.fits(value)
        writer.block(exact.body, ())
    except UnknownForm:
        return None
    positive = tuple(dict.fromkeys(writer.positive))
    return Hulls(tuple(writer.steps), tuple(dict.fromkeys(writer.hulls)), positive)


class FormSteps:
    """Writes the intervals of forms as steps; raises UnknownForm for what a launch cannot tell."""

    def __init__(self, module: Module, facts: Affine) -> None:
        self.affine = facts
        self.steps: list[Step] = []
        self._known: dict[Step, int] = {}
        self._parameters: dict[str, KernelParameter] = {p.name: p for p in module.parameters}
        self._loops: dict[Value, For] = {
            loop.counter: loop for loop in counted_loops(module.walk())
        }
        self._shape: tuple[int, ...] = ()
        self._atoms: dict[tuple[Atom, tuple[Form, ...], tuple[int, ...]], int] = {}

    def step(self, kind: str, inputs: tuple[int, ...] = (), data: tuple[Any, ...] = ()) -> int:
        """Return the number of a step; equal steps are written once."""
        step = Step(kind, inputs, data)
        known = self._known.get(step)
        if known is None:
            known = self._known[step] = len(self.steps)
            self.steps.append(step)
        return known

    def of(self, form: Form, shape: tuple[int, ...] = ()) -> int:
        """Return the step of a form's interval over a tile of a shape."""
        self._shape = shape
        return self.form(form, ())

    # -- forms ----------------------------------------------------------------------------
    def form(self, form: Form, under: tuple[Form, ...]) -> int:
        """Return the step of a form's interval where other forms are below 0."""
        found: list[int] = []
        for bounded in _bounded_parts(under):
            factor = _factor(form, bounded)
            if factor.terms:
                form = form - factor * bounded
                inside = self._bounded(bounded, under)
                found.append(self._product(self._sum(factor, under), inside))
        if form.terms or not found:
            found.append(self._sum(form, under))
        total = found[0]
        for more in found[1:]:
            total = self.step("add", (total, more))
        return total

    def _bounded(self, bounded: Form, under: tuple[Form, ...]) -> int:
        """Return the interval of a form that comparisons bound."""
        step = self._sum(bounded, ())
        for held in under:
            for sign, kind in ((1, "below"), (-1, "above")):
                rest = held - bounded.scaled(sign)
                if not _varies(rest):  # bounded + rest < 0, or rest - bounded < 0
                    limit = self._sum(rest.scaled(-sign), ())
                    step = self.step(kind, (step, limit))
        return step

    def _sum(self, form: Form, under: tuple[Form, ...]) -> int:
        total: int | None = None
        for monomial, coefficient in form.terms.items():
            product = self._number(coefficient) if coefficient != 1 or not monomial else None
            for atom in monomial:
                step = self._atom(atom, under)
                product = step if product is None else self._product(product, step)
            assert product is not None
            total = product if total is None else self.step("add", (total, product))
        return self._number(0) if total is None else total

    def _product(self, a: int, b: int) -> int:
        one = self._number(1)
        if one in (a, b):
            return b if a == one else a
        return self.step("mul", (a, b))

    def _number(self, value: int) -> int:
        return self.step("between", (), (value, value))

    # -- atoms ----------------------------------------------------------------------------
    def _atom(self, atom: Atom, under: tuple[Form, ...]) -> int:
        key = (atom, under, self._shape)
        known = self._atoms.get(key)
        if known is None:
            known = self._atoms[key] = self._new_atom(atom, under)
        return known

    def _new_atom(self, atom: Atom, under: tuple[Form, ...]) -> int:
        match atom.kind:
            case "x":
                return self.step("between", (), (0, self._shape[int(atom.key)] - 1))
            case "pid":
                return self.step("program_id", (), (atom.key,))
            case "programs":
                return self.step("num_programs", (), (atom.key,))
            case "arg":
                return self._argument(self._parameters[atom.key])
            case "trip" | "trips":
                return self._trips(atom.kind, self._loops[atom.key], under)
            case "select":
                *_, then, otherwise = atom.parts
                return self.step("union", (self.form(then, under), self.form(otherwise, under)))
            case "div" | "rem" | "min" | "max":
                return self.step(atom.kind, tuple(self.form(part, under) for part in atom.parts))
            case _:
                raise UnknownForm

    def _argument(self, parameter: KernelParameter) -> int:
        element = element_of(parameter.value.type)
        if isinstance(element, Pointer) or not element.is_integer:
            raise UnknownForm
        signed = element == INDEX or (element.bits <= 32 and element.kind == "int")
        full = FULL32 if signed else FULL64
        low = full[0] if parameter.low is None else parameter.low
        high = full[1] if parameter.high is None else parameter.high
        return self.step("argument", (), (parameter.name, low, high))

    def _trips(self, kind: str, loop: For, under: tuple[Form, ...]) -> int:
        bounds: list[int] = []
        for value in (loop.lower, loop.upper, loop.step):
            form = self.affine.form(value)
            if form is None:
                raise UnknownForm
            bounds.append(self.form(form, under))
        return self.step(kind, tuple(bounds))


class _Writer(FormSteps):
    def __init__(self, module: Module) -> None:
        super().__init__(module, Affine(module, tiles=True))
        self.hulls: list[Hull] = []
        self.positive: list[int] = []

    def fits(self, value: Value) -> None:
        """Have a value computed, so that launchers require that it fits."""
        form = self.affine.form(value)
        if form is None:
            raise UnknownForm
        self._shape = shape_of(value.type)
        self._sum(form, ())

    # -- accesses -------------------------------------------------------------------------
    def block(self, block: Block, under: tuple[Form, ...]) -> None:
        """Look at the accesses of a block that runs only where forms are below 0."""
        for op in block.ops:
            if isinstance(op, If):
                held = self.affine.conjuncts(op.condition)
                self.block(op.then, (*under, *held))
                other = (-held[0] - number(1),) if len(held) == 1 else ()
                self.block(op.otherwise, (*under, *other))
                continue
            pointers, _ = accessed(op)
            if pointers is not None:
                self.access(op, pointers, under)
            inside = (*under, *self._counted(op)) if isinstance(op, For) else under
            for region in op.regions:
                self.block(region, inside)

    def _counted(self, loop: For) -> tuple[Form, ...]:
        """Return what is below 0 in every round: a counter that counts up is below its end."""
        forms = (loop.body.arguments[0], loop.upper, loop.step)
        counter, upper, step = (self.affine.form(value) for value in forms)
        if counter is None or upper is None or step is None or (step.constant or 0) <= 0:
            return ()
        atoms = [atom for m, c in upper.terms.items() if c == 1 and len(m) == 1 for atom in m]
        for atom in atoms:
            if atom.kind == "min":
                rest = upper - Form({(atom,): 1})
                return tuple(counter - rest - part for part in atom.parts)
        return (counter - upper,)

    def access(self, op: Op, pointers: Value, under: tuple[Form, ...]) -> None:
        mask = getattr(op, "mask", None)
        form = self.affine.accessed(pointers, mask)
        if form is None or sum(1 for _ in form.atoms()) > _MOST_ATOMS:
            raise UnknownForm
        roots = [
            monomial
            for monomial in form.terms
            if any(atom.kind == "arg" and self._is_pointer(atom.key) for atom in monomial)
        ]
        if len(roots) != 1 or len(roots[0]) != 1 or form.terms[roots[0]] != 1:
            raise UnknownForm
        offsets = form - Form({roots[0]: 1})
        known = under if mask is None else (*under, *self.affine.conjuncts(mask))
        self._shape = shape_of(pointers.type)
        known = tuple(more for held in known for more in self._followed(held))
        size = pointee_of(pointers.type).itemsize
        self.hulls.append(Hull(roots[0][0].key, self.form(offsets, known), size))

    def _followed(self, held: Form) -> Iterator[Form]:
        """Yield what is below 0, and what follows: a / b < c means a < b·c where b is positive."""
        yield held
        for monomial, coefficient in held.terms.items():
            if coefficient == 1 and len(monomial) == 1 and monomial[0].kind == "div":
                dividend, divisor = monomial[0].parts
                rest = held - Form({monomial: 1})
                if not _varies(divisor):
                    self.positive.append(self._sum(divisor, ()))
                    yield dividend + rest * divisor

    def _is_pointer(self, name: str) -> bool:
        return isinstance(self._parameters[name].value.type, Pointer)


def known_intervals(steps: Sequence[Step]) -> list[Interval]:
    """Return what is known of each step's interval at compile time."""
    found: list[Interval] = []
    for step in steps:
        inputs = [found[i] for i in step.inputs]
        if step.kind in ("trip", "trips"):
            lower, upper, by = inputs
            most = most_trips(lower, upper, by)
            found.append((0, max(0, most - (step.kind == "trip"))))
        elif step.kind in KINDS:
            raise ValueError(f"{step.kind} is known at a launch only")
        else:
            found.append(known_interval(step, inputs))
    return found


def _taken_as_exact(module: Module) -> tuple[Module, list[Value]]:
    """Let arithmetic of 32 bits not wrap where it depends on nothing that was read.

    Returns the values of which that was not known, as far as accesses depend on them.
    """
    closed = {p.value for p in module.parameters if not isinstance(p.value.type, Pointer)}
    changed: set[Value] = set()
    wanted: list[Value] = []
    for op in module.walk():
        pointers, _ = accessed(op)
        if pointers is not None:
            mask = getattr(op, "mask", None)
            wanted += [pointers] if mask is None else [pointers, mask]
        wanted += op.decided_by()
        if isinstance(op, For) and closed.issuperset((op.lower, op.upper, op.step)):
            closed.add(op.body.arguments[0])
        if op.results and op.pure and not op.regions and closed.issuperset(op.operands):
            closed.update(op.results)
            if _may_wrap(op):
                changed.add(op.results[0])
    changed &= _made_of(module, wanted)
    if not changed:
        return module, []
    found: list[Value] = []

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if op.id not in ids:
            return None
        assert isinstance(op, Cast | Elementwise)
        new = op.changed(no_wrap=True)
        found.append(new.result)
        return new

    ids = {value.op.id for value in changed if value.op is not None}
    return rebuild(module, rewrite), found


def _may_wrap(op: Op) -> bool:
    """Say whether the result of arithmetic or a conversion to 32 bits is not what it says."""
    if not isinstance(op, Cast | Elementwise) or op.no_wrap:
        return False
    if element_of(op.result.type) != I32:
        return False
    source = element_of(op.operands[0].type)
    return isinstance(op, Elementwise) or (source.is_integer and source.bits > I32.bits)


def _made_of(module: Module, wanted: list[Value]) -> set[Value]:
    """Return values and all that they were computed of."""
    given: dict[Value, list[Value]] = {}
    for op in module.walk():
        for source, target in op.flows():
            given.setdefault(target, []).append(source)
    seen: set[Value] = set()
    wanted = list(wanted)
    while wanted:
        value = wanted.pop()
        if value not in seen:
            seen.add(value)
            wanted += given.get(value, ())
            if value.op is not None and not value.op.regions:
                wanted += value.op.operands
    return seen


def _bounded_parts(under: tuple[Form, ...]) -> Iterator[Form]:
    """Yield what comparisons say something of: the parts that differ within a launch, once each.

    Those of more atoms come first: what is left of a form is looked at for the others.
    """
    found: dict[Form, None] = {}
    for held in under:
        part = Form({m: c for m, c in held.terms.items() if _varies_in(m)})
        if part.terms and next(iter(part.terms.values())) < 0:
            part = -part
        if part.terms and -part not in found:
            found[part] = None
    yield from sorted(found, key=lambda form: (-len(form.terms), -len(list(form.atoms()))))


def _varies(form: Form) -> bool:
    return any(map(_varies_in, form.terms))


def _varies_in(monomial: Monomial) -> bool:
    return any(atom.kind not in ("arg", "programs") for atom in monomial)


def _factor(form: Form, part: Form) -> Form:
    """Return by what a part must be multiplied so that the product stands in a form."""
    (first, scale), *rest = part.terms.items()
    found: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        left = Counter(monomial)
        left.subtract(first)
        if min(left.values(), default=0) < 0 or coefficient % scale:
            continue
        factor = tuple(sorted(left.elements(), key=lambda atom: atom.order))
        times = coefficient // scale
        if all(form.terms.get(_joined(factor, m), 0) == times * c for m, c in rest):
            found[factor] = times
    return Form(found)


def _joined(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=lambda atom: atom.order)) if a and b else a or b
