"""Rings that warps multiply from: a slot less, where enough warps are resident then."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels.matmul import matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.raising import SM_90A
from workbench.ir import Builder, Module, Op, Value, rebuild
from workbench.ops import For
from workbench.targets.nvidia.ops import AsyncCopy
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate
from workbench.targets.simt.passes.shared_memory import allocate

M, N = 32, 64


@cache
def product(k: int, warps: int, stages: int) -> Module:
    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16" + " i32:16 i32=1" * 3
    sizes = {"BLOCK_M": M, "BLOCK_N": N, "BLOCK_K": k, "GROUP_M": 1, "ACTIVATION": ""}
    module = tile_ir(matmul, words, sizes, num_warps=warps, num_stages=stages)
    return [module, *(after for _, after in tile_steps(module))][-1]


def steps(module: Module, **options: object) -> dict[str, Module]:
    return dict(gpu_steps(module, SM_90A, tma=False, **options))


def slots_of(module: Module) -> set[int]:
    return {op.type.slots for op in module.walk() if isinstance(op, SharedAllocate)}


def arguments(k: int) -> list[Any]:
    a, b = (numbers(count, np.float16, seed) for seed, count in enumerate((M * k, k * N)))
    return [a, b, np.zeros(M * N, np.float16), M, N, k, k, N, N]


@pytest.mark.parametrize(
    ("k", "warps", "stages", "slots"),
    [
        (64, 4, 5, 4),  # 12 kB each: three blocks of 5, four of 4
        (128, 4, 4, 4),  # 24 kB each: two and three, which are too few
        (128, 4, 3, 2),  # three and four
        (256, 4, 3, 3),  # one and two
        (64, 4, 2, 2),  # of one slot nothing is on its way while it is read
    ],
)
def test_a_slot_less_where_enough_warps_fit(k: int, warps: int, stages: int, slots: int):
    module = product(k, warps, stages)
    assert slots_of(steps(module)["pipeline-loads"]) == {slots}
    assert slots_of(steps(module, fewer_slots=False)["pipeline-loads"]) == {stages}


@pytest.mark.parametrize(("stages", "slots"), [(5, 4), (3, 2)])
def test_it_means_the_same_and_nobody_overtakes_anybody(stages: int, slots: int):
    """No round, fewer rounds than slots, more."""
    block = {5: 64, 3: 128}[stages]
    module = product(block, 4, stages)
    found = [*steps(module).values()][-1]
    assert slots_of(found) >= {slots}
    offsets, _, total = allocate(found, SM_90A)
    for k in (0, 16, 2 * block, 6 * block + 16):
        wanted = meaning(module, (1, 1, 1), arguments(k))
        assert meaning(found, (1, 1, 1), arguments(k)) == wanted
    assert simulate(found, offsets, total, (1, 1, 1), arguments(6 * block + 16), SM_90A)


@pytest.mark.parametrize("barrier", ["before the copies", "behind them"])
def test_a_barrier_that_is_left_out_is_found(barrier: str):
    """Behind the copies of a round the block meets; in front of those, it has read the slot."""
    found = [*steps(product(64, 4, 5)).values()][-1]
    loop = next(op for op in found.walk() if isinstance(op, For))
    ops = list(loop.body.ops)
    copies = next(n for n, op in enumerate(ops) if isinstance(op, AsyncCopy))
    meet = [n for n, op in enumerate(ops) if isinstance(op, BlockBarrier)]
    gone = max(n for n in meet if n < copies) if barrier == "before the copies" else meet[0]
    assert len(meet) == 2

    def left_out(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        return () if op.id == ops[gone].id else None

    broken = rebuild(found, left_out)
    offsets, _, total = allocate(broken, SM_90A)
    with pytest.raises(RaceError):
        simulate(broken, offsets, total, (1, 1, 1), arguments(6 * 64), SM_90A)
