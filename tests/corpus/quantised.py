"""Family 13: products with quantised weights.

Weights are numbers that the type of X has, scales powers of two: what is multiplied is exact, and
sums of small integers are, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from tests.corpus.sample import BF16, F16, F32, Launch, Maker, Problem, exact, once, sample
from tests.kernels import quantised as kernels
from workbench import cdiv

E4M3 = torch.float8_e4m3fn
#: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages.
SMALL = (16, 32, 32, 4, 2)
#: The numbers of 4-bit floats, by their code.
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def powers(make: Maker, *shape: int) -> torch.Tensor:
    """Return scales from 1/4 to 2, in the type of X."""
    return make.tensor((2.0 ** make.integers(-2, 2, *shape, dtype=F32)).to(make.dtype))


def packed(numbers: torch.Tensor, bits: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return `count` numbers of some bits along the first axis in one word, the lowest first.

    What the last word has room for beside them is ones.
    """
    found = torch.zeros(cdiv(numbers.shape[0], count), *numbers.shape[1:], dtype=torch.int64,
                        device=numbers.device)  # fmt: skip
    for i in range(count):
        field = numbers[i::count].long() & ((1 << bits) - 1)
        found[: len(field)] |= field << (bits * i)
        found[len(field) :] |= ((1 << bits) - 1) << (bits * i)
    word = count * bits
    return torch.where(found >= 1 << (word - 1), found - (1 << word), found).to(dtype)


def _problem(
    make: Maker, kernel: Any, x: torch.Tensor, weights: tuple[torch.Tensor, ...],
    strides: tuple[int, ...], numbers: torch.Tensor, tile: tuple[int, ...], **named: Any,
) -> Problem:  # fmt: skip
    """Return C = X @ numbers; `weights` and `strides` are what the kernel gets."""
    bm, bn, bk, warps, stages = tile
    (m, k), n = x.shape, numbers.shape[1]
    c = make.output(m, n, dtype=F32)
    launch = Launch(
        kernel, (cdiv(n, bn), cdiv(m, bm)),
        (x, *weights, c, m, n, k, x.stride(0), *strides, c.stride(0)),
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "num_warps": warps, "num_stages": stages,
         **named},
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, x.double() @ numbers)],
                   once(x, *weights, c), flops=2 * m * n * k)  # fmt: skip


def grouped_scales(scale: torch.Tensor, group: int, k: int) -> torch.Tensor:
    """Return a scale for each element of W."""
    return scale.double().repeat_interleave(group, 0)[:k]


@sample(
    "mixed_product", kernels,
    fast=((17, 40, 80, 32, "fp8", "n", SMALL), (5, 33, 100, 24, "int8", "t", SMALL)),
    gpu=((1, 1000, 4096, 128, "int8", "t", (16, 64, 128, 4, 4)),
         (33, 512, 1000, 64, "fp8", "n", (64, 128, 64, 4, 3)),
         (300, 264, 512, 128, "int8", "n", (128, 128, 64, 8, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def of_8_bits(
    make: Maker, m: int, n: int, k: int, group: int, kind: str, order: str, tile: tuple[int, ...]
) -> Problem:
    """Order "t": W is stored as (N, K)."""
    x = make.integers(-2, 3, m, k)
    shape = (k, n) if order == "n" else (n, k)
    w = make.integers(-3, 4, *shape, dtype=torch.int8 if kind == "int8" else E4M3)
    w = w if order == "n" else w.T
    scale = powers(make, cdiv(k, group), n)
    numbers = w.double() * grouped_scales(scale, group, k)
    return _problem(make, kernels.product_with_8_bits, x, (w, scale), w.stride(), numbers, tile,
                    GROUP=group, EVEN_K=k % tile[2] == 0)  # fmt: skip


@sample(
    "mixed_product", kernels, fast=((17, 40, 72, 32, "n", SMALL), (5, 33, 96, 16, "t", SMALL)),
    gpu=((1, 1000, 4096, 128, "t", (16, 64, 128, 4, 4)),
         (33, 512, 1000, 64, "n", (64, 128, 64, 4, 3)),
         (300, 264, 512, 128, "t", (128, 128, 64, 8, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def of_int4(
    make: Maker, m: int, n: int, k: int, group: int, order: str, tile: tuple[int, ...]
) -> Problem:
    x = make.integers(-2, 3, m, k)
    codes = make.integers(-8, 8, k, n, dtype=torch.int8)
    w = packed(codes, 4, 2, torch.int8)
    w = make.tensor(w) if order == "n" else make.tensor(w.T.contiguous()).T
    scale = powers(make, cdiv(k, group), n)
    numbers = codes.double() * grouped_scales(scale, group, k)
    return _problem(make, kernels.product_with_int4, x, (w, scale), w.stride(), numbers, tile,
                    GROUP=group, EVEN_K=k % tile[2] == 0)  # fmt: skip


@sample(
    "mixed_product", kernels,
    fast=((17, 40, 96, 32, 5, 4, (16, 16, 32, 4, 2)), (9, 24, 64, 16, 3, 8, (16, 8, 16, 4, 2))),
    gpu=((1, 1000, 4096, 128, 40, 4, (16, 64, 128, 4, 4)),
         (250, 1024, 1024, 128, 7, 8, (256, 128, 64, 8, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_shares(
    make: Maker, m: int, n: int, k: int, group: int, programs: int, bits: int, tile: tuple[int, ...]
) -> Problem:
    """Numbers of 4 or 8 bits; programs take as many steps each, the last one fewer."""
    x = make.integers(-2, 3, m, k)
    codes = make.integers(-8, 8, k, n, dtype=torch.int8)
    stored = packed(codes, 4, 2, torch.int8) if bits == 4 else codes
    w = make.tensor(stored.T.contiguous()).T
    scale = powers(make, cdiv(k, group), n)
    steps = cdiv(n, tile[1]) * (k // tile[2])
    share = cdiv(steps, programs)
    grid = (cdiv(steps, share), cdiv(m, tile[0]))
    parts = torch.zeros(grid[0] * grid[1], tile[0] * tile[1], dtype=F32, device=make.device)
    flags = torch.zeros(grid[0] * grid[1], dtype=torch.int32, device=make.device)
    numbers = codes.double() * grouped_scales(scale, group, k)
    found = _problem(make, kernels.product_by_shares, x, (w, scale), w.stride(), numbers,
                     tile, GROUP=group, PACKED=8 // bits)  # fmt: skip
    (launch,) = found.launches
    given, extents, strides = launch.arguments[:4], launch.arguments[4:7], launch.arguments[7:]
    arguments = (*given, parts, flags, *extents, share, *strides)
    launch = replace(launch, grid=grid, arguments=arguments)
    return replace(found, launches=(launch,), scratch=(parts, flags))


@sample(
    "mixed_product", kernels, fast=((17, 40, 72, 32, SMALL),),
    gpu=((1, 1000, 4096, 128, (16, 64, 128, 4, 4)), (33, 512, 1000, 64, (64, 128, 64, 4, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def of_words(
    make: Maker, m: int, n: int, k: int, group: int, tile: tuple[int, ...]
) -> Problem:  # fmt: skip
    x = make.integers(-2, 3, m, k)
    codes = make.integers(0, 16, k, n, dtype=torch.int32)
    zeros = make.integers(5, 10, cdiv(k, group), n, dtype=torch.int32)
    w = make.tensor(packed(codes, 4, 8, torch.int32))
    few = make.tensor(packed(zeros.T.contiguous(), 4, 8, torch.int32).T.contiguous())
    scale = powers(make, cdiv(k, group), n)
    numbers = codes.double() - grouped_scales(zeros, group, k)
    numbers *= grouped_scales(scale, group, k)
    return _problem(make, kernels.product_with_words, x, (w, scale, few), w.stride(), numbers,
                    tile, GROUP=group)  # fmt: skip


@sample(
    "mixed_product", kernels, fast=((5, 33, 64, "e4m3", SMALL), (17, 40, 96, "e2m1", SMALL)),
    gpu=((1, 1000, 4096, "e2m1", (16, 64, 128, 4, 4)),
         (33, 512, 1024, "e4m3", (64, 128, 64, 4, 3)),
         (300, 264, 512, "e2m1", (128, 128, 64, 8, 3))),
    dtypes=(BF16, F16), layouts=("contiguous",),
)  # fmt: skip
def of_microscales(
    make: Maker, m: int, n: int, k: int, kind: str, tile: tuple[int, ...]
) -> Problem:  # fmt: skip
    x = make.integers(-2, 3, m, k)
    if kind == "e2m1":
        codes = make.integers(0, 16, n, k, dtype=torch.int32)
        numbers = torch.tensor(E2M1, dtype=torch.float64, device=make.device)[codes.long()]
        w = make.tensor(packed(codes.T.contiguous(), 4, 2, torch.int8).T.contiguous())
        w = w.view(torch.uint8)
    else:
        w = make.integers(-3, 4, n, k, dtype=E4M3)
        numbers = w.double()
    scale = make.integers(125, 129, n, cdiv(k, 32), dtype=torch.uint8)
    numbers = numbers.T * grouped_scales(2.0 ** (scale.T.double() - 127), 32, k)
    formats = {"X_FORMAT": "fp16" if make.dtype == F16 else "bf16", "W_FORMAT": kind}
    return _problem(make, kernels.product_with_microscales, x, (w, scale),
                    (w.stride(0), scale.stride(0)), numbers, tile, **formats)  # fmt: skip
