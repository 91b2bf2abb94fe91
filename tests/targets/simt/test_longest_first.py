"""Programs with the longest loops begin first: which kernels, which order, every program once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import execute, gpu_ir
from tests.targets.simt.test_programs import places, staying
from tests.targets.simt.test_sixty_four_lanes import MACHINE
from workbench.ir import Module
from workbench.passes.manager import Remarks
from workbench.targets.simt.passes.longest_first import longest_first, told_order


def growing(x_ptr, out_ptr, n, stride, FORM: tl.constexpr, N: tl.constexpr):
    """A loop whose length follows from the program's number, or does not."""
    block = tl.program_id(0)
    offsets = tl.arange(0, N)
    first, last = 0, n
    if FORM == "grows":
        last = (block + 1) * 4
    elif FORM == "shrinks":
        first = block * 4
    elif FORM == "ends with the keys":
        last = tl.minimum(n, (block + 1) * 4)
    elif FORM == "loaded":
        last = tl.load(x_ptr + stride).to(tl.int32) + (block + 1) * 4
    elif FORM == "along another axis":
        last = (tl.program_id(1) + 1) * 4
    elif FORM == "counts":
        last = (block + 1) * 4
        tl.atomic_add(out_ptr, 1)
    total = tl.zeros((N,), tl.float32)
    for i in range(first, last):
        total += tl.load(x_ptr + i * N + offsets)
    tl.store(out_ptr + block * N + offsets, total)


def order_of(form: str, **options: Any) -> int:
    words = "*fp32:16 *fp32:16 i32 i32"
    module = tile_ir(growing, words, {"FORM": form, "N": 64}, num_warps=2, **options)
    return longest_first(module, Remarks(), MACHINE).attributes.get("longest_first", 0)


#: 32 MB hold what 2^15 programs load, each of 4 rounds of 256 bytes more than the one before.
@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("grows", 16), ("shrinks", -16), ("ends with the keys", 16), ("fixed", 0),
        ("along another axis", 0), ("counts", 0),
    ],
)  # fmt: skip
def test_the_order_follows_from_loops(form: str, wanted: int):
    assert order_of(form) == order_of(form, reorder=True) == wanted
    assert order_of(form, reorder=False) == 0


def test_where_lengths_are_loaded_only_authors_know():
    assert order_of("loaded") == 0
    assert order_of("loaded", reorder=True) == 16


@pytest.mark.parametrize("order", [1, 4, 9, -5])
@pytest.mark.parametrize("grid", [(1, 1, 2), (3, 4, 2), (2, 7, 1)])
def test_each_program_has_one_block(order: int, grid: tuple[int, int, int]):
    module = with_order(places, "*i32:16", order)
    count = int(np.prod(grid))
    out: Any = np.zeros(count * 64, np.int32)
    execute(module, MACHINE, grid, [out])
    z, y, x = np.indices(grid[::-1])
    wanted = x + 100 * y + 10000 * z + 1000000 * grid[2]
    assert np.array_equal(out.reshape(count, 64), np.repeat(wanted.reshape(count, 1), 64, 1))


def with_order(kernel: Any, words: str, order: int) -> Module:
    module = gpu_ir(tile_ir(kernel, words, {"N": 64}, num_warps=2), MACHINE)
    return replace(module, attributes={**module.attributes, "longest_first": order})


def tickets(counter_ptr, out_ptr, N: tl.constexpr):
    """Store which block a program is, by the order in which they come."""
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(out_ptr + tl.program_id(0) + tl.num_programs(0) * tl.program_id(1), ticket)


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        (4, [[4, 2, 0], [5, 3, 1], [10, 8, 6], [11, 9, 7], [14, 13, 12]]),  # two columns of three
        (-4, [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11], [12, 13, 14]]),
        (1, [[2, 1, 0], [5, 4, 3], [8, 7, 6], [11, 10, 9], [14, 13, 12]]),
        (5, [[8, 4, 0], [9, 5, 1], [10, 6, 2], [11, 7, 3], [14, 13, 12]]),  # four, and what is left
    ],
)
def test_blocks_begin_with_the_longest(order: int, wanted: list[list[int]]):
    module = with_order(tickets, "*i32:16 *i32:16", order)
    counter, out = np.zeros(1, np.int32), np.zeros(15, np.int32)
    execute(module, MACHINE, (3, 5), [counter, out])
    assert out.reshape(5, 3).tolist() == wanted


@pytest.mark.parametrize(
    ("growth", "wanted"),
    [
        (1, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [13, 11, 9], [14, 12, 10]]),
        (-1, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 11, 13], [10, 12, 14]]),
    ],
)
def test_launches_end_with_short_ones_where_lengths_are_loaded(
    growth: int, wanted: list[list[int]]
):
    """One block that stays takes all programs: of the last two columns of five row by row."""
    module = gpu_ir(tile_ir(tickets, "*i32:16 *i32:16", {"N": 64}, num_warps=2), MACHINE, staying)
    module = replace(module, attributes={**module.attributes, "longest_drawn": growth})
    counter, out = np.zeros(1, np.int32), np.zeros(15, np.int32)
    execute(module, MACHINE, (3, 5), [counter, out], 1)
    assert out.reshape(5, 3).tolist() == wanted
    module = gpu_ir(tile_ir(places, "*i32:16", {"N": 64}, num_warps=2), MACHINE, staying)
    module = replace(module, attributes={**module.attributes, "longest_drawn": growth})
    for grid in ((1, 1, 1), (2, 1, 2), (3, 8, 1), (1, 3, 2)):
        count = int(np.prod(grid))
        out = np.zeros(count * 64, np.int32)
        execute(module, MACHINE, grid, [out], 2)
        z, y, x = np.indices(grid[::-1])
        each = x + 100 * y + 10000 * z + 1000000 * grid[2]
        assert np.array_equal(out.reshape(count, 64), np.repeat(each.reshape(count, 1), 64, 1))


def test_blocks_that_stay_keep_their_order_and_authors_are_told():
    module = tile_ir(places, "*i32:16", {"N": 64}, num_warps=2)
    module = replace(module, attributes={**module.attributes, "longest_first": -12})
    remarks = Remarks()
    assert told_order(module, remarks) is module
    assert [r.text for r in remarks.items] == [
        "programs with the longest loops begin first, about 2048 together"
    ]
