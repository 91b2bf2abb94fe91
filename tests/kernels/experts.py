"""Mixture of experts: routing, sorting of tokens by expert, grouped products, weighted sums."""

import workbench.language as tl


def route(logit_ptr, weight_ptr, expert_ptr, n_experts, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax over the experts and the TOP_K largest, whose weights add up to 1."""
    token = tl.program_id(0)
    experts = tl.arange(0, BLOCK)
    mask = experts < n_experts
    x = tl.load(logit_ptr + token * n_experts + experts, mask=mask, other=-float("inf"))
    x = x.to(tl.float32)
    p = tl.exp(x - tl.max(x, axis=0))
    p = p / tl.sum(p, axis=0)
    left = tl.where(mask, p, -1.0)
    total = 0.0
    for k in tl.static_range(TOP_K):
        best, place = tl.max(left, axis=0, return_indices=True)
        tl.store(weight_ptr + token * TOP_K + k, best)
        tl.store(expert_ptr + token * TOP_K + k, place)
        left = tl.where(experts == place, -1.0, left)
        total += best
    tl.debug_barrier()
    for k in tl.static_range(TOP_K):
        weight = tl.load(weight_ptr + token * TOP_K + k)
        tl.store(weight_ptr + token * TOP_K + k, weight / total)


def count_by_expert(
    expert_ptr, count_ptr, n, n_blocks, EXPERTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Each program counts its part, expert by expert."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(expert_ptr + offsets, mask=offsets < n, other=0)
    counts = tl.histogram(expert, EXPERTS, mask=offsets < n)
    tl.store(count_ptr + tl.arange(0, EXPERTS) * n_blocks + pid, counts)


def place_experts(
    count_ptr, start_ptr, n_experts, n_blocks, TILE: tl.constexpr, EXPERTS: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    """Where each expert's tokens start, rounded up to whole tiles, and each block's within."""
    experts = tl.arange(0, EXPERTS)
    rows = count_ptr + experts[:, None] * n_blocks
    total = tl.zeros((EXPERTS,), tl.int32)
    for first in range(0, n_blocks, BLOCKS):
        blocks = first + tl.arange(0, BLOCKS)[None, :]
        mask = (experts[:, None] < n_experts) & (blocks < n_blocks)
        total += tl.sum(tl.load(rows + blocks, mask=mask, other=0), axis=1)
    padded = (total + TILE - 1) // TILE * TILE
    end = tl.cumsum(padded, axis=0)
    start = end - padded
    tl.store(start_ptr + experts, start, mask=experts < n_experts)
    tl.store(start_ptr + n_experts, tl.sum(padded, axis=0))
    for first in range(0, n_blocks, BLOCKS):
        blocks = first + tl.arange(0, BLOCKS)[None, :]
        mask = (experts[:, None] < n_experts) & (blocks < n_blocks)
        counts = tl.load(rows + blocks, mask=mask, other=0)
        tl.store(rows + blocks, start[:, None] + tl.cumsum(counts, axis=1) - counts, mask=mask)
        start += tl.sum(counts, axis=1)


def own_tiles(start_ptr, tile_expert_ptr, n_experts, n_tiles, TILE: tl.constexpr):
    """Write an expert's number on its tiles; what is left over belongs to nobody."""
    expert = tl.program_id(0)
    first = tl.load(start_ptr + expert) // TILE
    if expert < n_experts:
        last = tl.load(start_ptr + expert + 1) // TILE
        owner = expert
    else:
        last = n_tiles
        owner = -1
    for tile in range(first, last):
        tl.store(tile_expert_ptr + tile, owner)


def scatter_tokens(
    expert_ptr, count_ptr, sorted_ptr, n, n_blocks, EXPERTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Put each (token, choice) into its expert's part, in order."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    expert = tl.load(expert_ptr + offsets, mask=mask, other=0)
    own = ((expert[:, None] == tl.arange(0, EXPERTS)[None, :]) & mask[:, None]).to(tl.int32)
    rank = tl.sum(own * (tl.cumsum(own, axis=0) - 1), axis=1)
    start = tl.load(count_ptr + expert * n_blocks + pid, mask=mask, other=0)
    tl.store(sorted_ptr + start + rank, offsets, mask=mask)


def grouped_product(
    a_ptr, b_ptr, c_ptr, weight_ptr, sorted_ptr, tile_expert_ptr, n_pairs, N, K,
    stride_am, stride_be, stride_bk, stride_bn, TOP_K: tl.constexpr, WEIGHTED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows of tokens, gathered, times their expert's matrix; sentinel rows load nothing."""
    pid_m = tl.program_id(1)
    pid_n = tl.program_id(0)
    expert = tl.load(tile_expert_ptr + pid_m)
    if expert == -1:
        return
    pair = tl.load(sorted_ptr + pid_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    live = pair < n_pairs
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + (pair // TOP_K)[:, None] * stride_am + k[None, :]
    b = b_ptr + expert.to(tl.int64) * stride_be + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a_tile = tl.load(a, mask=live[:, None] & (k[None, :] < K - start), other=0.0)
        b_tile = tl.load(b, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
        a += BLOCK_K
        b += BLOCK_K * stride_bk
    if WEIGHTED:
        acc *= tl.load(weight_ptr + pair, mask=live, other=0.0)[:, None]
    c = c_ptr + pair[:, None] * N + n[None, :]
    tl.store(c, acc.to(c_ptr.dtype.element_ty), mask=live[:, None] & (n[None, :] < N))


def sum_choices(x_ptr, out_ptr, n_cols, TOP_K: tl.constexpr, BLOCK: tl.constexpr):
    """Add up what a token's experts gave, always in the same order."""
    token = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(TOP_K):
        row = x_ptr + (token * TOP_K + k) * n_cols
        total += tl.load(row + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * n_cols + cols, total, mask=mask)
