"""Reductions of rows: sum, max, min, argmax, argmin, each in a kernel of its own."""

import workbench.language as tl


def row_sum(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def row_max(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


def row_min(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=float("inf"))
    tl.store(out_ptr + row, tl.min(x, axis=0))


def row_argmax(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))


def row_argmin(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=float("inf"))
    tl.store(out_ptr + row, tl.argmin(x, axis=0))


def long_row_sum(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def block_sums(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    """First stage of a sum of everything: one partial sum per program."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0).to(tl.float32)
    tl.store(partial_ptr + pid, tl.sum(x))


def last_sum(partial_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Second stage: one program adds up what the first has left."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(partial_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0))


def atomic_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(out_ptr, tl.sum(x.to(tl.float32)))


def integer_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sums of small integers and of truth values widen to 32 bits; here they add up in 64."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0).to(tl.int64))


def column_sum(x_ptr, out_ptr, n_rows, n_cols, stride, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((COLS,), tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        x = tl.load(x_ptr + rows[:, None] * stride + cols[None, :], mask=mask, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(out_ptr + cols, total, mask=cols < n_cols)


def middle_max(
    x_ptr, out_ptr, n_middle, n_inner, MIDDLE: tl.constexpr, INNER: tl.constexpr
):  # fmt: skip
    """The maximum over the middle of three dimensions."""
    outer = tl.program_id(0)
    inner = tl.program_id(1) * INNER + tl.arange(0, INNER)
    middle = tl.arange(0, MIDDLE)
    mask = (middle[:, None] < n_middle) & (inner[None, :] < n_inner)
    at = (outer * n_middle + middle[:, None]) * n_inner + inner[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
    tl.store(out_ptr + outer * n_inner + inner, tl.max(x, axis=0), mask=inner < n_inner)


def welford_merge(mean_1, m2_1, n_1, mean_2, m2_2, n_2):
    n = n_1 + n_2
    share = tl.where(n == 0.0, 0.0, n_2 / n)
    delta = mean_2 - mean_1
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * n_1 * share, n


def row_variance(x_ptr, mean_ptr, var_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Welford: each lane keeps mean, sum of squares and count; a reduction merges them."""
    row = tl.program_id(0)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        next_count = count + 1
        delta = x - mean
        next_mean = mean + delta / next_count
        m2 = tl.where(mask, m2 + delta * (x - next_mean), m2)
        mean = tl.where(mask, next_mean, mean)
        count = tl.where(mask, next_count, count)
    mean, m2, count = tl.reduce((mean, m2, count), 0, welford_merge)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, m2 / count)


def row_max_index(x_ptr, value_ptr, index_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Maximum and its place over rows of any length; the first of equal ones."""
    row = tl.program_id(0)
    best = -float("inf")
    place = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
        value, index = tl.max(x.to(tl.float32), axis=0, return_indices=True)
        place = tl.where(value > best, start + index, place)
        best = tl.maximum(best, value)
    tl.store(value_ptr + row, best)
    tl.store(index_ptr + row, place)


def larger_pair(value_1, index_1, value_2, index_2):
    take_1 = (value_1 > value_2) | ((value_1 == value_2) & (index_1 < index_2))
    return tl.where(take_1, value_1, value_2), tl.where(take_1, index_1, index_2)


def row_argmax_by_pairs(x_ptr, index_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """The same with a combine function of one's own."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    _, index = tl.reduce((x.to(tl.float32), cols), 0, larger_pair)
    tl.store(index_ptr + row, index)


def any_all(x_ptr, any_ptr, all_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    tl.store(any_ptr + row, tl.max((x != 0).to(tl.int32), axis=0))
    tl.store(all_ptr + row, tl.min(((x != 0) | (cols >= n_cols)).to(tl.int32), axis=0))
