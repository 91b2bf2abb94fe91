"""What each op makes of its operands' forms; the forms themselves are explained in affine.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd, lcm, prod
from typing import Any, Protocol

from workbench.analysis.forms import Atom, Form, Monomial, all_atoms, number
from workbench.ir import I32, I64, Op, Pointer, Scalar, Value, element_of, shape_of
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    ConvertLayout,
    Elementwise,
    ExpandDims,
    Iota,
    NumPrograms,
    ProgramId,
    Promise,
    Reshape,
    Select,
    Splat,
    Transpose,
)
from workbench.ops.numbers import truncated_quotient, truncated_remainder

#: Products of sums with more terms than this say nothing that anybody asks for.
_MOST_TERMS = 64
#: Numbers of 64 bits that count elements of arrays have smaller factors than this.
_LARGEST_FACTOR = 1 << 33
Rename = Callable[[int], Form]

#: What atoms of two known numbers are.
_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "div": truncated_quotient,
    "rem": truncated_remainder,
    "min": min,
    "max": max,
}


class Forms(Protocol):
    """What a rule asks of the forms of a module (`Affine`)."""

    @property
    def tiles(self) -> bool:
        """Whether opaque tiles are atoms of their own."""
        ...

    @property
    def promises(self) -> bool:
        """Whether what was promised of a tile stands beside its form."""
        ...

    def form(self, value: Value) -> Form | None:
        """Return the value's form, in elements for pointers; None if it has none."""
        ...

    def divisor(self, form: Form) -> int:
        """Return a number that divides the form's value for all coordinates (0 has all)."""
        ...

    def conjuncts(self, mask: Value) -> tuple[Form, ...]:
        """Return forms that are all below 0 exactly where a mask is on."""
        ...

    def atom(self, kind: str, key: Any, axes: frozenset[int] = frozenset()) -> Atom:
        """Return the one atom of this name."""
        ...

    def promised(self, value: Value, divisor: int, unwrapped: Form | None = None) -> Form:
        """Return the form of an unknown that `divisor` divides."""
        ...

    def unknown(self, value: Value, divisor: int = 1, unwrapped: Form | None = None) -> Form:
        """Return the form of a tile of which only that `divisor` divides all elements is known."""
        ...

    def also(self, atom: Atom, renamed: Atom, move: Callable[[Form], Form]) -> None:
        """Let what is known of an atom hold of its other name too; `move` renames coordinates."""
        ...

    def coordinate(self, axis: int) -> Form:
        """Return the coordinate along an axis of the tile."""
        ...


def counts(element: Any) -> bool:
    """Say whether values of an element type have forms: wide integers and pointers."""
    return isinstance(element, Pointer) or (
        isinstance(element, Scalar) and element.kind in ("int", "index") and element.bits >= 32
    )


def may_have_form(value: Value) -> bool:
    """Say whether a value is of a type that has forms: none that stands for copies or buffers."""
    token = type(value.type).__name__ in ("Token", "Shared")
    return not token and counts(element_of(value.type))


# -- arithmetic -------------------------------------------------------------------------------
def _elementwise(self: Forms, op: Elementwise) -> Form | None:
    element = element_of(op.result.type)
    if not counts(element) or op.row.compares:
        return None
    forms = [self.form(v) for v in op.inputs]
    if any(f is None for f in forms):
        return None
    a, b = forms[0], forms[-1]
    assert a is not None
    assert b is not None
    if op.function in ("div", "rem", "min", "max"):
        return opaque(self, op.function, (a, b))
    exact = _polynomial(op.function, a, b)
    if exact is None or op.no_wrap or not _may_wrap(element, (a, b, exact)):
        return exact
    # It may wrap, then it is no polynomial; a power of two that divides it still does.
    if not shape_of(op.result.type):
        return self.promised(op.result, 1, exact)
    return self.unknown(op.result, 1, exact) if self.tiles else None


def _may_wrap(element: Any, forms: Iterable[Form]) -> bool:
    """Say whether what is computed of forms, and is not known to fit its type, is taken to wrap.

    Of 64 bits with factors that no array needs: multipliers of hashes, bits shifted to the top.
    """
    if element == I64:
        return any(abs(c) >= _LARGEST_FACTOR for form in forms for c in form.terms.values())
    return element == I32


def _polynomial(function: str, a: Form, b: Form) -> Form | None:
    match function:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul" if len(a.terms) * len(b.terms) <= _MOST_TERMS:
            return a * b
        case "neg":
            return a.scaled(-1)
        case "shl" if b.constant is not None and 0 <= b.constant < 63:
            return a.scaled(1 << b.constant)
        case _:
            return None


def opaque(self: Forms, kind: str, parts: tuple[Form, ...]) -> Form:
    """Return the form of a quotient, remainder, smaller or larger number, or of a selected one."""
    if kind == "select":
        *conditions, then, otherwise = parts
        known = [c.constant for c in conditions]
        if then == otherwise or all(c is not None and c < 0 for c in known):
            return then
        if any(c is not None and c >= 0 for c in known):
            return otherwise
    else:
        a, b = parts
        x, y = a.constant, b.constant
        if x is not None and y is not None and y:
            return number(_NUMBERS[kind](x, y))
        # A sum of multiples has no remainder, whichever way quotients are rounded.
        if kind in ("div", "rem") and y and all(c % y == 0 for c in a.terms.values()):
            return Form({m: c // y for m, c in a.terms.items()}) if kind == "div" else number(0)
        if kind in ("min", "max") and (difference := (a - b).constant) is not None:
            return a if (difference <= 0) == (kind == "min") else b
    axes = frozenset[int]().union(*(part.axes for part in parts))
    return Form({(self.atom(kind, parts, axes),): 1})


def put_together(self: Forms, form: Form) -> Form:
    """Return the form with what was taken apart by divisions whole again.

    `o // w * w + o % w` is o, whichever way quotients are rounded; so are parts of such sums that
    are multiplied alike, and `o // w % h * w + o // (w * h) * w * h` is `o // w * w`.
    """
    while (found := _without_one_remainder(self, form)) is not None:
        form = found
    return form


def _without_one_remainder(self: Forms, form: Form) -> Form | None:
    for monomial, coefficient in form.terms.items():
        for place, atom in enumerate(monomial):
            if atom.kind != "rem":
                continue
            dividend, divisor = atom.parts
            factor = Form({monomial[:place] + monomial[place + 1 :]: coefficient})
            for quotient in _quotients(self, dividend, divisor):
                beside = factor * divisor * quotient
                if all(form.terms.get(m) == c for m, c in beside.terms.items()):
                    return form - beside + factor * (dividend - opaque(self, "rem", atom.key))
    return None


def _quotients(self: Forms, dividend: Form, divisor: Form) -> Iterable[Form]:
    """Yield the ways in which one number divided by another is written."""
    yield opaque(self, "div", (dividend, divisor))
    atoms = tuple(dividend.atoms())
    if len(atoms) == 1 and atoms[0].kind == "div" and dividend == Form({atoms: 1}):
        whole, first = atoms[0].parts
        yield opaque(self, "div", (whole, first * divisor))


def _select(self: Forms, op: Select) -> Form | None:
    """A tile that is one of two by a mask; the mask is the conjuncts that are all below 0."""
    if not self.tiles or not counts(element_of(op.result.type)):
        return None
    return selected(self, op.condition, self.form(op.then), self.form(op.otherwise))


def selected(self: Forms, condition: Value, then: Form | None, other: Form | None) -> Form | None:
    """Return the form of one of two values; the tile's part stays outside where it is the same."""
    if then is None or other is None:
        return None
    difference = then - other
    conditions = self.conjuncts(condition)
    if difference.axes or not other.axes or any(c.axes for c in conditions):
        return opaque(self, "select", (*conditions, then, other))
    return other + opaque(self, "select", (*conditions, difference, number(0)))


# -- shapes -----------------------------------------------------------------------------------
def rewritten(
    self: Forms, form: Form, leaf: Callable[[Atom], Form | None], shift: Rename | None = None
) -> Form:
    """Return the form with atoms replaced by what `leaf` makes of them (None: as they are).

    `shift` gives what becomes of each coordinate; promises move with it.
    """
    total = number(0)
    for monomial, coefficient in form.terms.items():
        product = number(coefficient)
        for atom in monomial:
            product = product * _rewritten_atom(self, atom, leaf, shift)
        total = total + product
    return total


def _rewritten_atom(
    self: Forms, atom: Atom, leaf: Callable[[Atom], Form | None], shift: Rename | None
) -> Form:
    found = leaf(atom)
    if found is not None:
        return found
    if atom.kind == "promise":
        return _moved_promise(self, atom, leaf, shift)
    if not atom.parts:
        return Form({(atom,): 1})
    parts = tuple(rewritten(self, part, leaf, shift) for part in atom.parts)
    return Form({(atom,): 1}) if parts == atom.parts else opaque(self, atom.kind, parts)


def renamed(self: Forms, form: Form, rename: Rename) -> Form:
    """Return the form with every coordinate x(d) replaced by rename(d), inside atoms too."""
    if not form.axes:
        return form

    def leaf(atom: Atom) -> Form | None:
        if not atom.axes:
            return Form({(atom,): 1})
        return rename(atom.key) if atom.kind == "x" else None

    return rewritten(self, form, leaf, rename)


def _moved_promise(
    self: Forms, atom: Atom, leaf: Callable[[Atom], Form | None], shift: Rename | None
) -> Form:
    """Return a promise's atom with its axes moved; an axis that vanishes promises nothing."""
    value, places, *promised, form = atom.key
    if form is not None:
        form = rewritten(self, form, leaf, shift)
    if shift is None:
        key = (value, places, *promised, form)
        moved_atom = self.atom("promise", key, atom.axes)
    else:
        moved: list[dict[int, int]] = [{}, {}, {}]
        targets: list[int | None] = []
        for place in places:
            target = None if place is None else _only_axis(shift(place))
            targets.append(target)
            if target is not None:
                for old, new in zip(promised, moved, strict=True):
                    new[target] = old[place]
        rank = max((t for new in moved for t in new), default=-1) + 1
        words = (tuple(new.get(d, 1) for d in range(rank)) for new in moved)
        key = (value, tuple(targets), *words, form)
        moved_atom = self.atom("promise", key, frozenset(moved[0]))
    self.also(atom, moved_atom, lambda known: rewritten(self, known, leaf, shift))
    return Form({(moved_atom,): 1})


def _only_axis(form: Form) -> int | None:
    """Return the axis of a coordinate that only moved to another axis, None for a number."""
    return next(iter(form.axes), None)


def _shaped(
    move: Callable[[Forms, Any, int], Form],
) -> Callable[[Forms, Any, Form], Form | None]:
    return lambda self, op, form: renamed(self, form, lambda d: move(self, op, d))


def _broadcast(self: Forms, op: Broadcast, axis: int) -> Form:
    return number(0) if shape_of(op.source.type)[axis] == 1 else self.coordinate(axis)


def _reshape(self: Forms, op: Reshape, form: Form) -> Form | None:
    """Axes are split and put together in groups of the same number of elements."""
    source, places = shape_of(op.source.type), dict[int, Form]()
    for old, new in _groups(source, op.shape):
        if (len(old), len(new)) != (1, 1) and any(_is_told(atom, old) for atom in all_atoms(form)):
            return None  # what is known of runs along an axis says nothing about parts of it
        places |= _regrouped(self, form, source, op.shape, old, new)
    return renamed(self, form, lambda d: places.get(d, number(0)))


def _is_told(atom: Atom, axes: tuple[int, ...]) -> bool:
    return atom.kind == "promise" and not atom.axes.isdisjoint(axes)


def _groups(
    source: tuple[int, ...], target: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the smallest groups of neighbouring axes that hold the same elements on both sides.

    Axes of extent 1 are in no group.
    """
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    old: list[int] = []
    new: list[int] = []
    left = [d for d, extent in enumerate(source) if extent != 1]
    right = [d for d, extent in enumerate(target) if extent != 1]
    have = want = 1
    while left or right or have != want:
        if have <= want and left:
            old.append(left.pop(0))
            have *= source[old[-1]]
        else:
            new.append(right.pop(0))
            want *= target[new[-1]]
        if have == want:
            found.append((tuple(old), tuple(new)))
            old, new, have, want = [], [], 1, 1
    return found


def _regrouped(
    self: Forms,
    form: Form,
    source: tuple[int, ...],
    target: tuple[int, ...],
    old: tuple[int, ...],
    new: tuple[int, ...],
) -> dict[int, Form]:
    """Return what the coordinates of some old axes are in those of the new ones."""
    flat = number(0)
    for place, axis in enumerate(new):
        inner = prod(target[d] for d in new[place + 1 :])
        flat = flat + self.coordinate(axis).scaled(inner)
    if len(old) == 1:
        return {old[0]: flat}
    if _is_row_major(form, source, old):
        # The last coordinate counts on through the rows.
        return {axis: flat if axis == old[-1] else number(0) for axis in old}
    found: dict[int, Form] = {}
    for place, axis in enumerate(old):
        inner = prod(source[d] for d in old[place + 1 :])
        here = opaque(self, "div", (flat, number(inner))) if inner > 1 else flat
        found[axis] = opaque(self, "rem", (here, number(source[axis]))) if place else here
    return found


def _is_row_major(form: Form, source: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Say whether the form counts along axes as through one longer axis."""
    strides: dict[int, dict[Monomial, int]] = {axis: {} for axis in axes}
    for monomial, coefficient in form.terms.items():
        moving = [a for a in monomial if not a.axes.isdisjoint(axes)]
        if not moving:
            continue
        if len(moving) > 1 or moving[0].kind != "x":
            return False
        rest = tuple(a for a in monomial if a is not moving[0])
        strides[moving[0].key][rest] = coefficient
    return all(
        Form(strides[outer]) == Form(strides[inner]).scaled(source[inner])
        for outer, inner in pairwise(axes)
    )


# -- casts ------------------------------------------------------------------------------------
def _cast(self: Forms, op: Cast) -> Form | None:
    """Widening a signed integer keeps its value; a truncation only where nothing is lost."""
    source = element_of(op.source.type)
    fits = op.no_wrap or op.to.bits >= source.bits
    if counts(source) and counts(op.to) and fits:
        return self.form(op.source)
    return None


def _bitcast(self: Forms, op: Bitcast) -> Form | None:
    """An address as a number counts bytes; a pointer counts elements of what it points at."""
    before, after = element_of(op.source.type), op.to
    form = self.form(op.source)
    if form is None or not (counts(before) and counts(after)):
        return None
    if not isinstance(before, Pointer) and not isinstance(after, Pointer):
        return form
    if not self.tiles:
        return None
    size = before.pointee.itemsize if isinstance(before, Pointer) else 1
    each = after.pointee.itemsize if isinstance(after, Pointer) else 1
    in_bytes = form.scaled(size)
    if any(coefficient % each for coefficient in in_bytes.terms.values()):
        whole, rest = divmod(self.divisor(in_bytes), each)
        if rest:
            return None
        # Aligned, though it is no multiple as it is written: an address that was promised.
        known = self.unknown if shape_of(op.result.type) else self.promised
        return known(op.result, whole)
    return Form({m: c // each for m, c in in_bytes.terms.items()})


# -- promises ---------------------------------------------------------------------------------
def _promise(self: Forms, op: Promise) -> Form | None:
    """Look through a promise, or, where promises count, name what has it beside its form."""
    form = self.form(op.source)
    if not self.promises or not counts(element_of(op.source.type)):
        return form
    shape = shape_of(op.source.type)
    element = element_of(op.source.type)
    size = element.pointee.itemsize if isinstance(element, Pointer) else 1
    if not shape:
        divisor = op.divisible[0] // gcd(op.divisible[0], size) if op.divisible else 1
        if form is None or form.constant is not None or self.divisor(form) % divisor == 0:
            return form
        return self.promised(op.result, lcm(divisor, self.divisor(form)))
    ones = (1,) * len(shape)
    divisible = tuple(d // gcd(d, size) for d in op.divisible or ones)
    return promising(self, op.result, (op.contiguous or ones, op.constant or ones, divisible), form)


def promising(
    self: Forms, value: Value, promised: Iterable[Iterable[int]], form: Form | None = None
) -> Form:
    """Return the form of a tile of which three promises for each axis are known beside a form."""
    axes = range(len(shape_of(value.type)))
    key = (value, tuple(axes), *map(tuple, promised), form)
    return Form({(self.atom("promise", key, frozenset(axes)),): 1})


#: What becomes of the form of the `source` of an op that moves elements.
MOVES: dict[type[Op], Callable[[Forms, Any, Form], Form | None]] = {
    Splat: lambda self, op, form: form,
    ConvertLayout: lambda self, op, form: form,
    Broadcast: _shaped(_broadcast),
    ExpandDims: _shaped(lambda self, op, d: self.coordinate(d + (d >= op.axis))),
    Transpose: _shaped(lambda self, op, d: self.coordinate(op.order.index(d))),
    Reshape: _reshape,
}


def _moved(self: Forms, op: Any) -> Form | None:
    form = self.form(op.source)
    return None if form is None else MOVES[type(op)](self, op, form)


RULES: dict[type[Op], Callable[[Forms, Any], Form | None]] = {
    **dict.fromkeys(MOVES, _moved),
    Constant: lambda self, op: number(int(op.value)) if counts(element_of(op.type)) else None,
    Iota: lambda self, op: self.coordinate(0) + number(op.start),
    ProgramId: lambda self, op: Form({(self.atom("pid", op.axis),): 1}),
    NumPrograms: lambda self, op: Form({(self.atom("programs", op.axis),): 1}),
    Elementwise: _elementwise,
    Select: _select,
    AddPointer: lambda self, op: (
        None
        if (p := self.form(op.pointer)) is None or (o := self.form(op.offset)) is None
        else p + o
    ),
    Cast: _cast,
    Bitcast: _bitcast,
    Promise: _promise,
}
