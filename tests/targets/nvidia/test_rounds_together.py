"""Rings whose copies start for several rounds at once: rows of a tile that are short, and go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import Module, walk
from workbench.ops import For, If
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import AsyncCopy, CommitCopies, WaitCopies
from workbench.targets.nvidia.passes import ring_loops
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, WarpBarrier

SM_90A = chip("sm_90a")
M, N, K = 16, 32, 32


def product(
    a_ptr, b_ptr, c_ptr, k_all, stride_a, stride_b, M: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, STEP: tl.constexpr, CARRIED: tl.constexpr,
):  # fmt: skip
    """Blocks of K columns, STEP from one to the next; pointers are carried or made anew."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_ptrs = a_ptr + m[:, None] * stride_a + k[None, :]
    b_ptrs = b_ptr + k[:, None] + n[None, :] * stride_b
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k_all, STEP):
        at = 0 if CARRIED else start
        a = tl.load(a_ptrs + at, mask=k[None, :] < k_all - start, other=0.0)
        b = tl.load(b_ptrs + at, mask=k[:, None] < k_all - start, other=0.0)
        total = tl.dot(a, b, total)
        if CARRIED:
            a_ptrs += STEP
            b_ptrs += STEP
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


def tile_module(
    *, step: int = 1, carried: bool = False, stages: int = 3, k: int = K, together: bool = True
) -> Module:
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32:16 i32:16"
    sizes = {"M": M, "N": N, "K": k, "STEP": step * k, "CARRIED": carried}
    module = tile_ir(
        product, words, sizes, num_warps=2, num_stages=stages, rounds_together=together
    )
    return replace(module, attributes={**module.attributes, "narrow_index": True})


def arguments(k_all: int) -> list[Any]:
    row = -(-k_all // 16) * 16
    a, b = numbers(M * row, np.float16), numbers(N * row, np.float16, 2)
    return [a, b, np.zeros(M * N, np.float32), k_all, row, row]


def in_gpu_ir(module: Module) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A)][-1]


def slots_of(module: Module) -> set[int]:
    return {op.type.slots for op in module.walk() if isinstance(op, SharedAllocate)}


def started(module: Module) -> list[If]:
    """Return the branches of a loop's round that start copies."""
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    branches = [op for op in loop.body.ops if isinstance(op, If)]
    assert not any(isinstance(op, AsyncCopy | WaitCopies) for op in loop.body.ops) or not branches
    return branches


def test_copies_of_four_rounds_start_together():
    """Rows of 64 bytes: one wait, one barrier, one group for 256 of them."""
    module = in_gpu_ir(tile_module())
    assert slots_of(module) == {8}
    (branch,) = started(module)
    inside = [type(op) for op in walk(branch.then)]
    assert inside.count(AsyncCopy) == 8
    assert [inside.count(one) for one in (WaitCopies, BlockBarrier, CommitCopies)] == [1, 1, 1]


@pytest.mark.parametrize(("stages", "slots"), [(2, 8), (8, 8), (9, 12)])
def test_a_ring_has_two_groups_at_least(stages: int, slots: int):
    assert slots_of(in_gpu_ir(tile_module(stages=stages))) == {slots}


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("k_all", [0, 16, 4 * K, 9 * K + 16])
def test_it_means_the_same(k_all: int, carried: bool):
    """Loops that end within a group, and before one."""
    module = tile_module(carried=carried)
    last = in_gpu_ir(module)
    assert started(last)
    assert meaning(last, (1,), arguments(k_all)) == meaning(module, (1,), arguments(k_all))
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(k_all), SM_90A)


@pytest.mark.parametrize(("step", "k"), [(2, K), (1, 128)])
def test_rows_that_are_long_or_do_not_go_on_are_copied_round_by_round(step: int, k: int):
    given = tile_module(step=step, k=k)
    module = in_gpu_ir(replace(given, attributes={**given.attributes, "fewer_slots": False}))
    assert not started(module)
    assert slots_of(module) == {3}


def test_it_is_asked_for():
    assert slots_of(in_gpu_ir(tile_module(together=False))) == {3}


def test_a_wait_for_too_little_is_found(monkeypatch: pytest.MonkeyPatch):
    more = iter((1,))  # in the loop, not in the wait behind it
    monkeypatch.setattr(ring_loops, "WaitCopies", lambda n: WaitCopies(n + next(more, 0)))
    module = tile_module()
    last = in_gpu_ir(module)
    assert meaning(last, (1,), arguments(9 * K)) != meaning(module, (1,), arguments(9 * K))


def test_a_missing_barrier_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ring_loops, "BlockBarrier", WarpBarrier)
    placed, offsets, total = ordered(in_gpu_ir(tile_module()))
    with pytest.raises(RaceError):
        simulate(placed, offsets, total, (1,), arguments(9 * K), SM_90A)
