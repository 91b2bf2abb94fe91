"""Staged operands of a pipelined matmul: no bank conflict is predicted, going in or coming out."""

from __future__ import annotations

import pytest

from tests.targets.nvidia.configurations import QUICK, SLOW
from workbench.ir import element_of, layout_of, shape_of
from workbench.layouts import ldmatrix_fits
from workbench.layouts.predict import linear_wavefronts, phases
from workbench.targets.nvidia.ops import AsyncCopy
from workbench.targets.simt.ops import SharedLoad

NAMES = ["matmul 128x128x32 w4 s4", "matmul 128x256x64 w8 s3", "notebook matmul fp16"]


@pytest.mark.parametrize("name", NAMES)
def test_pipelined_operands_have_no_bank_conflicts(name: str):
    configuration = next(c for c in (*QUICK, *SLOW) if c.name == name)
    module = configuration.built("sm_90").gpu
    copies = [op for op in module.walk() if isinstance(op, AsyncCopy)]
    loads = [op for op in module.walk() if isinstance(op, SharedLoad)]
    assert len({op.buffer for op in copies}) == len({op.buffer for op in loads}) == 2
    for op in copies:
        shared, layout = layout_of_buffer(op.buffer), layout_of(op.pointers.type)
        itemsize = element_of(op.buffer.type).itemsize
        lanes = [place * itemsize for place in shared.offsets(layout).flat("lane")]
        # cp.async writes 16 bytes a lane, eight lanes at a time.
        assert linear_wavefronts(lanes, 16) == phases(16)
    for op in loads:
        shared, layout = layout_of_buffer(op.buffer), layout_of(op.result.type)
        itemsize = element_of(op.buffer.type).itemsize
        plans = [ldmatrix_fits(shared, layout, itemsize, turned) for turned in (False, True)]
        plan = next(plan for plan in plans if plan is not None)
        assert shape_of(op.result.type) == shape_of(op.buffer.type)
        # Eight lanes give the rows of one matrix: each phase is one wavefront.
        assert linear_wavefronts(plan.lane, 16) == phases(16)


def layout_of_buffer(buffer):
    assert buffer.type.layout is not None
    return buffer.type.layout
