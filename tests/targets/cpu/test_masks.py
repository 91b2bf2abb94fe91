"""What a mask turns off is not there, whatever lies in memory behind it.

A mask of rows and columns is, for one row, a bit for all lanes and a comparison with a constant.
LLVM loses half of that where a vector has two registers (`Arithmetic.spread`).
"""

from __future__ import annotations

import pytest
import torch

import workbench
import workbench.language as tl


def product(a_ptr, b_ptr, c_ptr, T, K: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    i, d = tl.arange(0, C), tl.arange(0, BLOCK)
    rows = (i[:, None] < T) & (d[None, :] < K)
    columns = (i[None, :] < T) & (d[:, None] < K)
    a = tl.load(a_ptr + i[:, None] * K + d[None, :], mask=rows, other=0.0)
    b = tl.load(b_ptr + i[None, :] * K + d[:, None], mask=columns, other=0.0)
    tl.store(c_ptr + i[:, None] * C + i[None, :], tl.dot(a, b))


def copied(x_ptr, y_ptr, T, K: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    i, d = tl.arange(0, C), tl.arange(0, BLOCK)
    mask = (i[:, None] < T) & (d[None, :] < K)
    x = tl.load(x_ptr + i[:, None] * K + d[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + i[:, None] * BLOCK + d[None, :], x + tl.where(mask, 0.0, 0.0))


def among_nan(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor before and behind which memory holds NaN."""
    whole = torch.full((x.numel() + 16384,), float("nan"), dtype=x.dtype)
    held = whole[8192 : 8192 + x.numel()].view(x.shape)
    held.copy_(x)
    return held


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("inner", [4, 8, 20, 40, 56])
def test_products_of_masked_tiles_see_zeros(inner: int, dtype: torch.dtype):
    count, block = 6, 64
    a, b = (among_nan(torch.randn(count, inner).to(dtype)) for _ in "ab")
    c = torch.full(
        (32, 32), float("nan"), dtype=torch.float64 if dtype == torch.float64 else torch.float32
    )
    workbench.jit(product)[(1,)](a, b, c, count, K=inner, C=32, BLOCK=block)
    want = torch.zeros_like(c)
    want[:count, :count] = (a.double() @ b.double().T).to(c.dtype)
    torch.testing.assert_close(c, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("inner", [4, 8, 12, 24, 40, 56])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_masked_rows_are_zeros(inner: int, dtype: torch.dtype):
    count, block = 5, 64
    x = among_nan(torch.randn(count, inner).to(dtype))
    y = torch.full((16, block), float("nan"), dtype=dtype)
    workbench.jit(copied)[(1,)](x, y, count, K=inner, C=16, BLOCK=block)
    want = torch.zeros_like(y)
    want[:count, :inner] = x
    assert torch.equal(y, want)
