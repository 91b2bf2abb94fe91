"""Family 12: attention over pages of keys and values, and over pages of latent rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import torch

from tests.corpus.attentions import checked
from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem, once, sample
from tests.kernels import paged_attention as kernels
from workbench import cdiv, next_power_of_2

E4M3 = torch.float8_e4m3fn
#: What a table holds for pages that a sequence does not have: to follow it is to leave the cache.
NOWHERE = 1 << 28


def paged(
    make: Maker, lengths: tuple[int, ...], page: int, *row: int, dtype: torch.dtype | None = None,
    caches: int = 2,
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, list[list[torch.Tensor]]]:  # fmt: skip
    """Return caches of pages of rows, table, lengths, and each sequence's rows by cache.

    Pages are in random order, a page belongs to nobody, what lies behind a sequence's last token
    is NaN.
    """
    counts = [cdiv(length, page) for length in lengths]
    order = make.permutation(sum(counts) + 1).int()
    table = make.output(len(lengths), max(max(counts), 1) + 1, dtype=torch.int32)
    table.fill_(NOWHERE)
    found = [make.output(sum(counts) + 1, page, *row, dtype=dtype) for _ in range(caches)]
    sequences: list[list[torch.Tensor]] = [[] for _ in range(caches)]
    first = 0
    for z, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        own = order[first : first + count]
        first += count
        table[z, :count] = own
        for cache, rows in zip(found, sequences, strict=True):
            # By way of fp32: few operations know 8-bit floats.
            values = make.normal(length, *row, dtype=dtype).float()
            spread = torch.full((count * page, *row), torch.nan, device=make.device)
            spread[:length] = values
            for i, at in enumerate(own.tolist()):
                cache[at].copy_(spread[i * page : (i + 1) * page])
            rows.append(values)
    n = make.tensor(torch.tensor(lengths, dtype=torch.int32))
    return found, table, n, sequences


def group_of(rows: torch.Tensor, group: int) -> torch.Tensor:
    """Return (tokens, heads, D) as (heads of queries, tokens, D)."""
    return rows.transpose(0, 1).repeat_interleave(group, 0)


@sample(
    "paged_attention", kernels,
    fast=(((20, 0, 64), 4, 2, 16, 32, 16, 2), ((1, 33), 2, 1, 16, 16, 32, 4)),
    gpu=(
        ((1000, 17, 0, 16, 4096), 32, 8, 128, 16, 64, 8),
        ((1000, 15, 1), 32, 8, 128, 128, 64, 4),
        ((2048, 77), 8, 1, 80, 32, 32, 2),
        ((500, 31), 8, 8, 64, 32, 128, 4),
        ((300,), 16, 2, 256, 16, 32, 1),
    ),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def decode(
    make: Maker, lengths: tuple[int, ...], heads: int, heads_kv: int, head: int, page: int,
    block: int, segments: int, *, kept: torch.dtype | None = None,
) -> Problem:  # fmt: skip
    """`kept`: what keys and values are kept as."""
    (k, v), table, n, (keys, values) = paged(make, lengths, page, heads_kv, head, dtype=kept)
    q, out = (make.normal(len(lengths), heads, head) for _ in "qo")
    out.fill_(torch.nan)
    parts = make.output(len(lengths), heads, segments, head, dtype=F32)
    lse = make.output(len(lengths), heads, segments, dtype=F32)
    scale, scales = head**-0.5, (0.5, 2.0) if kept else (1.0, 1.0)
    group = heads // heads_kv
    shape = {"HEAD": head, "BLOCK_D": next_power_of_2(head), "SEGMENTS": segments}
    launches = (
        Launch(kernels.paged_decode, (len(lengths), heads_kv, segments),
               (q, k, v, parts, lse, table, n, scale, *scales, *q.stride()[:2], *k.stride()[:3],
                *v.stride()[:3], table.stride(0), heads),
               {**shape, "GROUP": group, "BLOCK_H": max(16, next_power_of_2(group)), "PAGE": page,
                "BLOCK_N": block, "num_warps": 4, "num_stages": 3}),
        Launch(kernels.merge_segments, (len(lengths), heads),
               (parts, lse, out, *out.stride()[:2], heads), {**shape, "num_warps": 2}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        total = lse.double().logsumexp(-1)
        for z in range(len(lengths)):
            mine, theirs = group_of(keys[z], group), group_of(values[z], group).to(make.dtype)
            scores = q[z].double()[:, None] @ mine.double().mT * scale * scales[0]
            scaled = theirs * scales[1]
            yield from checked(out[z][:, None], total[z][:, None], scores, scaled)

    used = sum(lengths) * heads_kv * head * 2 * k.element_size()
    return Problem(launches, checks, once(q, out) + used, flops=4 * sum(lengths) * heads * head,
                   scratch=(parts, lse))  # fmt: skip


@sample(
    "paged_attention", kernels, fast=(((20, 33), 4, 2, 16, 32, 16, 2),),
    gpu=(((1000, 17, 4096), 32, 8, 128, 16, 64, 8), ((1000, 15), 32, 8, 128, 128, 64, 4)),
    dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def decode_of_fp8(make: Maker, *size: Any) -> Problem:
    return decode(make, *size, kept=E4M3)


@sample(
    "paged_attention", kernels,
    fast=((((5, 20), (1, 33), (0, 3), (18, 18)), 4, 2, 16, 16, 8, 32),),
    gpu=(
        (((1, 1000), (5, 4096), (129, 129), (0, 0), (300, 1111)), 32, 8, 128, 16, 16, 64),
        (((1, 1000), (5, 500), (129, 129)), 32, 8, 128, 128, 32, 64),
        (((64, 64), (1, 15)), 8, 1, 80, 32, 16, 32),
        (((7, 7), (33, 40)), 3, 1, 64, 32, 16, 32),
    ),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def mixed(
    make: Maker, sequences: tuple[tuple[int, int], ...], heads: int, heads_kv: int, head: int,
    page: int, block_q: int, block: int,
) -> Problem:  # fmt: skip
    """Each sequence has (queries, keys), the queries' own included."""
    lengths = tuple(n for _, n in sequences)
    (k, v), table, n, (keys, values) = paged(make, lengths, page, heads_kv, head)
    first = [0, *accumulate(m for m, _ in sequences)]
    starts = make.tensor(torch.tensor(first, dtype=torch.int32))
    q, out = make.normal(first[-1], heads, head), make.output(first[-1], heads, head)
    group, scale = heads // heads_kv, head**-0.5
    launch = Launch(
        kernels.paged_prefill, (first[-1] // block_q + len(sequences), heads_kv),
        (q, k, v, out, starts, table, n, scale, 1.0, 1.0, *q.stride()[:2], *k.stride()[:3],
         *v.stride()[:3], *out.stride()[:2], table.stride(0), len(sequences)),
        {"HEAD": head, "BLOCK_D": next_power_of_2(head), "GROUP": group, "BLOCK_Q": block_q,
         "PAGE": page, "BLOCK_N": block, "num_warps": 4, "num_stages": 2},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        for z, (queries, length) in enumerate(sequences):
            own = slice(first[z], first[z + 1])
            mine, theirs = (group_of(x[z], group).to(make.dtype) for x in (keys, values))
            scores = q[own].transpose(0, 1).double() @ mine.double().mT * scale
            behind = torch.arange(length) - (torch.arange(queries)[:, None] + length - queries)
            scores = scores.masked_fill((behind > 0).to(make.device), -torch.inf)
            if queries:
                found = out[own].transpose(0, 1)
                yield from checked(found, scores.logsumexp(-1).float(), scores, theirs)

    seen = sum(m * (2 * length - m + 1) // 2 for m, length in sequences)
    return Problem((launch,), checks, once(q, k, v, out), flops=4 * seen * heads * head)


@sample(
    "paged_attention", kernels, fast=(((20, 0, 33), 5, 32, 16, 32, 16, 2),),
    gpu=(((1000, 17, 0), 16, 512, 64, 64, 32, 4), ((4096, 1), 128, 512, 64, 16, 16, 8)),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def latent(
    make: Maker, lengths: tuple[int, ...], heads: int, width: int, rope: int, page: int,
    block: int, segments: int,
) -> Problem:  # fmt: skip
    (cache,), table, n, (rows,) = paged(make, lengths, page, width + rope, caches=1)
    q, out = (make.normal(len(lengths), heads, extent) for extent in (width + rope, width))
    out.fill_(torch.nan)
    parts = make.output(len(lengths), heads, segments, width, dtype=F32)
    lse = make.output(len(lengths), heads, segments, dtype=F32)
    scale = (width + rope) ** -0.5
    launches = (
        Launch(kernels.latent_decode, (len(lengths), cdiv(heads, 16), segments),
               (q, cache, parts, lse, table, n, scale, *q.stride()[:2], *cache.stride()[:2],
                table.stride(0), heads),
               {"LATENT": width, "ROPE": rope, "BLOCK_H": 16, "PAGE": page, "BLOCK_N": block,
                "SEGMENTS": segments, "num_warps": 4, "num_stages": 2}),
        Launch(kernels.merge_segments, (len(lengths), heads),
               (parts, lse, out, *out.stride()[:2], heads),
               {"HEAD": width, "BLOCK_D": width, "SEGMENTS": segments, "num_warps": 4}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        total = lse.double().logsumexp(-1)
        for z in range(len(lengths)):
            own = rows[z].to(make.dtype)
            scores = q[z].double() @ own.double().mT * scale
            yield from checked(out[z], total[z], scores, own[:, :width])

    used = sum(lengths) * (width + rope) * cache.element_size()
    flops = 2 * sum(lengths) * heads * (2 * width + rope)
    return Problem(launches, checks, once(q, out) + used, flops=flops, scratch=(parts, lse))
