"""Rows of a tile that are places of several axes: what `//` and `%` make of one index.

A convolution as a product has its results as rows. Row i = e + x of P rows of Q results is

    i % Q      i // Q % P      i // (P * Q)

its *digits*: each counts on where the one before begins anew. What is read lies at a place of each
digit, s·digit + a, where the mask says that this is inside of the image:

    0 <= s·digit + a < H       a = first + offset, first the same in the launch, offset not

which is what a walked tensor map reads (ops/tensors.py): a window of so many places, s apart, from
`first` on, in an axis of H elements. The digit that ends nowhere is a coordinate as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, Monomial, number
from workbench.analysis.masks import plain_coordinate
from workbench.analysis.transfer import opaque
from workbench.targets.nvidia.box_plans import UNBOUNDED, Axis, NotRaised, Window
from workbench.targets.nvidia.ops.tensors import CORNERS, OFFSETS

#: Returns what of a form is the same throughout a launch, and the rest.
Halves = Callable[[Form], tuple[Form, Form]]


@dataclass(frozen=True, slots=True)
class Digit:
    """`dividend // unit % count`, without end if there is no count."""

    dividend: Form
    unit: Form
    count: Form | None


@dataclass(frozen=True, slots=True)
class Walk:
    """The axes of a map along which rows of a tile go, from the outermost inwards.

    axis: the tile's. at_least_0: forms that must not be negative.
    rest: what is left of the address. conjuncts: what is left of the mask.
    """

    axis: int
    axes: tuple[Axis, ...]
    at_least_0: tuple[Form, ...]
    rest: Form
    conjuncts: tuple[Form, ...]


def walk(facts: Affine, form: Form, conjuncts: Iterable[Form], halves: Halves) -> Walk | None:
    """Return how an address walks along an axis of its tile; None if it divides no index.

    (A remainder alone is a row that wraps, of which raising.py knows more.) Raises NotRaised where
    its digits make no walk.
    """
    found = [digit_of(a) for a in form.atoms() if a.axes and a.kind in ("div", "rem")]
    known = [digit for digit in found if digit is not None]
    if all(digit.unit == number(1) for digit in known):
        return None
    digits = _chain(known)
    (axis,) = digits[0].dividend.axes
    walker = _Walker(facts, halves, axis, digits)
    return walker.walk(form, [*conjuncts])


def digit_of(atom: Atom) -> Digit | None:
    """Return the digit that an atom is, if it is one."""
    if atom.kind not in ("div", "rem"):
        return None
    inner, by = atom.parts
    if by.axes:
        return None
    found = plain_coordinate(inner)
    if not isinstance(found, str):
        before = Digit(inner, number(1), None) if found[1] == 1 else None
    else:
        terms = [*inner.terms.items()]
        named = len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1
        before = digit_of(terms[0][0][0]) if named else None
    if before is None:
        return None
    fewer = None if before.count is None else quotient(before.count, by)
    if before.count is not None and fewer is None:
        return None
    if atom.kind == "rem":
        return replace(before, count=by)
    return replace(before, unit=before.unit * by, count=fewer)


def quotient(form: Form, by: Form) -> Form | None:
    """Return a form divided by a monomial, None where that is none."""
    if len(by.terms) != 1:
        return None
    ((divisor, scale),) = by.terms.items()
    found: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        left = [*monomial]
        if coefficient % scale or any(left.count(a) < divisor.count(a) for a in divisor):
            return None
        for atom in divisor:
            left.remove(atom)
        found[tuple(left)] = coefficient // scale
    return Form(found)


def _chain(known: Iterable[Digit]) -> list[Digit]:
    """Return digits of one dividend, each of which counts on where the next one begins anew.

    The outermost, put before them if it is missing, has no end.
    """
    digits = [*dict.fromkeys(known)]
    if len({digit.dividend for digit in digits}) > 1:
        raise NotRaised("its address divides several indices")
    units = {digit.unit: digit for digit in digits}
    found: list[Digit] = []
    unit = number(1)
    while unit in units:
        digit = units.pop(unit)
        found.insert(0, digit)
        if digit.count is None:
            break
        unit = digit.unit * digit.count
    if units:
        raise NotRaised("its address divides an index by what does not follow on each other")
    if found[0].count is not None:
        found.insert(0, Digit(found[0].dividend, unit, None))
    return found


class _Walker:
    def __init__(self, facts: Affine, halves: Halves, axis: int, digits: list[Digit]) -> None:
        self.facts = facts
        self.halves = halves
        self.axis = axis
        self.digits = digits
        self.at_least_0: list[Form] = []

    def walk(self, form: Form, conjuncts: list[Form]) -> Walk:
        strides, rest = self._linear(form)
        bounds: dict[Digit, list[tuple[Form, Form]]] = {digit: [] for digit in self.digits}
        left: list[Form] = []
        for held in conjuncts:
            if self.axis not in held.axes:
                left.append(held)
                continue
            factors, other = self._linear(held)
            if len(factors) != 1:
                raise NotRaised("its mask couples places")
            ((digit, factor),) = factors.items()
            bounds[digit].append((factor, other))
        axes: list[Axis] = []
        self.at_least_0.append(_without_coordinates(self.digits[0].dividend))
        for digit in self.digits:
            stride = strides.get(digit, number(0))
            axis, moved = self._axis(digit, stride, bounds[digit])
            rest = rest - axis.stride * moved
            axes.append(axis)
        return Walk(self.axis, tuple(axes), tuple(self.at_least_0), rest, tuple(left))

    def _linear(self, form: Form) -> tuple[dict[Digit, Form], Form]:
        """Return the factor of each digit, and what has none."""
        factors: dict[Digit, Form] = {}
        rest = number(0)
        for monomial, coefficient in form.terms.items():
            moving = [a for a in monomial if self.axis in a.axes]
            other = Form({tuple(a for a in monomial if a not in moving): coefficient})
            if not moving:
                rest = rest + other
                continue
            digit = digit_of(moving[0])
            if len(moving) > 1 or digit not in self.digits or other.axes:
                raise NotRaised("it is not linear in the places of its rows")
            factors[digit] = factors.get(digit, number(0)) + other
        return factors, rest

    def _axis(
        self, digit: Digit, stride: Form, bounds: list[tuple[Form, Form]]
    ) -> tuple[Axis, Form]:
        """Return the axis of a digit, and how far its places lie behind s·digit."""
        step, lower, upper = _sides(bounds)
        each = quotient(stride, step)
        if each is None:
            raise NotRaised("places of its mask are not those of its address")
        if any(self.halves(f)[1].terms for f in (step, each, digit.unit, digit.count) if f):
            raise NotRaised("its rows are not the same places in all programs and rounds")
        # -(s·digit + a) - 1 < 0, s·digit + a - H < 0
        if lower is not None:
            moved = -lower - number(1)
        else:
            moved = self.halves(upper[0])[1] if upper else number(0)
        extent = self._extent(moved, upper)
        start = _without_coordinates(digit.dividend)
        place = opaque(self.facts, "div", (start, digit.unit))
        if digit.count is None:
            if step != number(1):
                raise NotRaised("its mask scales the index of an image")
            end = number(UNBOUNDED) if extent is None else extent
            return Axis(each, end, place + moved, bounded_below=lower is not None), moved
        if extent is None and lower is not None:
            raise NotRaised("its mask bounds a place below, but not above")
        first, offset = self.halves(moved)
        at = step * opaque(self.facts, "rem", (place, digit.count)) + first
        window = Window(first, digit.count, step, offset)
        end = digit.count if extent is None else extent
        return Axis(each, end, at, bounded_below=True, window=window), moved

    def _extent(self, moved: Form, upper: Iterable[Form]) -> Form | None:
        """Return how far places go by bounds of a mask, None: without end."""
        extent: Form | None = None
        for other in upper:
            end, varying = self.halves(moved - other)
            if varying.terms:
                raise NotRaised("bounds of a place move differently")
            extent = end if extent is None else opaque(self.facts, "min", (extent, end))
        return extent


def _sides(bounds: Iterable[tuple[Form, Form]]) -> tuple[Form, Form | None, list[Form]]:
    """Return s of bounds ±s·digit + r < 0, r of the one below, and of those above."""
    steps: set[Form] = set()
    lower: set[Form] = set()
    upper: list[Form] = []
    for factor, other in bounds:
        if next(iter(factor.terms.values())) < 0:
            steps.add(-factor)
            lower.add(other)
        else:
            steps.add(factor)
            upper.append(other)
    if len(steps) > 1 or len(lower) > 1:
        raise NotRaised("its mask bounds a place in several ways")
    return next(iter(steps), number(1)), next(iter(lower), None), upper


def beside(axes: Iterable[Axis], windows: int) -> tuple[list[Axis], list[Form]]:
    """Return axes of one element as windows of one place, offset to where they begin.

    `windows`: how many the map has in all. With what must not be negative.
    """
    found: list[Axis] = []
    asked: list[Form] = []
    for axis in axes:
        extent, most = axis.extent, OFFSETS[windows] - 1
        if extent == number(UNBOUNDED):
            extent, most = number(CORNERS[windows]), CORNERS[windows] - 1
        zero, one = number(0), number(1)
        asked += [axis.coordinate, number(most) - axis.coordinate]
        told = axis.told if axis.told is not None else (axis.coordinate, axis.extent)
        window = Window(zero, one, one, axis.coordinate)
        moved = replace(axis, extent=extent, coordinate=zero, within=True, told=told)
        found.append(replace(moved, window=window))
    return found, asked


def in_reach(axes: Iterable[Axis], windows: int) -> list[Form]:
    """Return what must not be negative, or offsets do not fit an instruction."""
    most = number(OFFSETS[windows] - 1)
    offsets = [axis.window.offset for axis in axes if axis.window is not None]
    return [held for offset in offsets if offset.terms for held in (offset, most - offset)]


def _without_coordinates(form: Form) -> Form:
    return Form({m: c for m, c in form.terms.items() if not any(a.axes for a in m)})
