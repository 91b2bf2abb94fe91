"""Attention over pages by boxes: pages, lengths and starts are loaded, in the producer as well.

Arrays hold NaN where nobody may look; tables name pages that do not exist behind a sequence's last.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels import paged_attention as kernels
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.raising import SM_90A, may_run
from workbench.ir import Module
from workbench.targets.nvidia.ops import TensorCopy, TensorLoad
from workbench.targets.simt.ops import is_persistent, roles_of

HEAD, GROUP, HEADS_KV, NOWHERE = 16, 4, 2, 1 << 28
WORDS = (
    "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *i32:16 *i32:16 *i32:16 fp32 fp32 fp32 "
    + "i32:16 " * 10 + "i32 i32"
)  # fmt: skip
#: (queries, keys) of each sequence: none, within a page, whole pages, behind a prefix.
SEQUENCES = ((0, 5), (3, 3), (16, 48), (9, 70), (1, 64), (17, 17))


@cache
def prefill(page: int, block: int, block_q: int = 16) -> Module:
    sizes = {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_Q": block_q, "PAGE": page,
             "BLOCK_N": block}  # fmt: skip
    module = tile_ir(kernels.paged_prefill, WORDS, sizes, num_warps=4, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return replace(final, attributes={**final.attributes, "narrow_index": True})


def steps(module: Module, **options: object) -> dict[str, Module]:
    return dict(gpu_steps(module, SM_90A, **options))


def sequences_of(
    page: int, block_q: int = 16, below: int = 0, dtype: Any = np.int32
) -> tuple[list[Any], tuple[int, int]]:
    """Return a launch's arguments and grid; so many pages lie `below` where the caches begin."""
    pick = np.random.default_rng(page)
    counts = [-(-n // page) for _, n in SEQUENCES]
    order = (pick.permutation(sum(counts)) - below).astype(dtype)
    table = np.full((len(counts), max(counts) + 1), NOWHERE, dtype)
    row = page * HEADS_KV * HEAD
    storages = [np.full((sum(counts), row), np.nan, np.float16) for _ in "kv"]
    first = 0
    for z, (count, (_, n)) in enumerate(zip(counts, SEQUENCES, strict=True)):
        table[z, :count] = order[first : first + count]
        first += count
        for c, storage in enumerate(storages):
            rows = np.full(count * row, np.nan, np.float16)
            rows[: n * HEADS_KV * HEAD] = numbers(n * HEADS_KV * HEAD, np.float16, 2 * z + c)
            storage[table[z, :count] + below] = rows.reshape(count, row)
    caches = [storage.ravel()[below * row :] for storage in storages]
    starts = np.array([0, *np.cumsum([m for m, _ in SEQUENCES])], np.int32)
    lengths = np.array([n for _, n in SEQUENCES], np.int32)
    heads = HEADS_KV * GROUP
    q = numbers(starts[-1] * heads * HEAD, np.float16)
    out = np.zeros_like(q)
    by_head, by_token, by_page = HEAD, HEADS_KV * HEAD, row
    arguments = [q, *caches, out, starts, table.ravel(), lengths, 0.25, 1.0, 1.0,
                 heads * HEAD, HEAD, by_page, by_token, by_head, by_page, by_token, by_head,
                 heads * HEAD, HEAD, table.shape[1], len(SEQUENCES)]  # fmt: skip
    return arguments, (int(starts[-1]) // block_q + len(SEQUENCES), HEADS_KV)


def copied(arguments: list[Any]) -> list[Any]:
    """Return arguments of which the output is a fresh one; views stay views."""
    return [np.zeros_like(a) if n == 3 else a for n, a in enumerate(arguments)]


def check(before: Module, after: Module, arguments: list[Any], grid: tuple[int, ...]) -> None:
    assert may_run(after, arguments, grid)
    wanted = meaning(before, grid, copied(arguments))
    assert meaning(after, grid, copied(arguments)) == wanted


#: Rows of a page and of a block of keys.
PAGES = [(32, 32), (64, 32), (64, 64), (32, 64), (16, 64)]


@pytest.mark.parametrize("specialize", [False, True])
@pytest.mark.parametrize(("page", "block"), PAGES)
def test_pages_are_boxes_whose_coordinate_is_loaded(page: int, block: int, specialize: bool):
    found = steps(prefill(page, block), warp_specialize=specialize, persistent=False)
    assert sum(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) == 2
    after = [*found.values()][-1]
    assert (roles_of(after) is not None) == specialize
    assert any(isinstance(op, TensorCopy) for op in after.walk())
    check(found["hoist-invariants"], after, *sequences_of(page))


def test_pages_below_where_the_caches_begin_are_read():
    found = steps(prefill(64, 64))
    check(found["hoist-invariants"], found["raise-tma"], *sequences_of(64, below=3))


def test_blocks_stay_where_pages_are_loaded():
    found = steps(prefill(64, 64), warp_specialize=True, persistent=True)
    after = [*found.values()][-1]
    assert is_persistent(after)
    check(found["hoist-invariants"], after, *sequences_of(64))
