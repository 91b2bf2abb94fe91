"""Attention over keys and values in pages: decoding, prefill and mixed batches, latent heads.

A sequence's keys lie in pages of PAGE tokens, anywhere in the cache; a row of the table names
them. Heads of queries that share a head of keys (GROUP of them) are rows of one block. Decoding
splits the context into segments, one program for each, and `merge_segments` adds what they give.
Keys and values may be fp8 with one scale each. A sequence without keys gives 0, its lse is -inf.
"""

import workbench.language as tl


def page_of(table_ptr, start, n, length, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):
    """The page of each token of a block, and its place there; no entry beyond the length is read.

    A block within a page loads one entry, one of several pages an entry for each token.
    """
    if PAGE % BLOCK_N == 0:
        page = tl.load(table_ptr + start // PAGE).to(tl.int64)
        place = start % PAGE + tl.arange(0, BLOCK_N)
    else:
        page = tl.load(table_ptr + n // PAGE, mask=n < length, other=0).to(tl.int64)
        place = n % PAGE
    return page, place


def attend(
    acc, total, top, q, k, v, keep, score_scale,
):  # fmt: skip
    """One step of an online softmax; rows that keep nothing stay at 0 and -inf."""
    scores = tl.where(keep, tl.dot(q, k) * score_scale, -float("inf"))
    top_new = tl.maximum(top, tl.max(scores, 1))
    shift = tl.where(top_new == -float("inf"), 0.0, top_new)
    p = tl.math.exp2(scores - shift[:, None])
    factor = tl.math.exp2(top - shift)
    total = total * factor + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None])
    return acc, total, top_new


def paged_decode(
    q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr, table_ptr, length_ptr, scale, k_scale, v_scale,
    stride_qs, stride_qh, stride_kp, stride_kt, stride_kh, stride_vp, stride_vt, stride_vh,
    stride_table, H,
    HEAD: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr, BLOCK_H: tl.constexpr,
    PAGE: tl.constexpr, BLOCK_N: tl.constexpr, SEGMENTS: tl.constexpr,
):  # fmt: skip
    """One query per sequence: a segment of its context for the GROUP heads of a head of keys.

    Keys and values, which one program reads once, leave the L2 first, so that its parts stay.
    """
    LOG2E: tl.constexpr = 1.44269504
    sequence = tl.program_id(0)
    head_kv = tl.program_id(1)
    segment = tl.program_id(2)
    length = tl.load(length_ptr + sequence)
    blocks = tl.cdiv(length, BLOCK_N)
    share = tl.cdiv(blocks, SEGMENTS)
    first = segment * share * BLOCK_N
    last = tl.minimum(first + share * BLOCK_N, length)
    h = tl.arange(0, BLOCK_H)
    d = tl.arange(0, BLOCK_D)
    heads = head_kv * GROUP + h
    live_q = (h[:, None] < GROUP) & (d[None, :] < HEAD)
    q_ptrs = q_ptr + sequence.to(tl.int64) * stride_qs + heads[:, None] * stride_qh + d[None, :]
    q = tl.load(q_ptrs, mask=live_q, other=0.0)
    top = tl.full((BLOCK_H,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, BLOCK_D), tl.float32)
    table = table_ptr + sequence.to(tl.int64) * stride_table
    k_head = k_ptr + head_kv.to(tl.int64) * stride_kh
    v_head = v_ptr + head_kv.to(tl.int64) * stride_vh
    for start in range(first, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        page, place = page_of(table, start, n, length, PAGE, BLOCK_N)
        at_k = page * stride_kp + place * stride_kt
        at_v = page * stride_vp + place * stride_vt
        live = (n[:, None] < length) & (d[None, :] < HEAD)
        k_ptrs = k_head + at_k[:, None] + d[None, :]
        v_ptrs = v_head + at_v[:, None] + d[None, :]
        k = tl.load(k_ptrs, mask=live, other=0.0, eviction_policy="evict_first").to(q.dtype)
        v = tl.load(v_ptrs, mask=live, other=0.0, eviction_policy="evict_first").to(q.dtype)
        acc, total, top = attend(
            acc, total, top, q, tl.trans(k), v, n[None, :] < length, scale * k_scale * LOG2E
        )
    acc = acc * v_scale / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = tl.where(total == 0.0, -float("inf"), (top + tl.math.log2(total)) / LOG2E)
    row = (sequence * H + heads) * SEGMENTS + segment
    tl.store(parts_ptr + row[:, None] * HEAD + d[None, :], acc, mask=live_q)
    tl.store(lse_ptr + row, lse, mask=h < GROUP)


def merge_segments(
    parts_ptr, lse_ptr, out_ptr, stride_os, stride_oh, H,
    HEAD: tl.constexpr, BLOCK_D: tl.constexpr, SEGMENTS: tl.constexpr, EARLY: tl.constexpr = False,
):  # fmt: skip
    """Weigh what the segments gave; SEGMENTS is a power of two.

    EARLY: launched with `launch_pdl`, it begins while the last segments are still under way.
    """
    if EARLY:
        tl.extra.cuda.gdc_wait()
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    s = tl.arange(0, SEGMENTS)
    d = tl.arange(0, BLOCK_D)
    row = (sequence * H + head) * SEGMENTS + s
    lse = tl.load(lse_ptr + row)
    top = tl.max(lse, 0)
    weight = tl.exp(lse - tl.where(top == -float("inf"), 0.0, top))
    total = tl.sum(weight, 0)
    live = (s[:, None] < SEGMENTS) & (d[None, :] < HEAD)
    parts = tl.load(parts_ptr + row[:, None] * HEAD + d[None, :], mask=live, other=0.0)
    out = tl.sum(parts * weight[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    out_ptrs = out_ptr + sequence.to(tl.int64) * stride_os + head * stride_oh + d
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=d < HEAD)


def sequence_of(starts_ptr, block, n_sequences, BLOCK_Q: tl.constexpr):
    """The sequence of a block of queries, whose blocks begin at starts[z] // BLOCK_Q + z."""
    low = 0
    high = n_sequences
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts_ptr + middle) // BLOCK_Q + middle <= block:
            low = middle + 1
        else:
            high = middle
    return low - 1


def paged_prefill(
    q_ptr, k_ptr, v_ptr, out_ptr, starts_ptr, table_ptr, length_ptr, scale, k_scale, v_scale,
    stride_qt, stride_qh, stride_kp, stride_kt, stride_kh, stride_vp, stride_vt, stride_vh,
    stride_ot, stride_oh, stride_table, n_sequences,
    HEAD: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr, BLOCK_Q: tl.constexpr,
    PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Queries of all sequences, one behind the other: prefill, decoding and mixtures, causal.

    BLOCK_Q tokens of GROUP heads are the rows of a block. The last query sees all keys; keys of
    its own tokens are in the cache. A grid of tokens // BLOCK_Q + sequences covers all blocks.
    """
    LOG2E: tl.constexpr = 1.44269504
    block = tl.program_id(0)
    head_kv = tl.program_id(1)
    sequence = sequence_of(starts_ptr, block, n_sequences, BLOCK_Q)
    start_q = tl.load(starts_ptr + sequence)
    n_queries = tl.load(starts_ptr + sequence + 1) - start_q
    own = block - (start_q // BLOCK_Q + sequence)
    if own * BLOCK_Q >= n_queries:
        return
    length = tl.load(length_ptr + sequence)
    before = length - n_queries
    i = tl.arange(0, BLOCK_Q * GROUP)
    d = tl.arange(0, BLOCK_D)
    m = own * BLOCK_Q + i // GROUP
    head = head_kv * GROUP + i % GROUP
    live_q = (m[:, None] < n_queries) & (d[None, :] < HEAD)
    rows = start_q + m
    q_ptrs = q_ptr + rows[:, None] * stride_qt + head[:, None] * stride_qh + d[None, :]
    q = tl.load(q_ptrs, mask=live_q, other=0.0)
    top = tl.full((BLOCK_Q * GROUP,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q * GROUP,), tl.float32)
    acc = tl.zeros((BLOCK_Q * GROUP, BLOCK_D), tl.float32)
    table = table_ptr + sequence.to(tl.int64) * stride_table
    k_head = k_ptr + head_kv.to(tl.int64) * stride_kh
    v_head = v_ptr + head_kv.to(tl.int64) * stride_vh
    last = tl.minimum(length, before + (own + 1) * BLOCK_Q)
    for start in range(0, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        page, place = page_of(table, start, n, last, PAGE, BLOCK_N)
        at_k = page * stride_kp + place * stride_kt
        at_v = page * stride_vp + place * stride_vt
        live = (n[:, None] < last) & (d[None, :] < HEAD)
        k = tl.load(k_head + at_k[:, None] + d[None, :], mask=live, other=0.0).to(q.dtype)
        v = tl.load(v_head + at_v[:, None] + d[None, :], mask=live, other=0.0).to(q.dtype)
        keep = n[None, :] <= before + m[:, None]
        acc, total, top = attend(
            acc, total, top, q, tl.trans(k), v, keep, scale * k_scale * LOG2E
        )  # fmt: skip
    acc = acc * v_scale / tl.where(total == 0.0, 1.0, total)[:, None]
    out_ptrs = out_ptr + rows[:, None] * stride_ot + head[:, None] * stride_oh + d[None, :]
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=live_q)


def latent_decode(
    q_ptr, cache_ptr, parts_ptr, lse_ptr, table_ptr, length_ptr, scale, stride_qs, stride_qh,
    stride_cp, stride_ct, stride_table, H,
    LATENT: tl.constexpr, ROPE: tl.constexpr, BLOCK_H: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr, SEGMENTS: tl.constexpr,
):  # fmt: skip
    """All heads share a row of LATENT + ROPE numbers per token; its first LATENT are the value."""
    LOG2E: tl.constexpr = 1.44269504
    sequence = tl.program_id(0)
    segment = tl.program_id(2)
    length = tl.load(length_ptr + sequence)
    share = tl.cdiv(tl.cdiv(length, BLOCK_N), SEGMENTS)
    first = segment * share * BLOCK_N
    last = tl.minimum(first + share * BLOCK_N, length)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    c = tl.arange(0, LATENT)
    r = LATENT + tl.arange(0, ROPE)
    live_q = heads[:, None] < H
    q_row = q_ptr + sequence.to(tl.int64) * stride_qs + heads[:, None] * stride_qh
    q = tl.load(q_row + c[None, :], mask=live_q, other=0.0)
    q_rope = tl.load(q_row + r[None, :], mask=live_q, other=0.0)
    top = tl.full((BLOCK_H,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, LATENT), tl.float32)
    table = table_ptr + sequence.to(tl.int64) * stride_table
    for start in range(first, last, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        page, place = page_of(table, start, n, length, PAGE, BLOCK_N)
        row = cache_ptr + (page * stride_cp + place * stride_ct)[:, None]
        live = n[:, None] < length
        latent = tl.load(row + c[None, :], mask=live, other=0.0)
        rope = tl.load(row + r[None, :], mask=live, other=0.0)
        scores = tl.dot(q_rope, tl.trans(rope))
        scores = tl.dot(q, tl.trans(latent), scores) * (scale * LOG2E)
        scores = tl.where(n[None, :] < length, scores, -float("inf"))
        top_new = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - top_new[:, None])
        factor = tl.math.exp2(top - top_new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(latent.dtype), latent, acc * factor[:, None])
        top = top_new
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    lse = tl.where(total == 0.0, -float("inf"), (top + tl.math.log2(total)) / LOG2E)
    at = (sequence * H + heads) * SEGMENTS + segment
    tl.store(parts_ptr + at[:, None] * LATENT + c[None, :], acc, mask=live_q)
    tl.store(lse_ptr + at, lse, mask=heads < H)
