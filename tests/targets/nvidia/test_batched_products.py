"""Products of batches: on tensor cores, warps at different batches, and rows that repeat once."""

from __future__ import annotations

import re
from typing import Any

import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from workbench.ir import Module, layout_of, shape_of
from workbench.ops import Dot
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia import pipeline


def batched(
    out, a, b, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    g = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :], tl.arange(0, K)
    x = tl.load(a + (g * M + m) * K + k[None, None, :])
    y = tl.load(b + (g * K + k[None, :, None]) * N + n)
    tl.store(out + (g * M + m) * N + n, tl.dot(x, y))


def copies_summed(out, a, b, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, C: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + m * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n)
    x = tl.broadcast_to(tl.expand_dims(x, 1), (M, C, K)).reshape(M * C, K)
    z = tl.dot(x, y).reshape(M, C, N)
    tl.store(out + m * N + n, tl.sum(z, 1))


def built(kernel: Any, kind: str, warps: int = 4, **sizes: int) -> Built:
    module = tile_ir(kernel, f"*fp32:16 *{kind}:16 *{kind}:16", sizes, num_warps=warps)
    recorder = Recorder()
    return pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)


def gpu_of(made: Built) -> Module:
    assert made.gpu is not None
    return made.gpu


def dot_of(made: Built) -> Dot:
    (found,) = [op for op in gpu_of(made).walk() if isinstance(op, Dot)]
    return found


@pytest.mark.parametrize(
    ("kind", "size", "each"),
    [("fp16", (16, 16, 16, 64), 4 * 2 * 4), ("bf16", (4, 32, 16, 32), 2 * 2 * 2),
     ("fp32", (2, 16, 16, 16), 1 * 2), ("fp16", (3, 16, 24, 16), 3),
     ("fp16", (8, 8, 16, 16), 2 * 2)],
)  # fmt: skip
def test_batches_go_by_tensor_cores(kind: str, size: tuple[int, ...], each: int):
    made = built(batched, kind, **dict(zip("BMNK", size, strict=True)))
    text = made.texts["ptx"]().text
    assert len(re.findall("mma.sync", text)) == each
    assert not re.search(r"\bfma\.rn\.f32", text)


def test_warps_have_batches_of_their_own():
    dot = dot_of(built(batched, "fp16", B=8, M=16, N=16, K=16))
    for value in (dot.a, dot.b, dot.result):
        layout = layout_of(value.type)
        assert layout is not None
        assert [place[0] for place in layout.bases["warp"]] == [2, 4]
        assert not any(any(place[1:]) for place in layout.bases["warp"])


def test_what_repeats_is_multiplied_once():
    dot = dot_of(built(copies_summed, "fp16", M=8, N=16, K=32, C=2))
    assert shape_of(dot.result.type) == (8, 16)
    # Three times a number is rounded: three equal ones are added up.
    dot = dot_of(built(copies_summed, "fp16", M=8, N=16, K=32, C=3))
    assert shape_of(dot.result.type) == (24, 16)
