"""The forward pass of attention that moves blocks: by block pointers, by descriptors of the host.

Online softmax as in `attention_forward.py`; causal attention masks what is above the diagonal.
"""

import workbench.language as tl


def softmax_step(acc, total, top, scores, v):
    """Take a block of scores, in powers of two, and its values into the sums."""
    top_new = tl.maximum(top, tl.max(scores, 1))
    p = tl.math.exp2(scores - top_new[:, None])
    factor = tl.math.exp2(top - top_new)
    total = total * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return acc, total, top_new


def masked(scores, m, n, n_keys, CAUSAL: tl.constexpr):
    keep = n[None, :] < n_keys
    if CAUSAL:
        keep = keep & (m[:, None] >= n[None, :])
    return tl.where(keep, scores, -1.0e6)


def attention_by_block_pointers(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, scale, stride_h, stride_m, n_queries, n_keys,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * stride_h
    q_block = tl.make_block_ptr(
        q_ptr + base, (n_queries, HEAD), (stride_m, 1), (block * BLOCK_M, 0), (BLOCK_M, HEAD),
        (1, 0),
    )  # fmt: skip
    kt_block = tl.make_block_ptr(
        k_ptr + base, (HEAD, n_keys), (1, stride_m), (0, 0), (HEAD, BLOCK_N), (0, 1)
    )
    v_block = tl.make_block_ptr(
        v_ptr + base, (n_keys, HEAD), (stride_m, 1), (0, 0), (BLOCK_N, HEAD), (1, 0)
    )
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    last = min((block + 1) * BLOCK_M, n_keys) if CAUSAL else n_keys
    for start in range(0, last, BLOCK_N):
        kt = tl.load(kt_block, boundary_check=(1,), padding_option="zero")
        scores = tl.dot(q, kt) * (scale * 1.44269504)
        scores = masked(scores, m, start + tl.arange(0, BLOCK_N), n_keys, CAUSAL)
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        acc, total, top = softmax_step(acc, total, top, scores, v)
        kt_block = tl.advance(kt_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    out_block = tl.make_block_ptr(
        out_ptr + base, (n_queries, HEAD), (stride_m, 1), (block * BLOCK_M, 0), (BLOCK_M, HEAD),
        (1, 0),
    )  # fmt: skip
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_block, out, boundary_check=(0,))
    lse = (top + tl.math.log2(total)) * 0.69314718
    tl.store(lse_ptr + head * n_queries + m, lse, mask=m < n_queries)


def attention_by_descriptors(
    q_desc, k_desc, v_desc, out_desc, lse_ptr, scale, n_queries, n_keys,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Descriptors of three axes: head, token, element; what lies outside of a head is zero."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    q = q_desc.load([head, block * BLOCK_M, 0]).reshape(BLOCK_M, HEAD)
    last = min((block + 1) * BLOCK_M, n_keys) if CAUSAL else n_keys
    for start in range(0, last, BLOCK_N):
        k = k_desc.load([head, start, 0]).reshape(BLOCK_N, HEAD)
        scores = tl.dot(q, k.T) * (scale * 1.44269504)
        scores = masked(scores, m, start + tl.arange(0, BLOCK_N), n_keys, CAUSAL)
        v = v_desc.load([head, start, 0]).reshape(BLOCK_N, HEAD)
        acc, total, top = softmax_step(acc, total, top, scores, v)
    out = (acc / total[:, None]).to(out_desc.dtype)
    out_desc.store([head, block * BLOCK_M, 0], out.reshape(1, BLOCK_M, HEAD))
    lse = (top + tl.math.log2(total)) * 0.69314718
    tl.store(lse_ptr + head * n_queries + m, lse, mask=m < n_queries)
