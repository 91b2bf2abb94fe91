"""Products and attention over lists of blocks."""

import workbench.language as tl


def block_sparse_product(
    values_ptr, first_ptr, column_ptr, x_ptr, out_ptr, N, stride_x, stride_out,
    BLOCK: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """A matrix of which only listed blocks are kept, times a dense one."""
    row = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK_N), dtype=tl.float32)
    for at in range(tl.load(first_ptr + row), tl.load(first_ptr + row + 1)):
        column = tl.load(column_ptr + at)
        block = values_ptr + at * BLOCK * BLOCK + i[:, None] * BLOCK + i[None, :]
        k = column * BLOCK + i
        x = tl.load(x_ptr + k[:, None] * stride_x + n[None, :], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(tl.load(block), x, acc)
    out = out_ptr + (row * BLOCK + i)[:, None] * stride_out + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=n[None, :] < N)


def block_sparse_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, count_ptr, index_ptr, full_count_ptr, full_index_ptr,
    stride_head, n_queries, n_keys, max_blocks, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention over listed blocks of keys: partial ones are masked (causal), full ones are not."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    base = head * stride_head
    q = tl.load(q_ptr + base + m[:, None] * D + d[None, :], mask=m[:, None] < n_queries, other=0.0)
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for kind in tl.static_range(2):
        if kind == 0:
            count = tl.load(count_ptr + block)
            blocks = index_ptr + block * max_blocks
        else:
            count = tl.load(full_count_ptr + block)
            blocks = full_index_ptr + block * max_blocks
        for at in range(count):
            n = tl.load(blocks + at) * BLOCK_N + tl.arange(0, BLOCK_N)
            live = n[:, None] < n_keys
            k = tl.load(k_ptr + base + n[:, None] * D + d[None, :], mask=live, other=0.0)
            v = tl.load(v_ptr + base + n[:, None] * D + d[None, :], mask=live, other=0.0)
            scores = tl.dot(q, tl.trans(k)) * scale
            keep = n[None, :] < n_keys
            if kind == 0:
                keep = keep & (m[:, None] >= n[None, :])
            scores = tl.where(keep, scores, -float("inf"))
            top_new = tl.maximum(top, tl.max(scores, axis=1))
            shift = tl.where(top_new == -float("inf"), 0.0, top_new)
            p = tl.exp(scores - shift[:, None])
            factor = tl.exp(top - shift)
            total = total * factor + tl.sum(p, axis=1)
            acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
            top = top_new
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = tl.where(total == 0.0, -float("inf"), top + tl.log(total))
    tl.store(out_ptr + base + m[:, None] * D + d[None, :], out, mask=m[:, None] < n_queries)
    tl.store(lse_ptr + head * n_queries + m, lse, mask=m < n_queries)
