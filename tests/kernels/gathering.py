"""Embedding, gather, scatter and segments: addresses that come from memory."""

import workbench.language as tl


def embedding(index_ptr, weight_ptr, out_ptr, n_rows, n_cols, padding, BLOCK: tl.constexpr):
    """Rows of a table; negative indices count from its end, the padding index gives zeros."""
    at = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at)
    live = index != padding
    index = tl.where(index < 0, index + n_rows, index)
    tl.device_assert((index >= 0) & (index < n_rows), "index out of range")
    row = tl.load(weight_ptr + index * n_cols + cols, mask=(cols < n_cols) & live, other=0.0)
    tl.store(out_ptr + at.to(tl.int64) * n_cols + cols, row, mask=cols < n_cols)


def gather_rows(
    index_ptr, x_ptr, out_ptr, n_out, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Several rows for each program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    index = tl.load(index_ptr + rows, mask=rows < n_out, other=0)
    mask = (rows[:, None] < n_out) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + index[:, None].to(tl.int64) * n_cols + cols[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None].to(tl.int64) * n_cols + cols[None, :], x, mask=mask)


def take_along(x_ptr, index_ptr, out_ptr, n, n_out, x_stride, BLOCK: tl.constexpr):
    """out[i, j] = x[i, index[i, j]] over flat elements."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    row = offsets // n_out
    index = tl.load(index_ptr + offsets, mask=mask, other=0)
    tl.store(out_ptr + offsets, tl.load(x_ptr + row * x_stride + index, mask=mask), mask=mask)


def shuffle_row(x_ptr, index_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """The row is in registers: a gather within the tile."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    index = tl.load(index_ptr + cols, mask=mask, other=0).to(tl.int32)
    tl.store(out_ptr + row * stride + cols, tl.gather(x, index, 0), mask=mask)


def scatter_add(index_ptr, x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """Rows are added where the index says; several may go to one place."""
    at = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    index = tl.load(index_ptr + at)
    x = tl.load(x_ptr + at * n_cols + cols, mask=mask)
    x = x.to(out_ptr.dtype.element_ty)
    tl.atomic_add(out_ptr + index * n_cols + cols, x, mask=mask, sem="relaxed")


def scatter_max(index_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    index = tl.load(index_ptr + offsets, mask=mask, other=0)
    tl.atomic_max(out_ptr + index, tl.load(x_ptr + offsets, mask=mask, other=0), mask=mask)


def segment_sum(
    offset_ptr, x_ptr, out_ptr, n_cols, MEAN: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """One segment per program; its rows lie between two offsets, perhaps there are none."""
    segment = tl.program_id(0)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    start = tl.load(offset_ptr + segment)
    end = tl.load(offset_ptr + segment + 1)
    total = tl.zeros((ROWS, COLS), tl.float32)
    for row in range(start, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows[:, None] < end) & (cols[None, :] < n_cols)
        total += tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    out = tl.sum(total, axis=0)
    if MEAN:
        out = out / tl.maximum(end - start, 1)
    tl.store(out_ptr + segment * n_cols + cols, out, mask=cols < n_cols)


def restart(value_1, flag_1, value_2, flag_2):
    return tl.where(flag_2 != 0, value_2, value_1 + value_2), flag_1 | flag_2


def segmented_cumsum(x_ptr, start_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sums start anew where a flag is set; what is left at the end of a block is carried on."""
    carried = 0.0
    for first in range(0, n, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        flag = tl.load(start_ptr + offsets, mask=mask, other=0).to(tl.int32)
        total, seen = tl.associative_scan((x, flag), 0, restart)
        total = tl.where(seen != 0, total, total + carried)
        tl.store(out_ptr + offsets, total, mask=mask)
        carried = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, total, 0.0), axis=0)


def jagged_softmax(offset_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Softmax within each segment of a vector, by a running maximum and sum."""
    segment = tl.program_id(0)
    start = tl.load(offset_ptr + segment)
    end = tl.load(offset_ptr + segment + 1)
    m = -float("inf")
    d = 0.0
    for first in range(start, end, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < end, other=-float("inf")).to(tl.float32)
        m_new = max(m, tl.max(x, axis=0))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for first in range(start, end, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < end, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + offsets, tl.exp(x - m) / d, mask=offsets < end)


def pad_jagged(offset_ptr, x_ptr, out_ptr, max_length, n_cols, fill, COLS: tl.constexpr):
    """Rows of segments to a dense tensor, filled up where a segment is short."""
    at = tl.program_id(0)
    segment = tl.program_id(1)
    start = tl.load(offset_ptr + segment)
    length = tl.load(offset_ptr + segment + 1) - start
    cols = tl.arange(0, COLS)
    out = out_ptr + (segment * max_length + at) * n_cols + cols
    mask = cols < n_cols
    if at < length:
        tl.store(out, tl.load(x_ptr + (start + at) * n_cols + cols, mask=mask), mask=mask)
    else:
        tl.store(out, tl.full((COLS,), fill, tl.float32), mask=mask)
