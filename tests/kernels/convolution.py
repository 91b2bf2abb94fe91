"""Convolutions as implicit products, depthwise convolutions, pooling."""

import workbench.language as tl


def conv2d(
    x_ptr, w_ptr, bias_ptr, out_ptr, N, C, H, W, K, P, Q, stride_h, stride_w, pad_h, pad_w,
    dilation, sx_n, sx_c, sx_h, sx_w, sw_k, sw_c, sw_r, sw_s, so_n, so_k, so_p, so_q,
    group_channels, group_outputs,
    R: tl.constexpr, S: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Rows are output places, columns output channels; taps and channels are summed over."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    group = tl.program_id(2)
    local = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    k = group * group_outputs + local
    n = m // (P * Q)
    p = (m // Q) % P
    q = m % Q
    live = n < N
    acc = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)
    for r in range(R):
        for s in range(S):
            h = p * stride_h - pad_h + r * dilation
            w = q * stride_w - pad_w + s * dilation
            inside = live & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            place = n.to(tl.int64) * sx_n + h * sx_h + w * sx_w
            for start in range(0, group_channels, BLOCK_C):
                c = start + tl.arange(0, BLOCK_C)
                x = tl.load(
                    x_ptr + place[:, None] + (group * group_channels + c)[None, :] * sx_c,
                    mask=inside[:, None] & (c[None, :] < group_channels),
                    other=0.0,
                )
                taps = w_ptr + k[None, :] * sw_k + c[:, None] * sw_c + (r * sw_r + s * sw_s)
                mask = (c[:, None] < group_channels) & (local[None, :] < group_outputs)
                acc = tl.dot(x, tl.load(taps, mask=mask, other=0.0), acc)
    if HAS_BIAS:
        bias = tl.load(bias_ptr + k, mask=local < group_outputs, other=0.0).to(tl.float32)
        acc += bias[None, :]
    out = n.to(tl.int64)[:, None] * so_n + k[None, :] * so_k + (p * so_p + q * so_q)[:, None]
    tl.store(out_ptr + out, acc, mask=live[:, None] & (local[None, :] < group_outputs))


def causal_conv1d(
    x_ptr, w_ptr, bias_ptr, out_ptr, T, D, WIDTH: tl.constexpr, SILU: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Each channel with its own WIDTH taps over the past: (batch, T, D)."""
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    base = tl.program_id(2).to(tl.int64) * T * D
    acc = tl.zeros((BLOCK_T, BLOCK_D), dtype=tl.float32)
    acc += tl.load(bias_ptr + d, mask=d < D, other=0.0).to(tl.float32)[None, :]
    for i in tl.static_range(WIDTH):
        before = t - (WIDTH - 1 - i)
        mask = (before >= 0)[:, None] & (t < T)[:, None] & (d < D)[None, :]
        x = tl.load(x_ptr + base + before[:, None] * D + d[None, :], mask=mask, other=0.0)
        w = tl.load(w_ptr + d * WIDTH + i, mask=d < D, other=0.0)
        acc += x.to(tl.float32) * w.to(tl.float32)[None, :]
    if SILU:
        acc = acc * tl.sigmoid(acc)
    mask = (t < T)[:, None] & (d < D)[None, :]
    tl.store(out_ptr + base + t[:, None] * D + d[None, :], acc, mask=mask)


def depthwise_conv2d(
    x_ptr, w_ptr, out_ptr, C, H, W, P, Q, stride, pad, R: tl.constexpr, BLOCK: tl.constexpr
):
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = at // Q
    q = at % Q
    acc = tl.zeros((BLOCK,), tl.float32)
    for r in tl.static_range(R):
        for s in tl.static_range(R):
            h = p * stride - pad + r
            w = q * stride - pad + s
            mask = (p < P) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + plane * H * W + h * W + w, mask=mask, other=0.0)
            acc += x.to(tl.float32) * tl.load(w_ptr + (plane % C) * R * R + r * R + s).to(
                tl.float32
            )
    tl.store(out_ptr + plane * P * Q + at, acc, mask=p < P)


def max_pool2d(
    x_ptr, out_ptr, index_ptr, H, W, P, Q, stride, pad, R: tl.constexpr, BLOCK: tl.constexpr
):
    """Largest value of each window and its place; the first of equal ones."""
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = at // Q
    q = at % Q
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.zeros((BLOCK,), tl.int64)
    for r in tl.static_range(R):
        for s in tl.static_range(R):
            h = p * stride - pad + r
            w = q * stride - pad + s
            mask = (p < P) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + plane * H * W + h * W + w, mask=mask, other=float("-inf"))
            x = x.to(tl.float32)
            place = tl.where(x > best, h * W + w, place)
            best = tl.where(x > best, x, best)
    tl.store(out_ptr + plane * P * Q + at, best, mask=p < P)
    tl.store(index_ptr + plane * P * Q + at, place, mask=p < P)


def avg_pool2d(
    x_ptr, out_ptr, H, W, P, Q, stride, pad, R: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Mean over the part of each window that lies in the image."""
    plane = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = at // Q
    q = at % Q
    total = tl.zeros((BLOCK,), tl.float32)
    for r in range(R):
        for s in range(R):
            h = p * stride - pad + r
            w = q * stride - pad + s
            mask = (p < P) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
            x = tl.load(x_ptr + plane * H * W + h * W + w, mask=mask, other=0.0)
            total += x.to(tl.float32)
    high = tl.minimum(p * stride - pad + R, H) - tl.maximum(p * stride - pad, 0)
    wide = tl.minimum(q * stride - pad + R, W) - tl.maximum(q * stride - pad, 0)
    tl.store(out_ptr + plane * P * Q + at, total / (high * wide), mask=p < P)
