"""Whether a mask is on everywhere, told by numbers: its comparisons at the elements that hold last.

A comparison `offsets < n` of offsets that go up along their axes holds for a whole tile if it does
for the last element, one that goes down if it does for the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from workbench.analysis.affine import Affine
from workbench.ir import Builder, Op, Place, Value, shape_of


def comparisons(mask: Value) -> Iterator[Value]:
    """Yield what has to hold everywhere for a mask to be on everywhere."""
    parts = mask.op.holds_with() if mask.op is not None else None
    if parts is None:
        yield mask
    else:
        for value in parts:
            yield from comparisons(value)


def corner(comparison: Value, facts: Affine) -> Place | None:
    """Return the element of a comparison that holds last, if one does."""
    forms = facts.conjuncts(comparison)
    if len(forms) != 1:
        return None
    (form,) = forms
    place = [0] * len(shape_of(comparison.type))
    slopes = [0] * len(place)
    for monomial, coefficient in form.terms.items():
        if not any(atom.axes for atom in monomial):
            continue
        (atom, *others) = monomial
        if others or atom.kind != "x":
            return None
        slopes[atom.key] += coefficient
    for axis, extent in enumerate(shape_of(comparison.type)):
        place[axis] = extent - 1 if slopes[axis] > 0 else 0
    return tuple(place)


def is_known(value: Value, inside: Collection[int]) -> bool:
    """Say whether an element of a value can be computed before the ops `inside`."""
    if not shape_of(value.type) and id(value.op) not in inside:
        return True
    reads = _reads(value.op, (0,) * len(shape_of(value.type)))
    return reads is not None and all(is_known(operand, inside) for operand, _ in reads)


class Elements:
    """Writes single elements of tiles as numbers, each once.

    `values`: what values have become. `inside`: ops that come later, whose numbers are not there.
    """

    def __init__(
        self, builder: Builder, values: Mapping[Value, Value], inside: Collection[int] = ()
    ) -> None:
        self.builder = builder
        self.values = values
        self.inside = inside
        self._written: dict[tuple[Value, Place], Value] = {}

    def at(self, value: Value, place: Place) -> Value:
        """Return one element of a tile, as a number."""
        known = self._written.get((value, place))
        if known is None:
            known = self._written[value, place] = self._element(value, place)
        return known

    def _element(self, value: Value, place: Place) -> Value:
        op = value.op
        # A constant is written where it is used, like every constant.
        before = id(op) not in self.inside and (op is None or op.element_from(place) != ())
        if before and not shape_of(value.type):
            return self.values.get(value, value)
        reads = _reads(op, place)
        assert op is not None
        assert reads is not None
        given = [self.at(v, where) for v, where in reads]
        if op.element_from(place) is None:
            made: Op | Value = op.duplicate(given)
        else:
            made = op.element(place, given)
        if isinstance(made, Value):
            return made
        return self.builder.insert(made.changed(layouts=None)).results[0]


def _reads(op: Op | None, place: Place) -> tuple[tuple[Value, Place], ...] | None:
    """Return the elements from which one of the op's can be computed again; None if it cannot."""
    if op is None or not op.pure or op.regions:
        return None
    reads = op.element_from(place)
    if reads is None and not any(shape_of(v.type) for v in (*op.results, *op.operands)):
        return tuple((v, ()) for v in op.operands)
    return reads
