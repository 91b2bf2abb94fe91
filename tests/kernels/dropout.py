"""Dropout with counter-based random numbers: the mask is made again in the backward pass."""

import workbench.language as tl


def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def dropout_by_four(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Every counter gives four numbers, for four blocks of elements."""
    i = tl.program_id(0) * BLOCK * 4 + tl.arange(0, BLOCK)
    counter = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r0, r1, r2, r3 = tl.rand4x(seed, counter)
    scale = 1.0 / (1.0 - p)
    x0 = tl.load(x_ptr + i, mask=i < n, other=0.0)
    x1 = tl.load(x_ptr + i + BLOCK, mask=i + BLOCK < n, other=0.0)
    x2 = tl.load(x_ptr + i + 2 * BLOCK, mask=i + 2 * BLOCK < n, other=0.0)
    x3 = tl.load(x_ptr + i + 3 * BLOCK, mask=i + 3 * BLOCK < n, other=0.0)
    tl.store(out_ptr + i, tl.where(r0 > p, x0 * scale, 0.0), mask=i < n)
    tl.store(out_ptr + i + BLOCK, tl.where(r1 > p, x1 * scale, 0.0), mask=i + BLOCK < n)
    tl.store(out_ptr + i + 2 * BLOCK, tl.where(r2 > p, x2 * scale, 0.0), mask=i + 2 * BLOCK < n)
    tl.store(out_ptr + i + 3 * BLOCK, tl.where(r3 > p, x3 * scale, 0.0), mask=i + 3 * BLOCK < n)


def normal_noise(out_ptr, n, seed, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.randn(seed, offsets) * scale, mask=offsets < n)


def random_words(out_ptr, n, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.randint(seed, offsets), mask=offsets < n)
