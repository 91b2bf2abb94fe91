"""Convolutions whose channels lie first: taps are the inner loops, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.kernels.convolution import conv2d
from tests.passes.corpus import tile_ir
from tests.passes.pipelines import tile_steps
from tests.targets.nvidia.test_warpgroups import in_gpu_ir
from workbench.interpreter import run_module
from workbench.ir import Module
from workbench.ops import For
from workbench.passes.manager import Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import WarpgroupDot
from workbench.targets.simt.passes.order_loops import READS_AGAIN, order_loops

BLOCKS = {"R": 3, "S": 3, "HAS_BIAS": False, "BLOCK_M": 32, "BLOCK_K": 16, "BLOCK_C": 16}
#: Strides of images and of weights, in the order N C H W and K C R S.
FIRST = "i32 i32 i32 i32=1 i32 i32 i32 i32=1"
LAST = "i32 i32=1 i32 i32 i32 i32=1 i32 i32"


def convolution(strides: str, blocks: dict[str, Any] = BLOCKS, **options: Any) -> Module:
    signature = (
        f"*f16:16 *f16:16 *f16:16 *f32:16 {'i32 ' * 7}i32=1 i32=1 i32=1 i32=1 i32=1 {strides} "
    )
    signature += ("i32 i32 i32 i32=1" if strides is FIRST else "i32 i32=1 i32 i32") + " i32 i32"
    module = tile_ir(conv2d, signature, blocks, num_warps=4, **options)
    return replace(module, attributes={**module.attributes, "narrow_index": True})


def counters(module: Module) -> list[str]:
    return [op.counter.hint or "" for op in module.walk() if isinstance(op, For)]


def ordered(module: Module) -> tuple[Module, Remarks]:
    said = Remarks()
    module = [module, *(after for _, after in tile_steps(module))][-1]
    return order_loops(narrow_index(module, said), said, chip("sm_90a")), said


def test_taps_are_innermost_where_channels_lie_first():
    module, said = ordered(convolution(FIRST))
    assert counters(module) == ["start", "r", "s"]
    assert module.attributes[READS_AGAIN]
    assert any("in the order start, r, s" in remark.text for remark in said.items)


@pytest.mark.parametrize(
    ("strides", "options"),
    [(LAST, {}), (FIRST, {"reorder_rounds": False}), (FIRST, {"exact": True})],
)
def test_what_stays_as_it_is_written(strides: str, options: dict[str, Any]):
    module, _ = ordered(convolution(strides, **options))
    assert counters(module) == ["r", "s", "start"]
    assert READS_AGAIN not in module.attributes


@pytest.mark.parametrize("size", [(2, 20, 5, 7), (1, 16, 6, 6)], ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_the_result_is_that_of_torch(size: tuple[int, int, int, int], large: bool):
    """Large blocks are multiplied by four warps, and asked to go through registers rounds ahead."""
    blocks = {**BLOCKS, "BLOCK_M": 64, "BLOCK_K": 32} if large else BLOCKS
    b, c, height, width = size
    k = 19
    draw = np.random.default_rng(3)
    x = draw.integers(-3, 4, size).astype(np.float16)
    w = draw.integers(-3, 4, (k, c, 3, 3)).astype(np.float16)
    out = np.full((b, k, height, width), np.nan, np.float32)
    strides = [a.strides[n] // a.itemsize for a in (x, w, out) for n in range(3)]
    given = [x, w, w, out, b, c, height, width, k, height, width, *strides, c, k]
    module = in_gpu_ir(convolution(FIRST, blocks, **({"through_registers": True} if large else {})))
    assert any(isinstance(op, WarpgroupDot) for op in module.walk()) is large
    programs = -(-b * height * width // blocks["BLOCK_M"]), -(-k // blocks["BLOCK_K"]), 1
    run_module(module, programs, given)
    images, weights = (torch.from_numpy(a).float() for a in (x, w))
    want = torch.nn.functional.conv2d(images, weights, padding=1)
    assert np.array_equal(out, want.numpy())
