"""Rows gathered in a loop of products: where they lie is loaded a round before the copies."""

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
from workbench.ir import Module
from workbench.ops import For, Load
from workbench.targets.nvidia.ops import AsyncCopy

M, N, K, ROWS = 64, 16, 16, 20


def neighbours(
    x_ptr, w_ptr, at_ptr, c_ptr, rounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    STORES: tl.constexpr,
):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for r in range(rounds):
        at = tl.load(at_ptr + rows * rounds + r)
        a = tl.load(x_ptr + at[:, None] * K + inner[None, :], mask=at[:, None] >= 0, other=0.0)
        b = tl.load(w_ptr + (r * K + inner)[:, None] * N + columns[None, :])
        total = tl.dot(a, b, total)
        if STORES:
            tl.store(at_ptr + rows * rounds + r, at)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def modules(*, stores: bool, **options: bool) -> tuple[Module, Module]:
    words = "*fp16:16 *fp16:16 *i32:16 *fp32:16 i32"
    sizes = {"M": M, "N": N, "K": K, "STORES": stores}
    module = tile_ir(neighbours, words, sizes, num_warps=4, num_stages=3)
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    tile = replace(tile, attributes={**tile.attributes, "narrow_index": True, **options})
    return module, [after for _, after in gpu_steps(tile, SM_90A)][-1]


def arguments(rounds: int) -> list[Any]:
    at = (np.arange(M * max(rounds, 1), dtype=np.int32) * 7) % (ROWS + 1) - 1
    x, w = numbers(ROWS * K, np.float16), numbers(max(rounds, 1) * K * N, np.float16, 2)
    return [x, w, at, np.zeros(M * N, np.float32), rounds]


def loop_of(module: Module) -> For:
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    return loop


def test_where_copies_read_is_loaded_a_round_before_them():
    before, after = modules(stores=False)
    loop = loop_of(after)
    (load,) = [op for op in loop.body.ops if isinstance(op, Load)]
    assert load.result in loop.body.yields
    assert any(isinstance(op, AsyncCopy) for op in loop.body.ops)
    for rounds in (0, 1, 2, 3, 6):
        given = arguments(rounds)
        assert meaning(after, (1,), given) == meaning(before, (1,), given)


@pytest.mark.parametrize("rounds", [1, 4])
def test_what_the_loop_stores_to_is_loaded_in_its_round(rounds: int):
    before, after = modules(stores=True)
    loop = loop_of(after)
    assert not any(isinstance(op, Load) and op.result in loop.body.yields for op in loop.body.ops)
    given = arguments(rounds)
    assert meaning(after, (1,), given) == meaning(before, (1,), given)


@pytest.mark.parametrize("ahead", [False, True])
def test_where_warps_multiply_the_option_decides(ahead: bool):
    before, after = modules(stores=False, wgmma=False, tables_ahead=ahead)
    loop = loop_of(after)
    (load,) = [op for op in loop.body.ops if isinstance(op, Load)]
    assert (load.result in loop.body.yields) is ahead
    for rounds in (0, 1, 2, 3, 6):
        given = arguments(rounds)
        assert meaning(after, (1,), given) == meaning(before, (1,), given)


def test_what_the_loop_stores_to_is_loaded_in_its_round_with_the_option_too():
    _, after = modules(stores=True, wgmma=False, tables_ahead=True)
    loop = loop_of(after)
    assert not any(isinstance(op, Load) and op.result in loop.body.yields for op in loop.body.ops)
