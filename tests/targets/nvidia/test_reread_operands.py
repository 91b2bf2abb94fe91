"""Operands that stay in a loop of warps' products, read from shared memory in each round."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.raising import SM_90A
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from workbench.ir import Module
from workbench.ops import Dot, For
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.ops import SharedLoad, SharedStore
from workbench.targets.simt.passes.shared_memory import allocate

M, N = 16, 32


def wide(q_ptr, k_ptr, o_ptr, S, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Rows of scores of queries that all rounds read."""
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, S, N):
        keys = start + columns
        k = tl.load(k_ptr + keys[:, None] * D + d[None, :], mask=keys[:, None] < S, other=0.0)
        p = tl.dot(q, k.T)
        acc = tl.dot(p.to(tl.float16), k, acc)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)


@cache
def module_of(d: int, warps: int = 8) -> Module:
    words = "*fp16:16 *fp16:16 *fp32:16 i32"
    return tile_ir(wide, words, {"M": M, "N": N, "D": d}, num_warps=warps, num_stages=2)


def last_of(module: Module, **options: object) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A, tma=False, **options)][-1]


def read_in_rounds(module: Module) -> int:
    """Return how many products of a loop read a first operand that is loaded in front of them."""
    loop = next(op for op in module.walk() if isinstance(op, For))
    dots = [op for op in loop.body.ops if isinstance(op, Dot)]
    return sum(isinstance(op.a.op, SharedLoad) for op in dots)


def arguments(keys: int, d: int) -> list[Any]:
    q, k = (numbers(count * d, np.float16, seed) for seed, count in enumerate((M, max(keys, 1))))
    return [q, k, np.zeros(M * d, np.float32), keys]


@pytest.mark.parametrize(("d", "warps", "reads"), [(512, 8, 1), (128, 8, 0), (512, 16, 0)])
def test_where_more_blocks_are_resident_by_it(d: int, warps: int, reads: int):
    """Of 512 columns a thread has 128 registers, and a multiprocessor eight warps."""
    assert read_in_rounds(last_of(module_of(d, warps))) == reads
    assert read_in_rounds(last_of(module_of(d, warps), reread_operands=False)) == 0


def test_it_means_the_same_and_nobody_overtakes_anybody():
    module = module_of(512)
    last = last_of(module)
    assert any(isinstance(op, SharedStore) for op in last.walk())
    for keys in (0, 5, 2 * N, 3 * N + 7):
        wanted = meaning(module, (1,), arguments(keys, 512))
        assert meaning(last, (1,), arguments(keys, 512)) == wanted
    offsets, _, total = allocate(last, SM_90A)
    assert simulate(last, offsets, total, (1,), arguments(3 * N, 512), SM_90A)


@needs_ptxas
@needs_nvdisasm
def test_ptxas_is_told_how_many_blocks_share_a_multiprocessor():
    """It spills nothing in the loop, and leaves room for as many."""
    module = tile_passes(module_of(512), Recorder())
    built = build(module, "sm_90a", Recorder())
    text = built.texts["ptx"]().text
    assert re.search(r"\.minnctapersm 2\b", text)
