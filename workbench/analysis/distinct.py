"""How far a form reaches along a tile, and whether a tile's elements have numbers of their own."""

from __future__ import annotations

from math import inf, prod

from workbench.analysis.forms import Atom, Form

#: The largest numbers of what is never below 0.
_LARGEST: dict[str, int] = dict.fromkeys(("pid", "programs", "trip"), (1 << 31) - 1)


def moving_part(form: Form) -> Form:
    """Return the part of a form that moves along the tile."""
    return Form({m: c for m, c in form.terms.items() if any(atom.axes for atom in m)})


def without_steps(form: Form, size: int) -> Form:
    """Return a form without the terms that count in steps of a size; with 0 all of it."""
    return Form({m: c for m, c in form.terms.items() if not size or c % size})


def is_one_to_one(form: Form, shape: tuple[int, ...]) -> bool:
    """Say whether the elements of a tile have addresses of their own.

    Straight along each axis, each step farther than all smaller ones reach together; a quotient
    counts with its remainder, which together are what was divided. Steps that only the launch
    knows prove nothing: they may be 0.
    """
    steps: list[tuple[int, float]] = []  # how far one goes, how often
    axes: set[int] = set()
    parts: dict[tuple[Form, Form], dict[str, int]] = {}
    for monomial, coefficient in moving_part(form).terms.items():
        moving = [atom for atom in monomial if atom.axes]
        if len(moving) != 1:
            return False
        (atom,) = moving
        single = len(monomial) == 1
        if atom.kind == "x" and (single or shape[atom.key] == 1):
            axis: int = atom.key
            axes.add(axis)
            if single:
                steps.append((abs(coefficient), shape[axis] - 1))
        elif atom.kind in ("div", "rem") and single:
            divided, divisor = atom.parts
            parts.setdefault((divided, divisor), {})[atom.kind] = abs(coefficient)
        else:
            return False
    for (divided, divisor), found in parts.items():
        number = divisor.constant
        if len(found) != 2 or not number or not is_one_to_one(divided, shape):
            return False
        axes |= divided.axes
        up = _counts_up(divided, shape)
        steps.append((found["rem"], (abs(number) - 1) * (1 if up else 2)))
        steps.append((found["div"], _quotients_after_first(divided, abs(number), shape)))
    reach = 0.0
    for far, often in sorted(steps):
        if far <= reach:
            return False
        reach += far * often
    return all(extent == 1 or axis in axes for axis, extent in enumerate(shape))


def _quotients_after_first(divided: Form, number: int, shape: tuple[int, ...]) -> float:
    """Return how many quotients what is divided has at most, less one."""
    spread = _span(divided, shape)
    if spread is None:
        return inf
    moved = moving_part(divided)
    # Amid a quotient; whoever counts down from a multiple leaves its quotient at once.
    begun = bool(without_steps(divided - moved, number).terms)
    return spread // number + (begun or not _is_least_at_origin(moved, shape))


def _is_least_at_origin(form: Form, shape: tuple[int, ...]) -> bool:
    """Say whether what moves of a form starts at 0 and is never below."""
    for monomial, coefficient in form.terms.items():
        ends = ends_of(monomial[0], shape) if len(monomial) == 1 else None
        if coefficient < 0 or ends is None or ends[0] < 0:
            return False
    return True


def _span(form: Form, shape: tuple[int, ...]) -> int | None:
    """Return how far apart two numbers of a form may be; None if nobody knows."""
    far = 0
    for monomial, coefficient in moving_part(form).terms.items():
        ends = ends_of(monomial[0], shape) if len(monomial) == 1 else None
        if ends is None:
            return None
        far += abs(coefficient) * (ends[1] - ends[0])
    return far


def ends_of(atom: Atom, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the least and the largest number that a coordinate or a remainder may be."""
    if atom.kind == "x":
        axis: int = atom.key
        return 0, shape[axis] - 1
    divisor = atom.parts[1].constant if atom.kind == "rem" else None
    if not divisor:
        return None
    most = abs(divisor) - 1
    return (0 if _counts_up(atom.parts[0], shape) else -most), most


def _counts_up(form: Form, shape: tuple[int, ...]) -> bool:
    """Say whether a form is a sum of what is never below 0, and never wraps to it in 64 bits."""
    most = 0
    for monomial, coefficient in form.terms.items():
        if coefficient < 0 or any(atom.kind not in (*_LARGEST, "x") for atom in monomial):
            return False
        most += coefficient * prod(_largest(atom, shape) for atom in monomial)
    return most < 1 << 63


def _largest(atom: Atom, shape: tuple[int, ...]) -> int:
    if atom.kind == "x":
        axis: int = atom.key
        return shape[axis] - 1
    return _LARGEST[atom.kind]
