"""LayerNorm and RMSNorm, forward and backward."""

import workbench.language as tl


def layer_norm(
    x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, x_stride, y_stride, n_cols, eps,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of any length, in chunks: mean, then variance, then the result."""
    row = tl.program_id(0)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        centered = tl.where(cols < n_cols, x - mean, 0.0)
        squares += centered * centered
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
        b = tl.load(b_ptr + cols, mask=mask).to(tl.float32)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + cols, (x - mean) * rstd * w + b, mask=mask)


def layer_norm_row(
    x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, x_stride, y_stride, n_cols, eps,
    BLOCK: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """Rows that fit into one block."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centered = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centered * centered, axis=0) / n_cols + eps)
    y = centered * rstd
    if HAS_WEIGHT:
        y *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if HAS_BIAS:
        y += tl.load(b_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, dy_stride, x_stride,
    dx_stride, n_rows, n_cols, rows_per_program, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program takes some rows and leaves one row of partial sums for the weight and bias."""
    pid = tl.program_id(0)
    first = pid * rows_per_program
    last = min(first + rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros([BLOCK], dtype=tl.float32)
    db = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(first, last):
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        scaled = w * dy
        along_x = tl.sum(x_hat * scaled, axis=0) / n_cols
        along_one = tl.sum(scaled, axis=0) / n_cols
        dx = (scaled - (x_hat * along_x + along_one)) * rstd
        tl.store(dx_ptr + row * dx_stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += dy * x_hat
        db += dy
    tl.store(dw_ptr + pid * n_cols + cols, dw, mask=mask)
    tl.store(db_ptr + pid * n_cols + cols, db, mask=mask)


def layer_norm_backward_locked(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, lock_ptr, stride, n_cols,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row per program; programs of a group add to its partial sums under a lock."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    scaled = tl.where(mask, w * dy, 0.0)
    along_x = tl.sum(x_hat * scaled, axis=0) / n_cols
    along_one = tl.sum(scaled, axis=0) / n_cols
    tl.store(
        dx_ptr + row * stride + cols, (scaled - (x_hat * along_x + along_one)) * rstd, mask=mask
    )

    group = row % GROUPS
    lock = lock_ptr + group
    count = lock_ptr + GROUPS + group
    dw_row = dw_ptr + group * n_cols + cols
    db_row = db_ptr + group * n_cols + cols
    dw = dy * x_hat
    db = dy
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        dw += tl.load(dw_row, mask=mask)
        db += tl.load(db_row, mask=mask)
    tl.store(dw_row, dw, mask=mask)
    tl.store(db_row, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def sum_partials(in_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Add up the rows of partial sums."""
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, n_rows, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        total += tl.load(in_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(total, axis=0), mask=cols < n_cols)


def rms_norm(
    x_ptr, y_ptr, w_ptr, rstd_ptr, x_stride, y_stride, n_cols, eps, offset, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(rstd_ptr + row, rstd)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = x * rstd * (offset + w)
    tl.store(y_ptr + row * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def rms_norm_backward(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, dy_stride, x_stride, dx_stride, n_rows, n_cols,
    offset, rows_per_program, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    first = pid * rows_per_program
    last = tl.minimum((pid + 1) * rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32) + offset
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, last):
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * dy_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        m = dy * w
        dx = rstd * m - rstd * rstd * rstd * x * (tl.sum(m * x, axis=0) / n_cols)
        dw += dy * (x * rstd)
        tl.store(dx_ptr + row * dx_stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(dw_ptr + pid * n_cols + cols, dw, mask=mask)


def add_rms_norm(
    x_ptr, residual_ptr, y_ptr, sum_ptr, w_ptr, stride, n_cols, eps, BLOCK: tl.constexpr
):
    """Add the residual, keep the sum in its type, and normalise it."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    x += tl.load(residual_ptr + row * stride + cols, mask=mask, other=0.0)
    tl.store(sum_ptr + row * stride + cols, x, mask=mask)
    x = x.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    normed = (x * rstd).to(w.dtype)
    tl.store(y_ptr + row * stride + cols, normed * w, mask=mask)
