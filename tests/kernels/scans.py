"""Scans and histograms: running sums, maxima and recurrences along rows and over long vectors."""

import workbench.language as tl


def row_cumsum(x_ptr, out_ptr, stride, n_cols, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * stride + cols, tl.cumsum(x, axis=0, reverse=REVERSE), mask=mask)


def long_cumsum(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Chunks of a row, with what was summed so far carried along."""
    row = tl.program_id(0)
    carried = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * stride + cols, carried + tl.cumsum(x, axis=0), mask=mask)
        carried += tl.sum(x, axis=0)


def column_cumsum(x_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Along the first axis of a tile."""
    rows = tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + rows * n_cols + cols, tl.cumsum(x, axis=0), mask=mask)


def row_cumprod(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=1.0).to(tl.float32)
    tl.store(out_ptr + row * stride + cols, tl.cumprod(x, axis=0), mask=mask)


def later_max(value_1, index_1, value_2, index_2):
    keep = value_1 > value_2
    return tl.where(keep, value_1, value_2), tl.where(keep, index_1, index_2)


def row_cummax(x_ptr, out_ptr, index_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Running maxima and their places; the last of equal ones."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    values, places = tl.associative_scan((x, cols), 0, later_max)
    tl.store(out_ptr + row * stride + cols, values, mask=mask)
    tl.store(index_ptr + row * stride + cols, places, mask=mask)


def after(gate_1, value_1, gate_2, value_2):
    return gate_1 * gate_2, gate_2 * value_1 + value_2


def linear_recurrence(gate_ptr, x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """h[t] = gate[t] h[t-1] + x[t] in parallel."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    gate = tl.load(gate_ptr + row * stride + cols, mask=mask, other=1.0).to(tl.float32)
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    _, h = tl.associative_scan((gate, x), 0, after)
    tl.store(out_ptr + row * stride + cols, h, mask=mask)


def log_add(a, b):
    top = tl.maximum(a, b)
    low = tl.minimum(a, b)
    return tl.where(top == -float("inf"), top, top + tl.log(1.0 + tl.exp(low - top)))


def row_logcumsumexp(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    tl.store(out_ptr + row * stride + cols, tl.associative_scan(x, 0, log_add), mask=mask)


def scan_blocks(x_ptr, out_ptr, total_ptr, n, BLOCK: tl.constexpr):
    """First stage of a scan of a long vector: scan blocks, keep what each adds up to."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.cumsum(x, axis=0), mask=offsets < n)
    tl.store(total_ptr + pid, tl.sum(x, axis=0))


def add_before(out_ptr, total_ptr, n, N_BLOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Second stage: each block adds what lies before it."""
    pid = tl.program_id(0)
    blocks = tl.arange(0, N_BLOCKS)
    before = tl.sum(tl.load(total_ptr + blocks, mask=blocks < pid, other=0.0), axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, out + before, mask=offsets < n)


def look_back_cumsum(x_ptr, out_ptr, total_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    """One pass: each program waits for the sum of all before it, and hands on its own."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0).to(tl.float32)
    own = tl.cumsum(x, axis=0)
    before = 0.0
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(total_ptr + pid - 1, volatile=True)
    tl.store(total_ptr + pid, before + tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    tl.store(out_ptr + offsets, before + own, mask=offsets < n)


def histogram(x_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Count in the program, then add the counts to those of others."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0).to(tl.int32)
    counts = tl.histogram(x, BINS, mask=mask)
    tl.atomic_add(out_ptr + tl.arange(0, BINS), counts)


def atomic_histogram(x_ptr, out_ptr, n, low, scale, n_bins, BLOCK: tl.constexpr):
    """Bins of equal width over a range of floats."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    bins = ((x - low) * scale).to(tl.int32)
    mask = mask & (x >= low) & (bins < n_bins)
    tl.atomic_add(out_ptr + bins, 1, mask=mask)
