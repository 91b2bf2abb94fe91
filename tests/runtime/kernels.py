"""Kernels that the tests of the runtime launch."""

from __future__ import annotations

import workbench as wb
from workbench import tl

SCALE = tl.constexpr(3)


@wb.jit
def plus(a, b):
    return a + b


@wb.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, plus(x, y), mask=mask)


@wb.jit
def fill(out_ptr, value, n, BLOCK: tl.constexpr = 4):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, value, mask=offsets < n)


@wb.jit
def scaled(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * SCALE)


@wb.jit
def named(x, y, z):
    tl.store(x, y + z)


@wb.jit
def offset_fill(out_ptr, start, n, BLOCK: tl.constexpr):
    offsets = start * 4 + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 1.0, mask=offsets < n)


@wb.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_mask = (m[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * stride_a + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_b + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], acc.to(tl.float16), mask=c_mask)


@wb.jit
def ringed(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK, num_stages=STAGES, warp_specialize=True):
        k = start + tl.arange(0, BK)
        a_mask = (m[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * stride_a + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_b + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], acc.to(tl.float16), mask=c_mask)
