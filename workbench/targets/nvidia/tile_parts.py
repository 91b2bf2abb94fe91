"""A tile whose rows lie where a loaded table says, as parts of which each lies in one place.

Rows of several pages are `base + page(n // P)·s + (n % P)·t + …` for n = e + x, page a tile that is
loaded. Where e and P are multiples of g, part i has x = i·g + y, y from 0 to g - 1, and

    n // P   (e + i·g) // P                   the same all over the part
    n % P    (e + i·g) % P + y
    page     its element at y = 0, a number: what its address says there does not depend on y, and
             its mask, which asks for no more than that of the access, is on at y = 0 if it is at
             another y

What is left is linear in y: a form of a tile of g rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, number
from workbench.analysis.masks import follows, plain_coordinate
from workbench.analysis.transfer import opaque, rewritten
from workbench.ir import Op, Value, shape_of
from workbench.targets.nvidia.box_plans import is_loaded

#: Rows of a part at least: where the pattern of eight rows of a buffer ends.
_FEWEST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """An access to a tile as those to its parts along an axis: forms and conjuncts of each."""

    axis: int
    shape: tuple[int, ...]
    parts: tuple[tuple[Form, tuple[Form, ...]], ...]


class Splitter:
    """Takes accesses apart.

    loads: (pointers, mask) of an op that does nothing but load them; None for others.
    not_negative: says whether a form without coordinates is known not to be negative.
    """

    def __init__(
        self, facts: Affine, loads: Callable[[Op], tuple[Value, Value | None] | None],
        not_negative: Callable[[Form], bool],
    ) -> None:  # fmt: skip
        self.facts = facts
        self.loads = loads
        self.not_negative = not_negative

    def splits(
        self, form: Form, conjuncts: Sequence[Form], shape: tuple[int, ...]
    ) -> Iterator[Parts]:
        """Yield the ways in which an access is one to parts, the largest first."""
        axes = {axis for atom in form.atoms() if atom.kind == "promise" for axis in atom.axes}
        if len(axes) != 1:
            return
        (axis,) = axes
        bounds = [self._counted(held, axis, shape[axis]) for held in conjuncts]
        rows = shape[axis] // 2
        while rows >= _FEWEST_ROWS and shape[axis] % rows == 0:
            whole = (*shape[:axis], rows, *shape[axis + 1 :])
            known = tuple(conjuncts)
            parts = [
                self._part(form, bounds, _Part(self, known, axis, rows, n))
                for n in range(shape[axis] // rows)
            ]
            if all(part is not None for part in parts):
                yield Parts(axis, whole, tuple(part for part in parts if part is not None))
            rows //= 2

    def _counted(self, held: Form, axis: int, rows: int) -> Form:
        """Return x < n for the rows of a tile with n as what there is of these, a small number.

        It is the same for all parts.
        """
        found = plain_coordinate(held) if held.axes else ""
        if isinstance(found, str) or found[:2] != (axis, 1) or not is_loaded(found[2]):
            return held
        left = opaque(self.facts, "min", (-found[2], number(rows)))
        return self.facts.coordinate(axis) - opaque(self.facts, "max", (left, number(0)))

    def _part(
        self, form: Form, conjuncts: Sequence[Form], part: _Part
    ) -> tuple[Form, tuple[Form, ...]] | None:
        found = part.of(form)
        if any(atom.axes and atom.kind != "x" for atom in found.atoms()):
            return None
        return found, tuple(map(part.of, conjuncts))


@dataclass(frozen=True, slots=True)
class _Part:
    """One part: how forms of the whole tile read there."""

    splitter: Splitter
    conjuncts: tuple[Form, ...]
    axis: int
    rows: int
    number: int

    @property
    def first(self) -> int:
        return self.rows * self.number

    def of(self, form: Form) -> Form:
        """Return a form over the part."""
        return rewritten(self.splitter.facts, form, self._leaf)

    def _leaf(self, atom: Atom) -> Form | None:
        if atom.kind == "x" and atom.key == self.axis:
            return self.splitter.facts.coordinate(self.axis) + number(self.first)
        if atom.kind in ("div", "rem") and self.axis in atom.axes:
            return self._quotient(atom)
        if atom.kind == "promise" and atom.axes == frozenset((self.axis,)):
            return self._element(atom)
        return None

    def _quotient(self, atom: Atom) -> Form | None:
        """Return what a quotient or remainder of e + y is: y is never what makes it the next."""
        facts = self.splitter.facts
        dividend, divisor = map(self.of, atom.parts)
        y = facts.coordinate(self.axis)
        start, by = dividend - y, divisor.constant
        if start.axes or by is None or by <= 0 or by % self.rows:
            return None
        if facts.divisor(start) % self.rows or not self.splitter.not_negative(start):
            return None
        found = opaque(facts, atom.kind, (start, divisor))
        return found + y if atom.kind == "rem" else found

    def _element(self, atom: Atom) -> Form | None:
        """Return the number that a loaded tile is wherever the access looks at it in the part."""
        value, places, *_ = atom.key
        op, facts = value.op, self.splitter.facts
        access = None if op is None else self.splitter.loads(op)
        if access is None or len(shape_of(value.type)) != 1 or places != (self.axis,):
            return None
        pointers, mask = access
        address = facts.form(pointers)
        asked = () if mask is None else facts.conjuncts(mask)

        def along(form: Form) -> Form:  # the tile's own axis is this one of the access
            return rewritten(facts, form, lambda a: self._moved(a), lambda _: y)

        y = facts.coordinate(self.axis)
        if address is None or self.of(along(address)).axes:
            return None
        for held in map(along, asked):
            if held.axes and not (follows(held, self.conjuncts) and self._grows(held)):
                return None
            if not held.axes and not follows(held, self.conjuncts):
                return None
        key = value, (self.first,)
        return Form({(facts.atom("element", key),): 1})

    def _moved(self, atom: Atom) -> Form | None:
        return self.splitter.facts.coordinate(self.axis) if atom.kind == "x" else None

    def _grows(self, held: Form) -> bool:
        """Say whether a form over the part has its least value at the first row."""
        return all(
            coefficient > 0 and len(monomial) == 1 and monomial[0].kind == "x"
            for monomial, coefficient in self.of(held).terms.items()
            if any(atom.axes for atom in monomial)
        )


__all__ = ["Parts", "Splitter"]
