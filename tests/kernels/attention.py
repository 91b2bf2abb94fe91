"""The backward pass of attention, in the form of the tutorials: gradients of keys, values, queries.

One program computes a block of rows of dK and dV, going over the queries, and then a block of rows
of dQ, going over the keys. Probabilities are computed again from the logarithms of the row sums.
"""

import workbench.language as tl


def key_value_gradients(
    dk, dv, q_ptr, k, v, do_ptr, sums_ptr, delta_ptr, stride_row, stride_d, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
    start_n, start_m, steps, MASK: tl.constexpr,
):  # fmt: skip
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    qt_ptrs = q_ptr + offs_m[None, :] * stride_row + offs_d[:, None] * stride_d
    do_ptrs = do_ptr + offs_m[:, None] * stride_row + offs_d[None, :] * stride_d
    row = start_m
    for _ in range(steps):
        qt = tl.load(qt_ptrs)
        offs_m = row + tl.arange(0, BLOCK_M)
        sums = tl.load(sums_ptr + offs_m)
        st = tl.dot(k, qt)
        pt = tl.math.exp2(st - sums[None, :])
        if MASK:
            pt = tl.where(offs_m[None, :] >= offs_n[:, None], pt, 0.0)
        do = tl.load(do_ptrs)
        dv += tl.dot(pt.to(tl.float16), do)
        delta = tl.load(delta_ptr + offs_m)
        dpt = tl.dot(v, tl.trans(do)).to(tl.float32)
        dst = (pt * (dpt - delta[None, :])).to(tl.float16)
        dk += tl.dot(dst, tl.trans(qt))
        row += BLOCK_M
        qt_ptrs += BLOCK_M * stride_row
        do_ptrs += BLOCK_M * stride_row
    return dk, dv


def query_gradients(
    dq, q, k_ptr, v_ptr, do, sums, delta_ptr, stride_row, stride_d, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
    start_m, start_n, steps, MASK: tl.constexpr,
):  # fmt: skip
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    kt_ptrs = k_ptr + offs_n[None, :] * stride_row + offs_d[:, None] * stride_d
    vt_ptrs = v_ptr + offs_n[None, :] * stride_row + offs_d[:, None] * stride_d
    delta = tl.load(delta_ptr + offs_m)
    column = start_n
    for _ in range(steps):
        kt = tl.load(kt_ptrs)
        vt = tl.load(vt_ptrs)
        p = tl.math.exp2(tl.dot(q, kt) - sums)
        if MASK:
            offs_n = column + tl.arange(0, BLOCK_N)
            p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        dp = tl.dot(do, vt).to(tl.float32)
        ds = (p * (dp - delta[:, None])).to(tl.float16)
        dq += tl.dot(ds, tl.trans(kt))
        column += BLOCK_N
        kt_ptrs += BLOCK_N * stride_row
        vt_ptrs += BLOCK_N * stride_row
    return dq


def attention_backward(
    q_ptr, k_ptr, v_ptr, scale, do_ptr, dq_ptr, dk_ptr, dv_ptr, sums_ptr, delta_ptr,
    stride_z, stride_h, stride_row, stride_d, H, N,
    BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr, BLOCK_M2: tl.constexpr,
    BLOCK_N2: tl.constexpr, SLICE: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    LN2: tl.constexpr = 0.6931471824645996
    head = tl.program_id(2)
    moved = (stride_h * (head % H) + stride_z * (head // H)).to(tl.int64)
    pid = tl.program_id(0)
    q_ptr += moved
    k_ptr += moved
    v_ptr += moved
    do_ptr += moved
    dq_ptr += moved
    dk_ptr += moved
    dv_ptr += moved
    rows = (head * N).to(tl.int64)
    sums_ptr += rows
    delta_ptr += rows
    offs_d = tl.arange(0, HEAD)

    start_n = pid * BLOCK_N1
    start_m = start_n
    MASKED_M1: tl.constexpr = BLOCK_M1 // SLICE
    offs_n = start_n + tl.arange(0, BLOCK_N1)
    dv = tl.zeros([BLOCK_N1, HEAD], dtype=tl.float32)
    dk = tl.zeros([BLOCK_N1, HEAD], dtype=tl.float32)
    k = tl.load(k_ptr + offs_n[:, None] * stride_row + offs_d[None, :] * stride_d)
    v = tl.load(v_ptr + offs_n[:, None] * stride_row + offs_d[None, :] * stride_d)
    steps = BLOCK_N1 // MASKED_M1
    dk, dv = key_value_gradients(
        dk, dv, q_ptr, k, v, do_ptr, sums_ptr, delta_ptr, stride_row, stride_d, N,
        MASKED_M1, BLOCK_N1, HEAD, start_n, start_m, steps, MASK=True,
    )  # fmt: skip
    start_m += steps * MASKED_M1
    steps = (N - start_m) // BLOCK_M1
    dk, dv = key_value_gradients(
        dk, dv, q_ptr, k, v, do_ptr, sums_ptr, delta_ptr, stride_row, stride_d, N,
        BLOCK_M1, BLOCK_N1, HEAD, start_n, start_m, steps, MASK=False,
    )  # fmt: skip
    tl.store(dv_ptr + offs_n[:, None] * stride_row + offs_d[None, :] * stride_d, dv)
    dk *= scale
    tl.store(dk_ptr + offs_n[:, None] * stride_row + offs_d[None, :] * stride_d, dk)

    start_m = pid * BLOCK_M2
    end_n = start_m + BLOCK_M2
    MASKED_N2: tl.constexpr = BLOCK_N2 // SLICE
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    q = tl.load(q_ptr + offs_m[:, None] * stride_row + offs_d[None, :] * stride_d)
    dq = tl.zeros([BLOCK_M2, HEAD], dtype=tl.float32)
    do = tl.load(do_ptr + offs_m[:, None] * stride_row + offs_d[None, :] * stride_d)
    sums = tl.load(sums_ptr + offs_m)[:, None]
    steps = BLOCK_M2 // MASKED_N2
    dq = query_gradients(
        dq, q, k_ptr, v_ptr, do, sums, delta_ptr, stride_row, stride_d, N,
        BLOCK_M2, MASKED_N2, HEAD, start_m, end_n - steps * MASKED_N2, steps, MASK=True,
    )  # fmt: skip
    end_n -= steps * MASKED_N2
    steps = end_n // BLOCK_N2
    dq = query_gradients(
        dq, q, k_ptr, v_ptr, do, sums, delta_ptr, stride_row, stride_d, N,
        BLOCK_M2, BLOCK_N2, HEAD, start_m, end_n - steps * BLOCK_N2, steps, MASK=False,
    )  # fmt: skip
    dq *= LN2
    tl.store(dq_ptr + offs_m[:, None] * stride_row + offs_d[None, :] * stride_d, dq)
