"""Warps store the rows that they have: from lane to lane, in shared memory of their own."""

from __future__ import annotations

from functools import reduce
from operator import xor

import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_warpgroups import SM_90A, in_gpu_ir
from workbench.ir import Op, layout_of
from workbench.layouts import SharedPlan
from workbench.targets.simt.layout import convert_plan
from workbench.targets.simt.ops import BlockBarrier


def halves(out_ptr, a_ptr, b_ptr, M: tl.constexpr, N: tl.constexpr):
    """Store a product in another type than its sums have."""
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + rows * N + columns)
    b = tl.load(b_ptr + tl.arange(0, N)[:, None] * N + columns)
    tl.store(out_ptr + rows * N + columns, tl.dot(a, b).to(tl.float16))


def last_conversion(m: int, warps: int) -> tuple[Op, SharedPlan, bool]:
    """Return it, its plan, and whether the block meets behind it."""
    words = "*fp16:16 *fp16:16 *fp16:16"
    module = in_gpu_ir(tile_ir(halves, words, {"M": m, "N": 64}, num_warps=warps))
    ops = [*module.walk()]
    place = max(n for n, op in enumerate(ops) if op.converts)
    plan = convert_plan(ops[place], SM_90A)  # type: ignore[arg-type]
    assert isinstance(plan, SharedPlan)
    return ops[place], plan, any(isinstance(op, BlockBarrier) for op in ops[place:])


@pytest.mark.parametrize(("m", "warps"), [(64, 4), (128, 8)])
def test_no_warp_waits_for_another(m: int, warps: int):
    converted, plan, meets = last_conversion(m, warps)
    before, after = (layout_of(v.type) for v in (*converted.operands, *converted.results))
    assert before is not None
    assert after is not None
    assert before != after
    assert before.flat("warp") == after.flat("warp")
    assert plan.barrier == "warp"
    assert not meets


def test_warps_have_equal_parts_in_their_order():
    """So warps that are rounds of a loop apart are in different ones; barriers.py relies on it."""
    warps = 8
    _, plan, _ = last_conversion(128, warps)
    each = plan.scratch_bytes // warps

    def of(columns: tuple[int, ...], number: int) -> int:
        return reduce(xor, (c for bit, c in enumerate(columns) if number >> bit & 1), 0)

    for side in (plan.store, plan.load):
        inside = {step.offset for steps in side.rounds for step in steps}
        for warp in range(warps):
            for lane in range(32):
                start = of(side.warp, warp) ^ of(side.lane, lane)
                assert {(start ^ offset) // each for offset in inside} == {warp}
