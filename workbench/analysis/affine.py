"""Every integer and pointer value as a polynomial in named atoms, linear in tile coordinates.

    offs = pid * 128 + arange(0, 128)     128·pid + x0
    ptr  = base + offs[:, None] * stride  base + 128·pid·stride + x0·stride

A *form* maps monomials (sorted tuples of atoms) to integer coefficients. Atoms:

| atom | meaning |
|---|---|
| arg(n), programs(a) | an argument, the grid extent: the same in the whole launch |
| pid(a), trip(l) | program id; number of the iteration of loop l, from 0 |
| value(v) | any other value without coordinates: loaded, carried without closed form |
| element(v, p) | the element of a tile v at a place p (asked for by who needs it) |
| x(d) | the coordinate along axis d of the value's own tile |
| div(f,g) rem(f,g) min(f,g) max(f,g) | C-truncated division and remainder, smaller, larger |
| select(h…,f,g) | f where all h are below 0, else g |
| moved(v) | by how much a carried tile, all of it alike, has moved since the loop began |
| promise(v) | a tile of which runs are known, by promise or by what it is made of, beside a form |

Index arithmetic is exact, so a form *is* the value. A tile that is none of this is opaque: it has
no form, or its own atom if these are asked for, so that `rows[:, None] * stride + x1` still says
how x1 counts where the rows were loaded. A scalar always has a form. From forms follow strides,
contiguity, divisibility and how long masks stay constant, so no separate analysis keeps those.

What the author promises stands beside a form, never in its place: `form` looks through promises,
and what is asked of runs is answered by forms without and with them, whichever says more.

What each op makes of its operands' forms is said in transfer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd, lcm
from typing import Any, Literal

from workbench.analysis.forms import Atom, Form, Monomial, all_atoms, number
from workbench.analysis.transfer import (
    MOVES,
    RULES,
    counts,
    promising,
    rewritten,
    selected,
)
from workbench.ir import (
    I1,
    Block,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    shape_of,
    walk,
)
from workbench.ops import (
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    ConvertLayout,
    Elementwise,
    ExpandDims,
    For,
    If,
    Load,
    Promise,
    Select,
    Splat,
    Transpose,
    While,
)

_UNBOUNDED = 1 << 62
#: A form that names more atoms, counted as often as they are written, is as good as none: work on
#: forms grows with what is written, which chains of divisions double at every step.
_MOST_ATOMS = 256
#: What a branch gives, or one of two numbers, is a name of its own from so many atoms on: loops go
#: on choosing, and sums with what they chose become too long.
_MOST_CHOSEN = 48


class Affine:
    """Forms of a module's values; `form(value)` is None for opaque tiles.

    With `tiles`, opaque tiles of integers and pointers are atoms of their own, and there are forms
    that say much but that nobody can evaluate.
    """

    def __init__(self, module: Module, *, tiles: bool = False, promises: bool = False) -> None:
        self.tiles = tiles
        self.promises = promises
        self._atoms: dict[tuple[str, Any], Atom] = {}
        self._forms: dict[Value, Form | None] = {}
        self._divisors: dict[Atom, int] = {}
        #: What unknown numbers are where they do not wrap.
        self._unwrapped: dict[Atom, Form] = {}
        self._sizes: dict[Atom, int] = {}
        self._mask_runs: dict[tuple[Value, int, int], int] = {}
        self._conjuncts: dict[Value, tuple[Form, ...]] = {}
        self._under: dict[tuple[Value, Value], Form] = {}
        #: By how much a carried value changes in a round, while loops are looked at first.
        self._changes: dict[Value, Form] = {}
        #: What divides a carried value in all rounds.
        self._lasting: dict[Value, int] = {}
        #: Carried values whose change is another in each round.
        self._varying: set[Value] = set()
        self._looking: Literal["not in a loop", "first", "again"] = "not in a loop"
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
        #: The same with promises beside forms; None where nobody promises.
        self.told: Affine | None = None
        self._block(module.body)
        if tiles and not promises and any(isinstance(op, Promise) for op in module.walk()):
            self.told = Affine(module, tiles=True, promises=True)
            self._mask_runs.clear()

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
            return self._told_run(atom, axis, extent)
        if atom.kind in ("min", "max", "select"):
            *conditions, first, second = atom.parts
            a, b = (self.run(form, axis, extent) for form in (first, second))
            whole = min((self._sign_run(h, axis, extent) for h in conditions), default=_UNBOUNDED)
            if atom.kind != "select" and a[0] == b[0] == 0:
                return 0, min(a[1], b[1]), gcd(a[2], b[2])
            if atom.kind == "select" and a[0] == b[0]:
                return a[0], min(whole, a[1], b[1]), self._atom_divisor(atom)
            return None, 1, self._atom_divisor(atom)
        return None, 1, 1

    def _told_run(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        """Return the run of a tile of which a promise and a form are known: the longer of both.

        A multiple is promised of the first number of each run of consecutive ones, however long.
        """
        _, _, contiguous, constant, divisible, form = atom.key
        stride, run, start = (None, 1, 1) if form is None else self.run(form, axis, extent)
        multiple = divisible[axis]
        if constant[axis] > 1 and (stride != 0 or run < constant[axis]):
            stride, run = 0, max(run, constant[axis])
        elif contiguous[axis] > 1 and (stride != 1 or run < contiguous[axis]):
            stride, run = 1, max(run, contiguous[axis])
        if stride == 1 and run < extent:
            multiple = gcd(multiple, run)
        return stride, run, lcm(start, multiple)

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

    def vector(self, pointer: Value, axis: int, mask: Value | None = None) -> int:
        """Return how many neighbours along an axis lie side by side and aligned in memory.

        A power of two; 1 if nothing is known. Alignment is in elements of the pointee. With a
        mask: what holds where it is on.
        """
        form = self.accessed(pointer, mask)
        width = 1
        if form is not None:
            stride, run, start = self.run(form, axis, shape_of(pointer.type)[axis])
            if stride == 1:
                width = min(run, _power_of_two(start))
        return width if self.told is None else max(width, self.told.vector(pointer, axis, mask))

    def stride(self, pointer: Value, axis: int, mask: Value | None = None) -> int | Form | None:
        """Return the distance in elements of neighbours along an axis: number, form or None."""
        found = self._stride(self.accessed(pointer, mask), axis, shape_of(pointer.type)[axis])
        if isinstance(found, int) or self.told is None:
            return found
        told = self.told.stride(pointer, axis, mask)
        return told if isinstance(told, int) or found is None else found

    def _stride(self, form: Form | None, axis: int, extent: int) -> int | Form | None:
        if form is None:
            return None
        stride, _, _ = self.run(form, axis, extent)
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

    def usual_stride(
        self, pointer: Value, axis: int, mask: Value | None = None
    ) -> int | Form | None:
        """Return the distance of most neighbours along an axis, in elements; for costs alone.

        Neighbours mostly have one quotient and remainders that follow each other, whatever the
        divisor is, and numbers mostly do not wrap.
        """
        found = self.stride(pointer, axis, mask)
        form = self.accessed(pointer, mask)
        if found is not None or form is None:
            return found
        step = self._usual_step(form, axis)
        return step if step is None or step.constant is None else step.constant

    def _usual_step(self, form: Form, axis: int) -> Form | None:
        total = number(0)
        for monomial, coefficient in form.terms.items():
            moving = [a for a in monomial if axis in a.axes]
            if not moving:
                continue
            step = self._usual_step_of(moving[0], axis) if len(moving) == 1 else None
            if step is None:
                return None
            total += step * Form({tuple(a for a in monomial if a not in moving): coefficient})
        return total

    def _usual_step_of(self, atom: Atom, axis: int) -> Form | None:
        if atom.kind == "x":
            return number(1)
        if atom.kind == "promise":
            beside = atom.beside if atom.beside is not None else self._unwrapped.get(atom)
            return None if beside is None else self._usual_step(beside, axis)
        if not atom.parts:
            return None
        one, other = (self._usual_step(part, axis) for part in atom.parts[-2:])
        if one is None or other is None:
            return None
        if atom.kind in ("div", "rem"):
            by, far = atom.parts[1].constant, one.constant
            if other.terms or far is None:
                return None
            if by and abs(far) >= abs(by):
                return number(far // by) if atom.kind == "div" else None
            return number(0) if atom.kind == "div" else one
        # A clamp is there for few of its elements.
        moves = [step for step in (one, other) if step.terms]
        return moves[0] if moves and moves[0] == moves[-1] else None if moves else number(0)

    # -- masks ----------------------------------------------------------------------------
    def accessed(self, pointer: Value, mask: Value | None) -> Form | None:
        """Return a form that a pointer has where a mask is on: clamps that do nothing are gone."""
        form = self.form(pointer)
        if form is None or mask is None or not any(atom.parts for atom in form.atoms()):
            return form
        known = self._under.get((pointer, mask))
        if known is None:
            known = self._under[pointer, mask] = self._clamped(form, self.conjuncts(mask))
        return known

    def _clamped(self, form: Form, known: tuple[Form, ...]) -> Form:
        def holds(h: Form) -> bool:
            """Say whether h < 0 follows from one of what is known to be below 0."""
            return any((d := (h - k).constant) is not None and d <= 0 for k in known)

        def leaf(atom: Atom) -> Form | None:
            found = self._decided(atom, holds)
            return None if found is None else rewritten(self, found, leaf)

        return rewritten(self, form, leaf)

    def _decided(self, atom: Atom, holds: Callable[[Form], bool]) -> Form | None:
        """Return the part that a clamp or selection comes down to, by what is known below 0."""
        if atom.kind == "select":
            *conditions, then, otherwise = atom.parts
            if all(map(holds, conditions)):
                return then
            return otherwise if any(holds(-h - number(1)) for h in conditions) else None
        if atom.kind in ("min", "max"):
            small, large = atom.parts
            if not holds(small - large - number(1)):
                small, large = large, small
                if not holds(small - large - number(1)):
                    return None
            return small if atom.kind == "min" else large
        if atom.kind == "rem":
            dividend, divisor = atom.parts
            positive = self._not_negative(dividend) or holds(-dividend - number(1))
            return dividend if positive and holds(dividend - divisor) else None
        return None

    def conjuncts(self, mask: Value) -> tuple[Form, ...]:
        """Return forms that are all below 0 exactly where a mask is on."""
        known = self._conjuncts.get(mask)
        if known is None:
            known = self._conjuncts[mask] = self._taken_apart(mask)
        return known

    def _taken_apart(self, mask: Value) -> tuple[Form, ...]:
        op = mask.op
        if isinstance(op, Constant):
            return () if op.value else (number(0),)
        if op is not None and type(op) in MOVES:
            parts = [MOVES[type(op)](self, op, h) for h in self.conjuncts(op.operands[0])]
            if all(part is not None for part in parts):
                return tuple(part for part in parts if part is not None)
        if isinstance(op, Elementwise):
            if op.function == "and":
                return tuple({h: None for v in op.inputs for h in self.conjuncts(v)})
            if op.row.compares and op.function != "ne":
                f, g = (self.form(v) for v in op.inputs)
                if f is not None and g is not None:
                    return _below(op.function, f, g)
        if not shape_of(mask.type):
            return (Form({(self.atom("value", mask),): -1}),)
        ones = (1,) * len(shape_of(mask.type))
        return (promising(self, mask, (ones, ones, ones)).scaled(-1),)

    def mask_run(self, mask: Value | None, axis: int, extent: int) -> int:
        """Return the length of aligned runs along an axis over which a mask is constant."""
        if mask is None:
            return _UNBOUNDED
        known = self._mask_runs.get((mask, axis, extent))
        if known is None:
            known = self._mask_run(mask, axis, extent)
            if self.told is not None:
                known = max(known, self.told.mask_run(mask, axis, extent))
            self._mask_runs[mask, axis, extent] = known
        return known

    def _mask_run(self, mask: Value, axis: int, extent: int) -> int:
        op = mask.op
        if not shape_of(mask.type) or isinstance(op, Constant | Splat):
            return _UNBOUNDED
        if isinstance(op, Elementwise):
            if op.function in ("and", "or", "xor"):
                return min(self.mask_run(v, axis, extent) for v in op.inputs)
            return self._comparison_run(op, axis, extent) if op.row.compares else 1
        if isinstance(op, ConvertLayout):
            return self.mask_run(op.source, axis, extent)
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
        if op.function in ("eq", "ne"):
            # Both h < 1 and -h < 1; where h is the same along the runs, so are these.
            return run if (run := self._sign_run(f - g, axis, extent, level=True)) > 1 else 1
        # Every other comparison is h < 0 or its negation, which is constant over the same runs.
        return self._sign_run(f - g if op.function in ("lt", "ge") else g - f, axis, extent)

    def _sign_run(self, h: Form, axis: int, extent: int, *, level: bool = False) -> int:
        """Return the length of aligned runs over which h < 0 is constant; `level`: h itself."""
        # An address before the array is nobody's; a mask of negative numbers has to be right.
        if not all(self._rounds_down(a) for m in h.terms for a in m if axis in a.axes):
            return 1
        stride, run, start = self.run(h, axis, extent)
        if stride == 0:
            return run
        if level or stride is None:
            return 1
        if stride < 0:  # -s x + e < 0 changes where -s x + e + 1 has come to 0.
            _, run, start = self.run(h + number(1), axis, extent)
        # Numbers that go up by s from a multiple of s times the run's length pass 0 at its first
        # only.
        step = abs(stride)
        return min(run, _power_of_two(start // step)) if start % step == 0 else 1

    def _rounds_down(self, atom: Atom) -> bool:
        """Say whether no negative number is divided in an atom: division truncates toward zero."""
        if atom.kind in ("min", "max", "select"):
            return all(self._rounds_down(a) for form in atom.parts for a in form.atoms())
        if atom.beside is not None:
            return all(map(self._rounds_down, atom.beside.atoms()))
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
        if atom.kind == "select":
            return all(map(self._not_negative, atom.parts[-2:]))
        if atom.beside is not None:
            return self._not_negative(atom.beside)
        return atom.kind in ("x", "pid", "programs", "trip", "trips")

    # -- construction ---------------------------------------------------------------------
    def atom(self, kind: str, key: Any, axes: frozenset[int] = frozenset()) -> Atom:
        """Return the one atom of this name."""
        known = self._atoms.get((kind, key))
        if known is None:
            known = self._atoms[kind, key] = Atom(kind, key, len(self._atoms), axes)
        return known

    def promised(self, value: Value, divisor: int, unwrapped: Form | None = None) -> Form:
        """Return the form of an unknown that `divisor` divides.

        `unwrapped`: what it is where numbers do not wrap.
        """
        atom = self.atom("value", value)
        self._divisors[atom] = divisor
        if unwrapped is not None:
            self._unwrapped[atom] = unwrapped
        return Form({(atom,): 1})

    def unwrapped(self, atom: Atom) -> Form | None:
        """Return what an unknown number is where it does not wrap, None: nobody knows."""
        return self._unwrapped.get(atom)

    def unknown(self, value: Value, divisor: int = 1, unwrapped: Form | None = None) -> Form:
        """Return the form of a tile of which only that `divisor` divides all elements is known.

        `unwrapped`: what it is where numbers do not wrap.
        """
        shape = shape_of(value.type)
        ones = (1,) * len(shape)
        same = [
            min(run, 1 << (extent - 1).bit_length())
            for run, extent in zip(self.equal_runs(value), shape, strict=True)
        ]
        form = promising(self, value, (ones, same, (divisor,) * len(shape)))
        self._divisors.update(dict.fromkeys(form.atoms(), divisor))
        if unwrapped is not None:
            self._unwrapped.update(dict.fromkeys(form.atoms(), unwrapped))
        return form

    def constant_runs(self, value: Value) -> tuple[int, ...]:
        """Return, for each axis, the length of aligned runs over which all elements are equal."""
        runs = self._constant_runs(value)
        if self.told is None:
            return runs
        return tuple(map(max, runs, self.told.constant_runs(value)))

    def _constant_runs(self, value: Value) -> tuple[int, ...]:
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
        together = (Elementwise, Select, Cast, Bitcast, ConvertLayout, Load)
        if not isinstance(op, together) or not op.removable:
            return (1,) * len(runs)
        for operand in op.operands:
            if shape_of(operand.type):
                runs = tuple(map(min, runs, self.constant_runs(operand)))
        return runs

    def also(self, atom: Atom, renamed: Atom, move: Callable[[Form], Form]) -> None:
        """Let what is known of an atom hold of its other name too; `move` renames coordinates."""
        if atom in self._divisors:
            self._divisors[renamed] = self._divisors[atom]
        if atom in self._unwrapped:
            self._unwrapped[renamed] = move(self._unwrapped[atom])

    def coordinate(self, axis: int) -> Form:
        """Return the coordinate along an axis of the tile."""
        return Form({(self.atom("x", axis, frozenset((axis,))),): 1})

    def _atom_divisor(self, atom: Atom) -> int:
        if atom.kind in ("rem", "min", "max", "select"):
            return gcd(*(self.divisor(part) for part in atom.parts[-2:]))
        if atom.kind == "div" and (by := atom.parts[1].constant):
            whole = self.divisor(atom.parts[0])
            return 1 if whole % by else abs(whole // by)
        known = self._divisors.get(atom)
        if known is None and atom.beside is not None:
            known = self._divisors[atom] = self._told_divisor(atom)
        return known or 1

    def _told_divisor(self, atom: Atom) -> int:
        """Return what divides a promised tile: multiples that each number is the first of."""
        _, _, contiguous, _, divisible, form = atom.key
        found = self.divisor(form)
        for axis in atom.axes:
            stride, _, _ = self.run(form, axis, 1 << 30)
            if stride != 1 and contiguous[axis] == 1:
                found = lcm(found, divisible[axis])
        return found

    def _size(self, form: Form) -> int:
        """Return how many atoms a form names where it is written out."""
        return sum(1 + sum(map(self._atom_size, monomial)) for monomial in form.terms)

    def _atom_size(self, atom: Atom) -> int:
        inside = atom.parts if atom.beside is None else (atom.beside,)
        if not inside:
            return 1
        known = self._sizes.get(atom)
        if known is None:
            known = self._sizes[atom] = 1 + sum(map(self._size, inside))
        return known

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        rule = RULES.get(type(op))
        if rule is not None:
            form = rule(self, op)
            chosen = isinstance(op, Select) and not shape_of(op.result.type)
            most = _MOST_CHOSEN if chosen else _MOST_ATOMS
            if form is not None and self._size(form) > most:
                self._own(op.results[0], self.divisor(form))
                return
            self._forms[op.results[0]] = form
        elif isinstance(op, For | While):
            self._loop(op)
            return
        elif isinstance(op, If):
            self._block(op.then)
            self._block(op.otherwise)
            for value, *yields in zip(op.results, op.then.yields, op.otherwise.yields, strict=True):
                self._joined(op, value, *yields)
            return
        else:
            for region in op.regions:
                for argument in region.arguments:
                    self._own(argument)
                self._block(region)
        for result in op.results:
            if self._forms.get(result) is None:
                self._own(result)

    def _own(self, value: Value, divisor: int = 1) -> None:
        """Give a scalar the form of an unknown; tiles have one only if these are asked for."""
        self._forms[value] = None
        if _is_token(value) or not counts(element_of(value.type)):
            return
        rank = len(shape_of(value.type))
        if not rank:
            self._forms[value] = self.promised(value, divisor)
        elif self.tiles:
            self._forms[value] = self.unknown(value, divisor)

    def _joined(self, op: If, value: Value, then: Value, otherwise: Value) -> None:
        """Give the result of a branch a form: of both, or one of two."""
        a, b = self.form(then), self.form(otherwise)
        if a is None or b is None:
            self._own(value)
        elif a == b:
            self._forms[value] = a
        elif self.tiles and self._size(found := self._choice(op, a, b)) <= _MOST_CHOSEN:
            self._forms[value] = found
        else:
            self._own(value, gcd(self.divisor(a), self.divisor(b)))

    def _choice(self, op: If, then: Form, otherwise: Form) -> Form:
        found = selected(self, op.condition, then, otherwise)
        assert found is not None
        return found

    # -- loops ----------------------------------------------------------------------------
    def _loop(self, op: For | While) -> None:
        """Look at a loop twice, with all the loops in it.

        First each carried value is a name of its own; by how much a round changes it is read off
        what is yielded. Then they have the forms that follow.
        """
        if self._looking != "not in a loop":
            self._rounds(op)
            return
        self._looking = "first"
        self._rounds(op)
        self._looking = "again"
        for known in (self._mask_runs, self._conjuncts, self._under):
            known.clear()
        self._rounds(op)
        self._looking = "not in a loop"

    def _rounds(self, op: For | While) -> None:
        trip = trips = None
        if isinstance(op, For):
            counter = op.body.arguments[0]
            lower, step = self.form(op.lower), self.form(op.step)
            trip, trips = (Form({(self.atom(k, counter),): 1}) for k in ("trip", "trips"))
            self._forms[counter] = None if lower is None or step is None else lower + step * trip
            if self._forms[counter] is None:
                self._own(counter)
        carried = op.body.arguments[isinstance(op, For) :]
        twins = op.condition.arguments if isinstance(op, While) else carried
        for init, argument, twin in zip(op.inits, carried, twins, strict=True):
            for value in {argument: None, twin: None}:
                if self._looking == "first":
                    self._mark(value)
                else:
                    self._carried(value, init, argument, trip)
        for region in op.regions:
            self._block(region)
        if self._looking == "first":
            self._read_changes(op, carried)
            self._read_divisors(op, carried)
        for init, argument, result in zip(op.inits, carried, op.results, strict=True):
            self._carried(result, init, argument, trips)

    def _mark(self, value: Value) -> None:
        """Give a carried value a name of its own; a tile's says where it is turned."""
        self._own(value)
        shape = shape_of(value.type)
        if shape and not _is_token(value) and counts(element_of(value.type)):
            ones = (1,) * len(shape)
            self._forms[value] = promising(self, value, (ones, ones, ones))

    def _read_changes(self, op: For | While, carried: tuple[Value, ...]) -> None:
        """Note by how much a round changes each carried value, where all elements change alike."""
        inside = {
            *(a for region in op.regions for a in region.arguments),
            *(r for region in op.regions for inner in walk(region) for r in _received(inner)),
        }
        for argument, after in zip(carried, op.body.yields, strict=True):
            mark, end = self.form(argument), self.form(after)
            if mark is None or end is None:
                continue
            change = end - mark
            if change.axes:
                continue
            named = {_names(atom, inside) for atom in change.atoms()}
            tile = any(atom.kind == "promise" for atom in all_atoms(change))
            self._changes[argument] = change
            if True in named or (tile and not self.tiles):
                self._varying.add(argument)

    def _read_divisors(self, op: For | While, carried: tuple[Value, ...]) -> None:
        """Note what divides each carried value in all rounds: its start, and the next if it does.

        All are first taken to be divisible as they start, then by less until that goes on.
        """
        marks: list[tuple[Value, Atom, int, Form]] = []
        for init, argument, after in zip(op.inits, carried, op.body.yields, strict=True):
            start, mark, end = self.form(init), self.form(argument), self.form(after)
            if start is None or mark is None or end is None or mark == end:
                continue
            if len(mark.terms) == 1 and mark.constant is None:
                ((atom,),) = mark.terms
                marks.append((argument, atom, self.divisor(start), end))
        known = self._divisors
        taken = {atom: divisor for _, atom, divisor, _ in marks}
        while any(divisor > 1 for divisor in taken.values()):
            self._divisors = {**known, **taken}  # what is remembered meanwhile is as doubtful
            found = {atom: gcd(taken[atom], self.divisor(end)) for _, atom, _, end in marks}
            if found == taken:
                break
            taken = found
        self._divisors = known
        self._lasting.update({argument: taken[atom] for argument, atom, _, _ in marks})

    def _carried(self, value: Value, init: Value, argument: Value, rounds: Form | None) -> None:
        """Give a value that a loop carries the form that follows from the change in a round.

        `rounds`: the number of rounds until the value is looked at, None if that has no name.
        """
        start, change = self.form(init), self._changes.get(argument)
        lasting = self._lasting.get(argument, 1)
        if start is None or change is None:
            self._own(value, lasting)
            return
        change = self._settled(change)
        divisor = self.divisor(change)
        if rounds is not None and argument not in self._varying:
            self._forms[value] = start + change * rounds
        elif self.tiles:
            moved = self.atom("moved", (value, start))
            self._divisors[moved] = lcm(divisor, lasting)
            self._forms[value] = start + Form({(moved,): 1})
        else:
            self._own(value, lcm(gcd(divisor, self.divisor(start)), lasting))

    def _settled(self, change: Form) -> Form:
        """Return a change with the names of carried values replaced by their forms."""

        def leaf(atom: Atom) -> Form | None:
            if atom.kind != "value" or atom.key not in self._changes:
                return None
            found = self.form(atom.key)
            return None if found is None or found == Form({(atom,): 1}) else found

        return rewritten(self, change, leaf)


_latest: tuple[Module, Affine] | None = None


def tile_forms(module: Module) -> Affine:
    """Return the forms of a module, with tiles; passes that change nothing leave them as well."""
    global _latest
    held = _latest
    if held is None or held[0] is not module:
        held = _latest = module, Affine(module, tiles=True)
    return held[1]


def _below(function: str, f: Form, g: Form) -> tuple[Form, ...]:
    """Return what is below 0 exactly where f and g compare so."""
    one = number(1)
    found = {
        "lt": (f - g,), "gt": (g - f,), "le": (f - g - one,), "ge": (g - f - one,),
        "eq": (f - g - one, g - f - one),
    }  # fmt: skip
    return found[function]


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
    if atom.kind in ("min", "max", "select"):
        signs = [_counts_up(form) for form in atom.parts[-2:]]
        return any(signs) if atom.kind == "max" else all(signs)
    if atom.beside is not None:
        return _counts_up(atom.beside)
    return True


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


def _is_token(value: Value) -> bool:
    return type(value.type).__name__ in ("Token", "Shared")


def _power_of_two(value: int) -> int:
    """Return the largest power of two that divides a positive number."""
    return value & -value if value else _UNBOUNDED
