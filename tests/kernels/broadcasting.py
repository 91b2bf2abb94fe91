"""Tiles of three axes: batches of small products, and products that are sums of broadcast tiles."""

import workbench.language as tl


def sparse_heads(
    q_ptr, k_ptr, v_ptr, index_ptr, live_ptr, out_ptr, lse_ptr, n, scale,
    HEADS: tl.constexpr, COPIES: tl.constexpr, BLOCK: tl.constexpr,
    D: tl.constexpr, CHOSEN: tl.constexpr,
):  # fmt: skip
    """Each query, all heads of a group at once, attends to its own block and to blocks it chose.

    What a query chose is its own, so keys are a tile of three axes and products a batch, whose
    rows are the heads, repeated until there are 16.
    """
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(1)
    heads = group * HEADS + tl.arange(0, HEADS)
    i = tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    at = (heads[:, None, None] * n + m[None, :, None]) * D + d[None, None, :]
    q = tl.load(q_ptr + at).reshape([HEADS * BLOCK, D])
    keys = k_ptr + group * n * D
    values = v_ptr + group * n * D
    k = tl.load(keys + m[:, None] * D + d[None, :])
    scores = tl.zeros([HEADS * BLOCK, BLOCK], tl.float32)
    scores += tl.dot(q, tl.trans(k))
    scores = scores.reshape([HEADS, BLOCK, BLOCK])
    scores += tl.where(m[:, None] >= m[None, :], 0, float("-inf"))
    scores = scores.reshape([HEADS * BLOCK, BLOCK])
    top = tl.max(scores, 1) * scale
    p = tl.exp(scores * scale - top[:, None])
    lse = top + tl.log(tl.sum(p, 1))
    v = tl.load(values + m[:, None] * D + d[None, :])
    acc = tl.dot(p.to(v.dtype), v)

    chosen = (group * n + m) * CHOSEN
    q = q.reshape(HEADS, BLOCK, D).permute((1, 0, 2))
    q = tl.broadcast_to(tl.expand_dims(q, 2), (BLOCK, HEADS, COPIES, D))
    q = q.reshape(BLOCK, HEADS * COPIES, D)
    for j in range(CHOSEN):
        block = tl.load(index_ptr + chosen + j)
        live = tl.load(live_ptr + chosen + j)
        rows = block[:, None] * BLOCK + i[None, :]
        k_block = tl.load(keys + rows[:, :, None] * D + d[None, None, :])
        by_query = tl.dot(q, k_block.permute(0, 2, 1))
        by_query = by_query.reshape(BLOCK, HEADS, COPIES, BLOCK)
        scores = tl.zeros([HEADS, BLOCK, BLOCK], tl.float32)
        scores += (tl.sum(by_query, 2) / COPIES).permute(1, 0, 2)
        scores += tl.where(live[:, None], 0, float("-inf"))
        scores = scores.reshape(HEADS * BLOCK, BLOCK)
        new = tl.maximum(tl.max(scores, 1) * scale, lse)
        p = tl.exp(scores * scale - new[:, None])
        total = tl.sum(p, 1)
        acc = acc * tl.exp(top - new)[:, None]
        v_block = tl.load(values + rows[:, :, None] * D + d[None, None, :])
        p_all = p.to(v_block.dtype).reshape(HEADS, BLOCK, BLOCK).permute(1, 0, 2)
        p_all = tl.broadcast_to(tl.expand_dims(p_all, 2), (BLOCK, HEADS, COPIES, BLOCK))
        p_all = p_all.reshape(BLOCK, HEADS * COPIES, BLOCK)
        more = tl.dot(p_all, v_block).reshape(BLOCK, HEADS, COPIES, D)
        more = (tl.sum(more, 2) / COPIES).permute(1, 0, 2)
        acc += more.reshape(HEADS * BLOCK, D)
        top = new
        lse = new + tl.log(tl.exp(lse - new) + total)
    acc *= tl.exp(top - lse)[:, None]
    tl.store(lse_ptr + heads[:, None] * n + m[None, :], lse.reshape([HEADS, BLOCK]))
    tl.store(out_ptr + at, acc.reshape([HEADS, BLOCK, D]).to(out_ptr.dtype.element_ty))


def sparse_heads_backward(
    q_ptr, k_ptr, v_ptr, index_ptr, live_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr,
    n, scale,
    HEADS: tl.constexpr, COPIES: tl.constexpr, BLOCK: tl.constexpr,
    D: tl.constexpr, CHOSEN: tl.constexpr,
):  # fmt: skip
    """Gradients of `sparse_heads`; those of chosen blocks are summed over heads by broadcasting."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(1)
    heads = group * HEADS + tl.arange(0, HEADS)
    i = tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    at = (heads[:, None, None] * n + m[None, :, None]) * D + d[None, None, :]
    rows_of = heads[:, None] * n + m[None, :]
    own = group * n * D
    k = tl.load(k_ptr + own + m[:, None] * D + d[None, :])
    v = tl.load(v_ptr + own + m[:, None] * D + d[None, :])
    q = tl.load(q_ptr + at).reshape([HEADS * BLOCK, D])
    scores = tl.dot(q, tl.trans(k)).reshape(HEADS, BLOCK, BLOCK)
    scores = tl.where(m[:, None] >= m[None, :], scores, float("-inf"))
    scores = scores.reshape(HEADS * BLOCK, BLOCK)
    lse = tl.load(lse_ptr + rows_of).reshape(HEADS * BLOCK)
    p = tl.exp(scores * scale - lse[:, None])
    do = tl.load(do_ptr + at).reshape(HEADS * BLOCK, D)
    dv = tl.dot(tl.trans(p.to(do.dtype)), do)
    dp = tl.dot(do, tl.trans(v))
    delta = tl.load(delta_ptr + rows_of).reshape(HEADS * BLOCK)
    ds = (p * (dp - delta[:, None]) * scale).to(q.dtype)
    dk = tl.dot(tl.trans(ds), q)
    dq = tl.dot(ds, k)

    chosen = (group * n + m) * CHOSEN
    for j in range(CHOSEN):
        block = tl.load(index_ptr + chosen + j)
        live = tl.load(live_ptr + chosen + j)
        rows = block[:, None] * BLOCK + i[None, :]
        to = own + rows[:, :, None] * D + d[None, None, :]
        k_block = tl.load(k_ptr + to)
        v_block = tl.load(v_ptr + to)
        q_all = q.reshape(HEADS, BLOCK, D).permute(1, 0, 2)
        q_all = tl.broadcast_to(tl.expand_dims(q_all, 2), (BLOCK, HEADS, COPIES, D))
        q_all = q_all.reshape(BLOCK, HEADS * COPIES, D)
        by_query = tl.dot(q_all, tl.permute(k_block, (0, 2, 1)))
        by_query = by_query.reshape(BLOCK, HEADS, COPIES, BLOCK)
        scores = (tl.sum(by_query, 2) / COPIES).permute(1, 0, 2)
        scores += tl.where(live[None, :, None], 0, float("-inf"))
        scores = scores.reshape(HEADS * BLOCK, BLOCK)
        p = tl.exp(scores * scale - lse[:, None])
        dv_block = p.to(do.dtype)[:, :, None] * do[:, None, :]
        dv_block = tl.sum(dv_block.reshape(HEADS, BLOCK, BLOCK, D), 0)
        tl.atomic_add(dv_ptr + to, dv_block, sem="relaxed")
        do_all = do.reshape(HEADS, BLOCK, D).permute(1, 0, 2)
        do_all = tl.broadcast_to(tl.expand_dims(do_all, 2), (BLOCK, HEADS, COPIES, D))
        do_all = do_all.reshape(BLOCK, HEADS * COPIES, D)
        dp = tl.dot(do_all, tl.permute(v_block, (0, 2, 1)))
        dp = (tl.sum(dp.reshape(BLOCK, HEADS, COPIES, BLOCK), 2) / COPIES).permute(1, 0, 2)
        dp = dp.reshape(HEADS * BLOCK, BLOCK)
        ds = (p * (dp - delta[:, None]) * scale).to(q.dtype)
        dk_block = ds[:, :, None] * q[:, None, :]
        dk_block = tl.sum(dk_block.reshape(HEADS, BLOCK, BLOCK, D), 0)
        tl.atomic_add(dk_ptr + to, dk_block, sem="relaxed")
        ds_all = ds.reshape(HEADS, BLOCK, BLOCK).permute(1, 0, 2)
        ds_all = tl.broadcast_to(tl.expand_dims(ds_all, 2), (BLOCK, HEADS, COPIES, BLOCK))
        ds_all = ds_all.reshape(BLOCK, HEADS * COPIES, BLOCK)
        more = tl.dot(ds_all, k_block).reshape(BLOCK, HEADS, COPIES, D)
        more = (tl.sum(more, 2) / COPIES).permute(1, 0, 2)
        dq += more.reshape(HEADS * BLOCK, D)
    tl.store(dq_ptr + at, dq.reshape(HEADS, BLOCK, D))
    tl.atomic_add(dv_ptr + own + m[:, None] * D + d[None, :], dv, sem="relaxed")
    tl.atomic_add(dk_ptr + own + m[:, None] * D + d[None, :], dk, sem="relaxed")


def windows(
    q_ptr, k_ptr, v_ptr, out_ptr, n_windows, scale,
    BLOCK: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Attention within windows, some windows at once."""
    w = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = tl.arange(0, M)
    d = tl.arange(0, D)
    at = (w[:, None, None] * M + m[None, :, None]) * D + d[None, None, :]
    live = (w < n_windows)[:, None, None]
    q = tl.load(q_ptr + at, mask=live, other=0.0)
    k = tl.load(k_ptr + at, mask=live, other=0.0)
    v = tl.load(v_ptr + at, mask=live, other=0.0)
    scores = tl.dot(q, tl.permute(k, (0, 2, 1))) * scale
    p = tl.exp(scores - tl.max(scores, 2)[:, :, None])
    out = tl.dot(p.to(v.dtype), v) / tl.sum(p, 2)[:, :, None]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=live)


def product_by_sums(
    a_ptr, b_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A product without a dot: sums of tiles that are multiplied by broadcasting."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :]).to(tl.float32)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :]).to(tl.float32)
        acc += tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty))


def distances(
    a_ptr, b_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The sums of absolute differences of all pairs of rows."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + n[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        difference = a[:, None, :].to(tl.float32) - b[None, :, :].to(tl.float32)
        acc += tl.sum(tl.abs(difference), axis=2)
    out = out_ptr + m[:, None] * N + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def decode_by_sums(
    q_ptr, k_ptr, v_ptr, out_ptr, n, scale,
    HEADS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One query of each of some heads that share keys: scores and results are sums of products."""
    group = tl.program_id(0)
    heads = group * HEADS + tl.arange(0, HEADS)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + heads[:, None] * D + d[None, :]).to(tl.float32) * scale
    top = tl.full((HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    acc = tl.zeros((HEADS, D), tl.float32)
    for start in range(0, n, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        live = rows < n
        at = (group * n + rows)[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=live[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(q[:, None, :] * k[None, :, :], 2)
        scores = tl.where(live[None, :], scores, float("-inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        factor = tl.exp(top - new)
        v = tl.load(v_ptr + at, mask=live[:, None], other=0.0).to(tl.float32)
        acc = acc * factor[:, None] + tl.sum(p[:, :, None] * v[None, :, :], 1)
        total = total * factor + tl.sum(p, 1)
        top = new
    out = acc / total[:, None]
    tl.store(out_ptr + heads[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty))


def states_step(
    state_ptr, x_ptr, dt_ptr, a_ptr, b_ptr, c_ptr, d_ptr, z_ptr, out_ptr, heads, groups,
    BLOCK_H: tl.constexpr, P: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """One step of a state space model, some heads at once: states are (heads, rows, columns)."""
    at = tl.program_id(1)
    h = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    p = tl.arange(0, P)
    n = tl.arange(0, N)
    states = state_ptr + ((at * heads + h)[:, None, None] * P + p[None, :, None]) * N
    states += n[None, None, :]
    state = tl.load(states).to(tl.float32)
    rows = (at * heads + h)[:, None] * P + p[None, :]
    x = tl.load(x_ptr + rows).to(tl.float32)
    dt = tl.load(dt_ptr + at * heads + h).to(tl.float32)
    dt = tl.where(dt <= 20.0, tl.log(1.0 + tl.exp(dt)), dt)
    a = tl.load(a_ptr + h).to(tl.float32)
    group = h // (heads // groups)
    columns = (at * groups + group)[:, None] * N + n[None, :]
    b = tl.load(b_ptr + columns).to(tl.float32)
    c = tl.load(c_ptr + columns).to(tl.float32)
    kept = tl.exp(a * dt)
    state = state * kept[:, None, None] + (dt[:, None] * x)[:, :, None] * b[:, None, :]
    tl.store(states, state.to(state_ptr.dtype.element_ty))
    out = tl.sum(state * c[:, None, :], axis=2)
    out += x * tl.load(d_ptr + h).to(tl.float32)[:, None]
    z = tl.load(z_ptr + rows).to(tl.float32)
    out *= z * tl.sigmoid(z)
    tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty))


def mixed_taps(
    x_ptr, w_ptr, out_ptr, T, C, TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):
    """A causal convolution of each channel, all taps of a tile at once."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    w = tl.arange(0, TAPS)
    at = t[:, None] + w[None, :] - (TAPS - 1)
    live = (at >= 0) & (at < T)
    x = tl.load(
        x_ptr + at[:, :, None] * C + c[None, None, :],
        mask=live[:, :, None] & (c < C)[None, None, :], other=0.0,
    )  # fmt: skip
    taps = tl.load(w_ptr + c[None, :] * TAPS + w[:, None], mask=(c < C)[None, :], other=0.0)
    y = tl.sum(x.to(tl.float32) * taps[None, :, :].to(tl.float32), 1)
    y = y * tl.sigmoid(y)
    out = out_ptr + t[:, None] * C + c[None, :]
    tl.store(out, y.to(out_ptr.dtype.element_ty), mask=(t < T)[:, None] & (c < C)[None, :])
