"""Which carried tiles an expression reads: what must be known before one is overwritten."""

from __future__ import annotations

from workbench.ir import Value, shape_of
from workbench.targets.cpu.masks import Axes, moved_axes
from workbench.targets.cpu.table import STATEMENTS
from workbench.targets.cpu.writer import Writer


def identity(value: Value) -> Axes:
    """Return the axes of a tile in its own order."""
    return tuple(range(len(shape_of(value.type))))


def tile_reads(
    w: Writer,
    value: Value,
    axes: Axes | None,
    owners: dict[Value, int],
    found: set[tuple[int, bool]],
    seen: set[tuple[Value, Axes | None]] | None = None,
) -> None:
    """Collect which carried tiles a value reads, and whether at the very same element.

    `seen`: what was looked at before; many ways lead to what is used twice at each step.
    """
    seen = set() if seen is None else seen
    if (value, axes) in seen:
        return
    seen.add((value, axes))
    if value in owners:
        same = axes == identity(value)
        found.add((owners[value], same))
        return
    op = value.op
    if op is None or value in w.buffers or not shape_of(value.type):
        return
    if STATEMENTS.rule(type(op)) is not None:
        return
    inner = None if axes is None else moved_axes(op, axes)
    for operand in op.operands:
        fits = inner is not None and len(inner) == len(shape_of(operand.type))
        tile_reads(w, operand, inner if fits else None, owners, found, seen)
