"""Tiles that pass through registers from one buffer to another.

What a copy has brought as memory has it, and a product reads in another order, goes from one buffer
to another. Nobody else sees the registers between, so their layout is one for the two buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.ir import (
    Builder,
    Module,
    Op,
    Shared,
    Value,
    element_of,
    layout_of,
    rebuild,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.layouts.between import between_buffers
from workbench.passes.manager import Remarks
from workbench.targets.simt.rules import Device

Uses = Mapping[Value, Sequence[Op]]


def turn_tiles(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Give a tile that is read from a buffer only to be stored to another a layout for both.

    Before:
        #S0 = linear<32x32, offset=[(0,1),(0,2),(0,4),(0,8),(0,16),(1,4),(2,8),(4,16),(8,0),(16,0)]>
        #S1 = linear<32x32, offset=[(1,0),(2,0),(4,0),(8,0),(16,0),(4,1),(8,2),(16,4),(0,8),(0,16)]>
        #L2 = linear<32x32, register=[(0,1),(0,2),(4,0),(8,0),(16,0)], lane=[(0,4),(0,8),(0,16),(1,0),(2,0)]>
        %0 = gpu.shared_allocate {type = shared<32x32xf32, #S0>} : shared<32x32xf32, #S0>
        %1 = gpu.shared_allocate {type = shared<32x32xf32, #S1>} : shared<32x32xf32, #S1>
        %2 = gpu.shared_load %0 {type = tile<32x32xf32, #L2>} : tile<32x32xf32, #L2>
        gpu.shared_store %2, %1
    After:
        #S0 = linear<32x32, offset=[(0,1),(0,2),(0,4),(0,8),(0,16),(1,4),(2,8),(4,16),(8,0),(16,0)]>
        #S1 = linear<32x32, offset=[(1,0),(2,0),(4,0),(8,0),(16,0),(4,1),(8,2),(16,4),(0,8),(0,16)]>
        #L2 = linear<32x32, register=[(0,1),(0,2),(1,0),(2,0),(16,0)], lane=[(0,4),(4,0),(8,8),(0,8),(0,16)]>
        %3 = gpu.shared_allocate {type = shared<32x32xf32, #S0>} : shared<32x32xf32, #S0>
        %4 = gpu.shared_allocate {type = shared<32x32xf32, #S1>} : shared<32x32xf32, #S1>
        %5 = gpu.shared_load %3 {type = tile<32x32xf32, #L2>} : tile<32x32xf32, #L2>
        gpu.shared_store %5, %4

    Needs: layouts. Keeps: every value.
    """  # noqa: E501
    stores = [op for op in module.walk() if not op.results and op.buffer_moved() is not None]
    if not stores:
        return module
    uses: dict[Value, list[Op]] = {}
    for op in module.walk():
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    found: dict[int, LinearLayout] = {}
    for store in stores:
        found |= _turned(store, uses, module.attributes["num_warps"], chip)
    if not found:
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        layout = found.get(op.id)
        return None if layout is None else builder.insert(op.in_layout(layout)).result

    return rebuild(module, rewrite)


def _turned(store: Op, uses: Uses, warps: int, chip: Device) -> dict[int, LinearLayout]:
    """Return layouts for the ops whose tile goes to a store alone, by id; none if it is not so."""
    buffer = store.buffer_moved()
    (tile,) = (v for v in store.operands if shape_of(v.type) and v is not buffer)
    turned: list[Op] = []
    value = tile
    while value.op is not None and uses[value] in ([store], turned[-1:]):
        op = value.op
        if (source := op.buffer_moved()) is not None:
            return _for_both(op, source, turned, buffer, warps, chip)
        if not op.exchanges_axes:
            break
        turned.append(op)
        value = op.operands[0]
    return {}


def _for_both(
    load: Op, source: Value, turned: Sequence[Op], target: Value | None, warps: int, chip: Device
) -> dict[int, LinearLayout]:
    """Return the layout between two buffers for a load and for what exchanges its axes."""
    assert target is not None
    places = [_places(buffer) for buffer in (source, target)]
    if None in places or layout_of(load.result.type) is None:
        return {}
    first, last = places
    assert first is not None
    assert last is not None
    if len(turned) % 2:
        last = last.transpose((1, 0))
    itemsize = element_of(load.result.type).itemsize
    layout = between_buffers(first, last, itemsize, chip.lanes, warps, chip.banks)
    if layout is None:
        return {}
    found = {load.id: layout}
    for number, op in enumerate(reversed(turned)):
        found[op.id] = layout if number % 2 else layout.transpose((1, 0))
    return found


def _places(buffer: Value) -> LinearLayout | None:
    assert isinstance(buffer.type, Shared)
    return buffer.type.layout
