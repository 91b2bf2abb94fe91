"""How forms go along an axis of a tile: what divides them, runs, strides, where signs change.

What forms are is said in affine.py. A *run* is a number of consecutive coordinates, aligned to
their number, over which a form has one stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd, lcm

from workbench.analysis.forms import Atom, Form, Monomial, number
from workbench.ir import KernelParameter

#: A run or a divisor that no number bounds.
UNBOUNDED = 1 << 62


class Runs:
    """What is known of the atoms of a module, and what follows of it for forms.

    `low`: the smallest value of each integer argument, None if nobody knows.
    """

    def __init__(self, parameters: Iterable[KernelParameter]) -> None:
        #: What divides an atom, as far as that is not seen from its parts.
        self.divisors: dict[Atom, int] = {}
        #: Forms of which an atom is one: of a branch, or what a loop began and went on with.
        self.either: dict[Atom, tuple[Form, ...]] = {}
        #: Other names of atoms: the same elements at other coordinates.
        self._names: dict[Atom, Atom] = {}
        #: What was found of atoms that are one of several forms.
        self._found: dict[Atom, int] = {}
        #: What unknown numbers are where they do not wrap.
        self.unwrapped: dict[Atom, Form] = {}
        self._lows = {parameter.name: parameter.low for parameter in parameters}
        # What quotients, choices and promised tiles are asked for, again and again: they are made
        # of each other. Kept until something that was looked at is known otherwise.
        self._kept_divisors: dict[Atom, int] = {}
        self._kept_runs: dict[tuple[Atom, int, int], tuple[int | None, int, int]] = {}
        self._latest = -1

    def divides(self, divisor: int, atom: Atom) -> None:
        """Let a number divide an atom, as far as that is not seen from its parts."""
        self.divisors[atom] = divisor
        self._known_otherwise(atom)

    def _known_otherwise(self, atom: Atom) -> None:
        """Forget what was made of an atom; nothing was made of one that is new."""
        if atom.order <= self._latest:
            self._ask_again()

    def _ask_again(self) -> None:
        self._kept_divisors.clear()
        self._kept_runs.clear()
        self._latest = -1

    def divisor(self, form: Form) -> int:
        """Return a number that divides the form's value for all coordinates (0 has all)."""
        result = 0
        for monomial, coefficient in form.terms.items():
            product = abs(coefficient)
            for atom in monomial:
                product *= self._atom_divisor(atom)
            result = gcd(result, product)
        return result or UNBOUNDED

    def choose(self, atom: Atom, forms: tuple[Form, ...]) -> None:
        """Let an atom be one of these forms, made of atoms that were there before it.

        One that has an unwrapped form is that if it does not wrap.
        """
        self.either[atom] = forms
        self._found.pop(atom, None)
        self._known_otherwise(atom)
        self._atom_divisor(atom)

    def lasting(self, marks: Mapping[Atom, tuple[Form, Form]]) -> dict[Atom, int]:
        """Return what divides what loops carry in all rounds, of atoms that are nothing else.

        `marks`: what each begins with and what follows it, in the order in which loops begin. All
        are first taken to be divisible as they begin, then by less until that goes on.
        """
        first = min((atom.order for atom in marks), default=0)
        later = [a for a in {**self._found, **self.either, **marks} if a.order >= first]
        later.sort(key=lambda atom: atom.order)  # each after those that it is made of
        taken: dict[Atom, int] = {}
        self._forget(later)
        for atom in later:
            if atom in marks:
                taken[atom] = self._found[atom] = self.divisor(marks[atom][0])
                self._ask_again()
            else:
                self._atom_divisor(atom)
        while any(divisor > 1 for divisor in taken.values()):
            found = {
                atom: gcd(taken[atom], *map(self.divisor, forms)) for atom, forms in marks.items()
            }
            self._forget(later)  # it was as doubtful
            if found == taken:
                break
            taken = found
            self._found.update(taken)
            self._ask_again()
            for atom in later:
                self._atom_divisor(atom)
        self._forget(later)
        return taken

    def _forget(self, atoms: Iterable[Atom]) -> None:
        for atom in atoms:
            self._found.pop(atom, None)
        self._ask_again()

    def run(self, form: Form, axis: int, extent: int) -> tuple[int | None, int, int]:
        """Return (stride, run, start) of a form along an axis.

        Aligned runs of `run` coordinates have this stride, and at their first element the value
        is a multiple of `start`. The stride is None where it is not a number.
        """
        stride: int | None = 0
        run, start = UNBOUNDED, 0
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
        run = min(run, power_of_two(extent))
        if own is not None:
            start = gcd(start, own * run)
        # A run shorter than an atom's own starts inside it too.
        start = gcd(start, *(distance * run for length, distance in counting if run < length))
        return stride, run, start or UNBOUNDED

    def _opaque_run(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        known = self._kept_runs.get((atom, axis, extent))
        if known is None:
            known = self._run_of_parts(atom, axis, extent)
            self._latest = max(self._latest, atom.order)
            self._kept_runs[atom, axis, extent] = known
        return known

    def _run_of_parts(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        if atom.kind in ("div", "rem"):
            return self._quotient_run(atom, axis, extent)
        if atom.kind == "promise":
            return self._told_run(atom, axis, extent)
        if atom.kind in ("min", "max", "select"):
            *conditions, first, second = atom.parts
            a, b = (self.run(form, axis, extent) for form in (first, second))
            whole = min((self.sign_run(h, axis, extent) for h in conditions), default=UNBOUNDED)
            if atom.kind != "select" and a[0] == b[0] == 0:
                return 0, min(a[1], b[1]), gcd(a[2], b[2])
            if atom.kind == "select" and a[0] == b[0]:
                # At the first of a run it is the first of one of both, or lies in a longer one.
                run = min(whole, a[1], b[1])
                start = gcd(a[2], b[2], (a[0] or 0) * run if run < max(a[1], b[1]) else 0)
                return a[0], run, lcm(start or UNBOUNDED, self._atom_divisor(atom))
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
        return stride, run, lcm(start, multiple, self._atom_divisor(atom))

    def _quotient_run(self, atom: Atom, axis: int, extent: int) -> tuple[int | None, int, int]:
        inner, divisor = atom.key
        stride, run, start = self.run(inner, axis, extent)
        if axis in divisor.axes or stride not in (0, 1) or not _counts_up(inner):
            return None, 1, 1
        both = gcd(start, self.divisor(divisor))
        if stride and run > power_of_two(both):
            run = power_of_two(both)
            both = gcd(both, run)
        return (stride, run, both) if atom.kind == "rem" else (0, run, 1)

    def stride(self, form: Form, axis: int, extent: int) -> int | Form | None:
        """Return the distance of neighbours along an axis: a number, a form or None."""
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

    def usual_step(self, form: Form, axis: int) -> Form | None:
        """Return by how much most neighbours along an axis differ; for costs alone."""
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
            beside = atom.beside if atom.beside is not None else self.unwrapped.get(atom)
            return None if beside is None else self.usual_step(beside, axis)
        if not atom.parts:
            return None
        one, other = (self.usual_step(part, axis) for part in atom.parts[-2:])
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

    def sign_run(self, h: Form, axis: int, extent: int, *, level: bool = False) -> int:
        """Return the length of aligned runs over which h < 0 is constant; `level`: h itself."""
        # An address before the array is nobody's; a mask of negative numbers has to be right.
        if not self._rounds_down(h, axis, extent):
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
        return min(run, power_of_two(start // step)) if start % step == 0 else 1

    def _rounds_down(self, form: Form, axis: int, extent: int) -> bool:
        """Say whether no negative number that moves along an axis is divided in a form.

        Division truncates toward zero: there runs do not begin at multiples of their length.
        """
        moving = (atom for atom in form.atoms() if axis in atom.axes)
        return all(self._atom_rounds_down(atom, axis, extent) for atom in moving)

    def _atom_rounds_down(self, atom: Atom, axis: int, extent: int) -> bool:
        if atom.beside is not None:
            return self._rounds_down(atom.beside, axis, extent)
        if atom.kind in ("div", "rem"):
            dividend, _ = atom.parts
            if self.not_negative(dividend):
                return True
            # What is the same along runs stays that, whatever is made of it.
            still = self.run(dividend, axis, extent)[0] == 0
            return still and self._rounds_down(dividend, axis, extent)
        return all(self._rounds_down(form, axis, extent) for form in atom.parts)

    def not_negative(self, form: Form) -> bool:
        """Say whether a form is a sum of what is known not to be negative."""
        return all(
            coefficient > 0 and all(self._is_count(atom) for atom in monomial)
            for monomial, coefficient in form.terms.items()
        )

    def _is_count(self, atom: Atom) -> bool:
        if atom.kind == "arg":
            low = self._lows[atom.key]
            return low is not None and low >= 0
        if atom.kind == "rem":  # it has the dividend's sign
            return self.not_negative(atom.key[0])
        if atom.kind == "div":
            return all(map(self.not_negative, atom.key))
        if atom.kind == "select":
            return all(map(self.not_negative, atom.parts[-2:]))
        if atom.beside is not None:
            return self.not_negative(atom.beside)
        return atom.kind in ("x", "pid", "programs", "trip", "trips")

    def also(self, atom: Atom, renamed: Atom, move: Callable[[Form], Form]) -> None:
        """Let what is known of an atom hold of its other name too; `move` renames coordinates."""
        while atom in self._names:
            atom = self._names[atom]
        if atom is not renamed:
            self._names[renamed] = atom
        if atom in self.unwrapped:
            self.unwrapped[renamed] = move(self.unwrapped[atom])
        self._known_otherwise(renamed)

    def _atom_divisor(self, atom: Atom) -> int:
        self._latest = max(self._latest, atom.order)
        known = self._kept_divisors.get(atom)
        if known is not None:
            return known
        if atom.kind in ("rem", "min", "max", "select"):
            known = gcd(*(self.divisor(part) for part in atom.parts[-2:]))
        elif atom.kind == "div" and (by := atom.parts[1].constant):
            whole = self.divisor(atom.parts[0])
            known = 1 if whole % by else abs(whole // by)
        if known is None:
            return self._divisor_of_one(atom)
        self._kept_divisors[atom] = known
        return known

    def _divisor_of_one(self, atom: Atom) -> int:
        while atom in self._names:
            atom = self._names[atom]
            self._latest = max(self._latest, atom.order)
        given = self.divisors.get(atom, 1)
        if atom.beside is None and atom not in self.either and atom not in self._found:
            return given
        known = self._found.get(atom)
        if known is None:
            self._found[atom] = given  # for who is made of it by way of another name
            kept, self._kept_divisors, self._kept_runs = (
                (self._kept_divisors, self._kept_runs), {}, {}
            )  # fmt: skip
            one_of = self.either.get(atom)
            if one_of is not None:
                known = gcd(*map(self.divisor, one_of))
            else:
                known = self._told_divisor(atom)
            if atom in self.unwrapped:  # a power of two divides what wraps, too
                known = min(power_of_two(known), 1 << 31)
            known = self._found[atom] = lcm(known, given)
            self._kept_divisors, self._kept_runs = kept
        return known

    def _told_divisor(self, atom: Atom) -> int:
        """Return what divides a promised tile: multiples that each number is the first of."""
        _, _, contiguous, _, divisible, form = atom.key
        found = self.divisor(form)
        for axis in atom.axes:
            stride, _, _ = self.run(form, axis, 1 << 30)
            if stride != 1 and contiguous[axis] == 1:
                found = lcm(found, divisible[axis])
        return found


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


def power_of_two(value: int) -> int:
    """Return the largest power of two that divides a positive number."""
    return value & -value if value else UNBOUNDED
