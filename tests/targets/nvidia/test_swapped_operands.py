"""Products of few rows by warpgroups: C.T = B.T @ A.T, rows are the instruction's columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import Module, Shared
from workbench.passes.manager import Recorder
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import AsyncCopy, TensorCopy, WarpgroupDot
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.toolchain import assemble

SM_90A = chip("sm_90a")
K, N = 160, 128
POINTERS = "*f16:16 *f16:16 *f32:16 i32 i32:16 i32:16"


def product(
    x_ptr, w_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, SCALED: tl.constexpr = False,
):  # fmt: skip
    """X @ W.T; the last block of K is a part of one."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :],
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)  # fmt: skip
        w = tl.load(w_ptr + k[:, None] + n[None, :] * K,
                    mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)  # fmt: skip
        if SCALED:
            w = w * 2
        total = tl.dot(x, w, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def module_of(blocks: tuple[int, int, int], *, scaled: bool = False, **options: Any) -> Module:
    named = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), blocks, strict=True))
    module = tile_ir(product, POINTERS, {**named, "SCALED": scaled}, num_warps=4, num_stages=3)
    return replace(module, attributes={**module.attributes, **options})


def arguments(rows: int) -> Callable[[], list[Any]]:
    """What makes a launch: small integers, so that sums are exact."""

    def make() -> list[Any]:
        random = np.random.default_rng(5)
        x, w = (random.integers(-2, 3, (count, K)).astype(np.float16) for count in (rows, N))
        return [x.ravel(), w.ravel(), np.zeros(rows * N, np.float32), rows, N, K]

    return make


def in_tile_ir(module: Module) -> Module:
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    return replace(tile, attributes={**tile.attributes, "narrow_index": True})


def in_gpu_ir(module: Module) -> Module:
    return [after for _, after in gpu_steps(in_tile_ir(module), SM_90A)][-1]


def products_of(module: Module) -> list[WarpgroupDot]:
    return [op for op in module.walk() if isinstance(op, WarpgroupDot)]


@pytest.mark.parametrize("tma", [True, False])
@pytest.mark.parametrize(
    ("rows", "blocks"), [(5, (8, 64, 64)), (13, (16, 64, 64)), (32, (32, 112, 64))]
)
def test_few_rows_are_the_columns_of_the_instruction(
    rows: int, blocks: tuple[int, int, int], tma: bool
):
    """Both operands lie in rings, brought by boxes or vectors; sums are to the bit the same."""
    module = module_of(blocks, swap_operands=True, tma=tma)
    last, make, grid = in_gpu_ir(module), arguments(rows), (1, -(-N // blocks[1]))
    (found,) = products_of(last)
    assert found.is_turned
    assert isinstance(found.a.type, Shared)
    assert isinstance(found.b.type, Shared)
    copies = TensorCopy if tma else AsyncCopy
    assert sum(isinstance(op, copies) for op in last.walk()) >= 2
    assert meaning(last, grid, make()) == meaning(module, grid, make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, grid, make(), SM_90A)


@pytest.mark.parametrize(
    ("blocks", "options"),
    [
        ((16, 64, 64), {}),
        ((16, 64, 64), {"swap_operands": True, "wgmma": False}),
        ((16, 32, 64), {"swap_operands": True}),
    ],
)
def test_else_they_go_by_warps(blocks: tuple[int, int, int], options: dict[str, bool]):
    """Not asked for, forbidden, or too few columns as well."""
    assert not products_of(in_gpu_ir(module_of(blocks, **options)))


def test_where_there_are_rows_enough_nothing_is_swapped():
    (found,) = products_of(in_gpu_ir(module_of((64, 64, 64), swap_operands=True)))
    assert not found.is_turned


def test_what_is_computed_for_few_rows_stays_in_registers():
    module = module_of((16, 64, 64), scaled=True, swap_operands=True)
    last, make = in_gpu_ir(module), arguments(16)
    (found,) = products_of(last)
    assert found.is_turned
    assert isinstance(found.a.type, Shared)
    assert not isinstance(found.b.type, Shared)
    assert meaning(last, (1, 2), make()) == meaning(module, (1, 2), make())


@needs_ptxas
def test_a_round_multiplies_64_rows_of_weights_by_16_columns():
    """Four steps of k; threads read and copy nothing, and one starts what boxes bring."""
    module = in_tile_ir(module_of((16, 64, 64), swap_operands=True))
    text = build(module, "sm_90a", Recorder()).texts["ptx"]().text
    assert text.count("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16") == 4
    assert "cp.async.bulk.tensor" in text
    assert "cp.async.c" not in text
    assert "mma.sync" not in text
    assert assemble(text, "sm_90a").spill_store_bytes == 0
