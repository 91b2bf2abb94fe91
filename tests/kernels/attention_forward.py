"""The forward pass of attention, in the form of the tutorials: an online softmax between two dots.

A program computes a block of rows of queries. Causal attention goes over the keys twice: first
what lies before the block, without a mask, then the blocks on the diagonal. Scores are kept in
powers of two; `lse` gets the natural logarithm of each row's sum.
"""

import workbench.language as tl


def attention_inner(
    acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    STAGE: tl.constexpr, EVEN: tl.constexpr, offs_m, offs_n, offs_d,
):  # fmt: skip
    if STAGE == 1:
        first, last = 0, block * BLOCK_M
    elif STAGE == 2:
        first, last = block * BLOCK_M, (block + 1) * BLOCK_M
        first = tl.multiple_of(first, BLOCK_M)
        if not EVEN:
            last = min(last, n_keys)
    else:
        first, last = 0, n_keys
    kt_ptrs += first * stride_kn
    v_ptrs += first * stride_vn
    for start in range(first, last, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        if HEAD != BLOCK_D:
            live = (offs_d[:, None] < HEAD) & ((start + offs_n)[None, :] < n_keys)
            kt = tl.load(kt_ptrs, mask=live, other=0.0)
        elif EVEN or STAGE == 1:
            kt = tl.load(kt_ptrs)
        else:
            kt = tl.load(kt_ptrs, mask=(start + offs_n)[None, :] < n_keys, other=0.0)
        scores = tl.dot(q, kt)
        if STAGE == 2:
            keep = offs_m[:, None] >= (start + offs_n)[None, :]
            scores = scores * score_scale + tl.where(keep, 0, -1.0e6)
            top_new = tl.maximum(top, tl.max(scores, 1))
            scores -= top_new[:, None]
        elif EVEN or STAGE == 1:
            top_new = tl.maximum(top, tl.max(scores, 1) * score_scale)
            scores = scores * score_scale - top_new[:, None]
        else:
            scores = tl.where((start + offs_n)[None, :] < n_keys, scores * score_scale, -1.0e6)
            top_new = tl.maximum(top, tl.max(scores, 1))
            scores -= top_new[:, None]
        p = tl.math.exp2(scores)
        factor = tl.math.exp2(top - top_new)
        total = total * factor + tl.sum(p, 1)
        acc = acc * factor[:, None]
        if HEAD != BLOCK_D:
            live = ((start + offs_n)[:, None] < n_keys) & (offs_d[None, :] < HEAD)
            v = tl.load(v_ptrs, mask=live, other=0.0)
        elif EVEN or STAGE == 1:
            v = tl.load(v_ptrs)
        else:
            v = tl.load(v_ptrs, mask=(start + offs_n)[:, None] < n_keys, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = top_new
        kt_ptrs += BLOCK_N * stride_kn
        v_ptrs += BLOCK_N * stride_vn
    return acc, total, top


def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale,
    stride_qz, stride_qh, stride_qm, stride_qd, stride_kz, stride_kh, stride_kn, stride_kd,
    stride_vz, stride_vh, stride_vn, stride_vd, stride_oz, stride_oh, stride_om, stride_od,
    H, H_KV, n_queries, n_keys,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A head of a sequence per column of the grid; heads of queries share heads of keys in groups.

    Causal: query i sees keys up to i, and there are as many of both. EVEN: BLOCK_M and BLOCK_N
    divide the lengths. BLOCK_D: HEAD, or the next power of two where that is none.
    """
    block = tl.program_id(0)
    batch = tl.program_id(1) // H
    head = tl.program_id(1) % H
    head_kv = head // (H // H_KV)
    q_ptr += batch.to(tl.int64) * stride_qz + head.to(tl.int64) * stride_qh
    k_ptr += batch.to(tl.int64) * stride_kz + head_kv.to(tl.int64) * stride_kh
    v_ptr += batch.to(tl.int64) * stride_vz + head_kv.to(tl.int64) * stride_vh
    out_ptr += batch.to(tl.int64) * stride_oz + head.to(tl.int64) * stride_oh

    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    q_ptrs = q_ptr + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    kt_ptrs = k_ptr + offs_n[None, :] * stride_kn + offs_d[:, None] * stride_kd
    v_ptrs = v_ptr + offs_n[:, None] * stride_vn + offs_d[None, :] * stride_vd
    top = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, BLOCK_D], dtype=tl.float32)
    score_scale = scale * 1.44269504  # exp(x) = 2^(x / ln 2)
    live = (offs_m[:, None] < n_queries) & (offs_d[None, :] < HEAD)
    if HEAD != BLOCK_D:
        q = tl.load(q_ptrs, mask=live, other=0.0)
    elif EVEN:
        q = tl.load(q_ptrs)
    else:
        q = tl.load(q_ptrs, mask=offs_m[:, None] < n_queries, other=0.0)
    if CAUSAL:
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            HEAD, BLOCK_M, BLOCK_N, BLOCK_D, 1, EVEN, offs_m, offs_n, offs_d,
        )  # fmt: skip
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            HEAD, BLOCK_M, BLOCK_N, BLOCK_D, 2, EVEN, offs_m, offs_n, offs_d,
        )  # fmt: skip
    else:
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            HEAD, BLOCK_M, BLOCK_N, BLOCK_D, 3, EVEN, offs_m, offs_n, offs_d,
        )  # fmt: skip
    acc = acc / total[:, None]
    lse = (top + tl.math.log2(total)) * 0.69314718
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    lse_ptrs = lse_ptr + tl.program_id(1) * n_queries + offs_m
    out = acc.to(out_ptr.dtype.element_ty)
    if EVEN:
        tl.store(lse_ptrs, lse)
    else:
        tl.store(lse_ptrs, lse, mask=offs_m < n_queries)
    if EVEN and HEAD == BLOCK_D:
        tl.store(out_ptrs, out)
    else:
        tl.store(out_ptrs, out, mask=live)


def attention_varlen(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, starts_q_ptr, starts_k_ptr, slopes_ptr, sinks_ptr,
    bias_ptr, scale, soft_cap, stride_qt, stride_qh, stride_kt, stride_kh, stride_vt, stride_vh,
    stride_ot, stride_oh, stride_lh, stride_bh, stride_bm, H, H_KV,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFT_CAP: tl.constexpr,
):  # fmt: skip
    """Sequences of any lengths, one behind the other: tokens from starts[z] to starts[z + 1].

    The last query sees all keys. CAUSAL: those before it see fewer. WINDOW: at most so many, 0 for
    all. Scores get slopes (ALiBi) times how far behind a key is, a bias by head, query and key, a
    soft cap; a head's sink takes part in the sum and has no value. Each but `scale` may be None.
    """
    block = tl.program_id(0)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    start_q = tl.load(starts_q_ptr + sequence)
    start_k = tl.load(starts_k_ptr + sequence)
    n_queries = tl.load(starts_q_ptr + sequence + 1) - start_q
    n_keys = tl.load(starts_k_ptr + sequence + 1) - start_k
    if block * BLOCK_M >= n_queries:
        return
    LOG2E: tl.constexpr = 1.44269504
    head_kv = head // (H // H_KV)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    offset = n_keys - n_queries
    q_ptrs = q_ptr + (start_q + m)[:, None] * stride_qt + head * stride_qh + d[None, :]
    live_q = (m[:, None] < n_queries) & (d[None, :] < HEAD)
    q = tl.load(q_ptrs, mask=live_q, other=0.0)
    top = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    if sinks_ptr is not None:
        top = tl.full([BLOCK_M], 1.0, tl.float32) * (tl.load(sinks_ptr + head) * LOG2E)
        total += 1.0
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    first = 0
    last = n_keys
    if CAUSAL:
        last = tl.minimum(n_keys, (block + 1) * BLOCK_M + offset)
    if WINDOW > 0:
        first = tl.maximum(0, block * BLOCK_M + offset - WINDOW + 1) // BLOCK_N * BLOCK_N
    for start in range(first, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        kt_ptrs = k_ptr + (start_k + n)[None, :] * stride_kt + head_kv * stride_kh + d[:, None]
        v_ptrs = v_ptr + (start_k + n)[:, None] * stride_vt + head_kv * stride_vh + d[None, :]
        kt = tl.load(kt_ptrs, mask=(n[None, :] < n_keys) & (d[:, None] < HEAD), other=0.0)
        scores = tl.dot(q, kt) * scale
        if SOFT_CAP:
            scores = soft_cap * (2 * tl.sigmoid(2 * scores / soft_cap) - 1)
        if slopes_ptr is not None:
            behind = n[None, :] - (m[:, None] + offset)
            scores += tl.load(slopes_ptr + head) * behind.to(tl.float32)
        keep = (n[None, :] < n_keys) & (m[:, None] < n_queries)
        if bias_ptr is not None:
            bias = bias_ptr + head * stride_bh + (start_q + m)[:, None] * stride_bm + n[None, :]
            scores += tl.load(bias, mask=keep, other=0.0).to(tl.float32)
        if CAUSAL:
            keep = keep & (n[None, :] <= m[:, None] + offset)
        if WINDOW > 0:
            keep = keep & (n[None, :] > m[:, None] + offset - WINDOW)
        scores = tl.where(keep, scores * LOG2E, -float("inf"))
        top_new = tl.maximum(top, tl.max(scores, 1))
        shift = tl.where(top_new == -float("inf"), 0.0, top_new)
        p = tl.math.exp2(scores - shift[:, None])
        factor = tl.math.exp2(top - shift)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(v_ptrs, mask=(n[:, None] < n_keys) & (d[None, :] < HEAD), other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
        top = top_new
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = tl.where(total == 0.0, -float("inf"), (top + tl.math.log2(total)) / LOG2E)
    out_ptrs = out_ptr + (start_q + m)[:, None] * stride_ot + head * stride_oh + d[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=live_q)
    tl.store(lse_ptr + head * stride_lh + start_q + m, lse, mask=m < n_queries)
