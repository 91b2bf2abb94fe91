"""What rounds without products of tensor cores load starts a round before."""

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

M, N, K = 16, 64, 16


def summed(
    a_ptr, b_ptr, c_ptr, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    STORES: tl.constexpr, ASSERTS: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, size, K):
        at = start + k
        if ASSERTS:
            tl.device_assert(at >= 0, "outside")
        a = tl.load(a_ptr + m[:, None] * size + at[None, :], mask=at[None, :] < size, other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < size, other=0.0)
        total += tl.sum(a[:, :, None] * b[None, :, :], 1)
        if STORES:
            tl.store(a_ptr + m[:, None] * size + at[None, :], a, mask=at[None, :] < size)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


def modules(
    *, stores: bool = False, asserts: bool = False, **options: Any
) -> tuple[Module, Module]:
    sizes = {"M": M, "N": N, "K": K, "STORES": stores, "ASSERTS": asserts}
    module = tile_ir(summed, "*fp32:16 *fp32:16 *fp32:16 i32", sizes, num_warps=2, **options)
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    tile = replace(tile, attributes={**tile.attributes, "narrow_index": True})
    return module, [after for _, after in gpu_steps(tile, SM_90A)][-1]


def loop_of(module: Module) -> For:
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    return loop


def carried_loads(module: Module) -> int:
    """Return how many of a loop's loads are for its next round."""
    loop = loop_of(module)
    loads = {v for op in loop.body.ops if isinstance(op, Load) for v in op.results}
    return len(loads & set(loop.body.yields))


def arguments(size: int) -> list[Any]:
    a, b = numbers(M * max(size, 1), np.float32), numbers(max(size, 1) * N, np.float32, 2)
    return [a, b, np.zeros(M * N, np.float32), size]


@pytest.mark.parametrize(
    ("options", "count"),
    # Memory that a round stores to is not read ahead, nor what an assertion stands in front of;
    # one stage is nothing ahead.
    [({}, 2), ({"stores": True}, 0), ({"asserts": True, "debug": True}, 0), ({"num_stages": 1}, 0)],
)
def test_loads_of_plain_rounds_start_before_them(options: dict[str, Any], count: int):
    before, after = modules(**options)
    assert carried_loads(after) == count
    for size in (0, 1, 16, 40):
        want, got = (meaning(m, (1,), arguments(size))[2] for m in (before, after))
        assert np.allclose(*(np.frombuffer(held, np.float32) for held in (want, got)), atol=1e-4)


def moments(
    x_ptr, o_ptr, rounds, R: tl.constexpr, B: tl.constexpr, TYPE: tl.constexpr
):  # fmt: skip
    """Three sums of as many numbers as a round loads."""
    at = tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None, :]
    one, two, largest = (tl.zeros((R, B), TYPE),) * 3
    for i in range(rounds):
        x = tl.load(x_ptr + i * R * B + at)
        one += x
        two += x * x
        largest = tl.maximum(largest, x)
    tl.store(o_ptr + at, one + two + largest)


@pytest.mark.parametrize("type", ["fp32", "i32"])
@pytest.mark.parametrize(
    ("warps", "options", "count"),
    # 16 registers for each of five tiles: with 32 warps a thread has 64.
    [(4, {}, 1), (32, {}, 0), (4, {"maxnreg": 64}, 0)],
)
def test_loads_ahead_leave_room_for_what_a_round_computes(
    type: str, warps: int, options: dict[str, Any], count: int
):
    sizes = {"R": warps, "B": 512, "TYPE": tl.float32 if type == "fp32" else tl.int32}
    signature = f"*{type}:16 *{type}:16 i32"
    module = tile_ir(moments, signature, sizes, num_warps=warps, **options)
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    assert carried_loads([after for _, after in gpu_steps(tile, SM_90A)][-1]) == count
