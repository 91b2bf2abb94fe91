"""Softmax of each row: one row per program, and persistent programs that take several."""

import workbench.language as tl


def softmax(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(in_ptr + row * in_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + cols, powers / tl.sum(powers, axis=0), mask=mask)


def softmax_persistent(
    out_ptr,
    in_ptr,
    in_stride,
    out_stride,
    n_rows,
    n_cols,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    first = tl.program_id(0)
    for row in tl.range(first, n_rows, tl.num_programs(0), num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(in_ptr + row * in_stride + cols, mask=mask, other=-float("inf"))
        x_minus_max = x - tl.max(x, axis=0)
        numerator = tl.exp(x_minus_max)
        denominator = tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * out_stride + cols, numerator / denominator, mask=mask)
