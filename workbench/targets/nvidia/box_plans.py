"""What an access through pointers is as a box of a tensor map: plans, as data (raising.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from workbench.analysis.forms import Atom, Form, all_atoms

#: Extent of an axis without a bound: more than any coordinate, and the largest that was tried.
UNBOUNDED = 0x7FFF0000


class NotRaised(Exception):  # noqa: N818 - an answer, shown as a remark
    """Why an access is none of a tensor map, in words."""


class TileRead(NotRaised):
    """An address that depends on a tile that is loaded or computed."""


@dataclass(frozen=True, slots=True)
class Window:
    """Where the places of an axis of a walked map are: the first, how many, how far apart.

    offset: how far behind a place lies what is read.
    """

    first: Form
    count: Form
    step: Form
    offset: Form


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a map; `axis` is that of the tile, None where the box has one element.

    bounded_below: the author's mask is off below the array.
    within: the coordinate has 32 bits and is not below 0, by how it is made.
    told: where it begins and ends as the author has it, if that is something else; () where the
        author knows no such axis.
    window: of an axis of a walked map, but for the first and the last.
    """

    stride: Form
    extent: Form
    coordinate: Form
    axis: int | None = None
    bounded_below: bool = False
    within: bool = False
    told: tuple[Form, ...] | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A box of a map: `base` in elements from the argument `root`; axes from outer to inner.

    places: for each axis of the tile its place among the axes.
    at_least_0: forms that must not be negative in any program.
    dropped: indices, as they were, that only their region is left of.
    parts: coordinates of the boxes that the tile is, where it is several, one behind the other.
    """

    root: str
    base: Form
    axes: tuple[Axis, ...]
    places: tuple[int, ...]
    at_least_0: tuple[Form, ...]
    dropped: tuple[Atom, ...]
    parts: tuple[tuple[Form, ...], ...] = ()

    @property
    def coordinates(self) -> tuple[tuple[Form, ...], ...]:
        """Where each box begins."""
        return self.parts or (tuple(axis.coordinate for axis in self.axes),)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of a walked map; () of another."""
        return tuple(axis.window for axis in self.axes if axis.window is not None)

    @property
    def begins(self) -> Iterator[tuple[Axis, Form]]:
        """Each axis with its coordinate in each box."""
        return (pair for start in self.coordinates for pair in zip(self.axes, start, strict=True))

    @property
    def told(self) -> Iterator[tuple[Form, Form]]:
        """Where each axis that the author knows begins and ends, of the first box."""
        for axis in self.axes:
            if axis.told is None:
                yield axis.coordinate, axis.extent
            elif axis.told:
                start, end = axis.told
                yield start, end

    def box(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a box for a tile of a shape."""
        found = [1 if axis.axis is None else shape[axis.axis] for axis in self.axes]
        found[min(self.places)] //= len(self.coordinates)
        return tuple(found)


def together(plans: Sequence[Plan], axis: int) -> Plan:
    """Return the plan of a tile whose parts along an axis have plans; raises NotRaised."""
    first = plans[0]
    if first.places[axis] != min(first.places):
        raise NotRaised("its parts do not lie one behind the other")

    def same(found: Plan) -> tuple[object, ...]:
        axes = tuple((a.stride, a.extent, a.bounded_below, a.within) for a in found.axes)
        return found.root, found.base, found.places, axes

    if any(same(found) != same(first) for found in plans):
        raise NotRaised("its parts are not boxes of one map")
    asked = dict.fromkeys(held for found in plans for held in found.at_least_0)
    dropped = dict.fromkeys(atom for found in plans for atom in found.dropped)
    parts = tuple(one for found in plans for one in found.coordinates)
    return replace(first, at_least_0=tuple(asked), dropped=tuple(dropped), parts=parts)


def loaded_in(form: Form) -> list[Atom]:
    """Return the atoms of a form that stand for what is read from memory, or computed of it."""
    return [a for a in all_atoms(form) if a.kind in ("value", "element", "promise", "moved")]


def is_loaded(form: Form) -> bool:
    """Say whether a form stands for what is read from memory, or computed of it."""
    return bool(loaded_in(form))


def shared(extra: list[tuple[Form, Form]]) -> list[tuple[Form, Form]]:
    """Return (stride, coordinate), loaded ones whose strides are multiples of one stride as one."""
    found: list[tuple[Form, Form]] = []
    for stride, coordinate in extra:
        for i, (other, taken) in enumerate(found):
            least = min(stride, other, key=lambda one: abs(_scale(one)))
            least = least.scaled(1 if _scale(least) > 0 else -1)
            times, more = (_scale(one) // _scale(least) for one in (stride, other))
            same = least.scaled(times) == stride and least.scaled(more) == other
            if same and is_loaded(coordinate) and is_loaded(taken):
                found[i] = least, coordinate.scaled(times) + taken.scaled(more)
                break
        else:
            found.append((stride, coordinate))
    return found


def _scale(stride: Form) -> int:
    """Return by what a stride multiplies its first number."""
    return next(iter(stride.terms.values()), 1)
