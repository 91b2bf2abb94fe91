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

What each op makes of its operands' forms is said in transfer.py, what loops make of what they carry
in loops.py; how forms go along an axis in runs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, lcm
from typing import Any

from workbench.analysis.forms import Atom, Form, number
from workbench.analysis.loops import Loops
from workbench.analysis.runs import UNBOUNDED, Runs, power_of_two
from workbench.analysis.transfer import (
    MOVES,
    RULES,
    may_have_form,
    promising,
    put_together,
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

#: A form that names more atoms, counted as often as they are written, is as good as none: work on
#: forms grows with what is written, which chains of divisions double at every step.
_MOST_ATOMS = 256
#: What a branch gives, or one of two numbers, is a name of its own from so many atoms on: loops go
#: on choosing, and sums with what they chose become too long.
_MOST_CHOSEN = 48
#: So is any number from so many on: an address is a sum of several, and one that is too long says
#: nothing any more of how it goes along its axes.
_MOST_OF_SCALARS = 80


def _most_atoms(op: Op) -> int:
    """Return how many atoms the form of what an op gives may name."""
    if shape_of(op.result.type):
        return _MOST_ATOMS
    return _MOST_CHOSEN if isinstance(op, Select) else _MOST_OF_SCALARS


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
        self._runs = Runs(module.parameters)
        self._loops = Loops(self, self._runs)
        self._sizes: dict[Atom, int] = {}
        self._mask_runs: dict[tuple[Value, int, int], int] = {}
        self._conjuncts: dict[Value, tuple[Form, ...]] = {}
        self._under: dict[tuple[Value, Value | None], Form] = {}
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
                self._runs.divides(divisor, atom)
                self._forms[parameter.value] = Form({(atom,): 1})
        #: The same with promises beside forms; None where nobody promises.
        self.told: Affine | None = None
        self.block(module.body)
        if tiles and not promises and any(isinstance(op, Promise) for op in module.walk()):
            self.told = Affine(module, tiles=True, promises=True)
            self._mask_runs.clear()

    # -- queries --------------------------------------------------------------------------
    def form(self, value: Value) -> Form | None:
        """Return the value's form, in elements for pointers; None if it has none."""
        return self._forms.get(value)

    def divisor(self, form: Form) -> int:
        """Return a number that divides the form's value for all coordinates (0 has all)."""
        return self._runs.divisor(form)

    def not_negative(self, value: Value) -> bool:
        """Say whether an integer is a sum of what is known not to be below 0."""
        form = self.form(value)
        return form is not None and self._runs.not_negative(form)

    def run(self, form: Form, axis: int, extent: int) -> tuple[int | None, int, int]:
        """Return (stride, run, start) of a form along an axis, as `Runs.run` says."""
        return self._runs.run(form, axis, extent)

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
                width = min(run, power_of_two(start))
        return width if self.told is None else max(width, self.told.vector(pointer, axis, mask))

    def stride(self, pointer: Value, axis: int, mask: Value | None = None) -> int | Form | None:
        """Return the distance in elements of neighbours along an axis: number, form or None."""
        form = self.accessed(pointer, mask)
        extent = shape_of(pointer.type)[axis]
        found = None if form is None else self._runs.stride(form, axis, extent)
        if isinstance(found, int) or self.told is None:
            return found
        told = self.told.stride(pointer, axis, mask)
        return told if isinstance(told, int) or found is None else found

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
        step = self._runs.usual_step(form, axis)
        return step if step is None or step.constant is None else step.constant

    # -- masks ----------------------------------------------------------------------------
    def accessed(self, pointer: Value, mask: Value | None) -> Form | None:
        """Return a form that a pointer has where a mask is on.

        Clamps that do nothing are gone, and what was taken apart by a division is whole again.
        """
        form = self.form(pointer)
        if form is None or not any(atom.parts for atom in form.atoms()):
            return form
        known = self._under.get((pointer, mask))
        if known is None:
            clamped = form if mask is None else self._clamped(form, self.conjuncts(mask))
            known = self._under[pointer, mask] = put_together(self, clamped)
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
            positive = self._runs.not_negative(dividend) or holds(-dividend - number(1))
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
        both = None if op is None else op.holds_with()
        if both is not None:
            return tuple({h: None for v in both for h in self.conjuncts(v)})
        if isinstance(op, Elementwise) and op.row.compares and op.function != "ne":
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
            return UNBOUNDED
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
            return UNBOUNDED
        if isinstance(op, Select):
            return min(self.mask_run(v, axis, extent) for v in op.operands)
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
            return UNBOUNDED if repeated else self.mask_run(op.source, axis, extent)
        if isinstance(op, ExpandDims):
            inner = axis - (axis > op.axis)
            return UNBOUNDED if op.axis == axis else self.mask_run(op.source, inner, extent)
        return 1

    def _comparison_run(self, op: Elementwise, axis: int, extent: int) -> int:
        f, g = (self.form(v) for v in op.inputs)
        if f is None or g is None:
            return 1
        if op.function in ("eq", "ne"):
            # Both h < 1 and -h < 1; where h is the same along the runs, so are these.
            return run if (run := self._runs.sign_run(f - g, axis, extent, level=True)) > 1 else 1
        # Every other comparison is h < 0 or its negation, which is constant over the same runs.
        return self._runs.sign_run(f - g if op.function in ("lt", "ge") else g - f, axis, extent)

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
        return self._named(self.atom("value", value), divisor, unwrapped)

    def unwrapped(self, atom: Atom) -> Form | None:
        """Return what an unknown number is where it does not wrap, None: nobody knows."""
        return self._runs.unwrapped.get(atom)

    def unknown(
        self, value: Value, divisor: int = 1, unwrapped: Form | None = None,
        either: tuple[Form, ...] = (),
    ) -> Form:  # fmt: skip
        """Return the form of a tile of which only that `divisor` divides all elements is known.

        `unwrapped`: what it is where numbers do not wrap; `either`: forms of which it is one.
        """
        shape = shape_of(value.type)
        known = [
            self._known_along(axis, extent, run, either)
            for axis, (extent, run) in enumerate(zip(shape, self.equal_runs(value), strict=True))
        ]
        words = zip(*((*runs, lcm(first, divisor)) for *runs, first in known), strict=True)
        return self._named(_name(promising(self, value, words)), divisor, unwrapped)

    def _known_along(
        self, axis: int, extent: int, equal: int, either: tuple[Form, ...]
    ) -> tuple[int, int, int]:
        """Return how long runs of an unknown are, consecutive and equal, and what begins them."""
        whole = 1 << (extent - 1).bit_length()
        runs = [self.run(form, axis, extent) for form in either]
        strides = {stride for stride, _, _ in runs}
        run = min((run for _, run, _ in runs), default=1)
        if strides == {1}:
            return min(run, whole), 1, gcd(*(first for _, _, first in runs))
        return 1, min(whole, max(equal, run) if strides == {0} else equal), 1

    def _named(self, atom: Atom, divisor: int, unwrapped: Form | None) -> Form:
        self._runs.divides(divisor, atom)
        if unwrapped is not None:
            self._runs.unwrapped[atom] = unwrapped
            self._runs.choose(atom, (unwrapped,))
        return Form({(atom,): 1})

    def constant_runs(self, value: Value) -> tuple[int, ...]:
        """Return, for each axis, the length of aligned runs over which all elements are equal."""
        runs = self._constant_runs(value)
        if self.told is None:
            return runs
        return tuple(map(max, runs, self.told.constant_runs(value)))

    def _constant_runs(self, value: Value) -> tuple[int, ...]:
        shape, form = shape_of(value.type), self.form(value)
        if isinstance(value.op, Constant | Splat):
            return (UNBOUNDED,) * len(shape)
        if form is not None:
            runs = [self.run(form, axis, extent) for axis, extent in enumerate(shape)]
            return tuple(run if stride == 0 else 1 for stride, run, _ in runs)
        if element_of(value.type) == I1:
            return tuple(self.mask_run(value, axis, extent) for axis, extent in enumerate(shape))
        return (1,) * len(shape)

    def equal_runs(self, value: Value) -> tuple[int, ...]:
        """Return constant runs of what an op computes element by element: those of its operands."""
        op, runs = value.op, (UNBOUNDED,) * len(shape_of(value.type))
        together = (Elementwise, Select, Cast, Bitcast, ConvertLayout, Load)
        if not isinstance(op, together) or not op.removable:
            return (1,) * len(runs)
        for operand in op.operands:
            if shape_of(operand.type):
                runs = tuple(map(min, runs, self.constant_runs(operand)))
        return runs

    def also(self, atom: Atom, renamed: Atom, move: Callable[[Form], Form]) -> None:
        """Let what is known of an atom hold of its other name too; `move` renames coordinates."""
        self._runs.also(atom, renamed, move)

    def coordinate(self, axis: int) -> Form:
        """Return the coordinate along an axis of the tile."""
        return Form({(self.atom("x", axis, frozenset((axis,))),): 1})

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

    def settle(self, value: Value, form: Form) -> None:
        """Let a value have this form from now on."""
        self._forms[value] = form

    def forget_masks(self) -> None:
        """Forget what was found of masks: forms that it was made of are others from now on."""
        for known in (self._mask_runs, self._conjuncts, self._under):
            known.clear()

    def block(self, block: Block) -> None:
        """Give all values of a block their forms."""
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        rule = RULES.get(type(op))
        if rule is not None:
            form = rule(self, op)
            if form is not None and self._size(form) > _most_atoms(op):
                self.own(op.results[0], either=(form,))
                return
            self._forms[op.results[0]] = form
        elif isinstance(op, For | While):
            self._loops.look(op)
            return
        elif isinstance(op, If):
            self.block(op.then)
            self.block(op.otherwise)
            for value, *yields in zip(op.results, op.then.yields, op.otherwise.yields, strict=True):
                self._joined(op, value, *yields)
            return
        else:
            for region in op.regions:
                for argument in region.arguments:
                    self.own(argument)
                self.block(region)
        for result in op.results:
            if self._forms.get(result) is None:
                self.own(result)

    def own(self, value: Value, divisor: int = 1, either: tuple[Form | None, ...] = ()) -> None:
        """Give a scalar the form of an unknown; tiles have one only if these are asked for.

        `either`: forms of which the value is one, if all of these are known.
        """
        self._forms[value] = None
        if not may_have_form(value):
            return
        forms = tuple(form for form in either if form is not None)
        forms = forms if len(forms) == len(either) else ()
        if not shape_of(value.type):
            found = self.promised(value, divisor)
        elif self.tiles:
            found = self.unknown(value, divisor, either=forms)
        else:
            return
        self._forms[value] = found
        if forms:
            self._runs.choose(_name(found), forms)

    def _joined(self, op: If, value: Value, then: Value, otherwise: Value) -> None:
        """Give the result of a branch a form: of both, or one of two."""
        a, b = self.form(then), self.form(otherwise)
        if a is None or b is None:
            self.own(value)
        elif a == b:
            self._forms[value] = a
        elif self.tiles and self._size(found := self._choice(op, a, b)) <= _MOST_CHOSEN:
            self._forms[value] = found
        else:
            self.own(value, either=(a, b))

    def _choice(self, op: If, then: Form, otherwise: Form) -> Form:
        found = selected(self, op.condition, then, otherwise)
        assert found is not None
        return found


def _name(form: Form) -> Atom:
    """Return the atom that a form is."""
    ((atom,),) = form.terms
    return atom


_latest: tuple[Module, Affine] | None = None


def tile_forms(module: Module) -> Affine:
    """Return the forms of a module, with tiles.

    Passes that change no op leave them as they are: they follow from parameters and ops alone.
    """
    global _latest
    held = _latest
    if held is None or not (
        held[0].body is module.body and held[0].parameters is module.parameters
    ):
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
