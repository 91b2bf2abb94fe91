"""Tiles that are loaded an element at a time: addresses that share sums, masks made once a run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_warpgroups import compiled
from tests.targets.simt.pretend import Pretend, execute, gpu_ir
from workbench import tl
from workbench.interpreter import run_module
from workbench.ir import Module


def strided(x, out, rows, columns, down, along, begin, R: tl.constexpr, C: tl.constexpr):
    """What lies at places of which no two are side by side."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, C)
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, columns, C):
        inside = (r < rows)[:, None] & (start + c < columns)[None, :]
        places = r[:, None] * down + (start + c)[None, :] * along + begin * start
        total += tl.load(x + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + r[:, None] * C + c[None, :], total)


def module_of(signature: str, **options: Any) -> Module:
    module = tile_ir(strided, signature, {"R": 32, "C": 32}, **options)
    return replace(module, attributes={**module.attributes, "narrow_index": True})


@pytest.mark.parametrize(
    ("rows", "columns", "fact"), [(41, 48, ":16"), (17, 16, ":16"), (41, 33, "")]
)
def test_each_element_comes_from_its_place(rows: int, columns: int, fact: str):
    module = module_of(f"*f16 *f32 i32 i32{fact} i32 i32 i32", num_warps=2)
    machine = Pretend(lanes=32)
    x = np.arange(1 << 14, dtype=np.float16) % 1000
    programs = -(-rows // 32)

    wanted, got = (np.zeros((32 * programs, 32), np.float32) for _ in "wg")
    more = rows, columns, 131, 3, 1
    run_module(module, (programs,), [x, wanted, *more])
    execute(gpu_ir(module, machine), machine, (programs,), [x, got, *more])
    assert np.any(wanted)
    assert np.array_equal(got, wanted)


def test_an_address_is_one_sum_and_a_mask_one_of_its_run():
    """32 elements of a thread: a pointer for each row or column, to which one number is added."""
    # One stage: else those of the first round stand in front of the loop.
    module = module_of("*f16 *f32 i32:16 i32:16 i32 i32 i32", num_warps=1, num_stages=1)
    text = compiled(module)[0].texts["llvm"]().text
    loads = re.findall(r"ld\.global\.b16[^\n]*\(ptr addrspace\(1\) (%\w+), i1 (%\w+)", text)
    moved = dict(re.findall(r"(%\w+) = getelementptr i8, ptr addrspace\(1\) (%\w+)", text))
    assert len(loads) == 32
    assert len({moved[pointer] for pointer, _ in loads}) <= 8
    assert len({condition for _, condition in loads}) <= 8
