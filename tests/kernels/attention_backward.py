"""The backward pass of attention over ragged lengths: gradients of keys and values, and of queries.

`row_products` prepares delta, what each row of the output has in common with its gradient.
Then either two launches, `key_value_gradients` and `query_gradients`, or one: `fused_gradients`
does both, one after the other; `gradients_by_atomics` goes over the queries once and adds what a
block of keys gives to dQ, in fp32, in any order. Probabilities are computed again from `lse`,
the natural logarithms of the rows' sums.

Heads of all sequences lie behind one another, GROUP heads of queries share a head of keys. Causal
query i sees keys up to i, and there are as many of both.
"""

import workbench.language as tl


def row_products(
    out_ptr, do_ptr, delta_ptr, stride_head, stride_row, n_queries,
    HEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(1).to(tl.int64)
    at = head * stride_head + m[:, None] * stride_row + tl.arange(0, HEAD)[None, :]
    out = tl.load(out_ptr + at, mask=m[:, None] < n_queries, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + at, mask=m[:, None] < n_queries, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * n_queries + m, tl.sum(out * do, axis=1), mask=m < n_queries)


def over_queries(
    dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, stride_row, n, first, last, n_queries,
    score_scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, MASK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Add what queries from `first` to `last` give to a block of dK and dV."""
    LOG2E: tl.constexpr = 1.44269504
    d = tl.arange(0, HEAD)
    for start in range(first, last, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        at = m[:, None] * stride_row + d[None, :]
        if EVEN:
            q = tl.load(q_ptr + at)
            lse = tl.load(lse_ptr + m) * LOG2E
        else:
            q = tl.load(q_ptr + at, mask=m[:, None] < n_queries, other=0.0)
            lse = tl.load(lse_ptr + m, mask=m < n_queries, other=float("inf")) * LOG2E
        pt = tl.math.exp2(tl.dot(k, tl.trans(q)) * score_scale - lse[None, :])
        if MASK:
            pt = tl.where(m[None, :] >= n[:, None], pt, 0.0)
        if EVEN:
            do = tl.load(do_ptr + at)
            delta = tl.load(delta_ptr + m)
        else:
            do = tl.load(do_ptr + at, mask=m[:, None] < n_queries, other=0.0)
            delta = tl.load(delta_ptr + m, mask=m < n_queries, other=0.0)
        dv = tl.dot(pt.to(do.dtype), do, dv)
        dst = pt * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(dst.to(q.dtype), q, dk)
    return dk, dv


def over_keys(
    dq, q, do, lse, delta, k_ptr, v_ptr, stride_row, m, first, last, n_keys, score_scale,
    HEAD: tl.constexpr, BLOCK_N: tl.constexpr, MASK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Add what keys from `first` to `last` give to a block of dQ."""
    d = tl.arange(0, HEAD)
    for start in range(first, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        at = n[:, None] * stride_row + d[None, :]
        if EVEN:
            k = tl.load(k_ptr + at)
            v = tl.load(v_ptr + at)
        else:
            k = tl.load(k_ptr + at, mask=n[:, None] < n_keys, other=0.0)
            v = tl.load(v_ptr + at, mask=n[:, None] < n_keys, other=0.0)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) * score_scale - lse[:, None])
        if MASK:
            p = tl.where(m[:, None] >= n[None, :], p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


def key_value_gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, stride_qh, stride_kh,
    stride_row, n_queries, n_keys,
    HEAD: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A block of BLOCK_N rows of dK and dV; BLOCK_M divides BLOCK_N if CAUSAL."""
    start_n = tl.program_id(0) * BLOCK_N
    head_kv = tl.program_id(1).to(tl.int64)
    n = start_n + tl.arange(0, BLOCK_N)
    at = head_kv * stride_kh + n[:, None] * stride_row + tl.arange(0, HEAD)[None, :]
    if EVEN:
        k = tl.load(k_ptr + at)
        v = tl.load(v_ptr + at)
    else:
        k = tl.load(k_ptr + at, mask=n[:, None] < n_keys, other=0.0)
        v = tl.load(v_ptr + at, mask=n[:, None] < n_keys, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    score_scale = scale * 1.44269504
    for member in range(GROUP):
        head = head_kv * GROUP + member
        q = q_ptr + head * stride_qh
        do = do_ptr + head * stride_qh
        lse = lse_ptr + head * n_queries
        delta = delta_ptr + head * n_queries
        first = 0
        if CAUSAL:
            first = start_n + BLOCK_N
            dk, dv = over_queries(
                dk, dv, k, v, q, do, lse, delta, stride_row, n, start_n,
                tl.minimum(first, n_queries), n_queries, score_scale, HEAD, BLOCK_M, True, EVEN,
            )  # fmt: skip
        dk, dv = over_queries(
            dk, dv, k, v, q, do, lse, delta, stride_row, n, first, n_queries, n_queries,
            score_scale, HEAD, BLOCK_M, False, EVEN,
        )  # fmt: skip
    tl.store(dk_ptr + at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=n[:, None] < n_keys)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=n[:, None] < n_keys)


def query_gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, lse_ptr, delta_ptr, scale, stride_qh, stride_kh,
    stride_row, n_queries, n_keys,
    HEAD: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A block of BLOCK_M rows of dQ; BLOCK_N divides BLOCK_M if CAUSAL."""
    LOG2E: tl.constexpr = 1.44269504
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    m = start_m + tl.arange(0, BLOCK_M)
    at = head * stride_qh + m[:, None] * stride_row + tl.arange(0, HEAD)[None, :]
    rows = head * n_queries + m
    if EVEN:
        q = tl.load(q_ptr + at)
        do = tl.load(do_ptr + at)
        lse = tl.load(lse_ptr + rows) * LOG2E
        delta = tl.load(delta_ptr + rows)
    else:
        q = tl.load(q_ptr + at, mask=m[:, None] < n_queries, other=0.0)
        do = tl.load(do_ptr + at, mask=m[:, None] < n_queries, other=0.0)
        lse = tl.load(lse_ptr + rows, mask=m < n_queries, other=float("inf")) * LOG2E
        delta = tl.load(delta_ptr + rows, mask=m < n_queries, other=0.0)
    k = k_ptr + (head // GROUP) * stride_kh
    v = v_ptr + (head // GROUP) * stride_kh
    dq = tl.zeros((BLOCK_M, HEAD), tl.float32)
    last = n_keys
    if CAUSAL:
        last = start_m
        dq = over_keys(
            dq, q, do, lse, delta, k, v, stride_row, m, start_m,
            tl.minimum(start_m + BLOCK_M, n_keys), n_keys, scale * LOG2E, HEAD, BLOCK_N, True, EVEN,
        )  # fmt: skip
    dq = over_keys(
        dq, q, do, lse, delta, k, v, stride_row, m, 0, last, n_keys, scale * LOG2E, HEAD, BLOCK_N,
        False, EVEN,
    )  # fmt: skip
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=m[:, None] < n_queries)


def fused_gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, stride_head,
    stride_row, n_rows,
    HEAD: tl.constexpr, BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr, BLOCK_M2: tl.constexpr,
    BLOCK_N2: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A block of dK and dV, then one of dQ; BLOCK_N1 = BLOCK_M2, and heads share nothing."""
    key_value_gradients(
        q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, stride_head,
        stride_head, stride_row, n_rows, n_rows, HEAD, 1, BLOCK_M1, BLOCK_N1, CAUSAL, EVEN,
    )  # fmt: skip
    query_gradients(
        q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, lse_ptr, delta_ptr, scale, stride_head, stride_head,
        stride_row, n_rows, n_rows, HEAD, 1, BLOCK_M2, BLOCK_N2, CAUSAL, EVEN,
    )  # fmt: skip


def gradients_by_atomics(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, stride_head,
    stride_row, n_rows,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Five products for each pair of blocks; dQ is fp32 and begins as zeros."""
    LOG2E: tl.constexpr = 1.44269504
    start_n = tl.program_id(0) * BLOCK_N
    head = tl.program_id(1).to(tl.int64)
    d = tl.arange(0, HEAD)
    n = start_n + tl.arange(0, BLOCK_N)
    own = head * stride_head + n[:, None] * stride_row + d[None, :]
    k = tl.load(k_ptr + own, mask=n[:, None] < n_rows, other=0.0)
    v = tl.load(v_ptr + own, mask=n[:, None] < n_rows, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), tl.float32)
    first = 0
    if CAUSAL:
        first = start_n // BLOCK_M * BLOCK_M
    for start in range(first, n_rows, BLOCK_M):
        m = start + tl.arange(0, BLOCK_M)
        live = m < n_rows
        at = head * stride_head + m[:, None] * stride_row + d[None, :]
        rows = head * n_rows + m
        q = tl.load(q_ptr + at, mask=live[:, None], other=0.0)
        do = tl.load(do_ptr + at, mask=live[:, None], other=0.0)
        lse = tl.load(lse_ptr + rows, mask=live, other=float("inf")) * LOG2E
        delta = tl.load(delta_ptr + rows, mask=live, other=0.0)
        pt = tl.math.exp2(tl.dot(k, tl.trans(q)) * (scale * LOG2E) - lse[None, :])
        if CAUSAL:
            pt = tl.where(m[None, :] >= n[:, None], pt, 0.0)
        dv = tl.dot(pt.to(do.dtype), do, dv)
        dst = (pt * (tl.dot(v, tl.trans(do)) - delta[None, :])).to(q.dtype)
        dk = tl.dot(dst, q, dk)
        dq = tl.dot(tl.trans(dst), k) * scale
        tl.atomic_add(dq_ptr + at, dq, mask=live[:, None], sem="relaxed")
    tl.store(dk_ptr + own, (dk * scale).to(dk_ptr.dtype.element_ty), mask=n[:, None] < n_rows)
    tl.store(dv_ptr + own, dv.to(dv_ptr.dtype.element_ty), mask=n[:, None] < n_rows)
