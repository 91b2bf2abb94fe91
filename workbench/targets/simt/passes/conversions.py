"""Conversions between layouts that would take too much shared memory at once."""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Value, element_of, layout_of, rebuild
from workbench.layouts.halfway import halfway
from workbench.ops import ConvertLayout
from workbench.passes.manager import Remarks
from workbench.targets.simt.rules import Device


def halve_conversions(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Convert large tiles by way of a layout that has registers in common with both sides.

    Before:
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, linear<16, lane=[1,2,4,8,0]>>
        %1 = gpu.convert_layout %0 {layout = linear<16, lane=[8,4,2,1,0]>} : tile<16xf32, linear<16, lane=[8,4,2,1,0]>>
    After:
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, linear<16, lane=[1,2,4,8,0]>>
        %1 = gpu.convert_layout %0 {layout = linear<16, lane=[8,4,2,1,0]>} : tile<16xf32, linear<16, lane=[8,4,2,1,0]>>

    Needs: layouts. Keeps: every value. What takes no more than the chip's `most_scratch`, in rounds,
    stays (as in the example).
    """  # noqa: E501
    num_warps, most = module.attributes["num_warps"], chip.most_scratch
    large = {
        op.id: bytes_
        for op in module.walk()
        if op.converts
        and (bytes_ := chip.rules.scratch_of(op, chip, num_warps, used=True).bytes) > most
    }
    if not large:
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if op.id not in large:
            return None
        (given,) = op.operands
        source, wanted = layout_of(given.type), layout_of(op.result.type)
        assert source is not None
        assert wanted is not None
        bits = element_of(given.type).bits
        middle = halfway(source, wanted, max(8, bits), most, chip.banks)
        if middle is None:
            return None
        remarks.note(
            op, f"converted in two steps: at once it takes {large[op.id]:,} bytes of shared memory"
        )
        between = builder.add(ConvertLayout(given, middle), op.result.hint)
        return builder.add(ConvertLayout(between, wanted), op.result.hint)

    return rebuild(module, rewrite)
