"""Ops that only rename registers: the layouts of operand and result say which is which."""

from __future__ import annotations

from workbench.ir import shape_of
from workbench.layouts import LinearLayout
from workbench.ops import Broadcast, ExpandDims, Join, Reshape, Splat, Split, Transpose
from workbench.targets.nvidia.lowering import Held, Lowering
from workbench.targets.nvidia.staged import is_staged
from workbench.targets.nvidia.staged import lower_reshape as lower_staged_reshape
from workbench.targets.nvidia.table import NVIDIA


@NVIDIA.lower(Splat)
def lower_splat(low: Lowering, op: Splat) -> None:
    low.set_lazy(op.result, lambda r: low.held(op.source, r))


@NVIDIA.lower(ExpandDims, Transpose)
def lower_renaming(low: Lowering, op: ExpandDims | Transpose) -> None:
    """These layouts are the operand's with coordinates moved: registers correspond one to one."""
    if low.is_packed(op.source):
        low.set_words(op.result, low.words(op.source))
    else:
        low.set_lazy(op.result, lambda r: low.held(op.source, r))


@NVIDIA.lower(Reshape)
def lower_reshape(low: Lowering, op: Reshape) -> None:
    if not shape_of(op.result.type):
        # All axes have extent 1: register 0 of every thread holds the element.
        low.set_lazy(op.result, lambda r: low.held(op.source, 0))
    elif is_staged(op):
        lower_staged_reshape(low, op)
    else:
        low.set_lazy(op.result, lambda r: low.held(op.source, r))


@NVIDIA.lower(Broadcast)
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


@NVIDIA.lower(Join)
def lower_join(low: Lowering, op: Join) -> None:
    """The new axis is the highest register bit (layouts.join)."""
    if not shape_of(op.first.type):
        low.set_lazy(op.result, lambda r: low.held((op.first, op.second)[r & 1], 0))
        return
    source, result = low.layout(op.first), low.layout(op.result)
    table = {flat: r for r, flat in reversed(list(enumerate(source.table("register"))))}
    places = [(flat & 1, table[flat >> 1]) for flat in result.table("register")]

    def register(r: int) -> Held:
        which, place = places[r]
        return low.held((op.first, op.second)[which], place)

    low.set_lazy(op.result, register)


@NVIDIA.lower(Split)
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
