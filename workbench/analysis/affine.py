"""Every integer and pointer value as a polynomial in named atoms, linear in tile coordinates.

    offs = pid * 128 + arange(0, 128)     128·pid + x0
    ptr  = base + offs[:, None] * stride  base + 128·pid·stride + x0·stride

A *form* maps monomials (sorted tuples of atoms) to integer coefficients. Atoms:

| atom | meaning |
|---|---|
| arg(n), programs(a) | an argument, the grid extent: the same in the whole launch |
| pid(a), trip(l) | program id; number of the iteration of loop l, from 0 |
| value(v) | any other value without coordinates: loaded, carried without closed form |
| x(d) | the coordinate along axis d of the value's own tile |
| div(f,g) rem(f,g) min(f,g) max(f,g) | C-truncated division and remainder, smaller, larger |
| promise(v) | a tile of which only what the author promised is known, if anything |

Index arithmetic is exact, so a form *is* the value. A tile that is none of this is opaque: it has
no form, or its own atom if these are asked for, so that `rows[:, None] * stride + x1` still says
how x1 counts where the rows were loaded. A scalar always has a form. From forms follow strides,
contiguity, divisibility and how long masks stay constant, so no separate analysis keeps those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from typing import Any

from workbench.analysis.forms import Atom, Form, Monomial, number
from workbench.ir import (
    I1,
    I32,
    Block,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Scalar,
    Value,
    element_of,
    shape_of,
    walk,
)
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    If,
    Iota,
    Load,
    NumPrograms,
    ProgramId,
    Promise,
    Reshape,
    Select,
    Splat,
    Transpose,
    While,
)

_UNBOUNDED = 1 << 62
#: A form that names more atoms, counted as often as they are written, is as good as none: work on
#: forms grows with what is written, which chains of divisions double at every step.
_MOST_ATOMS = 256
#: Products of sums with more terms than this say nothing that anybody asks for.
_MOST_TERMS = 64


class Affine:
    """Forms of a module's values; `form(value)` is None for opaque tiles.

    With `tiles`, opaque tiles of integers and pointers are atoms of their own.
    """

    def __init__(self, module: Module, *, tiles: bool = False) -> None:
        self.tiles = tiles
        self._atoms: dict[tuple[str, Any], Atom] = {}
        self._forms: dict[Value, Form | None] = {}
        self._divisors: dict[Atom, int] = {}
        self._sizes: dict[Atom, int] = {}
        self._mask_runs: dict[tuple[Value, int, int], int] = {}
        self.parameters: dict[Value, KernelParameter] = {}
        for parameter in module.parameters:
            self.parameters[parameter.value] = parameter
            element = element_of(parameter.value.type)
            integer = isinstance(element, Pointer) or element.is_integer
            if integer:
                atom = self.atom("arg", parameter.name)
                divisor = parameter.divisible
                if isinstance(element, Pointer):
                    divisor //= gcd(divisor, element.pointee.itemsize)
                self._divisors[atom] = divisor
                self._forms[parameter.value] = Form({(atom,): 1})
        self._block(module.body)

    # -- queries --------------------------------------------------------------------------
    def form(self, value: Value) -> Form | None:
        """Return the value's form, in elements for pointers; None if it has none."""
        return self._forms.get(value)

    def divisor(self, form: Form) -> int:
        """Return a number that divides the form's value for all coordinates (0 has all)."""
        result = 0
        for monomial, coefficient in form.terms.items():
            product = abs(coefficient)
            for atom in monomial:
                product *= self._atom_divisor(atom)
            result = gcd(result, product)
        return result or _UNBOUNDED

    def run(self, form: Form, axis: int, extent: int) -> tuple[int | None, int, int]:
        """Return (stride, run, start) of a form along an axis.

        Aligned runs of `run` coordinates have this stride, and at their first element the value
        is a multiple of `start`. The stride is None where it is not a number.
        """
        stride: int | None = 0
        run, start = _UNBOUNDED, 0
        own = None
        # Opaque atoms that count up: the length of their runs, and what divides a step.
        counting: list[tuple[int, int]] = []
        for monomial, coefficient in form.terms.items():
            moving = [a for a in monomial if axis in a.axes]
            if not moving:
                start = gcd(start, self.divisor(Form({monomial: coefficient})))
                continue
            rest = Form({tuple(a for a in monomial if axis not in a.axes): coefficient})
            if len(moving) > 1:
                return None, 1, 1
            (atom,) = moving
            scale = rest.constant
            if atom.kind == "x":
                if scale is None:
                    stride, own = None, gcd(own or 0, self.divisor(rest))
                    run = 1
                    continue
                own = gcd(own or 0, scale)
                stride = None if stride is None else stride + scale
                continue
            inner_stride, inner_run, inner_start = self._opaque_run(atom, axis, extent)
            start = gcd(start, inner_start * self.divisor(rest))
            run = min(run, inner_run)
            if inner_stride == 0:
                continue
            counting.append((inner_run, self.divisor(rest)))
            if scale is None or inner_stride is None:
                stride = None
                run = 1
            elif stride is not None:
                stride += inner_stride * scale
        run = min(run, _power_of_two(extent))
        if own is not None:
            start = gcd(start, own * run)
        # A run shorter than an atom's own starts inside it too.
        start = gcd(start, *(distance * run for length, distance in counting if run < length))
        return stride, run, start or _UNBOUNDED

    def _opaque_run(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        if atom.kind in ("div", "rem"):
            return self._quotient_run(atom, axis, extent)
        if atom.kind == "promise":
            _, _, contiguous, constant, divisible = atom.key
            if constant[axis] > 1:
                return 0, constant[axis], divisible[axis]
            return (1 if contiguous[axis] > 1 else None), contiguous[axis], divisible[axis]
        if atom.kind in ("min", "max"):
            first, second = (self.run(f, axis, extent) for f in atom.key)
            strides = {first[0], second[0]}
            if strides == {0}:
                return 0, min(first[1], second[1]), gcd(first[2], second[2])
        return None, 1, 1

    def _quotient_run(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        inner, divisor = atom.key
        stride, run, start = self.run(inner, axis, extent)
        if axis in divisor.axes or stride not in (0, 1) or not _counts_up(inner):
            return None, 1, 1
        both = gcd(start, self.divisor(divisor))
        if stride and run > _power_of_two(both):
            run = _power_of_two(both)
            both = gcd(both, run)
        return (stride, run, both) if atom.kind == "rem" else (0, run, 1)

    def vector(self, pointer: Value, axis: int) -> int:
        """Return how many neighbours along an axis lie side by side and aligned in memory.

        A power of two; 1 if nothing is known. Alignment is in elements of the pointee.
        """
        form = self.form(pointer)
        if form is None:
            return 1
        stride, run, start = self.run(form, axis, shape_of(pointer.type)[axis])
        if stride != 1:
            return 1
        return min(run, _power_of_two(start))

    def stride(self, pointer: Value, axis: int) -> int | Form | None:
        """Return the distance in elements of neighbours along an axis: number, form or None."""
        form = self.form(pointer)
        if form is None:
            return None
        stride, _, _ = self.run(form, axis, shape_of(pointer.type)[axis])
        if stride is not None:
            return stride
        total: dict[Monomial, int] = {}
        for monomial, coefficient in form.terms.items():
            moving = [a for a in monomial if axis in a.axes]
            if not moving:
                continue
            if len(moving) > 1:
                return None
            if moving[0].kind != "x":
                inner, _, _ = self._opaque_run(moving[0], axis, 1 << 30)
                if inner != 1:
                    return None
            rest = tuple(a for a in monomial if axis not in a.axes)
            total[rest] = total.get(rest, 0) + coefficient
        return Form(total)

    def mask_run(self, mask: Value | None, axis: int, extent: int) -> int:
        """Return the length of aligned runs along an axis over which a mask is constant."""
        if mask is None:
            return _UNBOUNDED
        known = self._mask_runs.get((mask, axis, extent))
        if known is None:
            known = self._mask_runs[mask, axis, extent] = self._mask_run(mask, axis, extent)
        return known

    def _mask_run(self, mask: Value, axis: int, extent: int) -> int:
        op = mask.op
        if not shape_of(mask.type) or isinstance(op, Constant | Splat):
            return _UNBOUNDED
        if isinstance(op, Elementwise):
            if op.function in ("and", "or", "xor"):
                return min(self.mask_run(v, axis, extent) for v in op.inputs)
            return self._comparison_run(op, axis, extent) if op.row.compares else 1
        if isinstance(op, Transpose):
            return self.mask_run(op.source, op.order[axis], extent)
        if isinstance(op, Broadcast):
            repeated = shape_of(op.source.type)[axis] == 1
            return _UNBOUNDED if repeated else self.mask_run(op.source, axis, extent)
        if isinstance(op, ExpandDims):
            inner = axis - (axis > op.axis)
            return _UNBOUNDED if op.axis == axis else self.mask_run(op.source, inner, extent)
        return 1

    def _comparison_run(self, op: Elementwise, axis: int, extent: int) -> int:
        f, g = (self.form(v) for v in op.inputs)
        if f is None or g is None:
            return 1
        # Every comparison is h < 0 (or its negation, which is constant over the same runs).
        h = f - g if op.function in ("lt", "ge", "eq", "ne") else g - f
        # An address before the array is nobody's; a mask of negative numbers has to be right.
        if not all(self._rounds_down(a) for m in h.terms for a in m if axis in a.axes):
            return 1
        stride, run, _ = self.run(h, axis, extent)
        if stride == 0:
            return run
        if op.function in ("eq", "ne") or stride not in (1, -1):
            return 1
        rest = Form({m: c for m, c in h.terms.items() if not any(axis in a.axes for a in m)})
        if any(a.kind != "x" for m in h.terms for a in m if axis in a.axes):
            return 1
        # +x + e < 0 changes at x = -e;  -x + e < 0 changes at x = e + 1.
        bound = rest if stride == 1 else rest + number(1)
        return min(run, _power_of_two(self.divisor(bound)))

    def _rounds_down(self, atom: Atom) -> bool:
        """Say whether no negative number is divided in an atom: division truncates toward zero."""
        if atom.kind in ("min", "max"):
            return all(self._rounds_down(a) for form in atom.key for m in form.terms for a in m)
        return atom.kind not in ("div", "rem") or self._not_negative(atom.key[0])

    def _not_negative(self, form: Form) -> bool:
        """Say whether a form is a sum of what is known not to be negative."""
        return all(
            coefficient > 0 and all(self._is_count(atom) for atom in monomial)
            for monomial, coefficient in form.terms.items()
        )

    def _is_count(self, atom: Atom) -> bool:
        if atom.kind == "arg":
            lows = [p.low for p in self.parameters.values() if p.name == atom.key]
            return lows[0] is not None and lows[0] >= 0
        if atom.kind in ("div", "rem"):
            return all(map(self._not_negative, atom.key))
        return atom.kind in ("x", "pid", "programs", "trip", "trips")

    # -- construction ---------------------------------------------------------------------
    def atom(self, kind: str, key: Any, axes: frozenset[int] = frozenset()) -> Atom:
        """Return the one atom of this name."""
        known = self._atoms.get((kind, key))
        if known is None:
            known = self._atoms[kind, key] = Atom(kind, key, len(self._atoms), axes)
        return known

    def promised(self, value: Value, divisor: int) -> Form:
        """Return the form of an unknown that `divisor` divides."""
        atom = self.atom("value", value)
        self._divisors[atom] = divisor
        return Form({(atom,): 1})

    def unknown(self, value: Value, divisor: int = 1) -> Form:
        """Return the form of a tile of which only that `divisor` divides all elements is known."""
        shape = shape_of(value.type)
        ones = (1,) * len(shape)
        same = [
            min(run, 1 << (extent - 1).bit_length())
            for run, extent in zip(self.equal_runs(value), shape, strict=True)
        ]
        form = _promising(self, value, [ones, same, (divisor,) * len(shape)])
        self._divisors.update(dict.fromkeys(form.atoms(), divisor))
        return form

    def constant_runs(self, value: Value) -> tuple[int, ...]:
        """Return, for each axis, the length of aligned runs over which all elements are equal."""
        shape, form = shape_of(value.type), self.form(value)
        if isinstance(value.op, Constant | Splat):
            return (_UNBOUNDED,) * len(shape)
        if form is not None:
            runs = [self.run(form, axis, extent) for axis, extent in enumerate(shape)]
            return tuple(run if stride == 0 else 1 for stride, run, _ in runs)
        if element_of(value.type) == I1:
            return tuple(self.mask_run(value, axis, extent) for axis, extent in enumerate(shape))
        return (1,) * len(shape)

    def equal_runs(self, value: Value) -> tuple[int, ...]:
        """Return constant runs of what an op computes element by element: those of its operands."""
        op, runs = value.op, (_UNBOUNDED,) * len(shape_of(value.type))
        together = (Elementwise, Select, Cast, Bitcast, Load)
        if not isinstance(op, together) or (isinstance(op, Load) and op.volatile):
            return (1,) * len(runs)
        for operand in op.operands:
            if shape_of(operand.type):
                runs = tuple(map(min, runs, self.constant_runs(operand)))
        return runs

    def also(self, atom: Atom, renamed: Atom) -> None:
        """Let what divides an atom divide its other name too."""
        self._divisors[renamed] = self._divisors.get(atom, 1)

    def coordinate(self, axis: int) -> Form:
        """Return the coordinate along an axis of the tile."""
        return Form({(self.atom("x", axis, frozenset((axis,))),): 1})

    def _atom_divisor(self, atom: Atom) -> int:
        if atom.kind in ("rem", "min", "max"):
            return gcd(self.divisor(atom.key[0]), self.divisor(atom.key[1]))
        return self._divisors.get(atom, 1)

    def _size(self, form: Form) -> int:
        """Return how many atoms a form names where it is written out."""
        return sum(1 + sum(map(self._atom_size, monomial)) for monomial in form.terms)

    def _atom_size(self, atom: Atom) -> int:
        if atom.kind not in ("div", "rem", "min", "max"):
            return 1
        known = self._sizes.get(atom)
        if known is None:
            known = self._sizes[atom] = 1 + sum(map(self._size, atom.key))
        return known

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        rule = _RULES.get(type(op))
        if rule is not None:
            form = rule(self, op)
            small = form is not None and self._size(form) <= _MOST_ATOMS
            self._forms[op.results[0]] = form if small else None
        elif isinstance(op, For):
            self._for(op)
            return
        elif isinstance(op, While | If):
            for region in op.regions:
                for argument in region.arguments:
                    self._own(argument)
                self._block(region)
        for result in op.results:
            if self._forms.get(result) is None:
                self._own(result)

    def _own(self, value: Value) -> None:
        """Give a scalar the form of an unknown; tiles have one only if these are asked for."""
        self._forms[value] = None
        if _is_token(value) or not _counts(element_of(value.type)):
            return
        rank = len(shape_of(value.type))
        if not rank:
            self._forms[value] = Form({(self.atom("value", value),): 1})
        elif self.tiles:
            self._forms[value] = self.unknown(value)

    def _for(self, op: For) -> None:
        counter, *carried = op.body.arguments
        lower, step = self.form(op.lower), self.form(op.step)
        trip = Form({(self.atom("trip", counter),): 1})
        self._forms[counter] = (
            lower + step * trip if lower is not None and step is not None else None
        )
        if self._forms[counter] is None:
            self._own(counter)
        # First with a fresh atom for each carried value: its change over one round is then read
        # off the yielded form; where that is a closed form the body is walked again with it.
        marks: dict[Value, Atom] = {}
        for argument in carried:
            if _counts(element_of(argument.type)):
                mark = self.atom("carry", argument)
                marks[argument] = mark
                self._forms[argument] = Form({(mark,): 1})
            else:
                self._forms[argument] = None
        self._block(op.body)
        inside = {counter, *carried, *(r for inner in walk(op.body) for r in _received(inner))}
        for argument, init, after, result in zip(
            carried, op.inits, op.body.yields, op.results, strict=True
        ):
            start, end = self.form(init), self.form(after)
            closed = None
            if argument in marks and start is not None and end is not None:
                change = end - Form({(marks[argument],): 1})
                if not change.axes and not any(_names(a, inside) for a in change.atoms()):
                    closed = start + change * trip
                    self._forms[result] = start + change * Form({(self.atom("trips", counter),): 1})
            if closed is None:
                self._own(argument)
                self._own(result)
            else:
                self._forms[argument] = closed
        self._block(op.body)


def _counts_up(form: Form) -> bool:
    """Say whether a form is written as a sum of things that indices are made of, none subtracted.

    Division truncates toward zero, so runs of quotients and remainders are what they seem for
    dividends >= 0 only. Arguments and loaded numbers in a dividend are taken as not negative:
    where one is, -5 % 4 = -1 is an address before the array.
    """
    return all(
        coefficient > 0 and all(_is_sum(atom) for atom in monomial)
        for monomial, coefficient in form.terms.items()
    )


def _is_sum(atom: Atom) -> bool:
    if atom.kind in ("div", "rem"):
        return _counts_up(atom.key[0])
    if atom.kind in ("min", "max"):
        signs = [_counts_up(form) for form in atom.key]
        return any(signs) if atom.kind == "max" else all(signs)
    return True


def _received(op: Op) -> Iterable[Value]:
    """Return the values that exist from an op on: its results and its regions' arguments."""
    yield from op.results
    for region in op.regions:
        yield from region.arguments


def _names(atom: Atom, values: set[Value]) -> bool:
    """Say whether an atom stands for one of the values, or depends on one."""
    if atom.kind in ("div", "rem", "min", "max"):
        return any(_names(inner, values) for form in atom.key for inner in form.atoms())
    return (atom.key[0] if atom.kind == "promise" else atom.key) in values


def _is_token(value: Value) -> bool:
    return type(value.type).__name__ in ("Token", "Shared")


def _counts(element: Any) -> bool:
    """Say whether values of an element type have forms: wide integers and pointers."""
    return isinstance(element, Pointer) or (
        isinstance(element, Scalar) and element.kind in ("int", "index") and element.bits >= 32
    )


def _power_of_two(value: int) -> int:
    """Return the largest power of two that divides a positive number."""
    return value & -value if value else _UNBOUNDED


def _elementwise(self: Affine, op: Elementwise) -> Form | None:
    element = element_of(op.result.type)
    if not _counts(element) or op.row.compares:
        return None
    forms = [self.form(v) for v in op.inputs]
    if any(f is None for f in forms):
        return None
    a, b = forms[0], forms[-1]
    assert a is not None
    assert b is not None
    if op.function in ("div", "rem", "min", "max"):
        return _opaque(self, op.function, a, b)
    exact = _polynomial(op.function, a, b)
    if exact is None or element != I32 or op.no_wrap:
        return exact
    # It may wrap, then it is no polynomial; a power of two that divides it still does.
    divisor = min(_power_of_two(self.divisor(exact)), 1 << 31)
    if not shape_of(op.result.type):
        return self.promised(op.result, divisor)
    return self.unknown(op.result, divisor) if self.tiles else None


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


def _opaque(self: Affine, kind: str, a: Form, b: Form) -> Form:
    x, y = a.constant, b.constant
    if x is not None and y is not None and y:
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return number(
            {"div": quotient, "rem": x - quotient * y, "min": min(x, y), "max": max(x, y)}[kind]
        )
    if kind in ("min", "max") and (difference := (a - b).constant) is not None:
        return a if (difference <= 0) == (kind == "min") else b
    return Form({(self.atom(kind, (a, b), a.axes | b.axes),): 1})


def _renamed(self: Affine, form: Form, rename: Callable[[int], Form]) -> Form:
    """Return the form with every coordinate x(d) replaced by rename(d), inside atoms too."""
    total = number(0)
    for monomial, coefficient in form.terms.items():
        product = number(coefficient)
        for atom in monomial:
            if not atom.axes:
                product = product * Form({(atom,): 1})
            elif atom.kind == "x":
                product = product * rename(atom.key)
            elif atom.kind == "promise":
                product = product * _renamed_promise(self, atom, rename)
            else:
                a, b = (_renamed(self, f, rename) for f in atom.key)
                product = product * _opaque(self, atom.kind, a, b)
        total = total + product
    return total


def _renamed_promise(self: Affine, atom: Atom, rename: Callable[[int], Form]) -> Form:
    """Return a promise's atom with its axes moved; an axis that vanishes promises nothing."""
    value, *promised = atom.key
    moved: list[dict[int, int]] = [{}, {}, {}]
    places, *promised = promised
    targets: list[int | None] = []
    for place in places:
        target = None if place is None else next(iter(rename(place).axes), None)
        targets.append(target)
        if target is not None:
            for old, new in zip(promised, moved, strict=True):
                new[target] = old[place]
    rank = max((t for new in moved for t in new), default=-1) + 1
    key = (value, tuple(targets), *(tuple(new.get(d, 1) for d in range(rank)) for new in moved))
    renamed = self.atom("promise", key, frozenset(moved[0]))
    self.also(atom, renamed)
    return Form({(renamed,): 1})


def _shaped(move: Callable[[Affine, Any, int], Form]) -> Callable[[Affine, Any], Form | None]:
    def rule(self: Affine, op: Any) -> Form | None:
        form = self.form(op.source)
        return None if form is None else _renamed(self, form, lambda d: move(self, op, d))

    return rule


def _broadcast(self: Affine, op: Broadcast, axis: int) -> Form:
    return number(0) if shape_of(op.source.type)[axis] == 1 else self.coordinate(axis)


def _reshape(self: Affine, op: Reshape) -> Form | None:
    """Only axes of extent 1 come and go; anything else stays opaque."""
    source = shape_of(op.source.type)
    form = self.form(op.source)
    kept = [d for d, extent in enumerate(source) if extent != 1]
    new = [d for d, extent in enumerate(op.shape) if extent != 1]
    if form is None or [source[d] for d in kept] != [op.shape[d] for d in new]:
        return None
    places = dict(zip(kept, new, strict=True))
    return _renamed(self, form, lambda d: self.coordinate(places[d]) if d in places else number(0))


def _cast(self: Affine, op: Cast) -> Form | None:
    """Widening a signed integer keeps its value; a truncation only where nothing is lost."""
    source = element_of(op.source.type)
    fits = op.no_wrap or op.to.bits >= source.bits
    if _counts(source) and _counts(op.to) and fits:
        return self.form(op.source)
    return None


def _promise(self: Affine, op: Promise) -> Form | None:
    """Keep the form where it says as much as the promise; else stand for it with an own atom."""
    form = self.form(op.source)
    shape = shape_of(op.source.type)
    if not shape:
        if form is None or form.constant is not None or not op.divisible:
            return form
        if self.divisor(form) % op.divisible[0] == 0:
            return form
        return self.promised(op.result, op.divisible[0])
    ones = (1,) * len(shape)
    promised = [op.contiguous or ones, op.constant or ones, op.divisible or ones]
    if form is not None:
        runs = [self.run(form, axis, extent) for axis, extent in enumerate(shape)]
        known = all(
            (c == 1 or (run[0] == 1 and run[1] >= min(c, _power_of_two(e)))) and run[2] % d == 0
            for run, c, d, e in zip(runs, promised[0], promised[2], shape, strict=True)
        )
        if known:
            return form
    return _promising(self, op.result, promised)


def _promising(self: Affine, value: Value, promised: Iterable[Iterable[int]]) -> Form:
    """Return the form of a tile of which no more is known than three promises for each axis."""
    axes = range(len(shape_of(value.type)))
    key = (value, tuple(axes), *map(tuple, promised))
    return Form({(self.atom("promise", key, frozenset(axes)),): 1})


_RULES: dict[type[Op], Callable[[Affine, Any], Form | None]] = {
    Constant: lambda self, op: (
        number(int(op.value)) if _counts(element_of(op.type)) else None
    ),
    Iota: lambda self, op: self.coordinate(0) + number(op.start),
    ProgramId: lambda self, op: Form({(self.atom("pid", op.axis),): 1}),
    NumPrograms: lambda self, op: Form({(self.atom("programs", op.axis),): 1}),
    Elementwise: _elementwise,
    AddPointer: lambda self, op: (
        None
        if (p := self.form(op.pointer)) is None or (o := self.form(op.offset)) is None
        else p + o
    ),
    Splat: lambda self, op: self.form(op.source),
    Broadcast: _shaped(_broadcast),
    ExpandDims: _shaped(lambda self, op, d: self.coordinate(d + (d >= op.axis))),
    Transpose: _shaped(lambda self, op, d: self.coordinate(op.order.index(d))),
    Reshape: _reshape,
    Cast: _cast,
    Promise: _promise,
}  # fmt: skip
