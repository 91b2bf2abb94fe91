"""Family 17: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    exact,
    once,
    sample,
)
from tests.kernels import convolution
from workbench import cdiv


@sample(
    "conv2d", convolution,
    # batch, channels, height, width, outputs, taps, stride, padding, dilation, groups
    fast=((1, 3, 5, 6, 4, 3, 1, 1, 1, 1), (2, 18, 9, 7, 6, 3, 2, 1, 1, 2)),
    slow=((1, 16, 4, 4, 16, 1, 1, 0, 1, 1), (1, 17, 11, 9, 20, 3, 1, 2, 2, 1),
          (1, 3, 20, 20, 8, 7, 2, 3, 1, 1)),
    gpu=((4, 17, 33, 31, 70, 3, 1, 1, 1, 1), (2, 64, 30, 30, 64, 3, 2, 1, 1, 4)),
    dtypes=(F16, BF16, F32),
)  # fmt: skip
def conv2d(make, n, c, h, w, k, taps, stride, pad, dilation, groups) -> Problem:
    """Small integers: exact in any order. Large images have their channels last."""
    x = make.integers(-2, 3, n, c, h, w)
    if n >= 32:
        x = x.contiguous(memory_format=torch.channels_last)
    weight, bias = make.integers(-2, 3, k, c // groups, taps, taps), make.integers(-2, 3, k)

    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, weight, bias, stride, pad, dilation, groups)

    p, q = ((size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for size in (h, w))
    out = make.output(n, k, p, q)
    large = n * p * q >= 4096
    block_m, block_k, block_c = (128, 64, 32) if large else (32, 16, 16)
    launch = Launch(
        convolution.conv2d,
        (cdiv(n * p * q, block_m), cdiv(k // groups, block_k), groups),
        (x, weight, bias, out, n, c, h, w, k, p, q, stride, stride, pad, pad, dilation,
         *x.stride(), *weight.stride(), *out.stride(), c // groups, k // groups),
        {"R": taps, "S": taps, "HAS_BIAS": True, "BLOCK_M": block_m, "BLOCK_K": block_k,
         "BLOCK_C": block_c, "num_warps": 4, "num_stages": 3},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("out", out, reference(x.double(), weight.double(), bias.double()))

    return Problem((launch,), checks, once(x, weight, bias, out),
                   lambda: reference(x, weight, bias),
                   flops=2 * n * p * q * k * (c // groups) * taps**2)  # fmt: skip


@sample("conv1d", convolution, fast=((1, 3, 5, 4, False), (2, 33, 40, 3, True)),
        slow=((1, 1, 1, 2, False),), gpu=((3, 1001, 300, 4, True),),
        bench=((8, 4096, 2048, 4, True),))  # fmt: skip
def causal_conv1d(
    make: Maker, batch: int, length: int, width: int, taps: int, act: bool
) -> Problem:
    x, out = make.normal(batch, length, width), make.output(batch, length, width)
    weight, bias = make.normal(width, taps), make.normal(width)
    launch = Launch(
        convolution.causal_conv1d,
        (cdiv(length, 32), cdiv(width, 64), batch),
        (x, weight, bias, out, length, width),
        {"WIDTH": taps, "SILU": act, "BLOCK_T": 32, "BLOCK_D": 64, "num_warps": 4},
    )

    def formula(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x.transpose(1, 2), (taps - 1, 0))
        return functional.conv1d(padded, w[:, None], b, groups=width).transpose(1, 2)

    def checks() -> Iterator[Check]:
        inner = formula(x.double(), weight.double(), bias.double())
        size = formula(x.double().abs(), weight.double().abs(), bias.double().abs())
        want = functional.silu(inner) if act else inner
        yield close("out", out, want, 2 * size * (1 + size if act else 1), taps)

    return Problem((launch,), checks, once(x, weight, bias, out), lambda: formula(x, weight, bias))


@sample("conv_depthwise", convolution, fast=((1, 2, 5, 6, 3, 1), (2, 3, 17, 19, 3, 2)),
        gpu=((4, 17, 60, 61, 5, 1),), bench=((32, 256, 56, 56, 3, 1),))  # fmt: skip
def depthwise_conv2d(
    make: Maker, n: int, c: int, h: int, w: int, taps: int, stride: int
) -> Problem:
    x, weight, pad = make.normal(n, c, h, w), make.normal(c, 1, taps, taps), taps // 2
    p, q = ((size + 2 * pad - taps) // stride + 1 for size in (h, w))
    out = make.output(n, c, p, q)
    launch = Launch(convolution.depthwise_conv2d, (cdiv(p * q, 256), n * c),
                    (x, weight, out, c, h, w, p, q, stride, pad),
                    {"R": taps, "BLOCK": 256, "num_warps": 4})  # fmt: skip

    def formula(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, weight, None, stride, pad, 1, c)

    def checks() -> Iterator[Check]:
        size = formula(x.double().abs(), weight.double().abs())
        yield close("out", out, formula(x.double(), weight.double()), size, taps * taps)

    return Problem((launch,), checks, once(x, weight, out), lambda: formula(x, weight))


POOLS = ((1, 2, 5, 6, 2, 2), (2, 3, 17, 19, 3, 2))


@sample("pooling", convolution, fast=POOLS, slow=((1, 1, 8, 8, 3, 1),),
        gpu=((4, 17, 60, 61, 3, 2),), bench=((32, 64, 112, 112, 3, 2),))  # fmt: skip
def max_pool2d(make: Maker, n: int, c: int, h: int, w: int, taps: int, stride: int) -> Problem:
    x, pad = make.integers(-5, 6, n, c, h, w), taps // 2  # many equal ones
    p, q = ((size + 2 * pad - taps) // stride + 1 for size in (h, w))
    out, index = make.output(n, c, p, q), make.output(n, c, p, q, dtype=torch.int64)
    launch = Launch(convolution.max_pool2d, (cdiv(p * q, 256), n * c),
                    (x, out, index, h, w, p, q, stride, pad),
                    {"R": taps, "BLOCK": 256, "num_warps": 4})  # fmt: skip

    def by_torch() -> tuple[torch.Tensor, torch.Tensor]:
        return functional.max_pool2d(x, taps, stride, pad, return_indices=True)

    def checks() -> Iterator[Check]:
        values, places = (t.to(x.device) for t in functional.max_pool2d(
            x.cpu().float(), taps, stride, pad, return_indices=True))  # fmt: skip
        yield exact("values", out, values)
        yield exact("places", index, places)

    return Problem((launch,), checks, x.nbytes + out.nbytes + index.nbytes, by_torch)


@sample("pooling", convolution, fast=POOLS, slow=((1, 1, 8, 8, 3, 1),),
        gpu=((4, 17, 60, 61, 3, 2),), bench=((32, 64, 112, 112, 3, 2),))  # fmt: skip
def avg_pool2d(make: Maker, n: int, c: int, h: int, w: int, taps: int, stride: int) -> Problem:
    x, pad = make.normal(n, c, h, w), taps // 2
    p, q = ((size + 2 * pad - taps) // stride + 1 for size in (h, w))
    out = make.output(n, c, p, q)
    launch = Launch(convolution.avg_pool2d, (cdiv(p * q, 256), n * c),
                    (x, out, h, w, p, q, stride, pad),
                    {"R": taps, "BLOCK": 256, "num_warps": 4})  # fmt: skip

    def formula(x: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(x, taps, stride, pad, count_include_pad=False)

    def checks() -> Iterator[Check]:
        yield close("out", out, formula(x.double()), formula(x.double().abs()), taps * taps)

    return Problem((launch,), checks, x.nbytes + out.nbytes, lambda: formula(x))
