"""Rotary position embedding: half-split and interleaved, forward and backward."""

import workbench.language as tl


def rope_half(
    q_ptr, k_ptr, cos_ptr, sin_ptr, q_stride, k_stride, cos_stride, seq_len,
    Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    PAD_Q: tl.constexpr, PAD_K: tl.constexpr, PAD_HALF: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """Turn all heads of one token in place; a head's halves are the pair's two parts."""
    token = tl.program_id(0).to(tl.int64)
    half: tl.constexpr = HEAD_DIM // 2
    d = tl.arange(0, PAD_HALF)
    row = token % seq_len
    cos = tl.load(cos_ptr + row * cos_stride + d, mask=d < half, other=0)
    sin = tl.load(sin_ptr + row * cos_stride + d, mask=d < half, other=0)
    if BACKWARD:
        sin = -sin

    heads = tl.arange(0, PAD_Q)[:, None]
    first = q_ptr + token * q_stride + heads * HEAD_DIM + d[None, :]
    mask = (heads < Q_HEADS) & (d[None, :] < half)
    x1 = tl.load(first, mask=mask, other=0).to(cos.dtype)
    x2 = tl.load(first + half, mask=mask, other=0).to(cos.dtype)
    tl.store(first, x1 * cos - x2 * sin, mask=mask)
    tl.store(first + half, x2 * cos + x1 * sin, mask=mask)

    heads = tl.arange(0, PAD_K)[:, None]
    first = k_ptr + token * k_stride + heads * HEAD_DIM + d[None, :]
    mask = (heads < K_HEADS) & (d[None, :] < half)
    x1 = tl.load(first, mask=mask, other=0).to(cos.dtype)
    x2 = tl.load(first + half, mask=mask, other=0).to(cos.dtype)
    tl.store(first, x1 * cos - x2 * sin, mask=mask)
    tl.store(first + half, x2 * cos + x1 * sin, mask=mask)


def rope_interleaved(
    x_ptr, out_ptr, cos_ptr, sin_ptr, position_ptr, x_stride, out_stride, n_heads,
    HEAD_DIM: tl.constexpr, PAD_HEADS: tl.constexpr, PAD_DIM: tl.constexpr,
):  # fmt: skip
    """Neighbours are the pair's two parts; positions come from a list."""
    token = tl.program_id(0)
    position = tl.load(position_ptr + token)
    heads = tl.arange(0, PAD_HEADS)[:, None]
    d = tl.arange(0, PAD_DIM)[None, :]
    mask = (heads < n_heads) & (d < HEAD_DIM)
    x = tl.load(x_ptr + token * x_stride + heads * HEAD_DIM + d, mask=mask, other=0.0)
    even, odd = tl.split(tl.reshape(x.to(tl.float32), (PAD_HEADS, PAD_DIM // 2, 2)))
    pair = tl.arange(0, PAD_DIM // 2)[None, :]
    half = HEAD_DIM // 2
    cos = tl.load(cos_ptr + position * half + pair, mask=pair < half, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + position * half + pair, mask=pair < half, other=0.0).to(tl.float32)
    out = tl.interleave(even * cos - odd * sin, even * sin + odd * cos)
    tl.store(out_ptr + token * out_stride + heads * HEAD_DIM + d, out, mask=mask)


def rope_by_head(
    x_ptr, out_ptr, cos_ptr, sin_ptr, batch_stride, token_stride, head_stride, seq_len,
    HEAD_DIM: tl.constexpr, TOKENS: tl.constexpr, SIGN: tl.constexpr,
):  # fmt: skip
    """A block of tokens of one head; heads and batch are the grid's other axes."""
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    base = tl.program_id(1) * head_stride + tl.program_id(2) * batch_stride
    half: tl.constexpr = HEAD_DIM // 2
    d = tl.arange(0, half)
    mask = tokens[:, None] < seq_len
    at = base + tokens[:, None] * token_stride + d[None, :]
    angle = tokens[:, None] * half + d[None, :]
    cos = tl.load(cos_ptr + angle, mask=mask, other=1.0)
    sin = tl.load(sin_ptr + angle, mask=mask, other=0.0) * SIGN
    x1 = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    x2 = tl.load(x_ptr + at + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, x1 * cos - x2 * sin, mask=mask)
    tl.store(out_ptr + at + half, x1 * sin + x2 * cos, mask=mask)
