"""Loops that end where their counter's type does: as many rounds, and nothing read behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests import execution
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.simt import pretend
from workbench.ir import Module
from workbench.ops import For
from workbench.targets.nvidia.chip import chip
from workbench.targets.simt.ops import SharedAllocate

MACHINE = pretend.Pretend()
#: Rounds after which a loop would not have ended.
MOST = 1000


def count(out_ptr, bounds_ptr, MOST: tl.constexpr, STEP: tl.constexpr, LEFT: tl.constexpr):
    """Count the rounds of a loop, which may be left early; one without end says so in time."""
    case = tl.program_id(0)
    lower, upper = tl.load(bounds_ptr + case * 3), tl.load(bounds_ptr + case * 3 + 1)
    rounds = tl.zeros((), tl.int32)
    for _ in range(lower, upper, STEP or tl.load(bounds_ptr + case * 3 + 2)):
        rounds += 1
        if LEFT:
            if rounds > MOST:
                break
        elif rounds > MOST:
            tl.device_assert(rounds <= MOST)
    tl.store(out_ptr + case, rounds)


DTYPES = {"i32": np.int32, "u32": np.uint32, "i64": np.int64}


def edges(word: str) -> list[tuple[int, int, int]]:
    """Return bounds and steps of up to some hundred rounds that end near the ends of a type."""
    info = np.iinfo(DTYPES[word])
    low, high, far = int(info.min), int(info.max), 1 << info.bits - 8
    found = [(high - 3, high, 2), (low, high, far), (high, low, far), (high, high, 1)]
    found += [(low, low + 3, 2), (high - 5 * far, high - 1, far), (low, high, high)]
    if low:
        found += [(low + 3, low, -2), (high, low, -far), (low, high, -far), (3, low, low + 1)]
    return found


@pytest.mark.parametrize("word", DTYPES)
def test_a_loop_has_the_rounds_of_its_range(word: str):
    cases = edges(word)
    for known in (0, cases[1][2], cases[-1][2]):
        given = [(lower, upper, known or step) for lower, upper, step in cases]
        given = [case for case in given if (case[1] - case[0]) // case[2] < MOST]
        want = [max(0, -(-(upper - lower) // step)) for lower, upper, step in given]
        bounds = np.array(given, object).astype(DTYPES[word])
        for left in (False, True):
            sizes = {"MOST": MOST, "STEP": known, "LEFT": left}
            module = tile_ir(count, f"*i32 *{word}", sizes)
            for target in ("interpreter",) if left else ("interpreter", "cpu", "simt"):
                out = np.full(len(given), -1, np.int32)
                if target == "simt":
                    made = pretend.gpu_ir(module, MACHINE)
                    pretend.execute(made, MACHINE, (len(given),), [out, bounds])
                else:
                    execution.execute(module, (len(given),), [out, bounds], target)
                assert out.tolist() == want, f"{target}, step {known}, left {left}"


M, N, D = 64, 16, 16


def ahead(q_ptr, k_ptr, v_ptr, o_ptr, ends_ptr, lower, upper, LOADED: tl.constexpr,
          WHOLE: tl.constexpr, STEP: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
          D: tl.constexpr):  # fmt: skip
    """Two products over keys that have the last numbers of a type, loaded rounds ahead.

    WHOLE: of whole rounds, which need no mask.
    """
    if LOADED:
        lower, upper = tl.load(ends_ptr), tl.load(ends_ptr + 1)
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    for i in range(lower, upper, STEP):
        key = (i - tl.minimum(lower, upper)) + columns
        inside = key < tl.maximum(lower, upper) - tl.minimum(lower, upper)
        if WHOLE:
            k = tl.load(k_ptr + key[None, :] * D + d[:, None])
            v = tl.load(v_ptr + key[:, None] * D + d[None, :])
        else:
            k = tl.load(k_ptr + key[None, :] * D + d[:, None], mask=inside[None, :], other=0.0)
            v = tl.load(v_ptr + key[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(tl.dot(q, k).to(tl.float16), v, acc)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)


def in_gpu_ir(module: Module, name: str) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, chip(name))][-1]


@pytest.mark.parametrize("word", ["i32", "i64"])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("whole", [False, True])
def test_rounds_that_would_come_behind_the_last_are_not_started(
    name: str, loaded: bool, word: str, whole: bool
):
    high = int(np.iinfo(DTYPES[word]).max)
    sizes = {"LOADED": loaded, "WHOLE": whole, "M": M, "N": N, "D": D, "STEP": N}
    words = f"*fp16:16 *fp16:16 *fp16:16 *fp32:16 *{word} {word} {word}"
    module = tile_ir(ahead, words, sizes, num_warps=4, num_stages=3)
    last = in_gpu_ir(module, name)
    assert any(isinstance(op, SharedAllocate) and op.type.slots for op in last.walk())
    for size in (0, N, 3 * N) if whole else (0, N - 1, 3 * N, 5 * N - 3):

        def given(size: int = size) -> list[Any]:
            arrays = [numbers(n * D, np.float16, s) for n, s in ((M, 1), (size, 2), (size, 3))]
            bounds = np.array([high - size, high], DTYPES[word])
            return [*arrays, np.zeros(M * D, np.float32), bounds, high - size, high]

        assert meaning(last, (1,), given()) == meaning(module, (1,), given())


def test_only_a_loop_that_may_come_to_the_end_of_its_type_says_so():
    """The launch asks that rounds ahead fit, too, where it chooses 32 bits."""
    sizes = {"LOADED": False, "WHOLE": False, "M": M, "N": N, "D": D, "STEP": N}
    words = "*fp16:16 *fp16:16 *fp16:16 *fp32:16 *i32 i32 i32"
    for narrow in (False, True):
        module = tile_ir(ahead, words, sizes, num_warps=4, num_stages=3)
        module = replace(module, attributes={**module.attributes, "narrow_index": narrow})
        loops = [op for op in in_gpu_ir(module, "sm_80").walk() if isinstance(op, For)]
        assert [loop.may_wrap for loop in loops] == [not narrow]
