"""Ops that only rename registers: the layouts of operand and result say which is which."""

from __future__ import annotations

from workbench.ir import shape_of
from workbench.layouts import LinearLayout
from workbench.ops import Broadcast, ExpandDims, Join, Reshape, Splat, Split, Transpose
from workbench.targets.simt.bits import neighbours_of_bits
from workbench.targets.simt.fields import neighbours_of_fields
from workbench.targets.simt.lowering import Held, Lowering
from workbench.targets.simt.passes.costs import default_layout
from workbench.targets.simt.rules import (
    NO_SCRATCH,
    SAME,
    Along,
    Device,
    Layouts,
    Scratch,
    Setting,
    as_they_are,
)
from workbench.targets.simt.staged import is_staged_reshape, staged_scratch
from workbench.targets.simt.staged import lower_reshape as lower_staged_reshape
from workbench.targets.simt.table import SIMT


@SIMT.layouts(Splat)
def splat_layouts(op: Splat, on: Setting) -> Layouts:
    return Layouts(work=op.result, operands=(None,), floats=True)


@SIMT.layouts(ExpandDims)
def expand_layouts(op: ExpandDims, on: Setting) -> Layouts:
    axis = op.axis
    along = Along(lambda c: c.squeeze(axis), lambda c: c.expand_dims(axis))
    return Layouts(work=op.result, operands=(along,), floats=True)


@SIMT.layouts(Transpose)
def transpose_layouts(op: Transpose, on: Setting) -> Layouts:
    order = op.order
    back = tuple(order.index(i) for i in range(len(order)))
    along = Along(lambda c: c.transpose(back), lambda c: c.transpose(order))
    return Layouts(work=op.result, operands=(along,), floats=True)


@SIMT.layouts(Broadcast)
def broadcast_layouts(op: Broadcast, on: Setting) -> Layouts:
    axes = repeated_axes(op)
    along = Along(lambda c: c.broadcast_source(axes), None)
    return Layouts(work=op.result, operands=(along,), floats=True)


@SIMT.layouts(Reshape)
def reshape_layouts(op: Reshape, on: Setting) -> Layouts:
    before, after = shape_of(op.source.type), op.shape
    if not before or not after:
        return Layouts(work=op.result, operands=(None,), floats=bool(before))
    if is_staged_reshape(op):
        return Layouts(work=op.result, operands=(None,))
    along = Along(lambda c: c.reshape(before), lambda c: c.reshape(after))
    return Layouts(work=op.result, operands=(along,), floats=True)


@SIMT.scratch(Reshape)
def reshape_scratch(op: Reshape, chip: Device, num_warps: int, used: bool) -> Scratch:
    return staged_scratch(op.source, chip) if is_staged_reshape(op) else NO_SCRATCH


@SIMT.layouts(Join)
def join_layouts(op: Join, on: Setting) -> Layouts:
    """Two tiles in one layout, to which the new axis is added in registers."""
    halves = shape_of(op.first.type)
    if not halves:
        return as_they_are(op, on)
    along = Along(_half, lambda c: c.join())
    return Layouts(
        work=op.result,
        operands=(along, along),
        cost=lambda c: 0.0 if c.split() else 1e12,
        offers=lambda: [default_layout(halves, on.num_warps, on.lanes).join()],
    )


@SIMT.layouts(Split)
def split_layouts(op: Split, on: Setting) -> Layouts:
    """A layout with the last axis in registers."""
    shape = shape_of(op.source.type)
    halves = shape[:-1]
    return Layouts(
        own=shape,
        operands=(SAME,),
        results=(_half,) * len(op.results),
        cost=lambda c: 0.0 if c.split() else 1e12,
        offers=lambda: [default_layout(halves, on.num_warps, on.lanes).join()] if halves else [],
    )


def _half(layout: LinearLayout) -> LinearLayout | None:
    halves = layout.split()
    return halves[0] if halves else None


@SIMT.lower(Splat)
def lower_splat(low: Lowering, op: Splat) -> None:
    low.set_lazy(op.result, lambda r: low.held(op.source, r))


@SIMT.lower(ExpandDims, Transpose)
def lower_renaming(low: Lowering, op: ExpandDims | Transpose) -> None:
    """These layouts are the operand's with coordinates moved: registers correspond one to one."""
    if low.is_packed(op.source):
        low.set_words(op.result, low.words(op.source))
    else:
        low.set_lazy(op.result, lambda r: low.held(op.source, r))


@SIMT.lower(Reshape)
def lower_reshape(low: Lowering, op: Reshape) -> None:
    if not shape_of(op.result.type):
        # All axes have extent 1: register 0 of every thread holds the element.
        low.set_lazy(op.result, lambda r: low.held(op.source, 0))
    elif is_staged_reshape(op):
        lower_staged_reshape(low, op)
    else:
        low.set_lazy(op.result, lambda r: low.held(op.source, r))


@SIMT.lower(Broadcast)
def lower_broadcast(low: Lowering, op: Broadcast) -> None:
    source, result = low.layout(op.source), low.layout(op.result)
    places = register_of(source, result.broadcast_source(repeated_axes(op)))
    low.set_lazy(op.result, lambda r: low.held(op.source, places[r]))


def repeated_axes(op: Broadcast) -> tuple[int, ...]:
    """Return the axes along which a broadcast repeats its operand."""
    before, after = shape_of(op.source.type), op.shape
    return tuple(d for d, (a, b) in enumerate(zip(before, after, strict=True)) if a == 1 and b != 1)


def register_of(held: LinearLayout, wanted: LinearLayout) -> list[int]:
    """Return for each register of `wanted` the register of `held` with the same element.

    Both layouts place elements on the same lanes and warps.
    """
    table: dict[int, int] = {}
    for register, flat in enumerate(held.table("register")):
        table.setdefault(flat, register)
    return [table[flat] for flat in wanted.table("register")]


@SIMT.lower(Join)
def lower_join(low: Lowering, op: Join) -> None:
    """The new axis is a bit of the registers.

    Where it is the lowest one, numbers that come from fields of bytes are made in pairs.
    """
    if not shape_of(op.first.type):
        low.set_lazy(op.result, lambda r: low.held((op.first, op.second)[r & 1], 0))
        return
    source, result = low.layout(op.first), low.layout(op.result)
    table = {flat: r for r, flat in reversed(list(enumerate(source.table("register"))))}
    places = [(flat & 1, table[flat >> 1]) for flat in result.table("register")]
    halves = (op.first, op.second)
    if places[:2] == [(0, 0), (1, 0)]:
        live = low.live(op.result)
        wanted = list(dict.fromkeys(places[r][1] for r in live))
        pairs = neighbours_of_fields(low, halves, wanted)
        if pairs is None:
            pairs = neighbours_of_bits(low, halves, wanted)
        if pairs is not None:
            found = [pairs[place][which] if place in pairs else None for which, place in places]
            low.set_registers(op.result, found)
            return

    def register(r: int) -> Held:
        which, place = places[r]
        return low.held(halves[which], place)

    low.set_lazy(op.result, register)


@SIMT.lower(Split)
def lower_split(low: Lowering, op: Split) -> None:
    source = low.layout(op.source)
    table = {flat: r for r, flat in reversed(list(enumerate(source.table("register"))))}
    for half, result in enumerate(op.results):
        if not shape_of(result.type):
            low.set_lazy(result, lambda r, half=half: low.held(op.source, table[half]))
            continue
        flats = low.layout(result).table("register")
        low.set_lazy(
            result,
            lambda r, half=half, flats=flats: low.held(op.source, table[flats[r] << 1 | half]),
        )
