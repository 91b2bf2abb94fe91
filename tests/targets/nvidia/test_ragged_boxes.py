"""Rows of groups by boxes: where a group begins is loaded, and so is where it ends."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels import grouped as kernels
from tests.language.harness import from_text
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.raising import SM_90A, may_run
from workbench.ir import Module
from workbench.source import LaunchError
from workbench.targets.nvidia import raising
from workbench.targets.nvidia.ops import TensorLoad
from workbench.targets.simt.ops import is_persistent, roles_of
from workbench.targets.simt.passes.shared_memory import allocate

BLOCK, N, K, ROW = 64, 80, 128, 512
#: Rows of groups: more than a block, none, one, a whole block, behind an odd beginning.
ROWS = (70, 0, 1, 64, 5)
WORDS = "*fp16:16 *fp16:16 *fp16:16 *i32:16 i32 i32:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16"


@cache
def product(drawn: bool = False) -> Module:
    sizes, words = {"BLOCK_M": BLOCK, "BLOCK_N": BLOCK, "BLOCK_K": BLOCK}, WORDS.split()
    kernel = kernels.ragged_blocks
    if drawn:
        kernel, sizes = kernels.ragged_product, {"GROUPS": 8, **sizes}
        words.insert(4, "*i32:16")
    module = tile_ir(kernel, " ".join(words), sizes, num_warps=4, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return replace(final, attributes={**final.attributes, "narrow_index": True})


def steps(drawn: bool = False, **options: object) -> dict[str, Module]:
    return dict(gpu_steps(product(drawn), SM_90A, **options))


def launch() -> tuple[list[Any], tuple[int, int]]:
    """Return arguments and grid; X has NaN behind each row's end, and nothing behind its last."""
    starts = np.array([0, *np.cumsum(ROWS)], np.int32)
    x = np.full((starts[-1], ROW), np.nan, np.float16)
    x[:, :K] = numbers(starts[-1] * K, np.float16).reshape(-1, K)
    x = x.ravel()[: (starts[-1] - 1) * ROW + K].copy()
    w = numbers(len(ROWS) * K * N, np.float16, 1)
    c = np.zeros(starts[-1] * N, np.float16)
    arguments = [x, w, c, starts, len(ROWS), N, K, ROW, K * N, N, N]
    return arguments, (-(-N // BLOCK), int(starts[-1]) // BLOCK + len(ROWS))


def copied(arguments: list[Any]) -> list[Any]:
    return [np.zeros_like(a) if n == 2 else a for n, a in enumerate(arguments)]


@pytest.mark.parametrize("specialize", [False, True])
def test_rows_that_begin_and_end_where_memory_says_are_boxes(specialize: bool):
    found = steps(warp_specialize=specialize, persistent=specialize)
    assert sum(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) == 2
    after = [*found.values()][-1]
    assert (roles_of(after) is not None, is_persistent(after)) == (specialize, specialize)
    arguments, grid = launch()
    assert may_run(after, arguments, grid)
    wanted = meaning(found["hoist-invariants"], grid, copied(arguments))
    assert meaning(after, grid, copied(arguments)) == wanted
    offsets, _, total = allocate(after, SM_90A)
    assert simulate(after, offsets, total, grid, copied(arguments), SM_90A)


def test_columns_that_a_drawn_number_names_are_boxes():
    found = steps(drawn=True)
    assert sum(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) == 2
    after = [*found.values()][-1]
    arguments, _ = launch()
    arguments.insert(4, np.zeros(2, np.int32))
    assert may_run(after, arguments, (2,))
    wanted = meaning(found["hoist-invariants"], (2,), copied(arguments))
    assert meaning(after, (2,), copied(arguments)) == wanted
    offsets, _, total = allocate(after, SM_90A)
    assert simulate(after, offsets, total, (2,), copied(arguments), SM_90A)


BEGINS = """
def begins(a, b, c, starts, m, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.maximum(tl.load(starts + tl.program_id(0)), 0) + tl.arange(0, M)
    columns, along = tl.arange(0, N), tl.arange(0, K)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inside = start + along < k
        left = tl.load(a + rows[:, None] * k + start + along, (rows < m)[:, None] & inside, 0.0)
        right = tl.load(b + (start + along)[:, None] * N + columns, inside[:, None], 0.0)
        acc = tl.dot(left, right, acc)
    to = tl.program_id(0) * M + tl.arange(0, M)
    tl.store(c + to[:, None] * N + columns, acc)
"""


@pytest.mark.parametrize("width", [32, 64])
def test_rows_may_begin_at_a_loaded_number_of_either_width(width: int):
    """One of 64 bits fits no coordinate: what is left of the rows is counted by the program."""
    words = f"*fp16:16 *fp16:16 *fp32:16 *i{width}:16 i32 i32:16"
    module = tile_ir(from_text(BEGINS), words, {"M": 64, "N": 64, "K": 32}, num_warps=4)
    found = dict(
        gpu_steps(replace(module, attributes={**module.attributes, "narrow_index": True}), SM_90A)
    )
    assert sum(isinstance(op, TensorLoad) for op in found["raise-tma"].walk()) == 2
    starts = np.array([0, 5, 100, 64, 130, -3], f"int{width}")
    given = [numbers(110 * 64, np.float16), numbers(64 * 64, np.float16, 1)]
    arguments = [*given, np.zeros(64 * 64 * len(starts), np.float32), starts, 110, 64]
    wanted = meaning(module, (len(starts),), copied(arguments))
    assert meaning([*found.values()][-1], (len(starts),), copied(arguments)) == wanted


def test_rows_that_lie_close_together_are_left_to_pointers():
    """What no coordinate can have would not be far enough away."""
    after = [*steps().values()][-1]
    arguments, grid = launch()
    arguments[7] = K
    assert not may_run(after, arguments, grid)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch):
    """Blocks counted as one row each, where they share the rows' axis."""
    shared = raising.shared

    def once(extra: Any) -> Any:
        found = shared(extra)
        if len(found) == len(extra):
            return found
        return [(stride, extra[0][1] + extra[1][1]) for stride, _ in found]

    monkeypatch.setattr(raising, "shared", once)
    after = [*steps().values()][-1]
    arguments, grid = launch()
    with pytest.raises(LaunchError, match="outside every argument"):
        meaning(after, grid, arguments)
