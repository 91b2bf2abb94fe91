"""Copies that threads start while the product of their round is multiplied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, in_gpu_ir
from workbench.ops import For
from workbench.targets.nvidia.ops import AsyncCopy, WaitProducts, WarpgroupDot
from workbench.targets.simt.ops import SharedAllocate


@pytest.mark.parametrize("overlap", [True, False])
def test_copies_by_threads_start_behind_a_product_that_ends_in_its_round(overlap: bool):
    """They take as long to start as it takes, so it is waited for behind them, not before."""
    module = staged(128, 128, 64, 4)
    module = replace(module, attributes={**module.attributes, "tma": False, "overlap": overlap})
    last = in_gpu_ir(module)
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    kinds = (WarpgroupDot, AsyncCopy, WaitProducts)
    order = [type(op) for op in loop.body.ops if isinstance(op, kinds)]
    assert order == ([WarpgroupDot, AsyncCopy, AsyncCopy, WaitProducts] if overlap else (
        [AsyncCopy, AsyncCopy, WarpgroupDot]))  # fmt: skip
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {3}
    for k in (64, 5 * 64 + 16):
        wanted = meaning(module, (1,), staged_arguments(128, 128, k, "nn"))
        assert meaning(last, (1,), staged_arguments(128, 128, k, "nn")) == wanted
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), staged_arguments(128, 128, 3 * 64, "nn"), SM_90A)
