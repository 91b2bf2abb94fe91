"""Matrix products in the forms that are published: masks, batches, split K, scales, fused ends.

All take the strides of all axes, so that each operand may be transposed. `products_by_blocks.py`
has those that move blocks instead of pointers.
"""

import workbench.language as tl


def grouped(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The block of a program: GROUP_M rows of blocks are done column by column."""
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * blocks_n)
    first = group * GROUP_M
    rows = min(blocks_m - first, GROUP_M)
    pid_m = first + (pid % (GROUP_M * blocks_n)) % rows
    pid_n = (pid % (GROUP_M * blocks_n)) // rows
    return pid_m, pid_n


def product_fp8(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    IMPRECISE: tl.constexpr = None,
):  # fmt: skip
    """IMPRECISE: after so many products sums go to fp32."""
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc, max_num_imprecise_acc=IMPRECISE)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def product_int8(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=(m[:, None] < M) & (n[None, :] < N))


def product_widened(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """Operands of any type, multiplied exactly in fp32."""
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0).to(tl.float32)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0).to(tl.float32)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def batched_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_az, stride_am, stride_ak, stride_bz, stride_bk, stride_bn,
    stride_cz, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A product per row of the grid; masks at all edges, along K only where BLOCK_K leaves some."""
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    batch = tl.program_id(1).to(tl.int64)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * stride_az + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bz + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC)
    for start in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs, mask=m[:, None] < M, other=0.0)
            b = tl.load(b_ptrs, mask=n[None, :] < N, other=0.0)
        else:
            a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
            b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=ACC)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + batch * stride_cz + m[:, None] * stride_cm + n[None, :] * stride_cn
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def relu(x):
    return tl.maximum(x, 0.0)


def leaky_relu(x):
    return tl.where(x >= 0, x, 0.25 * x)


def fused_product(
    a_ptr, b_ptr, c_ptr, bias_ptr, residual_ptr, row_scale_ptr, column_scale_ptr, M, N, K, alpha,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr, RECTIFIED: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """activation(alpha rows columns (A @ B) + bias) + residual, of whatever is no None.

    RECTIFIED: what is multiplied is the square of A's positive part, made in registers. EVEN: the
    blocks divide M and N; else what is promised of rows and columns would not hold at the edges.
    """
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    if EVEN:
        offs_m = tl.max_contiguous(tl.multiple_of(offs_m, BLOCK_M), BLOCK_M)
        offs_n = tl.max_contiguous(tl.multiple_of(offs_n, BLOCK_N), BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        if RECTIFIED:
            positive = relu(a.to(tl.float32))
            a = (positive * positive).to(b.dtype)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc *= alpha
    if row_scale_ptr is not None:
        acc *= tl.load(row_scale_ptr + m, mask=m < M, other=0.0)[:, None]
    if column_scale_ptr is not None:
        acc *= tl.load(column_scale_ptr + n, mask=n < N, other=0.0)[None, :]
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    places = m[:, None] * stride_cm + n[None, :] * stride_cn
    mask = (m[:, None] < M) & (n[None, :] < N)
    if residual_ptr is not None:
        acc += tl.load(residual_ptr + places, mask=mask, other=0.0).to(tl.float32)
    tl.store(c_ptr + places, acc.to(c_ptr.dtype.element_ty), mask=mask)


def block_scaled_product(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, M, N, K, SCALED_N: tl.constexpr,
    SCALED_K: tl.constexpr, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    stride_asm, stride_ask, stride_bsk, stride_bsn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """A has a scale for SCALED_K elements of a row, B for a block of SCALED_K x SCALED_N."""
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    a_scales = a_scale_ptr + offs_m * stride_asm
    b_scales = b_scale_ptr + (offs_n // SCALED_N) * stride_bsn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        group = k * BLOCK_K // SCALED_K
        rows = tl.load(a_scales + group * stride_ask)
        columns = tl.load(b_scales + group * stride_bsk)
        acc += tl.dot(a, b) * rows[:, None] * columns[None, :]
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def persistent_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """As many programs as there is room for; each does every num_programs-th block."""
    start_pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    for tile in tl.range(start_pid, blocks_m * blocks_n, tl.num_programs(0), flatten=True):
        pid_m, pid_n = grouped(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_m = tl.where(m < M, m, 0)
        offs_n = tl.where(n < N, n, 0)
        a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
        b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
        c_mask = (m[:, None] < M) & (n[None, :] < N)
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=c_mask)


def share_of_product(
    a_ptr, b_ptr, m, n, share, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """The sums of a share of K. Rows that are not there are not read: there may be one alone."""
    k = share * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + (n % N)[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        left = K - step * (BLOCK_K * SPLIT_K)
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * SPLIT_K * stride_ak
        b_ptrs += BLOCK_K * SPLIT_K * stride_bk
    return acc


def split_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cs, stride_cm,
    stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    """A share of K per column of the grid; shares are added by atomics, or left side by side."""
    pid_m, pid_n = grouped(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    share = tl.program_id(1)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = share_of_product(a_ptr, b_ptr, m, n, share, M, N, K, stride_am, stride_ak, stride_bk,
                           stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K)  # fmt: skip
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    if ATOMIC:
        tl.atomic_add(c_ptrs, acc, mask=c_mask, sem="relaxed")
    else:
        tl.store(c_ptrs + share * stride_cs, acc, mask=c_mask)


def split_product_at_once(
    a_ptr, b_ptr, c_ptr, parts_ptr, count_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPLIT_K: tl.constexpr,
):  # fmt: skip
    """As split_product; whoever is a block's last to leave a share adds all of them, in order.

    Nobody waits. Counts are 0 before and after.
    """
    pid = tl.program_id(0)
    pid_m, pid_n = grouped(pid, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    share = tl.program_id(1)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = share_of_product(a_ptr, b_ptr, m, n, share, M, N, K, stride_am, stride_ak, stride_bk,
                           stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, SPLIT_K)  # fmt: skip
    places = m[:, None] * N + n[None, :]
    live = (m[:, None] < M) & (n[None, :] < N)
    tl.store(parts_ptr + share * M * N + places, acc, mask=live)
    tl.debug_barrier()
    if tl.atomic_add(count_ptr + pid, 1, sem="acq_rel") == SPLIT_K - 1:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for part in tl.static_range(SPLIT_K):
            total += tl.load(parts_ptr + part * M * N + places, mask=live, other=0.0)
        c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
        tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=live)
        tl.atomic_xchg(count_ptr + pid, 0, sem="relaxed")


def sum_parts(parts_ptr, out_ptr, n, SPLIT_K: tl.constexpr, BLOCK: tl.constexpr):
    """Adds what the shares of a product left."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(SPLIT_K):
        total += tl.load(parts_ptr + part * n + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=offsets < n)


def transposed_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Few rows: the columns of C take the long side of the block, C' = B' A'."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    bt_ptrs = b_ptr + n[:, None] * stride_bn + k[None, :] * stride_bk
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        bt = tl.load(bt_ptrs, mask=(n[:, None] < N) & (k[None, :] < K - start), other=0.0)
        acc = tl.dot(bt, tl.trans(a), acc)
        a_ptrs += BLOCK_K * stride_ak
        bt_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
    c = tl.trans(acc).to(c_ptr.dtype.element_ty)
    tl.store(c_ptrs, c, mask=(m[:, None] < M) & (n[None, :] < N))
