"""Products with an fp16 result: within one rounding of the exact sum, on every target."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.everywhere import TARGETS, run_on
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline

FLAT = from_text("""
    def flat(out, a, b, G: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
             START: tl.constexpr):
        m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
        x = tl.load(a + m * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n)
        at = out + m * N + n
        if START:
            tl.store(at, tl.dot(x, y, tl.load(at), out_dtype=tl.float16))
        else:
            tl.store(at, tl.dot(x, y, out_dtype=tl.float16))
""")
BATCHED = from_text("""
    def batched(out, a, b, G: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
                START: tl.constexpr):
        g = tl.arange(0, G)[:, None, None]
        m, n, k = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :], tl.arange(0, K)
        x = tl.load(a + g * M * K + m * K + k[None, None, :])
        y = tl.load(b + g * K * N + k[None, :, None] * N + n)
        at = out + g * M * N + m * N + n
        if START:
            tl.store(at, tl.dot(x, y, tl.load(at), out_dtype=tl.float16))
        else:
            tl.store(at, tl.dot(x, y, out_dtype=tl.float16))
""")
SHAPES = [(1, 64, 64, 64), (2, 64, 64, 64), (4, 16, 16, 256), (1, 32, 16, 24), (1, 16, 8, 8)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e5m2, torch.float8_e4m3fn])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_rounded_once(
    shape: tuple[int, ...], dtype: torch.dtype, start: bool, target: str
):
    g, m, n, k = shape
    torch.manual_seed(11)
    a, b = (torch.randn(*s).to(dtype) for s in ((g, m, k), (g, k, n)))
    out = torch.randn(g, m, n).half() if start else torch.zeros(g, m, n).half()
    exact = (a.double() @ b.double() + out.double()).numpy()
    size = (a.double().abs() @ b.double().abs() + out.double().abs()).numpy()
    function = FLAT if g == 1 else BATCHED
    run_on(target, function, out=out, a=a, b=b, G=g, M=m, N=n, K=k, START=start)
    # Half an ulp of fp16, and what k sums in fp32 may lose (2^-24 each, of all magnitudes).
    step = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    allowed = step / 2 * (1 + 2.0**-10) + (k + 1) * 2.0**-24 * size
    if dtype != torch.float16 and target == "device":
        allowed += 2.0**-13 * size  # the tensor core's accumulator of 8-bit products is short
    error = np.abs(out.double().numpy() - exact)
    assert (error <= allowed).all(), (error.max(), (error > allowed).sum())


@pytest.mark.parametrize("function", [FLAT, BATCHED])
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_no_instruction_adds_in_half(function: object, chip: str):
    sizes = {"G": 2, "M": 64, "N": 64, "K": 64, "START": True}
    module = tile_ir(function, "*fp16:16 *fp16:16 *fp16:16", sizes)
    recorder = Recorder()
    text = pipeline.build(tile_passes(module, recorder), chip, recorder).texts["ptx"]().text
    assert not re.findall(r"\b(?:fma|add|mul)\.rn\.(?:ftz\.)?f16|f16\.f16\.f16\.f16", text)
    assert re.search(r"f32\.f16\.f16\.f32|wgmma\S+\.f32\.f16\.f16|fma\.rn\.f32", text)
    # Rounded at the end only: one conversion for each element of the result.
    narrowing = len(re.findall(r"cvt\.rn\.f16\.f32", text))
    pairs = len(re.findall(r"cvt\.rn\.f16x2\.f32", text))
    assert narrowing + 2 * pairs == (2 if function is BATCHED else 1) * 64 * 64 // 128
