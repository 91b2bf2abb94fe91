"""Linear attention with decay: step by step, and in chunks; a small triangular solve."""

import workbench.language as tl


def recurrent(
    q_ptr, k_ptr, v_ptr, g_ptr, out_ptr, h0_ptr, ht_ptr, T, scale,
    K: tl.constexpr, V: tl.constexpr, PAD_K: tl.constexpr, BLOCK_V: tl.constexpr,
    USE_G: tl.constexpr, USE_H0: tl.constexpr,
):  # fmt: skip
    """The state is in registers: h = exp(g) h + k v, out = q h."""
    i_v = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    k_index = tl.arange(0, PAD_K)
    v_index = i_v * BLOCK_V + tl.arange(0, BLOCK_V)
    mask_k = k_index < K
    mask_v = v_index < V
    mask_h = mask_k[:, None] & mask_v[None, :]
    state = head * K * V + k_index[:, None] * V + v_index[None, :]
    h = tl.zeros((PAD_K, BLOCK_V), tl.float32)
    if USE_H0:
        h += tl.load(h0_ptr + state, mask=mask_h, other=0.0).to(tl.float32)
    q = q_ptr + head * T * K + k_index
    k = k_ptr + head * T * K + k_index
    v = v_ptr + head * T * V + v_index
    out = out_ptr + head * T * V + v_index
    g = g_ptr + head * T
    for _ in range(T):
        b_q = tl.load(q, mask=mask_k, other=0.0).to(tl.float32) * scale
        b_k = tl.load(k, mask=mask_k, other=0.0).to(tl.float32)
        b_v = tl.load(v, mask=mask_v, other=0.0).to(tl.float32)
        if USE_G:
            h *= tl.exp(tl.load(g).to(tl.float32))
        h += b_k[:, None] * b_v[None, :]
        tl.store(out, tl.sum(h * b_q[:, None], axis=0).to(out_ptr.dtype.element_ty), mask=mask_v)
        q += K
        k += K
        v += V
        out += V
        g += 1
    tl.store(ht_ptr + state, h, mask=mask_h)


def chunk_cumsum(g_ptr, out_ptr, T, CHUNK: tl.constexpr, REVERSE: tl.constexpr):
    """Sums of the gates' logarithms within each chunk."""
    chunk = tl.program_id(0)
    head = tl.program_id(1)
    g = tl.make_block_ptr(g_ptr + head * T, (T,), (1,), (chunk * CHUNK,), (CHUNK,), (0,))
    out = tl.make_block_ptr(out_ptr + head * T, (T,), (1,), (chunk * CHUNK,), (CHUNK,), (0,))
    x = tl.load(g, boundary_check=(0,)).to(tl.float32)
    total = tl.cumsum(x, axis=0)
    if REVERSE:
        total = -total + tl.sum(x, axis=0) + x
    tl.store(out, total, boundary_check=(0,))


def chunk_states(
    k_ptr, v_ptr, g_ptr, h_ptr, ht_ptr, T, n_chunks, K: tl.constexpr, V: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """The state before each chunk: one program for a block of it, chunks one after another."""
    i_k = tl.program_id(0)
    i_v = tl.program_id(1)
    head = tl.program_id(2)
    b_h = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    for chunk in range(n_chunks):
        p_h = tl.make_block_ptr(
            h_ptr + (head * n_chunks + chunk).to(tl.int64) * K * V, (K, V), (V, 1),
            (i_k * BLOCK_K, i_v * BLOCK_V), (BLOCK_K, BLOCK_V), (1, 0),
        )  # fmt: skip
        p_k = tl.make_block_ptr(
            k_ptr + head * T * K, (K, T), (1, K), (i_k * BLOCK_K, chunk * CHUNK),
            (BLOCK_K, CHUNK), (0, 1),
        )  # fmt: skip
        p_v = tl.make_block_ptr(
            v_ptr + head * T * V, (T, V), (V, 1), (chunk * CHUNK, i_v * BLOCK_V),
            (CHUNK, BLOCK_V), (1, 0),
        )  # fmt: skip
        tl.store(p_h, b_h.to(p_h.dtype.element_ty), boundary_check=(0, 1))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_v = tl.load(p_v, boundary_check=(0, 1))
        last = min((chunk + 1) * CHUNK, T) - 1
        g_last = tl.load(g_ptr + head * T + last)
        t = chunk * CHUNK + tl.arange(0, CHUNK)
        b_g = tl.load(g_ptr + head * T + t, mask=t < T, other=0.0)
        decay = tl.where(t < T, tl.exp(g_last - b_g), 0.0)
        b_h *= tl.exp(g_last)
        b_h += tl.dot(b_k, (b_v * decay[:, None]).to(b_k.dtype))
    p_ht = tl.make_block_ptr(
        ht_ptr + head * K * V, (K, V), (V, 1), (i_k * BLOCK_K, i_v * BLOCK_V),
        (BLOCK_K, BLOCK_V), (1, 0),
    )  # fmt: skip
    tl.store(p_ht, b_h, boundary_check=(0, 1))


def chunk_outputs(
    q_ptr, k_ptr, v_ptr, g_ptr, h_ptr, out_ptr, T, n_chunks, scale, K: tl.constexpr,
    V: tl.constexpr, CHUNK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """What the state before the chunk gives, and what the chunk's own tokens add."""
    i_v = tl.program_id(0)
    chunk = tl.program_id(1)
    head = tl.program_id(2)
    b_o = tl.zeros((CHUNK, BLOCK_V), dtype=tl.float32)
    b_a = tl.zeros((CHUNK, CHUNK), dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BLOCK_K)):
        p_q = tl.make_block_ptr(
            q_ptr + head * T * K, (T, K), (K, 1), (chunk * CHUNK, i_k * BLOCK_K),
            (CHUNK, BLOCK_K), (1, 0),
        )  # fmt: skip
        p_k = tl.make_block_ptr(
            k_ptr + head * T * K, (K, T), (1, K), (i_k * BLOCK_K, chunk * CHUNK),
            (BLOCK_K, CHUNK), (0, 1),
        )  # fmt: skip
        p_h = tl.make_block_ptr(
            h_ptr + (head * n_chunks + chunk).to(tl.int64) * K * V, (K, V), (V, 1),
            (i_k * BLOCK_K, i_v * BLOCK_V), (BLOCK_K, BLOCK_V), (1, 0),
        )  # fmt: skip
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_h = tl.load(p_h, boundary_check=(0, 1))
        b_o += tl.dot(b_q, b_h.to(b_q.dtype))
        b_a += tl.dot(b_q, b_k)
    i = tl.arange(0, CHUNK)
    t = chunk * CHUNK + i
    b_g = tl.load(g_ptr + head * T + t, mask=t < T, other=0.0)
    b_o *= tl.exp(b_g)[:, None]
    later = i[:, None] >= i[None, :]
    # The exponent of what is masked off may overflow: it is masked first.
    b_a *= tl.exp(tl.where(later, b_g[:, None] - b_g[None, :], float("-inf")))
    p_v = tl.make_block_ptr(
        v_ptr + head * T * V, (T, V), (V, 1), (chunk * CHUNK, i_v * BLOCK_V), (CHUNK, BLOCK_V),
        (1, 0),
    )  # fmt: skip
    p_o = tl.make_block_ptr(
        out_ptr + head * T * V, (T, V), (V, 1), (chunk * CHUNK, i_v * BLOCK_V), (CHUNK, BLOCK_V),
        (1, 0),
    )  # fmt: skip
    b_v = tl.load(p_v, boundary_check=(0, 1))
    b_o = (b_o + tl.dot(b_a.to(b_v.dtype), b_v)) * scale
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


def solve_unit_lower(a_ptr, out_ptr, T, N: tl.constexpr):
    """Inverse of I + A for each N x N block, A strictly lower: row after row."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    i = tl.arange(0, N)
    rows = block * N + i
    at = (head * T + rows)[:, None] * N + i[None, :]
    mask = rows[:, None] < T
    a = tl.load(a_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x = -tl.where(i[:, None] > i[None, :], a, 0.0)
    for row in range(1, N):
        own = tl.sum(tl.where((i == row)[:, None], x, 0.0), axis=0)
        own += tl.sum(own[:, None] * x, axis=0)
        x = tl.where((i == row)[:, None], own[None, :], x)
    x += tl.where(i[:, None] == i[None, :], 1.0, 0.0)
    tl.store(out_ptr + at, x.to(out_ptr.dtype.element_ty), mask=mask)


def merge_inverses(a_ptr, x_ptr, out_ptr, T, N: tl.constexpr):
    """From the inverses of two diagonal blocks that of a block of twice the size."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    i = tl.arange(0, N)
    first = (head * T + block * 2 * N + i)[:, None]
    inside = (block * 2 * N + i)[:, None] < T
    inside_2 = (block * 2 * N + N + i)[:, None] < T
    x11 = tl.load(x_ptr + first * N + i[None, :], mask=inside, other=0.0)
    x22 = tl.load(x_ptr + (first + N) * N + i[None, :], mask=inside_2, other=0.0)
    a21 = tl.load(a_ptr + (first + N) * 2 * N + i[None, :], mask=inside_2, other=0.0)
    x21 = tl.dot(x22, a21, input_precision="ieee")
    x21 = -tl.dot(x21, x11, input_precision="ieee")
    out = out_ptr + first * 2 * N + i[None, :]
    tl.store(out, x11, mask=inside)
    tl.store(out + N, tl.zeros((N, N), tl.float32), mask=inside)
    tl.store(out + 2 * N * N, x21, mask=inside_2)
    tl.store(out + 2 * N * N + N, x22, mask=inside_2)
