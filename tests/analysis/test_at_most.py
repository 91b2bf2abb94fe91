"""What is known not to be larger than what is subtracted from it; see analysis/at_most.py."""

from __future__ import annotations

import re

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from workbench.analysis.at_most import is_at_most
from workbench.ops import Elementwise

ROW = "x = tl.load(p + tl.arange(0, 64))"
ROWS = "x = tl.load(p + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :])"
SHIFT = "tl.where(m == float('-inf'), 0.0, m)"


def exps(*lines: str) -> list[bool]:
    """Return of each exp of a kernel whether its operand is known not to be above 0."""
    text = "\n    ".join(("def kernel(p, q, o):", *lines))
    last = "\n    tl.store(o + tl.arange(0, 64), tl.reshape(y + tl.zeros_like(x), [64]))\n"
    module = tile_ir(from_text(text + last), "*fp32 *fp32 *fp32", {}, num_warps=1)
    subtracted = [
        op.inputs[0].op
        for op in module.walk()
        if isinstance(op, Elementwise) and op.function == "exp"
    ]
    return [
        isinstance(op, Elementwise) and op.function == "sub" and is_at_most(*op.inputs)
        for op in subtracted
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((ROW, "y = tl.exp(x - tl.max(x, axis=0))"), [True]),
        ((ROW, "y = tl.exp(x - tl.max(x + 1.0, axis=0))"), [False]),
        ((ROW, "y = tl.exp(tl.max(x, axis=0) - x)"), [False]),
        ((ROW, "y = tl.exp(x - tl.min(x, axis=0))"), [False]),
        ((ROW, "y = tl.exp(x - tl.load(q))"), [False]),
        ((ROW, "y = tl.exp(x - x)"), [True]),
        ((ROW, "m = tl.maximum(tl.load(q), tl.max(x, 0))", "y = tl.exp(x - m)"), [True]),
        ((ROW, "m = tl.minimum(tl.load(q), tl.max(x, 0))", "y = tl.exp(x - m)"), [False]),
        ((ROW, "m = tl.max(x, 0)", f"y = tl.exp(x - {SHIFT})"), [True]),
        ((ROW, "m = tl.max(x, 0)", "y = tl.exp(x - tl.where(m == 0.0, -1.0, m))"), [False]),
        ((ROW, "m = tl.max(x, 0)", "y = tl.exp(x - tl.where(m > 0.0, 0.0, m))"), [False]),
        ((ROWS, "y = tl.exp(x - tl.max(x, axis=1)[:, None])"), [True]),
        ((ROWS, "y = tl.exp(x - tl.max(x, axis=0)[None, :])"), [True]),
        # Of other rows: axes are not the same though shapes are.
        ((ROWS, "y = tl.exp(x - tl.max(x, axis=1)[None, :])"), [False]),
        ((ROWS, "y = tl.exp(x - tl.max(x, axis=0)[:, None])"), [False]),
        ((ROWS, "y = tl.exp(x - tl.max(tl.max(x, axis=0), axis=0))"), [True]),
        ((ROWS, "y = tl.exp(tl.trans(x) - tl.max(x, axis=1)[:, None])"), [False]),
        (
            (
                "m, d, x = float('-inf'), 0.0, tl.zeros([64], tl.float32)",
                "for i in range(0, 640, 64):",
                "    x = tl.load(p + i + tl.arange(0, 64))",
                "    new = tl.maximum(m, tl.max(x, axis=0))",
                "    d, m = d * tl.exp(m - new) + tl.sum(tl.exp(x - new)), new",
                "y = d",
            ),
            [True, True],
        ),
        (  # of a row with a NaN the outer maximum would leave nothing
            (
                "x, z = tl.load(p + tl.arange(0, 64)), tl.load(p + 64 + tl.arange(0, 64))",
                "big = tl.maximum(x, z, propagate_nan=tl.PropagateNan.ALL)",
                "y = tl.exp(x - tl.maximum(z, big))",
            ),
            [False],
        ),
        (
            (
                "x, z = tl.load(p + tl.arange(0, 64)), tl.load(p + 64 + tl.arange(0, 64))",
                "big = tl.maximum(x, z)",
                "y = tl.exp(x - tl.maximum(z, big, propagate_nan=tl.PropagateNan.ALL))",
            ),
            [True],
        ),
    ],
)
def test_what_is_at_most_its_maximum(lines: tuple[str, ...], expected: list[bool]):
    assert exps(*lines) == expected


SOFTMAX = """
def softmax(x, o, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + at, mask=at < n, other=float("-inf"))
    tl.store(o + at, tl.exp(row - tl.max(row, axis=0)), mask=at < n)
"""


def test_such_an_exp_takes_an_instruction_less():
    made = workbench.compile(
        from_text(SOFTMAX), "*fp32 *fp32 i32", {"BLOCK": 128}, "sm_90a", num_warps=4
    )
    assert len(re.findall(r"fma\.rn\.sat\.f32", made.asm["ptx"])) == 1
    assert "min.f32" not in made.asm["ptx"]


@pytest.mark.gpu
def test_exp_of_what_is_at_most_0_is_right_within_3_ulp():
    """ex2.approx by itself may be off by 2^-22.5 of its result (PTX ISA 9.0), up to 2.8 ulp."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    size = 1 << 15
    below = -np.random.default_rng(0).uniform(0.0, 87.3, size).astype(np.float32)
    below[:4] = 0.0, -np.inf, -1e30, -104.0
    x = torch.from_numpy(below).cuda()
    found = torch.empty_like(x)
    workbench.jit(from_text(SOFTMAX))[(1,)](x, found, size, BLOCK=size, num_warps=16)
    exact = np.exp(below.astype(np.float64))
    error = np.abs(found.cpu().numpy() - exact) / np.spacing(exact.astype(np.float32))
    assert found[0] == 1.0
    assert torch.equal(found[1:4], torch.zeros_like(found[1:4]))
    assert error[4:].max() <= 3.0
    nothing = torch.full_like(x, -torch.inf)
    workbench.jit(from_text(SOFTMAX))[(1,)](nothing, found, size, BLOCK=size, num_warps=16)
    assert found.isnan().all()
