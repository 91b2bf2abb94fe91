"""Whether a mask is on everywhere, told by numbers: its comparisons at the elements that hold last.

A comparison `offsets < n` of offsets that go up along their axes holds for a whole tile if it does
for the last element, one that goes down if it does for the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
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
    shape = shape_of(comparison.type)
    ways = _ways(forms[0], len(shape))
    if ways is None or any(len(way) > 1 for way in ways):
        return None
    return tuple(extent - 1 if way == {1} else 0 for extent, way in zip(shape, ways, strict=True))


def _ways(form: Form, rank: int) -> list[set[int]] | None:
    """Return for each axis whether a form goes up (1), down (-1), or both; None if nobody knows.

    Quotients by a positive number go where the number divided goes, rows of a group of heads for
    example, and the smaller or larger of two where both do.
    """
    slopes, ways = [0] * rank, [set[int]() for _ in range(rank)]
    for monomial, coefficient in form.terms.items():
        if not any(atom.axes for atom in monomial):
            continue
        (atom, *others) = monomial
        if others:
            return None
        if atom.kind == "x":
            slopes[atom.key] += coefficient
            continue
        for part in _going_along(atom):
            inner = _ways(part, rank)
            if inner is None:
                return None
            for way, signs in zip(ways, inner, strict=True):
                way |= {sign if coefficient > 0 else -sign for sign in signs}
        if not _going_along(atom):
            return None
    for way, slope in zip(ways, slopes, strict=True):
        way |= {1 if slope > 0 else -1} if slope else set()
    return ways


def _going_along(atom: Atom) -> tuple[Form, ...]:
    """Return the forms with which an atom goes up and down; none if that is not known."""
    if atom.kind == "div":
        by = atom.parts[1].constant
        return atom.parts[:1] if by is not None and by > 0 else ()
    return atom.parts if atom.kind in ("min", "max") else ()


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
