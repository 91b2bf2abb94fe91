"""Forms of what loops carry: by how much a round changes each value, and what divides it for ever.

What forms are is said in affine.py, which asks this of each loop that it comes to.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, lcm
from typing import Literal, Protocol

from workbench.analysis.forms import Atom, Form, all_atoms
from workbench.analysis.runs import Runs
from workbench.analysis.transfer import Forms, may_have_form, promising, rewritten
from workbench.ir import Block, Op, Value, shape_of, walk
from workbench.ops import For, While


class Unfinished(Forms, Protocol):
    """Forms that are being made, as far as loops settle them."""

    def settle(self, value: Value, form: Form) -> None:
        """Let a value have this form from now on."""
        ...

    def own(self, value: Value, divisor: int = 1, either: tuple[Form | None, ...] = ()) -> None:
        """Give a scalar the form of an unknown; tiles have one only if these are asked for.

        `either`: forms of which the value is one, if all of these are known.
        """
        ...

    def block(self, block: Block) -> None:
        """Give all values of a block their forms."""
        ...

    def forget_masks(self) -> None:
        """Forget what was found of masks: forms that it was made of are others from now on."""
        ...


class Loops:
    """The loops of a module whose forms are being made."""

    def __init__(self, forms: Unfinished, runs: Runs) -> None:
        self.forms = forms
        self.runs = runs
        #: By how much a carried value changes in a round, while loops are looked at first.
        self._changes: dict[Value, Form] = {}
        #: What divides a carried value in all rounds.
        self._lasting: dict[Value, int] = {}
        #: Carried values whose change is another in each round.
        self._varying: set[Value] = set()
        #: What a carried value begins with, its name, and what it goes on with.
        self._marks: dict[Value, tuple[Form, Atom, Form]] = {}
        self._looking: Literal["not in a loop", "first", "again"] = "not in a loop"

    def look(self, op: For | While) -> None:
        """Look at a loop twice, with all the loops in it.

        First each carried value is a name of its own; by how much a round changes it is read off
        what is yielded. Then they have the forms that follow.
        """
        if self._looking != "not in a loop":
            self._rounds(op)
            return
        self._looking = "first"
        self._rounds(op)
        self._read_divisors()
        self._looking = "again"
        self.forms.forget_masks()
        self._rounds(op)
        self._looking = "not in a loop"

    def _rounds(self, op: For | While) -> None:
        trip = trips = None
        if isinstance(op, For):
            counter = op.body.arguments[0]
            lower, step = self.forms.form(op.lower), self.forms.form(op.step)
            trip, trips = (Form({(self.forms.atom(k, counter),): 1}) for k in ("trip", "trips"))
            if lower is None or step is None:
                self.forms.own(counter)
            else:
                self.forms.settle(counter, lower + step * trip)
        carried = op.body.arguments[isinstance(op, For) :]
        twins = op.condition.arguments if isinstance(op, While) else carried
        for init, argument, twin in zip(op.inits, carried, twins, strict=True):
            for value in {argument: None, twin: None}:
                if self._looking == "first":
                    self._mark(value)
                    if value is argument:
                        self._begin(argument, self.forms.form(init))
                else:
                    self._carried(value, init, argument, trip)
        for region in op.regions:
            self.forms.block(region)
        if self._looking == "first":
            self._read_changes(op, carried)
        for n, (init, argument, result) in enumerate(
            zip(op.inits, carried, op.results, strict=True)
        ):
            self._carried(result, init, argument, trips, op.body.yields[n])

    def _mark(self, value: Value) -> None:
        """Give a carried value a name of its own; a tile's says where it is turned."""
        self.forms.own(value)
        shape = shape_of(value.type)
        if shape and may_have_form(value):
            ones = (1,) * len(shape)
            self.forms.settle(value, promising(self.forms, value, (ones, ones, ones)))

    def _read_changes(self, op: For | While, carried: tuple[Value, ...]) -> None:
        """Note by how much a round changes each carried value, where all elements change alike."""
        inside = {
            *(a for region in op.regions for a in region.arguments),
            *(r for region in op.regions for inner in walk(region) for r in _received(inner)),
        }
        for argument, after in zip(carried, op.body.yields, strict=True):
            mark, end = self.forms.form(argument), self.forms.form(after)
            if argument in self._marks:
                start, atom, _ = self._marks.pop(argument)
                if end is not None:
                    self._marks[argument] = start, atom, end
            if mark is None or end is None:
                continue
            change = end - mark
            if change.axes:
                continue
            named = {_names(atom, inside) for atom in change.atoms()}
            tile = any(atom.kind == "promise" for atom in all_atoms(change))
            self._changes[argument] = change
            if True in named or (tile and not self.forms.tiles):
                self._varying.add(argument)

    def _begin(self, argument: Value, start: Form | None) -> None:
        """Note what a carried value begins with, if it has a name."""
        mark = self.forms.form(argument)
        if start is not None and mark is not None and len(mark.terms) == 1:
            ((atom,),) = mark.terms
            self._marks[argument] = start, atom, mark

    def _read_divisors(self) -> None:
        """Note what divides each carried value in all rounds."""
        found = self.runs.lasting({atom: (f, g) for f, atom, g in self._marks.values()})
        self._lasting.update({a: found[atom] for a, (_, atom, _) in self._marks.items()})
        self._marks.clear()

    def _carried(
        self, value: Value, init: Value, argument: Value, rounds: Form | None,
        last: Value | None = None,
    ) -> None:  # fmt: skip
        """Give a value that a loop carries the form that follows from the change in a round.

        `rounds`: the number of rounds until the value is looked at, None if that has no name.
        `last`: what a result is where there was a round.
        """
        start, change = self.forms.form(init), self._changes.get(argument)
        lasting = self._lasting.get(argument, 1)
        if start is None or change is None:
            either = () if last is None else (start, self.forms.form(last))
            self.forms.own(value, lasting, either)
            return
        change = self._settled(change)
        if rounds is not None and argument not in self._varying:
            self.forms.settle(value, start + change * rounds)
        elif self.forms.tiles:
            moved = self.forms.atom("moved", (value, start))
            self.runs.divides(lasting, moved)
            self.runs.choose(moved, (change,))  # a sum of what is one of them in each round
            self.forms.settle(value, start + Form({(moved,): 1}))
        else:
            divisor = gcd(self.runs.divisor(change), self.runs.divisor(start))
            self.forms.own(value, lcm(divisor, lasting))

    def _settled(self, change: Form) -> Form:
        """Return a change with the names of carried values replaced by their forms."""

        def leaf(atom: Atom) -> Form | None:
            if atom.kind != "value" or atom.key not in self._changes:
                return None
            found = self.forms.form(atom.key)
            return None if found is None or found == Form({(atom,): 1}) else found

        return rewritten(self.forms, change, leaf)


def _received(op: Op) -> Iterable[Value]:
    """Return the values that exist from an op on: its results and its regions' arguments."""
    yield from op.results
    for region in op.regions:
        yield from region.arguments


def _names(atom: Atom, values: set[Value]) -> bool:
    """Say whether an atom stands for one of the values, or depends on one."""
    inside = list(atom.parts)
    if atom.kind in ("promise", "moved"):
        value, *_, form = atom.key
        if value in values:
            return True
        inside = [form] if form is not None else []
    elif not inside:
        return atom.key in values
    return any(_names(inner, values) for form in inside for inner in form.atoms())
