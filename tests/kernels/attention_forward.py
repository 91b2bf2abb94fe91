"""The forward pass of attention, in the form of the tutorials: an online softmax between two dots.

A program computes a block of rows of queries. Causal attention goes over the keys twice: first
what lies before the block, without a mask, then the blocks on the diagonal. Scores are kept in
powers of two; `lse` gets the natural logarithm of each row's sum.
"""

import workbench.language as tl


def attention_inner(
    acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr, EVEN: tl.constexpr,
    offs_m, offs_n,
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
        if EVEN or STAGE == 1:
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
        if EVEN or STAGE == 1:
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
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """A head of a sequence per column of the grid; heads of queries share heads of keys in groups.

    Causal: query i sees keys up to i. EVEN: BLOCK_M and BLOCK_N divide the lengths.
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
    offs_d = tl.arange(0, HEAD)
    q_ptrs = q_ptr + offs_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    kt_ptrs = k_ptr + offs_n[None, :] * stride_kn + offs_d[:, None] * stride_kd
    v_ptrs = v_ptr + offs_n[:, None] * stride_vn + offs_d[None, :] * stride_vd
    top = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    score_scale = scale * 1.44269504  # exp(x) = 2^(x / ln 2)
    if EVEN:
        q = tl.load(q_ptrs)
    else:
        q = tl.load(q_ptrs, mask=offs_m[:, None] < n_queries, other=0.0)
    if CAUSAL:
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            BLOCK_M, BLOCK_N, 1, EVEN, offs_m, offs_n,
        )  # fmt: skip
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            BLOCK_M, BLOCK_N, 2, EVEN, offs_m, offs_n,
        )  # fmt: skip
    else:
        acc, total, top = attention_inner(
            acc, total, top, q, kt_ptrs, v_ptrs, stride_kn, stride_vn, block, score_scale, n_keys,
            BLOCK_M, BLOCK_N, 3, EVEN, offs_m, offs_n,
        )  # fmt: skip
    acc = acc / total[:, None]
    lse = (top + tl.math.log2(total)) * 0.69314718
    out_ptrs = out_ptr + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    lse_ptrs = lse_ptr + tl.program_id(1) * n_queries + offs_m
    if EVEN:
        tl.store(lse_ptrs, lse)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty))
    else:
        tl.store(lse_ptrs, lse, mask=offs_m < n_queries)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=offs_m[:, None] < n_queries)
