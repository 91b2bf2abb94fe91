"""Masks that cut a loop into parts: all lanes on, some on, none on.

A mask is taken apart into comparisons of affine forms. Along the axis of the vector lanes each
says `x < bound` (or holds or fails for the whole row), so it is on for a prefix of the row. Whole
vectors before the shortest prefix run unmasked; after the longest they need not run at all, or
only with what masked-off lanes give.
"""

from __future__ import annotations

from typing import NamedTuple

from workbench.analysis.forms import Form, number
from workbench.ir import Op, Value, shape_of
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    ConvertLayout,
    Elementwise,
    ExpandDims,
    Load,
    Promise,
    Reshape,
    Select,
    Splat,
    Transpose,
)
from workbench.targets.cpu.addresses import evaluate
from workbench.targets.cpu.chunks import ZERO, Point
from workbench.targets.cpu.table import STATEMENTS
from workbench.targets.cpu.writer import Writer

#: Ops whose operands are read at the very point at which the result is wanted.
_POINTWISE = (AddPointer, Bitcast, Cast, ConvertLayout, Elementwise, Load, Promise, Select)
#: For each axis of a value, the axis of the loop nest that runs over it (None: it has one element).
Axes = tuple[int | None, ...]


class Mask(NamedTuple):
    """A mask and how its axes lie in the loop nest."""

    value: Value
    axes: Axes


class Conjunct(NamedTuple):
    """`form < 0`, or a scalar condition; the form's axes are renamed by `axes`."""

    form: Form | None
    scalar: Value | None
    axes: Axes


def masks_below(
    w: Writer,
    value: Value,
    axes: Axes | None,
    seen: dict[Value, Axes | None],
    visited: set[tuple[Value, Axes | None]],
) -> None:
    """Collect the masks that decide what a value is, with how their axes lie.

    A mask that is met with two meanings, or whose axes are mixed on the way, becomes None.
    """
    op = value.op
    if op is None or not shape_of(value.type) or value in w.buffers or (value, axes) in visited:
        return
    visited.add((value, axes))
    if isinstance(op, Load) and op.mask is not None:
        _note(op.mask, axes, seen)
    elif isinstance(op, Select) and shape_of(op.condition.type):
        _note(op.condition, axes, seen)
    if STATEMENTS.rule(type(op)) is not None:
        return
    moved = None if axes is None else moved_axes(op, axes)
    for operand in op.operands:
        fits = moved is not None and len(moved) == len(shape_of(operand.type))
        masks_below(w, operand, moved if fits else None, seen, visited)


def _note(mask: Value, axes: Axes | None, seen: dict[Value, Axes | None]) -> None:
    seen[mask] = axes if seen.get(mask, axes) == axes else None


def moved_axes(op: Op, axes: Axes) -> Axes | None:
    """Return the axes of an op's operand, given those of its result; None if they mix."""
    if isinstance(op, Broadcast):
        source = shape_of(op.source.type)
        return tuple(None if n == 1 else a for n, a in zip(source, axes, strict=True))
    if isinstance(op, ExpandDims):
        return axes[: op.axis] + axes[op.axis + 1 :]
    if isinstance(op, Transpose):
        found: list[int | None] = [None] * len(axes)
        for place, source in enumerate(op.order):
            found[source] = axes[place]
        return tuple(found)
    if isinstance(op, Reshape):
        source = shape_of(op.source.type)
        kept = [a for a, n in zip(axes, op.shape, strict=True) if n != 1]
        if [n for n in source if n != 1] != [n for n in op.shape if n != 1]:
            return None
        left = iter(kept)
        return tuple(None if n == 1 else next(left) for n in source)
    return axes if isinstance(op, _POINTWISE) else None


def conjuncts(w: Writer, mask: Value, axes: Axes) -> list[Conjunct] | None:
    """Take a mask apart; None if a part of it is not a comparison of affine forms.

    What several ways lead to is one part: masks of masks have as many ways as powers of two.
    """
    found: list[Conjunct] = []
    work, seen = [(mask, axes)], set[tuple[Value, Axes]]()
    while work:
        part = work.pop()
        if part in seen:
            continue
        seen.add(part)
        held = _parts(w, *part)
        if held is None:
            return None
        work += held[0]
        found += held[1]
    return found


def _parts(
    w: Writer, mask: Value, axes: Axes
) -> tuple[list[tuple[Value, Axes]], list[Conjunct]] | None:
    """Return the masks that one is on with together, and comparisons; None if it is no such."""
    op = mask.op
    if not shape_of(mask.type):
        return [], [Conjunct(None, mask, ())]
    if op is None or mask in w.buffers:
        return None
    if isinstance(op, Splat):
        return [], [Conjunct(None, op.source, ())]
    if isinstance(op, Constant):
        return ([], []) if op.value else None
    if isinstance(op, Broadcast | ExpandDims | Transpose | Reshape):
        inner = moved_axes(op, axes)
        return None if inner is None else ([(op.source, inner)], [])
    if not isinstance(op, Elementwise):
        return None
    if op.function == "and":
        return [(v, axes) for v in reversed(op.inputs)], []
    f, g = (w.affine.form(v) for v in op.inputs[:2])
    if f is None or g is None or not op.row.compares:
        return None
    difference = {"lt": f - g, "gt": g - f, "le": f - g - number(1), "ge": g - f - number(1)}
    compared = difference.get(op.function)
    return None if compared is None else ([], [Conjunct(compared, None, axes)])


class Extents(NamedTuple):
    """Along the lanes' axis: all masks are on before `live`, all are off from `dead` on (i64)."""

    masks: tuple[Value, ...]
    live: str
    dead: str


def extents(w: Writer, masks: list[Mask], axis: int, extent: int, point: Point) -> Extents | None:
    """Return where the masks are on along an axis, for the other coordinates of `point`.

    `point` holds a text for each axis of the nest that is fixed; None where no mask can be told.
    """
    found: list[tuple[Value, str, str]] = []
    for mask in masks:
        parts = conjuncts(w, mask.value, mask.axes)
        if parts is None:
            continue
        prefix = _prefix(w, parts, axis, extent, point)
        if prefix is not None:
            found.append((mask.value, *prefix))
    if not found:
        return None
    a = w.arithmetic(0)
    live, dead = found[0][1], found[0][2]
    for _, one, other in found[1:]:
        live = live if live == one else a.intrinsic("smin", "i64", [live, one])
        dead = dead if dead == other else a.intrinsic("smax", "i64", [dead, other])
    return Extents(tuple(m for m, _, _ in found), live, dead)


def _prefix(
    w: Writer, parts: list[Conjunct], axis: int, extent: int, point: Point
) -> tuple[str, str] | None:
    """Return (all on before, all off from) of one mask."""
    emit, a = w.emit, w.arithmetic(0)
    live = dead = str(extent)
    for part in parts:
        if part.form is None:
            assert part.scalar is not None
            on = w.scalar(part.scalar)
            live = a.select(on, live, "0", "i64")
            dead = a.select(on, dead, "0", "i64")
            continue
        own = [d for d, place in enumerate(part.axes) if place == axis]
        inner = tuple(
            ZERO if place is None or place == axis else point[place] for place in part.axes
        )
        if any(c.kind != "uniform" for d, c in enumerate(inner) if d in part.form.axes):
            return None
        moving = [d for d in own if d in part.form.axes]
        if not moving:
            on = emit.pure(f"icmp slt i64 {evaluate(w, part.form, inner)}, 0")
            live = a.select(on, live, "0", "i64")
            dead = a.select(on, dead, "0", "i64")
            continue
        stride, _, _ = w.affine.run(part.form, moving[0], extent)
        if stride not in (1, -1) or _is_opaque(part.form, moving[0]):
            return None
        start = evaluate(w, part.form, inner)
        if stride == 1:  # x + start < 0
            bound = emit.sub("i64", "0", start)
            bound = a.intrinsic("smax", "i64", [bound, "0"])
            live = a.intrinsic("smin", "i64", [live, bound])
            dead = a.intrinsic("smin", "i64", [dead, bound])
        else:  # on from some x on: unmasked only if that is the first
            on = emit.pure(f"icmp slt i64 {start}, 0")
            live = a.select(on, live, "0", "i64")
    return live, dead


def _is_opaque(form: Form, axis: int) -> bool:
    return any(axis in atom.axes and atom.kind != "x" for atom in form.atoms())
