"""Rings of barriers in loops within loops: made once, renewed in each round of the outer ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.raising import SM_90A
from tests.targets.nvidia.test_ptx import needs_ptxas
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.targets.nvidia.ops import Barriers, RenewBarriers
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.toolchain import assemble

M, N, K = 64, 32, 16
#: More rounds than slots, and no multiple of them: the next tile begins in another slot and phase.
ROUNDS = 4


def persistent(
    a_ptr, b_ptr, c_ptr, tiles, k_all, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    BRANCH: tl.constexpr,
):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    for tile in tl.range(tl.program_id(0), tiles, 1):
        a_ptrs = a_ptr + (tile * M + rows)[:, None] * k_all + inner[None, :]
        total = tl.zeros((M, N), tl.float32)
        if not BRANCH or k_all > K:
            for k in range(0, k_all, K):
                a, b = tl.load(a_ptrs + k), tl.load(b_ptrs + k * N)
                total = tl.dot(a, b, total)
        tl.store(c_ptr + (tile * M + rows)[:, None] * N + columns[None, :], total)


def arguments(tiles: int) -> list[Any]:
    a, b = numbers(tiles * M * ROUNDS * K, np.float16), numbers(ROUNDS * K * N, np.float16, 2)
    return [a, b, np.zeros(tiles * M * N, np.float32), tiles, ROUNDS * K]


def tile_module(*, branch: bool) -> Module:
    words = "*fp16:16 *fp16:16 *fp32:16 i32 i32:16"
    sizes = {"M": M, "N": N, "K": K, "BRANCH": branch}
    return tile_ir(persistent, words, sizes, num_warps=4, num_stages=3)


def in_tile_ir(module: Module) -> Module:
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    return replace(tile, attributes={**tile.attributes, "narrow_index": True})


def final(module: Module) -> Module:
    return [after for _, after in gpu_steps(in_tile_ir(module), SM_90A)][-1]


@pytest.mark.parametrize("branch", [False, True])
def test_a_ring_in_a_loop_of_a_loop_is_made_once(branch: bool):
    module = tile_module(branch=branch)
    after = final(module)
    outside = [type(op) for op in after.body.ops]
    assert outside.count(Barriers) == sum(isinstance(op, Barriers) for op in after.walk()) == 1
    assert sum(isinstance(op, RenewBarriers) for op in after.walk()) == 1
    assert meaning(after, (1,), arguments(3)) == meaning(module, (1,), arguments(3))


@needs_ptxas
def test_a_barrier_is_given_up_before_it_is_made_again():
    text = build(in_tile_ir(tile_module(branch=False)), "sm_90a", Recorder()).texts["ptx"]().text
    given_up = text.count("mbarrier.inval")
    assert given_up
    assert text.count("mbarrier.init.") == 2 * given_up
    assert assemble(text, "sm_90a").spill_store_bytes == 0
