"""Family 21: block-sparse products and attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    distinct,
    exact,
    once,
    sample,
)
from tests.kernels import block_sparse
from workbench import cdiv


def _lists(keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each row's blocks start and their columns, as int32."""
    counts = keep.sum(1)
    first = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return first.int(), keep.nonzero()[:, 1].int()


@sample(
    "block_sparse", block_sparse,
    fast=((2, 3, 16, 5, 0.5), (3, 4, 32, 40, 0.3)),
    slow=((2, 2, 16, 16, 0.0), (2, 2, 16, 16, 1.0)),
    gpu=((30, 20, 64, 500, 0.2), (5, 7, 128, 130, 0.5)),
    bench=((64, 64, 64, 4096, 0.125), (64, 64, 64, 4096, 1.0)),
    dtypes=(F16, BF16, F32),
)  # fmt: skip
def product(make, rows: int, columns: int, block: int, n: int, density: float) -> Problem:
    """Small integers: exact in any order."""
    keep = make.uniform(rows, columns, dtype=F32) < density
    keep[0] = False  # a row without blocks
    first, column = (make.tensor(t) for t in _lists(keep))
    values = make.integers(-2, 3, max(1, int(keep.sum())), block, block)
    x = make.integers(-2, 3, columns * block, n)
    out = make.output(rows * block, n)
    launch = Launch(
        block_sparse.block_sparse_product,
        (rows, cdiv(n, 64)),
        (values, first, column, x, out, n, x.stride(0), out.stride(0)),
        {"BLOCK": block, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
    )

    def dense(dtype: torch.dtype) -> torch.Tensor:
        a = torch.zeros(rows, columns, block, block, dtype=dtype, device=x.device)
        a[keep] = values[: int(keep.sum())].to(dtype)
        return a.transpose(1, 2).reshape(rows * block, columns * block)

    def checks() -> Iterator[Check]:
        yield close("out", out, dense(torch.float64) @ x.double())

    full = dense(make.dtype) if density == 1.0 else None
    blocks = int(keep.sum())
    moved = once(first, column, out) + blocks * once(values[0])
    moved += distinct(column, columns) * block * once(x[0])
    return Problem((launch,), checks, moved, None if full is None else lambda: full @ x,
                   flops=2 * blocks * block**2 * n)  # fmt: skip


@sample(
    "block_sparse", block_sparse,
    fast=((1, 40, 16, 16), (2, 100, 32, 32)),
    slow=((1, 16, 16, 16),),
    gpu=((4, 1000, 64, 64), (2, 515, 128, 32)),
    bench=((32, 4096, 128, 64),),
    dtypes=(F16, BF16, F32),
    layouts=("contiguous",),
)  # fmt: skip
def attention(make: Maker, heads: int, n: int, d: int, block: int) -> Problem:
    """Causal, with a window and some blocks left out; the second row of blocks has none."""
    q, k, v = (make.normal(heads, n, d) for _ in range(3))
    out, lse = make.output(heads, n, d), make.output(heads, n, dtype=F32)
    blocks = cdiv(n, block)
    row, column = torch.meshgrid(torch.arange(blocks), torch.arange(blocks), indexing="ij")
    keep = (column <= row) & ((row - column < 3) | (column % 4 == 0))
    if blocks > 1:
        keep[1] = False
    whole = keep & (column < row)
    partial = keep & ~whole

    def listed(kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        index = torch.zeros(blocks, blocks, dtype=torch.int32)
        for i in range(blocks):
            found = kept[i].nonzero()[:, 0]
            index[i, : len(found)] = found.int()
        return kept.sum(1).int().to(make.device), index.to(make.device)

    scale = d**-0.5
    launch = Launch(
        block_sparse.block_sparse_attention,
        (blocks, heads),
        (q, k, v, out, lse, *listed(partial), *listed(whole), q.stride(0), n, n, blocks, scale),
        {
            "D": d,
            "BLOCK_M": block,
            "BLOCK_N": block,
            "num_warps": 4 if d < 128 else 8,
            "num_stages": 2,
        },
    )

    def checks() -> Iterator[Check]:
        live = keep.repeat_interleave(block, 0).repeat_interleave(block, 1)[:n, :n]
        live = (live & torch.ones(n, n).tril().bool()).to(make.device)
        scores = (q.double() @ k.double().mT * scale).masked_fill(~live, -torch.inf)
        empty = ~live.any(1)
        p = scores.softmax(-1).masked_fill(empty[:, None], 0)
        # Scores in tf32 or of 16-bit operands, weights rounded to the type of v.
        eps = max(torch.finfo(make.dtype).eps, 2**-10)
        size = 4 * eps * (p @ v.double().abs()) + 8 * eps * v.double().abs().amax()
        yield Check("out", out, p @ v.double(), size if make.dtype != F32 else 8 * size)
        wanted = scores.logsumexp(-1)
        yield exact("empty rows", lse[:, empty], wanted[:, empty])
        yield Check("lse", lse[:, ~empty], wanted[:, ~empty], 2e-2)

    # Two lists: how many blocks each row has, and which.
    moved = once(q, k, v, out, lse) + 4 * (2 * blocks + int(keep.sum()))
    pairs = int(whole.sum()) * block**2 + int(partial.sum()) * block * (block + 1) // 2
    return Problem((launch,), checks, moved, flops=4 * heads * d * pairs)
