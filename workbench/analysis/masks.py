"""Masks as bounds: what a conjunction of comparisons says of each axis of a tile.

A mask is a set of *conjuncts*, forms that are all below 0 where it is on (`Affine.conjuncts`).

| conjunct | says |
|---|---|
| x(d) + r, r without coordinates | x(d) < n with n = -r: an upper bound |
| r - x(d) | x(d) >= l with l = r + 1: a lower bound |
| no coordinate | a predicate of the whole access |
| two coordinates, another coefficient, an opaque coordinate | no bound |
| never 0 or more inside the tile | nothing |

`offs < K - k·BK` and `k·BK + offs < K` are one conjunct, since both sides are one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.analysis.forms import Form, all_atoms, number

Why = Literal["couples axes", "is not known", "scales a coordinate"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A conjunction by axis: `x < n` for each upper n, `x >= l` for each lower l.

    predicates: forms without coordinates that are below 0 where anything is on.
    rest: conjuncts that bound no axis, and why.
    """

    upper: Mapping[int, tuple[Form, ...]]
    lower: Mapping[int, tuple[Form, ...]]
    predicates: tuple[Form, ...]
    rest: tuple[tuple[Form, Why], ...]


def bounds_of(conjuncts: Iterable[Form], shape: tuple[int, ...]) -> Bounds:
    """Take a conjunction over a tile of a shape apart; what always holds is left out."""
    upper: dict[int, tuple[Form, ...]] = {}
    lower: dict[int, tuple[Form, ...]] = {}
    predicates: list[Form] = []
    rest: list[tuple[Form, Why]] = []
    for held in dict.fromkeys(conjuncts):
        if always(held, shape):
            continue
        if not held.axes:
            predicates.append(held)
            continue
        found = plain_coordinate(held)
        if isinstance(found, str):
            rest.append((held, found))
            continue
        axis, sign, other = found
        if sign > 0:
            upper[axis] = (*upper.get(axis, ()), -other)
        else:
            lower[axis] = (*lower.get(axis, ()), other + number(1))
    return Bounds(upper, lower, tuple(predicates), tuple(rest))


def plain_coordinate(form: Form) -> tuple[int, int, Form] | Why:
    """Return (d, s, r) of a form s·x(d) + r with s = ±1 and r without coordinates, or why not."""
    if any(atom.axes and atom.kind != "x" for atom in form.atoms()):
        known = not any(atom.kind in ("promise", "moved") for atom in all_atoms(form) if atom.axes)
        return "couples axes" if known and len(form.axes) > 1 else "is not known"
    if len(form.axes) > 1:
        return "couples axes"
    (axis,) = form.axes
    moving = {m: c for m, c in form.terms.items() if any(atom.axes for atom in m)}
    ((monomial, sign),) = moving.items() if len(moving) == 1 else (((), 0),)
    if len(monomial) != 1 or sign not in (1, -1):
        return "scales a coordinate"
    return axis, sign, Form({m: c for m, c in form.terms.items() if m != monomial})


def follows(held: Form, known: Iterable[Form]) -> bool:
    """Say whether a form is below 0 because it is not above one that is known to be."""
    constant = held.constant
    if constant is not None and constant < 0:
        return True
    return any((d := (held - k).constant) is not None and d <= 0 for k in known)


def implies(held: Form, other: Form, shape: tuple[int, ...]) -> bool:
    """Say whether another form is below 0 wherever in a tile a conjunct is.

    It is if it is not above the conjunct. With a quotient c * (a / c) <= a + c - 1, however that
    is rounded, and c times a conjunct is at most -c: `i / 2 + x < n / 2` implies `i < n`.
    """
    if always(other - held - number(1), shape):
        return True
    for monomial, coefficient in held.terms.items():
        if len(monomial) != 1 or monomial[0].kind != "div" or coefficient != -1:
            continue
        dividend, divisor = monomial[0].parts
        by = divisor.constant
        if by is None or by < 1:
            continue
        rest = Form({m: c for m, c in held.terms.items() if m != monomial})
        if always(other - rest.scaled(by) + dividend - number(1), shape):
            return True
    return False


def always(held: Form, shape: tuple[int, ...]) -> bool:
    """Say whether a conjunct of numbers and coordinates alone is below 0 throughout a tile."""
    most = 0
    for monomial, coefficient in held.terms.items():
        if not monomial:
            most += coefficient
        elif len(monomial) == 1 and monomial[0].kind == "x":
            axis: int = monomial[0].key
            most += max(0, coefficient) * (shape[axis] - 1)
        else:
            return False
    return most < 0
