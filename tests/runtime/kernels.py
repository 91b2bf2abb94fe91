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
