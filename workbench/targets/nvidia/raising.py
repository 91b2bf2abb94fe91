"""From an access through pointers to a box of a tensor map: the plan, as plain data.

An access reads `base + T` where its mask is on, T a form linear in the tile's coordinates. A map
has a base, and for each axis a stride, an extent and the coordinate at which the box begins;
outside of the extents it reads zero. Everything of a map must be the same throughout a launch,
coordinates may be anything that a program computes. The plan finds both from T and the mask:

    x(d) < I + V, I the same in the launch, V not        extent I, coordinate -V
    what then is left of T and varies, by its factor t   t a multiple of an axis' stride: added to
                                                         that coordinate; else an axis of its own,
                                                         one of all that is loaded by factors of t
    x(d) < R, R known to the program alone (loaded)      extent B, coordinate B - R, of B elements
                                                         at most R; the way back is an axis beside
    a coordinate that is loaded, perhaps below 0         2^30 more: lifted
    rows that are places of several axes: walks.py       one window for each, a walked map
    a predicate of the whole access                      an axis of extent 1, coordinate 0 or 1

An axis in front of all takes away what was lifted: 2^30 steps of 2^34 - s elements are -s·2^30 in
the 64 bits of an address, s the sum of the strides of axes that were.

An index `(e + x) % M` (or a minimum, maximum, selection of e + x) is e + x inside of a region. If
the mask or the demand on what is loaded (analysis/demanded.py) says that nobody looks outside of
it, the region becomes a bound and the index e + x.

What hardware asks for and can be known at compile time is asked here: strides, base and the inner
coordinate are multiples of 16 bytes. The launch has to ask the rest of it: extents between 1 and
2^32, strides not below 0 and below 2^40 bytes, and `at_least_0`, forms that must not be negative:
coordinates of axes on which the author has no lower bound. There pointers read what lies below.

PTX ISA 9.0, cp.async.bulk.tensor; asked of H100 and H200: a box that begins in its inner axis at
no multiple of 16 bytes is an illegal instruction, everything else outside the extents reads as
zero. A box of which nothing lies inside of them still translates the address of the map's base: it
must be memory, so no base is laid in front of its array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, Monomial, all_atoms, number
from workbench.analysis.masks import always, bounds_of, follows, plain_coordinate
from workbench.analysis.ranges import FULL64, Interval
from workbench.analysis.transfer import opaque, rewritten
from workbench.targets.nvidia.box_plans import (
    UNBOUNDED,
    Axis,
    NotRaised,
    Plan,
    TileRead,
    is_loaded,
    loaded_in,
    shared,
)
from workbench.targets.nvidia.ops.tensors import OFFSETS
from workbench.targets.nvidia.walks import Walk, beside, in_reach, walk

#: Multiples of so many bytes; the most axes.
GRAIN, MOST_AXES = 16, 5
#: What is added to numbers that may be below 0; elements of which so many steps are 0 in 64 bits.
_LIFT, _AROUND = 1 << 30, 1 << 34
#: What is loaded and never as far counts along an axis of the tile.
_NEAR = 1 << 20
#: The least bytes between what loaded numbers name: those that no coordinate can have (below -2^30,
#: from UNBOUNDED on) lie 2^40 bytes away then, more than there are in one array.
_LEAST_APART = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """An access to raise.

    form: where it reads, in elements, the array's own atom included.
    conjuncts: forms below 0 where its mask is on.
    demanded: forms below 0 wherever anybody looks at what it gives; asked for when needed.
    never: says whether a form is known to be below 0 all over the tile.
    narrow: says whether a form is known to have 32 bits.
    known: the least and the greatest number that a form may be, whatever is loaded.
    pointers: names of the arguments that are arrays.
    words: says a form as the author would.
    """

    form: Form
    shape: tuple[int, ...]
    itemsize: int
    conjuncts: tuple[Form, ...]
    demanded: Callable[[], Iterable[Form]]
    pointers: Collection[str]
    words: Callable[[Form], str]
    never: Callable[[Form], bool] = lambda form: False
    narrow: Callable[[Form], bool] = lambda form: False
    known: Callable[[Form], Interval] = lambda form: FULL64
    looked_at: Callable[[int], str] = lambda axis: ""


def plan(facts: Affine, request: Request) -> Plan:
    """Return the box that an access reads; raises NotRaised if there is none."""
    try:
        return _Planner(facts, request).plan()
    except TileRead:
        raise
    except NotRaised:
        found = walk(facts, request.form, request.conjuncts, halves)
        if found is None or len(request.shape) != 2:
            raise
    return _Planner(facts, request, found).plan()


class _Planner:
    def __init__(self, facts: Affine, request: Request, walk: Walk | None = None) -> None:
        self.facts = facts
        self.request = request
        self.words = request.words
        self.shape = request.shape
        self.walk = walk
        #: Axes of the tile that are one of the map, or two.
        self.rank = [d for d in range(len(request.shape)) if walk is None or d != walk.axis]
        self.conjuncts = list(request.conjuncts if walk is None else walk.conjuncts)
        self.at_least_0: list[Form] = []
        self.dropped: list[Atom] = []
        #: The strides of axes whose coordinates are 2^30 more than they say.
        self.lifted: list[Form] = []
        #: Whether a lower bound says where the array begins, which may be in front of it.
        self.begins_later = False

    def plan(self) -> Plan:
        """Return the plan, step by step as the head of this file has it."""
        array, offsets = self._root(self.request.form if self.walk is None else self.walk.rest)
        offsets = self._without_regions(offsets)
        strides, start = self._linear(offsets)
        inner = self._inner(strides)
        bounds = self._bounds(inner, strides, start)
        coordinates = bounds.coordinates
        rest = start
        for d, coordinate in coordinates.items():
            rest = rest - strides[d] * coordinate
        near = [d for d in self.rank if d not in coordinates and d != inner]
        for d in near:  # what has no bound takes what is a multiple of its stride
            coordinates[d], rest = self._taken(rest, strides[d])
        base, moving = halves(rest)
        extra = self._grouped(moving, inner, coordinates)
        axes: list[Axis] = []
        more: list[Axis] = []
        for d in self.rank:
            found, base = self._axes(d, strides[d], coordinates[d], bounds, base)
            if d in near and self._may_be_below(found[-1]):
                found[-1] = self._lifted(found[-1])
            more += found[:-1]
            axes.append(found[-1])
        axes.sort(key=lambda axis: axis.axis == inner)
        more += self._beside(extra, bounds.guards)
        more = [*self._around(), *more]
        if bounds.extents.get(inner) is None and not axes[-1].bounded_below:
            taken = len(axes) + (0 if self.walk is None else len(self.walk.axes))
            more, axes[-1] = _merged(more, axes[-1], MOST_AXES - taken)
        axes = [*more, *axes] if self.walk is None else self._walked(self.walk, more, axes)
        every = range(len(self.shape))
        found = tuple(next(i for i, a in enumerate(axes) if a.axis == d) for d in every)
        self._ask(Form({(array,): 1}), base, axes)
        for axis in axes:
            if not (axis.bounded_below or axis.within):
                self.at_least_0.append(axis.coordinate)
        if self.begins_later or any(coefficient < 0 for coefficient in base.terms.values()):
            self.at_least_0.append(base)
        asked = tuple(dict.fromkeys(self.at_least_0))
        return Plan(array.key, base, tuple(axes), found, asked, tuple(self.dropped))

    def _walked(self, walk: Walk, more: list[Axis], axes: list[Axis]) -> list[Axis]:
        """Return the axes of a walked map: between the first and the last each has a window."""
        count = len(walk.axes) + len(more) - 1
        if len(axes) > 1 or count not in OFFSETS:
            raise NotRaised(f"its walk needs {count + 1 + len(axes)} axes")
        first, *places = walk.axes
        places[-1] = replace(places[-1], axis=walk.axis)
        held, asked = beside(more, count)
        self.at_least_0 += [*walk.at_least_0, *asked, *in_reach(places, count)]
        return [first, *held, *places, *axes]

    # -- the address ----------------------------------------------------------------------
    def _root(self, form: Form) -> tuple[Atom, Form]:
        roots = [
            m for m in form.terms
            if any(a.kind == "arg" and a.key in self.request.pointers for a in m)
        ]  # fmt: skip
        if len(roots) != 1 or len(roots[0]) != 1 or form.terms[roots[0]] != 1:
            raise NotRaised("its array is no argument of the kernel")
        return roots[0][0], form - Form({roots[0]: 1})

    def _without_regions(self, form: Form) -> Form:
        """Return the form with indices that are e + x where anybody looks written as e + x."""
        while True:
            opaques = [a for a in form.atoms() if a.axes and a.kind != "x"]
            if not opaques:
                return form
            atom = min(opaques, key=lambda a: a.order)
            inside, region, at_least_0 = self._region(atom)
            for held in region:
                if follows(held, self.conjuncts) or always(held, self.shape):
                    continue
                if not follows(held, self.request.demanded()) and not self.request.never(held):
                    self._refuse_region(atom, held)
                self.conjuncts.append(held)
            self.at_least_0 += at_least_0
            self.dropped.append(atom)

            def leaf(found: Atom, atom: Atom = atom, inside: Form = inside) -> Form | None:
                return inside if found is atom else None

            form = rewritten(self.facts, form, leaf)

    def _region(self, atom: Atom) -> tuple[Form, tuple[Form, ...], tuple[Form, ...]]:
        """Return e + x, what is below 0 where an atom is that, and what must not be negative."""
        one = number(1)
        if atom.kind == "rem":
            dividend, divisor = atom.parts
            if _is_plain(dividend) and not divisor.axes:
                # C's remainder of a negative number is another one than here.
                return dividend, (dividend - divisor,), (_without_coordinates(dividend),)
        elif atom.kind in ("min", "max"):
            for index, bound in (atom.parts, atom.parts[::-1]):
                if _is_plain(index) and not bound.axes:
                    below = index - bound if atom.kind == "min" else bound - index
                    return index, (below - one,), ()
        elif atom.kind == "select":
            *conditions, then, _ = atom.parts
            if _is_plain(then):
                return then, tuple(conditions), ()
        for inner in all_atoms(Form({(atom,): 1})):
            if inner.axes and inner.kind in ("promise", "moved", "value"):
                name = self.words(Form({(inner,): 1}))
                raise TileRead(f"its address reads {name}, a tile that is loaded or computed")
        raise NotRaised(f"its address has {self.words(Form({(atom,): 1}))}, no plain range")

    def _refuse_region(self, atom: Atom, held: Form) -> None:
        (axis,) = atom.axes or (0,)
        word = {"rem": "wrapped", "min": "clamped", "max": "clamped"}.get(atom.kind, "selected")
        by = self.request.looked_at(axis)
        raise NotRaised(
            f"indices {word} in {self.words(Form({(atom,): 1}))} are looked at"
            + (f" by {by}" if by else ", no mask of what is stored leaves them out")
        )

    def _linear(self, form: Form) -> tuple[list[Form], Form]:
        """Return the stride of each axis, and what has no coordinate."""
        strides = [number(0) for _ in self.shape]
        start = number(0)
        for monomial, coefficient in form.terms.items():
            moving = [a for a in monomial if a.axes]
            rest = Form({tuple(a for a in monomial if not a.axes): coefficient})
            if len(moving) > 1:
                raise NotRaised("its address is not linear in the coordinates of the tile")
            if moving:
                strides[moving[0].key] = strides[moving[0].key] + rest
            else:
                start = start + rest
        for d, stride in ((d, strides[d]) for d in self.rank):
            if varies(stride):
                raise NotRaised(
                    f"the stride of axis {d}, {self.words(stride)}, is not the same in all "
                    "programs and rounds, or nothing that a launch computes"
                )
            if stride.constant == 0:
                raise NotRaised(f"all elements along axis {d} lie in one place")
        return strides, start

    def _inner(self, strides: list[Form]) -> int:
        units = [d for d in self.rank if strides[d].constant == 1]
        if not units:
            words = " and ".join(self.words(strides[d]) for d in self.rank)
            raise NotRaised(f"neither stride is known to be 1: {words}")
        if len(units) > 1:
            raise NotRaised("two axes have a stride of 1")
        found = self.shape[units[0]] * self.request.itemsize
        if found % GRAIN:
            raise NotRaised(f"a row of the tile has {found} bytes, no multiple of {GRAIN}")
        return units[0]

    # -- the mask -------------------------------------------------------------------------
    def _bounds(self, inner: int, strides: Sequence[Form], start: Form) -> _Bounds:
        bounds = bounds_of(self.conjuncts, self.shape)
        for held, why in bounds.rest:
            if why == "couples axes":
                axes = " and ".join(map(str, sorted(held.axes)))
                raise NotRaised(f"its mask couples axes {axes}")
            if why == "scales a coordinate":
                raise NotRaised(f"its mask scales a coordinate: {self.words(held)} < 0")
            raise NotRaised("its mask is not made of comparisons of indices")
        found = _Bounds({}, {}, dict(bounds.lower), {}, bounds.predicates)
        for d in self.rank:
            upper = bounds.upper.get(d, ())
            loaded = [atom for n in upper for atom in loaded_in(halves(n)[1])]
            if loaded and not self._only_begins(strides[d], start, upper):
                self._may_be_ragged(d, inner, found, loaded[0])
                found.left[d] = upper[0]
                for n in upper[1:]:
                    found.left[d] = opaque(self.facts, "min", (found.left[d], n))
                continue
            self._bound(d, upper, found)
        return found

    def _bound(self, d: int, upper: Sequence[Form], found: _Bounds) -> None:
        """Give an axis the coordinate and extent that its bounds say."""
        coordinates, extents = found.coordinates, found.extents
        for n in upper:
            extent, varying = halves(n)
            if extent.constant is not None and extent.constant < 1:
                raise NotRaised(f"axis {d} has no bound that is the same throughout a launch")
            if extents.get(d) is None:
                coordinates[d], extents[d] = -varying, extent
            elif coordinates[d] != -varying:
                raise NotRaised(f"two bounds of axis {d} move differently")
            else:
                extents[d] = opaque(self.facts, "min", (extents[d], extent))
        for low in found.lower.get(d, ()):
            coordinates.setdefault(d, -halves(low)[1])
            if varies(low + coordinates[d]):
                raise NotRaised(f"the lower bound of axis {d} moves otherwise than the upper")

    def _only_begins(self, stride: Form, start: Form, upper: Sequence[Form]) -> bool:
        """Say whether what bounds hold that is loaded is where a tile begins, not in front of 0."""
        first, *others = (-halves(n)[1] for n in upper)
        moved = (stride * first).terms
        return (
            all(other == first for other in others)
            and self.request.known(first)[0] >= 0
            and self.request.narrow(first)
            and all(start.terms.get(monomial) == factor for monomial, factor in moved.items())
        )

    def _may_be_ragged(self, d: int, inner: int, found: _Bounds, loaded: Atom) -> None:
        """Raise NotRaised where elements along an axis cannot be left out one by one."""
        name = self.words(Form({(loaded,): 1}))
        if d == inner:
            raise NotRaised(f"its bound depends on {name}, which is read from memory")
        if found.lower.get(d):
            raise NotRaised(f"axis {d} is bounded below, and above by {name}, which is loaded")

    def _ragged(self, d: int, stride: Form, coordinate: Form, left: Form) -> list[Axis]:
        """Return the axes of one of which the program says how many elements are `left`.

        The box begins so far before the end of an extent, its own, as elements are to be read. The
        axis beside, in front of the other, goes back to where they lie.
        """
        extent = number(self.shape[d])
        some = opaque(self.facts, "min", (left, extent))
        some = opaque(self.facts, "max", (some, number(0)))
        beside = Axis(stride, number(UNBOUNDED), coordinate + some - extent, told=())
        # Lifted, neither end may leave the extent. All of the box is read from where it begins.
        self.at_least_0.append(coordinate + number(_NEAR))
        self.at_least_0.append(number(UNBOUNDED - _LIFT) - coordinate)
        told = (coordinate, coordinate + left)
        axis = Axis(stride, extent, extent - some, d, within=True, told=told)
        return [self._lifted(beside), axis]

    # -- coordinates ----------------------------------------------------------------------
    def _taken(self, rest: Form, stride: Form) -> tuple[Form, Form]:
        """Return how many strides what varies moves by, as far as it is a multiple, and the rest.

        Of what is loaded only what is never far: a remainder, perhaps below 0.
        """
        taken = number(0)
        for _, factor in _quotients(halves(rest)[1], stride):
            least, most = self.request.known(factor) if is_loaded(factor) else (0, 0)
            if varies(factor) and least > -_NEAR and most < _NEAR:
                taken = taken + factor
        return taken, rest - stride * taken

    def _grouped(
        self, moving: Form, inner: int, coordinates: dict[int, Form]
    ) -> list[tuple[Form, Form]]:
        """Give what moves to the inner axis if that has no bound, else to axes of its own.

        Returns (stride, coordinate) of those; what moves by equal strides shares one, and what is
        loaded that of which its own stride is a multiple.
        """
        groups: dict[Monomial, Form] = {}
        for monomial, coefficient in moving.terms.items():
            key = tuple(a for a in monomial if _atom_varies(a))
            rest = Form({tuple(a for a in monomial if not _atom_varies(a)): coefficient})
            groups[key] = groups.get(key, number(0)) + rest
        own: Form | None = None if inner in coordinates else number(0)
        extra: dict[Form, Form] = {}
        for key, stride in groups.items():
            if own is not None and stride.constant is not None and not is_loaded(Form({key: 1})):
                own = own + stride * Form({key: 1})
                continue
            sign = -1 if (stride.constant or 0) < 0 else 1
            stride = stride.scaled(sign)
            extra[stride] = extra.get(stride, number(0)) + Form({key: sign})
        if own is not None:
            coordinates[inner] = own
        return shared([(stride, o) for stride, o in extra.items() if o.terms])

    def _beside(self, extra: Iterable[tuple[Form, Form]], guards: tuple[Form, ...]) -> list[Axis]:
        """Return axes of (stride, coordinate) that are none of the tile's, and of predicates."""
        found: list[Axis] = []
        for stride, coordinate in extra:
            axis, guards = self._guarded(Axis(stride, number(UNBOUNDED), coordinate), guards)
            found.append(self._beyond(axis))
        if guards:
            one = number(1)
            live = opaque(self.facts, "select", (*guards, number(0), one))
            found.append(Axis(number(max(1, GRAIN // self.request.itemsize)), one, live))
        return found

    def _guarded(self, axis: Axis, guards: tuple[Form, ...]) -> tuple[Axis, tuple[Form, ...]]:
        """Return an axis bounded by what predicates say of its coordinate, and the others."""
        left: list[Form] = []
        for held in guards:
            same, varying = halves(held)
            if varying == axis.coordinate:  # o + c < 0
                extent = -same
                if axis.extent.constant != UNBOUNDED:
                    extent = opaque(self.facts, "min", (axis.extent, extent))
                axis = replace(axis, extent=extent)
            elif varying == -axis.coordinate and same.constant == -1:  # -o - 1 < 0
                axis = replace(axis, bounded_below=True)
            else:
                left.append(held)
        return axis, tuple(left)

    def _beyond(self, axis: Axis) -> Axis:
        """Return an axis lifted if its coordinate is loaded, and may be below 0."""
        loaded, unbounded = is_loaded(axis.coordinate), axis.extent.constant == UNBOUNDED
        if not loaded or axis.bounded_below or not unbounded or axis.stride.constant == 0:
            return axis
        coordinate = axis.coordinate
        if not self.request.narrow(coordinate):
            coordinate = opaque(self.facts, "max", (coordinate, number(-_LIFT - 1)))
            coordinate = opaque(self.facts, "min", (coordinate, number(_LIFT)))
        self.at_least_0.append(axis.stride - number(-(-_LEAST_APART // self.request.itemsize)))
        told = (axis.coordinate, axis.extent)
        return self._lifted(replace(axis, coordinate=coordinate, told=told))

    def _may_be_below(self, axis: Axis) -> bool:
        """Say whether an axis begins at what is loaded, and perhaps below 0."""
        loaded = not axis.within and is_loaded(axis.coordinate)
        return loaded and self.request.known(axis.coordinate)[0] < 0

    def _lifted(self, axis: Axis) -> Axis:
        """Return an axis that begins 2^30 steps later."""
        self.lifted.append(axis.stride)
        told = (axis.coordinate, axis.extent) if axis.told is None else axis.told
        lifted = axis.coordinate + number(_LIFT)
        return replace(axis, coordinate=lifted, within=True, told=told)

    def _around(self) -> list[Axis]:
        """Return the axis that takes away what was lifted, if anything was."""
        if not self.lifted:
            return []
        stride = number(_AROUND)
        for lifted in self.lifted:
            stride = stride - lifted
        return [Axis(stride, number(UNBOUNDED), number(_LIFT), within=True, told=())]

    def _axes(
        self, d: int, stride: Form, coordinate: Form, bounds: _Bounds, base: Form
    ) -> tuple[list[Axis], Form]:
        """Return the axes for an axis of the tile, its own the last, and the base for them."""
        if d in bounds.left:
            return self._ragged(d, stride, coordinate, bounds.left[d]), base
        extent, lower = bounds.extents.get(d), bounds.lower
        if extent is not None:
            start = _origin(base, stride, extent)
            base, coordinate, extent = (
                base - stride * start, coordinate + start, extent + start,
            )  # fmt: skip
        bounded = d in lower
        if bounded:
            low, *others = (held + coordinate for held in lower[d])
            for other in others:
                low = opaque(self.facts, "max", (low, other))
            base, coordinate = base + stride * low, coordinate - low
            self.begins_later |= bool(base.terms)
            extent = None if extent is None else extent - low
        if extent is None:
            extent = number(UNBOUNDED)
        elif is_loaded(coordinate) and not self.request.narrow(coordinate):
            coordinate = opaque(self.facts, "min", (coordinate, extent))
        return [Axis(stride, extent, coordinate, d, bounded)], base

    # -- what hardware asks for -----------------------------------------------------------
    def _ask(self, array: Form, base: Form, axes: list[Axis]) -> None:
        size, facts = self.request.itemsize, self.facts
        if len(axes) > MOST_AXES:
            raise NotRaised(f"it needs {len(axes)} axes, a tensor map has {MOST_AXES}")
        for axis in axes[:-1]:
            if (axis.stride.constant or 0) < 0:
                raise NotRaised(f"the stride {self.words(axis.stride)} is negative")
            self._aligned(
                facts.divisor(axis.stride) * size, f"the stride {self.words(axis.stride)}"
            )
        address = facts.divisor(base + array)
        self._aligned(address * size, "where its array begins")
        inner = axes[-1].coordinate
        self._aligned(facts.divisor(inner) * size, f"its inner coordinate {self.words(inner)}")

    def _aligned(self, found: int, what: str) -> None:
        if found % GRAIN:
            raise NotRaised(f"{what} is not known to be a multiple of {GRAIN} bytes")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a mask says by axis of a tile: coordinates and extents of those with a bound.

    left: how many elements are read of the axes of which only the program knows.
    guards: predicates of the whole access, forms that are below 0.
    """

    coordinates: dict[int, Form]
    extents: dict[int, Form]
    lower: dict[int, tuple[Form, ...]]
    left: dict[int, Form]
    guards: tuple[Form, ...]


def _merged(more: list[Axis], inner: Axis, room: int) -> tuple[list[Axis], Axis]:
    """Return axes that have room, and the inner one, without an end, that took what had none."""
    kept: list[Axis] = []
    over = len(more) - room
    for axis in more:
        plain = axis.extent.constant == UNBOUNDED and not (axis.bounded_below or axis.within)
        if over > 0 and plain and not is_loaded(axis.coordinate):
            inner = replace(inner, coordinate=inner.coordinate + axis.stride * axis.coordinate)
            over -= 1
        else:
            kept.append(axis)
    return kept, inner


# -- forms ------------------------------------------------------------------------------------
def varies(form: Form) -> bool:
    """Say whether a form may differ within a launch, or is nothing that a launch computes."""
    return any(_atom_varies(atom) for atom in form.atoms())


def _atom_varies(atom: Atom) -> bool:
    """A launch adds, multiplies, takes minima and divides by numbers, all of it of arguments."""
    if atom.kind == "div" and (atom.parts[1].constant or 0) <= 0:
        return True
    if atom.kind in ("div", "min", "max"):
        return any(map(varies, atom.parts))
    return atom.kind != "arg"


def halves(form: Form) -> tuple[Form, Form]:
    """Return what is the same throughout a launch, and the rest."""
    same = {m: c for m, c in form.terms.items() if not any(map(_atom_varies, m))}
    return Form(same), Form({m: c for m, c in form.terms.items() if m not in same})


def _is_plain(form: Form) -> bool:
    """Say whether a form is e + x(d)."""
    if not form.axes:
        return False
    found = plain_coordinate(form)
    return not isinstance(found, str) and found[1] == 1


def _without_coordinates(form: Form) -> Form:
    return Form({m: c for m, c in form.terms.items() if not any(a.axes for a in m)})


def _quotients(form: Form, stride: Form) -> Iterator[tuple[Monomial, Form]]:
    """Yield (monomial, what it is divided by a stride) where the stride, one monomial, divides."""
    if len(stride.terms) != 1:
        return
    ((by, scale),) = stride.terms.items()
    for monomial, coefficient in form.terms.items():
        left = Counter(monomial)
        left.subtract(by)
        if coefficient % scale == 0 and min(left.values(), default=0) >= 0:
            rest = tuple(sorted(left.elements(), key=lambda atom: atom.order))
            yield monomial, Form({rest: coefficient // scale})


def _origin(base: Form, stride: Form, extent: Form) -> Form:
    """Return by how many strides the base lies behind where the extent is counted from.

    With a mask x < N - e the array begins e elements before the base: its extent is N from there.
    A number alone says nothing.
    """
    found, constant = number(0), number(0)
    for _, factor in _quotients(base, stride):
        ((monomial, coefficient),) = factor.terms.items()
        if extent.terms.get(monomial) == -coefficient:
            if monomial:
                found = found + factor
            else:
                constant = factor
    return found + constant if found.terms else found
