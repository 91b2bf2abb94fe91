"""Rings whose copies wait for a table: fewer slots than asked for, where more blocks fit then."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels import paged_attention as kernels
from tests.kernels.matmul import matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.raising import SM_90A
from workbench.ir import Module
from workbench.ops import For
from workbench.targets.nvidia.ops import AsyncCopy
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate
from workbench.targets.simt.passes.shared_memory import allocate

HEAD, GROUP, NOWHERE = 128, 4, 1 << 28
WORDS = "*fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 *i32:16 *i32:16 fp32 fp32 fp32 " + (
    "i32:16 " * 9 + "i32"
)
#: No keys, less than a block of them, whole blocks, a few more: no round, one, several.
LENGTHS = (0, 5, 128, 385)


@cache
def decode(page: int, block: int, warps: int, stages: int) -> Module:
    sizes = {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_H": 16, "PAGE": page,
             "BLOCK_N": block, "SEGMENTS": 1}  # fmt: skip
    module = tile_ir(kernels.paged_decode, WORDS, sizes, num_warps=warps, num_stages=stages)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return replace(final, attributes={**final.attributes, "narrow_index": True})


def sequences_of(page: int) -> tuple[list[Any], tuple[int, int, int]]:
    """Return a launch's arguments and grid; NaN is where nobody may look."""
    counts = [-(-n // page) for n in LENGTHS]
    table = np.full((len(counts), max(counts) + 1), NOWHERE, np.int32)
    order, first = np.random.default_rng(page).permutation(sum(counts)), 0
    caches = [np.full((sum(counts), page, HEAD), np.nan, np.float16) for _ in "kv"]
    for z, (count, n) in enumerate(zip(counts, LENGTHS, strict=True)):
        table[z, :count] = order[first : first + count]
        first += count
        for c, kept in enumerate(caches):
            rows = np.full((count * page, HEAD), np.nan, np.float16)
            rows[:n] = numbers(n * HEAD, np.float16, 2 * z + c).reshape(n, HEAD)
            kept[table[z, :count]] = rows.reshape(count, page, HEAD)
    q = numbers(len(counts) * GROUP * HEAD, np.float16)
    parts, lse = np.zeros(len(counts) * GROUP * HEAD, np.float32), np.zeros(len(counts) * GROUP)
    row = page * HEAD
    arguments = [q, *(c.ravel() for c in caches), parts, lse.astype(np.float32), table.ravel(),
                 np.array(LENGTHS, np.int32), 0.25, 1.0, 1.0, GROUP * HEAD, HEAD, row, HEAD, HEAD,
                 row, HEAD, HEAD, table.shape[1], GROUP]  # fmt: skip
    return arguments, (len(counts), 1, 1)


def copied(arguments: list[Any]) -> list[Any]:
    return [np.zeros_like(a) if n in (3, 4) else a for n, a in enumerate(arguments)]


def steps(module: Module, **options: object) -> dict[str, Module]:
    return dict(gpu_steps(module, SM_90A, **{"fewer_slots": False, **options}))


def slots_of(module: Module) -> set[int]:
    return {op.type.slots for op in module.walk() if isinstance(op, SharedAllocate)}


@pytest.mark.parametrize(
    ("block", "warps", "stages", "slots"),
    [
        (64, 4, 4, 2),  # 4 of 32 kB: a block; 2: three
        (64, 4, 3, 2),
        (64, 4, 2, 2),  # three blocks already
        (128, 4, 3, 1),  # one block of 2, three of one
        (128, 4, 2, 1),
        (128, 16, 3, 3),  # warps enough
        (32, 4, 3, 3),
        (32, 4, 8, 4),
    ],
)
def test_so_many_slots_that_three_blocks_fit(block: int, warps: int, stages: int, slots: int):
    module = decode(16, block, warps, stages)
    assert slots_of(steps(module)["pipeline-loads"]) == {slots}
    assert slots_of(steps(module, fewer_stages=False)["pipeline-loads"]) == {stages}


@pytest.mark.parametrize(("page", "block", "slots"), [(16, 64, 2), (16, 128, 1), (128, 128, 1)])
def test_it_means_the_same_and_nobody_overtakes_anybody(page: int, block: int, slots: int):
    found = steps(decode(page, block, 4, 3))
    after = [*found.values()][-1]
    assert slots_of(after) >= {slots}
    arguments, grid = sequences_of(page)
    before = meaning(found["hoist-invariants"], grid, copied(arguments))
    assert meaning(after, grid, copied(arguments)) == before
    offsets, _, total = allocate(after, SM_90A)
    # Programs in another order: that of the most rounds is looked at, as the first one.
    arguments[5] = np.roll(arguments[5].reshape(len(LENGTHS), -1), 1, 0).ravel()
    arguments[6] = np.roll(arguments[6], 1)
    assert simulate(after, offsets, total, grid, copied(arguments), SM_90A)


@pytest.mark.parametrize("barrier", ["before the copies", "behind them"])
def test_a_barrier_that_is_left_out_is_found(barrier: str):
    """Behind the copies of a round the block meets; in front of those, it has read the last one."""
    after = [*steps(decode(128, 128, 4, 3)).values()][-1]
    loop = next(op for op in after.body.ops if isinstance(op, For))
    ops = list(loop.body.ops)
    copies = next(n for n, op in enumerate(ops) if isinstance(op, AsyncCopy))
    meet = [n for n, op in enumerate(ops) if isinstance(op, BlockBarrier)]
    gone = max(n for n in meet if n < copies) if barrier == "before the copies" else meet[0]
    body = replace(loop.body, ops=tuple(op for n, op in enumerate(ops) if n != gone))
    changed = tuple(op.changed(body=body) if op is loop else op for op in after.body.ops)
    broken = replace(after, body=replace(after.body, ops=changed))
    arguments, grid = sequences_of(128)
    arguments[6] = np.roll(arguments[6], 1)
    arguments[5] = np.roll(arguments[5].reshape(len(LENGTHS), -1), 1, 0).ravel()
    offsets, _, total = allocate(broken, SM_90A)
    with pytest.raises(RaceError):
        simulate(broken, offsets, total, grid, copied(arguments), SM_90A)


def test_what_no_table_leads_to_has_the_stages_asked_for():
    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16" + " i32:16 i32=1" * 3
    sizes = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 1, "ACTIVATION": ""}
    module = tile_ir(matmul, words, sizes, num_warps=4, num_stages=4)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    assert slots_of(steps(final, tma=False)["pipeline-loads"]) == {4}


@pytest.mark.parametrize(("warps", "slots"), [(8, 3), (4, 3)])
def test_a_slot_more_leaves_as_many_blocks(warps: int, slots: int):
    """Of 128 columns by eight warps two blocks have room, of three slots each, not of four."""
    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16" + " i32:16 i32=1" * 3
    sizes = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 1, "ACTIVATION": ""}
    module = tile_ir(matmul, words, sizes, num_warps=warps, num_stages=3)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    assert slots_of(steps(final, tma=False)["pipeline-loads"]) == {slots}
