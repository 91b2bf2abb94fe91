"""Weights (K, C, R, S): what all taps read of a row is one run of memory, copied at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.kernels.convolution import conv2d
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, compiled, in_gpu_ir
from workbench.interpreter import run_module
from workbench.ir import Module, Shared
from workbench.ops import If
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.copied_rounds import layout_for
from workbench.targets.nvidia.moves import moves_in
from workbench.targets.nvidia.ops import CopyRounds, WarpgroupDot
from workbench.targets.nvidia.pipeline import build

BLOCKS = {"R": 3, "S": 3, "HAS_BIAS": False, "BLOCK_M": 64, "BLOCK_K": 32, "BLOCK_C": 32}
#: What is known of the strides (K, C, R, S) of weights.
DENSE = "i32:16 i32 i32 i32=1"


def by_fours(
    x_ptr, w_ptr, out_ptr, C,
    HOW: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Four products for each c, of weights (N, C, 2, 2), in the order that HOW says."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        for r in range(2):
            for s in range(2):
                x = tl.load(x_ptr + m[:, None] * C + c[None, :])
                at = 2 * r + s
                if HOW == "square":
                    at = r * r * 2 + s
                if HOW == "xor":
                    at = (2 * r + s) ^ 1
                if HOW == "quotient":
                    at = 2 * r + s + (r + s) // 2
                row = (C + 1 if HOW == "unaligned" else C) * 4
                place = w_ptr + n[None, :] * row + c[:, None] * 4 + at
                if HOW == "others":
                    w = tl.load(place, mask=c[:, None] < C, other=1.0)
                elif HOW == "odd mask":
                    w = tl.load(place, mask=c[:, None] < C - 3, other=0.0)
                else:
                    w = tl.load(place, volatile=HOW == "volatile")
                acc = tl.dot(x, w, acc)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


def by_taps(
    x_ptr, w_ptr, out_ptr, C,
    M: tl.constexpr, N: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A product for each of TAPS weights that lie side by side."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        for tap in range(TAPS):
            x = tl.load(x_ptr + m[:, None] * C + c[None, :])
            w = tl.load(w_ptr + n[None, :] * C * TAPS + c[:, None] * TAPS + tap)
            acc = tl.dot(x, w, acc)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


def convolution(weights: str = DENSE, blocks: dict[str, Any] = BLOCKS, **options: Any) -> Module:
    ones = "i32=1 " * 5
    signature = (
        f"*f16:16 *f16:16 *f16:16 *f32:16 i32 i32:16 {'i32 ' * 5}{ones}"
        f"i32 i32 i32 i32=1 {weights} i32 i32 i32 i32=1 i32:16 i32"
    )
    module = tile_ir(conv2d, signature, blocks, num_warps=4, **options)
    return replace(module, attributes={**module.attributes, "narrow_index": True})


def copies(module: Module) -> list[CopyRounds]:
    return [op for op in module.walk() if isinstance(op, CopyRounds)]


def test_products_read_the_slots_of_nine_taps():
    module = in_gpu_ir(convolution())
    (copy,) = copies(module)
    readers = [op for op in module.walk() if isinstance(op, WarpgroupDot) and op.slot_b is not None]
    assert [op.b for op in readers] == [copy.buffer]
    assert copy.axis == 0
    assert isinstance(copy.buffer.type, Shared)
    assert copy.buffer.type.slots == 9


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        ("i32 i32 i32 i32=1", {}),  # a row may begin anywhere
        ("i32:16 i32:16 i32 i32=1", {}),  # 16 elements between channels, at least
        ("i32:16 i32 i32 i32", {}),  # nobody knows how far taps lie apart
        (DENSE, {"rounds_at_once": False}),
    ],
)
def test_what_each_round_loads_for_itself(weights: str, options: dict[str, Any]):
    assert not copies(in_gpu_ir(convolution(weights, **options)))


@pytest.mark.parametrize(
    ("chip", "taps", "warps"), [("sm_90a", 36, 8), ("sm_86", 16, 4), ("sm_120", 16, 4)]
)
def test_what_does_not_fit_is_loaded_in_each_round(chip: str, taps: int, warps: int):
    """Slots, scratch to sort them out, and the ring of what else the product reads."""
    words, sizes = "*f16:16 *f16:16 *f32:16 i32:16", {"M": 64, "N": 64, "TAPS": taps, "BLOCK": 32}
    module = tile_ir(by_taps, words, sizes, num_warps=warps)
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    recorder = Recorder()
    build(tile_passes(module, recorder), chip, recorder)
    said = [item.text for item in recorder.remarks.items]
    assert "rounds that read one run of memory are not copied at once: that does not fit" in said


@pytest.mark.parametrize(
    "how",
    ["plain", "square", "xor", "quotient", "unaligned", "volatile", "others", "odd mask"],
)
def test_only_runs_of_memory_are_copied_at_once(how: str):
    """Strides that are numbers are no question; rounds that go elsewhere load for themselves."""
    blocks = {"HOW": how, "M": 64, "N": 32, "BLOCK": 32}
    module = tile_ir(by_fours, "*f16:16 *f16:16 *f32:16 i32:16", blocks, num_warps=4)
    module = in_gpu_ir(replace(module, attributes={**module.attributes, "narrow_index": True}))
    assert len(copies(module)) == (how == "plain")
    assert not any(isinstance(op, If) for op in module.walk())
    draw = np.random.default_rng(3)
    x, w = (draw.integers(-3, 4, size).astype(np.float16) for size in ((64, 64), (32 * 65 * 4,)))
    out = np.full((64, 32), np.nan, np.float32)
    run_module(module, (1, 1, 1), [x, w, out, 64])
    if how == "odd mask":
        x[:, 61:] = 0
    at = {"square": (0, 1, 2, 3), "xor": (1, 0, 3, 2), "quotient": (0, 1, 2, 4)}.get(how, range(4))
    row = 260 if how == "unaligned" else 256
    places = np.arange(32)[:, None] * row + np.arange(64) * 4
    want = sum(x.astype(np.float32) @ w[places + tap].T.astype(np.float32) for tap in at)
    assert np.array_equal(out, want)


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize(
    ("rows", "options"), [(64, {}), (32, {}), (64, {"through_registers": True})], ids=str
)
def test_the_result_is_that_of_torch(gap: int, rows: int, options: dict[str, Any]):
    """Whatever the strides are; `gap`: elements between channels that no tap has.

    64 rows are multiplied by four warps, also while images are loaded rounds ahead.
    """
    blocks = {**BLOCKS, "BLOCK_M": rows}
    b, c, height, width, k = 1, 48, 4, 6, 19
    draw = np.random.default_rng(3)
    x = draw.integers(-3, 4, (b, c, height, width)).astype(np.float16)
    held = draw.integers(-3, 4, (k, c, 9 + gap)).astype(np.float16)
    w = held[:, :, :9].reshape(k, c, 3, 3) if gap else held.reshape(k, c, 3, 3)
    out = np.full((b, k, height, width), np.nan, np.float32)
    strides = [x.strides[n] // 2 for n in range(3)]
    strides += [c * (9 + gap), 9 + gap, 3, *(out.strides[n] // 4 for n in range(3))]
    module = in_gpu_ir(convolution(blocks=blocks, **options))
    assert any(isinstance(op, If) for op in module.walk())
    goes_on = any(isinstance(op, WarpgroupDot) and op.in_flight for op in module.walk())
    assert goes_on is bool(options)
    given = [x, held, held, out, b, c, height, width, k, height, width, *strides, c, k]
    programs = -(-b * height * width // rows), 1, 1
    run_module(module, programs, given)
    images, weights = (torch.from_numpy(np.ascontiguousarray(a)).float() for a in (x, w))
    want = torch.nn.functional.conv2d(images, weights, padding=1)
    assert np.array_equal(out, want.numpy())
    placed, offsets, total = ordered(module)
    simulate(placed, offsets, total, programs, given, SM_90A)


def test_copies_are_as_wide_as_can_be():
    made, recorder = compiled(convolution())
    ptx = made.texts["ptx"]().text
    assert ptx.count("cp.async.cg.shared.global") == 9
    assert ptx.count("prmt.b32") >= 9 * 4
    assert any("9 rounds copied at once" in one.text for one in recorder.remarks.items)


def test_what_copies_move():
    """64 bytes of a row at a time, no bank twice."""
    module = in_gpu_ir(convolution())
    read, taken, put = (
        move for op, move in moves_in(module, "sm_90a") if isinstance(op, CopyRounds)
    )
    assert (read.how, read.requests, read.sectors) == ("cp.async", 9, 16)
    assert [(move.requests, move.conflicts) for move in (taken, put)] == [(9, 1), (9, 1)]


def test_lanes_share_rows():
    layout = layout_for((64, 64), 0, 8, 32)
    assert layout is not None
    assert layout.bases["register"] == ((1, 0), (2, 0), (4, 0), (0, 32))
    assert layout.bases["lane"] == ((8, 0), (16, 0), (32, 0), (0, 1), (0, 2))
    assert layout_for((16, 32), 0, 4, 32) is None
    assert layout_for((64, 96), 0, 4, 32) is None
