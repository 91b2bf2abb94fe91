"""Right kernels, how they are launched, and what they compute: the ground that faults stand in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

GELU = """
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    e = tl.exp(-2.0 * tl.abs(inner))
    t = (1.0 - e) / (1.0 + e)
    tanh = tl.where(inner < 0.0, -t, t)
    y = 0.5 * x * (1.0 + tanh)
    tl.store(out_ptr + offsets, y, mask=mask)
"""

SOFTMAX = """
def softmax(x_ptr, out_ptr, stride, n_columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n_columns
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=float("-inf"))
    scaled = x * scale
    largest = tl.max(scaled, axis=0)
    numerator = tl.exp(scaled - largest)
    total = tl.sum(numerator, axis=0)
    out = numerator / total
    tl.store(out_ptr + row * stride + columns, out, mask=inside)
"""

LAYER_NORM = """
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, axis=0) / n
    variance = tl.sum(squares, axis=0) / n - mean * mean
    inverse = 1.0 / tl.sqrt(variance + eps)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        x = tl.load(x_ptr + row * stride + columns, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + columns, mask=inside)
        bias = tl.load(bias_ptr + columns, mask=inside)
        y = (x - mean) * inverse * weight + bias
        tl.store(out_ptr + row * stride + columns, y, mask=inside)
"""

MATMUL = """
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
           stride_cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        a = tl.load(a_ptrs, mask=inner[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < left, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = tl.where(accumulator >= 0, accumulator, 0.01 * accumulator)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, c.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))
"""

ATTENTION = """
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, scale, D: tl.constexpr, BM: tl.constexpr,
              BN: tl.constexpr):
    start = tl.program_id(0) * BM
    rows = start + tl.arange(0, BM)
    inner = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + inner[None, :])
    largest = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    accumulator = tl.zeros((BM, D), dtype=tl.float32)
    for first in range(0, start + BM, BN):
        columns = first + tl.arange(0, BN)
        k = tl.load(k_ptr + columns[None, :] * D + inner[:, None])
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        newest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp(scores - newest[:, None])
        kept = tl.exp(largest - newest)
        total = total * kept + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + columns[:, None] * D + inner[None, :])
        accumulator = accumulator * kept[:, None]
        accumulator = tl.dot(weights, v, accumulator, input_precision="ieee")
        largest = newest
    out = accumulator / total[:, None]
    tl.store(out_ptr + rows[:, None] * D + inner[None, :], out)
"""

ROTARY = """
def rotary(x_ptr, cos_ptr, sin_ptr, out_ptr, stride, HALF: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, HALF)
    first = tl.load(x_ptr + row * stride + lanes)
    second = tl.load(x_ptr + row * stride + HALF + lanes)
    cos = tl.load(cos_ptr + row * HALF + lanes)
    sin = tl.load(sin_ptr + row * HALF + lanes)
    tl.store(out_ptr + row * stride + lanes, first * cos - second * sin)
    tl.store(out_ptr + row * stride + HALF + lanes, second * cos + first * sin)
"""

CROSS_ENTROPY = """
def cross_entropy(logits_ptr, targets_ptr, out_ptr, stride, n, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(targets_ptr + row)
    largest = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * stride + columns, mask=columns < n, other=float("-inf"))
        newest = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - newest) + tl.sum(tl.exp(x - newest), axis=0)
        largest = newest
    own = tl.load(logits_ptr + row * stride + target)
    loss = largest + tl.log(total) - own
    loss = tl.where(target == ignored, 0.0, loss)
    tl.store(out_ptr + row, loss)
"""

CUMULATIVE = """
def cumulative(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=0.0)
        running = tl.cumsum(x, axis=0) + carry
        tl.store(out_ptr + row * stride + columns, running, mask=columns < n)
        carry += tl.sum(x, axis=0)
"""


@dataclass(frozen=True)
class Ground:
    """A right kernel: its text, the names that its option line uses, and that line."""

    text: str
    names: Callable[[], dict[str, Any]]
    line: str


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_generator())


def _matmul(size: int) -> Callable[[], dict[str, Any]]:
    def names() -> dict[str, Any]:
        a, b = (torch.randn(size, size, generator=_generator()).half() for _ in range(2))
        c = torch.zeros(size, size, dtype=torch.float16)
        return {"a": a, "b": b.t().contiguous(), "c": c, "n": size, "leaky": _leaky}

    return names


def _leaky(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.leaky_relu(x, 0.01)


def _attention() -> dict[str, Any]:
    q, k, v = _random(3, 64, 16)
    causal = torch.ones(64, 64).tril().bool()

    def want(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.t() * 0.25).masked_fill(~causal, float("-inf"))
        return scores.softmax(-1) @ v

    return {"q": q, "k": k, "v": v, "out": torch.zeros(64, 16), "want": want}


def _rotary() -> dict[str, Any]:
    x, angle = _random(6, 32), _random(6, 16)
    return {"x": x, "cos": angle.cos(), "sin": angle.sin(), "out": torch.zeros(6, 32)}


def _losses() -> dict[str, Any]:
    targets = torch.tensor([3, 19, 7, 0, 30])
    return {"x": _random(5, 40) * 3, "t": targets, "out": torch.zeros(5)}


GROUNDS: dict[str, Ground] = {
    "gelu": Ground(
        GELU, lambda: {"x": _random(100) * 2, "out": torch.zeros(100)},
        '--args x,out,100 --grid 4 --set BLOCK=32 '
        '--check "torch.nn.functional.gelu(x, approximate=\'tanh\')" --atol 1e-5',
    ),
    "softmax": Ground(
        SOFTMAX, lambda: {"x": _random(9, 27) * 4, "out": torch.zeros(9, 27)},
        '--args x,out,27,27,0.5 --grid 9 --set BLOCK=32 --check "torch.softmax(x * 0.5, 1)"',
    ),
    "layer_norm": Ground(
        LAYER_NORM,
        lambda: {"x": _random(5, 50) * 2 + 1, "w": _random(50), "b": _random(60)[10:],
                 "out": torch.zeros(5, 50)},
        '--args x,w,b,out,50,50,1e-5 --grid 5 --set BLOCK=16 '
        '--check "torch.nn.functional.layer_norm(x, (50,), w, b, 1e-5)"',
    ),
    "matmul": Ground(
        MATMUL, _matmul(512),
        '--args a,b,c,n,n,n,n,1,1,n,n,1 --grid "(8, 8)" --set BM=64 --set BN=64 --set BK=32 '
        '--check "leaky(a @ b.t())"',
    ),
    "attention": Ground(
        ATTENTION, _attention,
        '--args q,k,v,out,64,0.25 --grid 4 --set D=16 --set BM=16 --set BN=16 '
        '--check "want(q, k, v)"',
    ),
    "rotary": Ground(
        ROTARY, _rotary,
        '--args x,cos,sin,out,32 --grid 6 --set HALF=16 --check "torch.cat([x[:, :16] * cos - '
        'x[:, 16:] * sin, x[:, 16:] * cos + x[:, :16] * sin], 1)"',
    ),
    "cross_entropy": Ground(
        CROSS_ENTROPY, _losses,
        '--args x,t,out,40,40,7 --grid 5 --set BLOCK=16 '
        '--check "torch.nn.functional.cross_entropy(x, t, reduction=\'none\', ignore_index=7)"',
    ),
    "cumulative": Ground(
        CUMULATIVE, lambda: {"x": _random(4, 45), "out": torch.zeros(4, 45)},
        '--args x,out,45,45 --grid 4 --set BLOCK=16 --check "torch.cumsum(x, 1)"',
    ),
}  # fmt: skip
