"""Attention over pages by boxes: pages, lengths and starts are loaded, in the producer as well.

Arrays hold NaN where nobody may look; tables name pages that do not exist behind a sequence's last.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import paged_attention as kernels
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.raising import SM_90A, may_run
from workbench.analysis.forms import number
from workbench.ir import I64, Module, Op
from workbench.ops import Elementwise, For, Load, Select
from workbench.passes.manager import Remarks
from workbench.passes.part_quotients import part_quotients
from workbench.source import KernelError
from workbench.targets.nvidia.form_values import Scalars
from workbench.targets.nvidia.ops import TensorCopy, TensorLoad
from workbench.targets.nvidia.passes.feeders import Feeders
from workbench.targets.nvidia.passes.tma_plans import Plans
from workbench.targets.nvidia.raising import _Planner
from workbench.targets.simt.ops import is_persistent, roles_of
from workbench.targets.simt.passes.guarded_work import without_branch
from workbench.targets.simt.passes.shared_memory import allocate

HEAD, GROUP, HEADS_KV, NOWHERE = 16, 4, 2, 1 << 28
WORDS = (
    "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *i32:16 *i32:16 *i32:16 fp32 fp32 fp32 "
    + "i32:16 " * 10 + "i32 i32"
)  # fmt: skip
#: (queries, keys) of each sequence: none, within a page, whole pages, behind a prefix.
SEQUENCES = ((9, 70), (0, 5), (3, 3), (16, 48), (1, 64), (17, 17))


@cache
def prefill(
    page: int, block: int, block_q: int = 16, table: str = "i32", head: int = HEAD, warps: int = 4
) -> Module:
    sizes = {"HEAD": head, "BLOCK_D": head, "GROUP": GROUP, "BLOCK_Q": block_q, "PAGE": page,
             "BLOCK_N": block}  # fmt: skip
    words = WORDS.split()
    words[5] = f"*{table}:16"
    module = tile_ir(kernels.paged_prefill, " ".join(words), sizes, num_warps=warps, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = part_quotients(final, Remarks())
    return replace(final, attributes={**final.attributes, "narrow_index": True})


def steps(module: Module, **options: object) -> dict[str, Module]:
    return dict(gpu_steps(module, SM_90A, **options))


def sequences_of(
    page: int, block_q: int = 16, below: int = 0, dtype: Any = np.int32, head: int = HEAD
) -> tuple[list[Any], tuple[int, int]]:
    """Return a launch's arguments and grid; so many pages lie `below` where the caches begin."""
    pick = np.random.default_rng(page)
    counts = [-(-n // page) for _, n in SEQUENCES]
    order = (pick.permutation(sum(counts)) - below).astype(dtype)
    table = np.full((len(counts), max(counts) + 1), NOWHERE, dtype)
    row = page * HEADS_KV * head
    storages = [np.full((sum(counts), row), np.nan, np.float16) for _ in "kv"]
    first = 0
    for z, (count, (_, n)) in enumerate(zip(counts, SEQUENCES, strict=True)):
        table[z, :count] = order[first : first + count]
        first += count
        for c, storage in enumerate(storages):
            rows = np.full(count * row, np.nan, np.float16)
            rows[: n * HEADS_KV * head] = numbers(n * HEADS_KV * head, np.float16, 2 * z + c)
            storage[table[z, :count] + below] = rows.reshape(count, row)
    caches = [storage.ravel()[below * row :] for storage in storages]
    starts = np.array([0, *np.cumsum([m for m, _ in SEQUENCES])], np.int32)
    lengths = np.array([n for _, n in SEQUENCES], np.int32)
    heads = HEADS_KV * GROUP
    q = numbers(starts[-1] * heads * head, np.float16)
    out = np.zeros_like(q)
    by_head, by_token, by_page = head, HEADS_KV * head, row
    arguments = [q, *caches, out, starts, table.ravel(), lengths, 0.25, 1.0, 1.0,
                 heads * head, head, by_page, by_token, by_head, by_page, by_token, by_head,
                 heads * head, head, table.shape[1], len(SEQUENCES)]  # fmt: skip
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
    arguments, grid = sequences_of(page)
    check(found["hoist-invariants"], after, arguments, grid)
    offsets, _, total = allocate(after, SM_90A)
    assert simulate(after, offsets, total, grid, copied(arguments), SM_90A)


@pytest.mark.parametrize(("page", "block", "head"), [(64, 64, 64), (16, 32, 128)])
def test_heads_of_several_boxes(page: int, block: int, head: int):
    found = steps(prefill(page, block, head=head), warp_specialize=True, persistent=False)
    after = [*found.values()][-1]
    assert any(isinstance(op, TensorCopy) for op in after.walk())
    check(found["hoist-invariants"], after, *sequences_of(page, head=head))


@pytest.mark.parametrize(("page", "block"), [(64, 64), (32, 64)])
def test_pages_below_where_the_caches_begin_are_read(page: int, block: int):
    found = steps(prefill(page, block))
    check(found["hoist-invariants"], found["raise-tma"], *sequences_of(page, below=3))


def test_numbers_of_pages_may_have_64_bits():
    found = steps(prefill(32, 64, table="i64"))
    assert sum(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) == 2
    launch = sequences_of(32, below=2, dtype=np.int64)
    check(found["hoist-invariants"], found["raise-tma"], *launch)


def test_pages_that_lie_close_together_are_left_to_pointers():
    """Numbers that no coordinate can have might name what there is, then."""
    found = steps(prefill(64, 64))["raise-tma"]
    arguments, grid = sequences_of(64)
    arguments[12] = arguments[15] = 256
    assert not may_run(found, arguments, grid)


@pytest.mark.parametrize(("page", "registers"), [(128, (24, 240)), (16, (40, 232))])
def test_a_producer_of_many_boxes_keeps_more_registers(page: int, registers: tuple[int, int]):
    """Four warps of a producer and eight that multiply have 168 each: 12 x 168 in all."""
    found = steps(prefill(page, 128, 32, head=128, warps=8), persistent=False)
    (loop,) = (op for op in found["role-partition"].walk() if isinstance(op, For) and op.schedule)
    assert dict(loop.schedule)["registers"] == registers
    assert 4 * registers[0] + 8 * registers[1] == 12 * 168


def test_blocks_stay_where_pages_are_loaded():
    found = steps(prefill(64, 64), warp_specialize=True, persistent=True)
    after = [*found.values()][-1]
    assert is_persistent(after)
    check(found["hoist-invariants"], after, *sequences_of(64))


def test_numbers_of_pages_are_loaded_a_round_before_their_copies():
    found = steps(prefill(64, 64), warp_specialize=False, persistent=False)
    after = [*found.values()][-1]
    (loop,) = (op for op in after.walk() if isinstance(op, For) and any(map(is_copy, op.body.ops)))
    made = {value for op in loop.body.ops for value in op.results}
    loads = [op for op in loop.body.ops if isinstance(op, Load)]
    copies = [op for op in loop.body.ops if isinstance(op, TensorCopy)]
    assert len(loads) == 1
    work, seen = [v for op in copies for v in op.coordinates], set[Any]()
    while work:
        value = work.pop()
        if value in made and value not in seen and value.op is not None:
            seen.add(value)
            work += value.op.operands
    assert seen
    assert loads[0].result not in seen


def test_a_number_is_small_if_32_bits_hold_it():
    module = steps(prefill(64, 64))["hoist-invariants"]
    plans = Plans(module, Feeders(module, SM_90A))
    found = [plans.is_small(number(n)) for n in (-(1 << 31), (1 << 31) - 1, 1 << 31, 1 << 40)]
    assert found == [True, True, False, False]


def is_copy(op: Op) -> bool:
    return isinstance(op, TensorCopy)


#: A fault: what is replaced, by what; rows of a page and of a block.
PLANTED: dict[str, tuple[str, Any, int, int]] = {
    "what is lifted stays up": ("workbench.targets.nvidia.raising._AROUND", 1 << 32, 64, 64),
    "a row too many": (
        "workbench.targets.nvidia.raising._Planner._ragged",
        lambda self, *given: RAGGED(self, *given[:3], given[3] + number(1)), 64, 64,
    ),
    "parts have the first one's page": (
        "workbench.targets.nvidia.tile_parts._Part.first", property(lambda self: 0), 32, 64,
    ),
    "a page is looked up beyond the table": (
        "workbench.targets.nvidia.form_values.Scalars._element",
        lambda self, value, place: ELEMENT(self, value, (place[0] + 32,)), 32, 64,
    ),
}  # fmt: skip
RAGGED, ELEMENT = _Planner._ragged, Scalars._element


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch):
    name, wrong, page, block = PLANTED[fault]
    before = steps(prefill(page, block))["hoist-invariants"]
    monkeypatch.setattr(name, wrong)
    after = steps(prefill(page, block))["raise-tma"]
    with pytest.raises((AssertionError, KernelError)):
        check(before, after, *sequences_of(page, below=3))


def rewriting(a_ptr, b_ptr, c_ptr, table_ptr, rounds, WRITES: tl.constexpr):
    """The numbers of pages are loaded, then the table is written, then the pages are read."""
    m, k = tl.arange(0, 64), tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    a = tl.load(a_ptr + m[:, None] * 64 + k[None, :])
    pages = tl.load(table_ptr + m // 32)
    if WRITES:
        tl.store(table_ptr + tl.arange(0, 2), tl.zeros((2,), tl.int32))
    for _ in range(rounds):
        row = pages * 32 + m % 32
        b = tl.load(b_ptr + row[:, None] * 64 + k[None, :])
        total = tl.dot(a, tl.trans(b), total)
    tl.store(c_ptr + m[:, None] * 64 + m[None, :], total)


@pytest.mark.parametrize("writes", [False, True])
def test_numbers_of_pages_are_those_before_the_table_is_written(writes: bool):
    words = "*fp16:16 *fp16:16 *fp32:16 *i32:16 i32"
    module = tile_ir(rewriting, words, {"WRITES": writes}, num_warps=4, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    found = steps(final)
    assert any(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) != writes

    def arguments() -> list[Any]:
        a, b = numbers(64 * 64, np.float16, 0), numbers(8 * 32 * 64, np.float16, 1)
        return [a, b, np.zeros(64 * 64, np.float32), np.array([5, 2, 0, 0], np.int32), 3]

    after = [*found.values()][-1]
    assert meaning(after, (1,), arguments()) == meaning(module, (1,), arguments())


# -- work behind an early return ------------------------------------------------------------------
def returning(a_ptr, b_ptr, c_ptr, counts_ptr, K, M: tl.constexpr, N: tl.constexpr,
              BK: tl.constexpr, ASSUMES: tl.constexpr):  # fmt: skip
    """Program 1 returns early where counts say so; it must neither store nor read A."""
    pid = tl.program_id(0)
    count = tl.load(counts_ptr + pid)
    if count <= 0:
        return
    if ASSUMES:
        tl.assume(count < 1000)
    m, n, k = pid * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    bias = tl.load(c_ptr + M * N * 2 + count)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total + bias)


@pytest.mark.parametrize("assumes", [False, True])
def test_warps_part_behind_an_early_return(assumes: bool):
    words = "*fp16:16 *fp16:16 *fp32:16 *i32:16 i32:16"
    sizes = {"M": 64, "N": 64, "BK": 16, "ASSUMES": assumes}
    module = tile_ir(returning, words, sizes, num_warps=4, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    found = [*steps(final, warp_specialize=True, persistent=False).values()][-1]
    assert (roles_of(found) is None) == assumes  # under no mask an assumption holds nothing

    def arguments() -> list[Any]:
        a, b = numbers(64 * 64, np.float16, 0), numbers(64 * 64, np.float16, 1)
        counts = np.array([2, -(1 << 20)], np.int32)
        return [a, b, np.ones(2 * 64 * 64 + 8, np.float32), counts, 64]

    assert meaning(found, (2,), arguments()) == meaning(module, (2,), arguments())


def stepping(a_ptr, b_ptr, c_ptr, counts_ptr, steps_ptr, K, M: tl.constexpr, N: tl.constexpr,
             BK: tl.constexpr):  # fmt: skip
    """A program without work has a step of 0, numbers that fit nothing and a broken promise."""
    pid = tl.program_id(0)
    count = tl.load(counts_ptr + pid)
    if count <= 0:
        return
    step = tl.load(steps_ptr + pid)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    large = step * step * step * step * step
    where = tl.multiple_of(count * 8, 16) + 64 // large
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, step):
        a = tl.load(a_ptr + (pid * M + m)[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + where + m[:, None] * N + n[None, :], total)


def test_what_holds_in_a_branch_alone_is_said_of_nothing_outside():
    """Work that is taken out of its branch has no rounds and no flags of what only fits there."""
    words = "*fp16:16 *fp16:16 *fp32:16 *i32:16 *i32:16 i32:16"
    module = tile_ir(stepping, words, {"M": 64, "N": 64, "BK": 16}, num_warps=4, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    outside = without_branch(steps(final)["hoist-invariants"], SM_90A)
    assert outside is not None
    top = [op for op in outside.body.ops if isinstance(op, Elementwise) and op.function == "mul"]
    wide = [op for op in top if op.result.type == I64]
    # The square of a number of 32 bits always fits 64, further powers do not.
    assert {op.no_wrap for op in wide} == {False, True}
    (loop,) = (op for op in outside.body.ops if isinstance(op, For))
    assert isinstance(loop.step.op, Select)
    assert all(op.no_wrap for op in final.walk() if op.results and op.results[0].type == I64
               and isinstance(op, Elementwise) and op.function == "mul")  # fmt: skip

    def arguments() -> list[Any]:
        a, b = numbers(64 * 64, np.float16, 0), numbers(64 * 64, np.float16, 1)
        counts, by = np.array([2, -1], np.int32), np.array([16, 0], np.int32)
        return [a, b, np.ones(64 * 64 + 80, np.float32), counts, by, 64]

    for after in (outside, [*steps(final, warp_specialize=True, persistent=False).values()][-1]):
        assert meaning(after, (2,), arguments()) == meaning(module, (2,), arguments())
