"""Contests of attention over pages: decoding beside a copy of the cache, prefill and mixtures.

Hq / Hkv = 32 / 8, D = 128: a token's keys and values are 4096 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import accumulate

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.bench.contests import Config, Contest, Prepared, Tensors, configs, instead, with_options
from tests.corpus.sample import Launch
from tests.kernels import paged_attention as kernels
from workbench import cdiv

F16, F32, E4M3 = torch.float16, torch.float32, torch.float8_e4m3fn
HEADS, HEADS_KV, HEAD = 32, 8, 128
GROUP = HEADS // HEADS_KV
LATENT, ROPE, LATENT_HEADS = 512, 64, 128

#: Sequences and tokens of each.
DECODE = ((1, 1024), (1, 32768), (8, 8192), (64, 1024), (64, 4096), (256, 1024), (256, 4096))
PAGES = (16, 128)
#: BLOCK_N, segments, warps, stages: many segments for few sequences, and few for many.
FEW = configs(
    (32, 32, 4, 3), (32, 64, 4, 3), (64, 16, 4, 3), (64, 32, 4, 2), (64, 32, 4, 3),
    (64, 32, 4, 4), (64, 64, 4, 3), (128, 16, 4, 2), (128, 16, 4, 3), (128, 32, 4, 2),
    (128, 32, 4, 3), (128, 32, 8, 3),
)  # fmt: skip
#: Of ours alone: numbers of pages a round ahead of the copies that they lead to.
FEW_OURS = instead(
    FEW,
    with_options("tables_ahead", (64, 32, 4, 3), (64, 32, 4, 4), (64, 16, 4, 3)),
    configs((32, 64, 4, 3), (64, 64, 4, 3), (128, 32, 8, 3)),
)
MANY = configs(
    (16, 2, 2, 4), (32, 1, 2, 3), (32, 2, 4, 4), (32, 4, 4, 3), (64, 1, 4, 3), (64, 2, 4, 2),
    (64, 2, 4, 3), (64, 4, 4, 2), (64, 4, 4, 3), (64, 8, 4, 3), (128, 1, 4, 2), (128, 2, 4, 2),
    (128, 4, 4, 3), (128, 4, 8, 3),
)  # fmt: skip
#: Of ours alone where keys and values have eight bits: a round of fewer bytes waits for its table.
MANY_OURS = instead(
    MANY, with_options("tables_ahead", (32, 1, 2, 3), (64, 1, 2, 2)),
    configs((64, 8, 4, 3), (128, 4, 8, 3)),
)  # fmt: skip
#: Tokens of a block of queries, BLOCK_N, warps, stages; a block has GROUP rows for each token.
PREFILL = configs(
    (4, 32, 4, 4), (4, 64, 4, 3), (8, 64, 4, 3), (16, 32, 4, 3), (16, 64, 4, 2), (16, 64, 4, 3),
    (16, 128, 4, 2),
    (32, 32, 4, 3), (32, 64, 4, 2), (32, 64, 4, 3), (32, 64, 8, 2), (32, 64, 8, 3),
    (32, 128, 8, 2), (32, 128, 8, 3),
)  # fmt: skip
#: Decoding and prefill together want the author's order, prefill extremes that may lie behind;
#: Triton has no such options.
PREFILL_OURS = instead(
    PREFILL,
    (
        *with_options("no reorder", (32, 128, 8, 2)),
        *with_options("fast_rescale", (32, 128, 8, 2), (32, 128, 8, 3)),
    ),
    configs((16, 32, 4, 3), (32, 64, 8, 2), (32, 64, 4, 3)),
)


def table_of(tensors: Tensors, batch: int, pages: int) -> torch.Tensor:
    """Return a table that names each page once, in random order."""
    order = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(2))
    return tensors.of(order.to(torch.int32).view(batch, pages))


def rows_of(cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return (batch, length, ...) of a cache, gathered."""
    found = cache.view(torch.uint8) if cache.dtype == E4M3 else cache
    found = found[table.flatten().long()].view(table.shape[0], -1, *cache.shape[2:])
    return found.view(E4M3).to(F16) if cache.dtype == E4M3 else found


def decode(
    tensors: Tensors, batch: int, length: int, page: int, dtype: torch.dtype = F16
) -> Prepared:
    """Return one query of each sequence against its pages, beside what copying them takes."""
    table = table_of(tensors, batch, length // page)
    k, v = (
        tensors.normal(table.numel(), page, HEADS_KV, HEAD, dtype=F16).to(dtype) for _ in "kv"
    )  # fmt: skip
    q = tensors.normal(batch, HEADS, HEAD, dtype=F16)
    out = tensors.empty(batch, HEADS, HEAD, dtype=F16)
    lengths = tensors.of(torch.full((batch,), length, dtype=torch.int32))
    most = 64 if batch <= 8 else 8
    parts = tensors.empty(batch, HEADS, most, HEAD, dtype=F32)
    lse = tensors.empty(batch, HEADS, most, dtype=F32)

    def launch(config: Config) -> Launch:
        block, segments = config.blocks
        return Launch(
            kernels.paged_decode, (batch, HEADS_KV, segments),
            (q, k, v, parts, lse, table, lengths, HEAD**-0.5, 1.0, 1.0, *q.stride()[:2],
             *k.stride()[:3], *v.stride()[:3], table.stride(0), HEADS),
            {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_H": 16, "PAGE": page,
             "BLOCK_N": block, "SEGMENTS": segments, **config.options},
        )  # fmt: skip

    def then(config: Config) -> tuple[Launch, ...]:
        # There are few blocks, so registers are for all that a thread adds to be under way at one
        # time: unless told ptxas takes 39 and asks for a part of it after the other.
        named = {"HEAD": HEAD, "BLOCK_D": HEAD, "SEGMENTS": config.blocks[1], "num_warps": 2,
                 "maxnreg": 255, "EARLY": True, "launch_pdl": True}  # fmt: skip
        return (Launch(kernels.merge_segments, (batch, HEADS),
                       (parts, lse, out, *out.stride()[:2], HEADS), named),)  # fmt: skip

    def reference() -> torch.Tensor:
        want = torch.empty_like(out)
        for z in range(batch):  # the rows of all sequences at once would be as large as the cache
            own, values = (
                rows_of(x, table[z : z + 1])[0].transpose(0, 1).repeat_interleave(GROUP, 0).float()
                for x in (k, v)
            )
            weights = (own @ q[z].float()[:, :, None])[..., 0] * HEAD**-0.5
            want[z] = (weights.softmax(-1)[:, None] @ values)[:, 0].half()
        return want

    moved = 2 * batch * length * HEADS_KV * HEAD * dtype.itemsize
    return Prepared(launch, out, reference, (2**-6, 2**-8), {"copy": tensors.copier(moved)},
                    then=then)  # fmt: skip


def latent_decode(tensors: Tensors, batch: int, length: int, page: int) -> Prepared:
    """Return latent attention of 128 heads that share each token's 576 numbers."""
    table = table_of(tensors, batch, length // page)
    cache = tensors.normal(table.numel(), page, LATENT + ROPE, dtype=F16)
    q = tensors.normal(batch, LATENT_HEADS, LATENT + ROPE, dtype=F16)
    out = tensors.empty(batch, LATENT_HEADS, LATENT, dtype=F16)
    lengths = tensors.of(torch.full((batch,), length, dtype=torch.int32))
    most, scale = 16, 192**-0.5
    parts = tensors.empty(batch, LATENT_HEADS, most, LATENT, dtype=F32)
    lse = tensors.empty(batch, LATENT_HEADS, most, dtype=F32)

    def launch(config: Config) -> Launch:
        heads, block, segments = config.blocks
        return Launch(
            kernels.latent_decode, (batch, cdiv(LATENT_HEADS, heads), segments),
            (q, cache, parts, lse, table, lengths, scale, *q.stride()[:2], *cache.stride()[:2],
             table.stride(0), LATENT_HEADS),
            {"LATENT": LATENT, "ROPE": ROPE, "BLOCK_H": heads, "PAGE": page, "BLOCK_N": block,
             "SEGMENTS": segments, **config.options},
        )  # fmt: skip

    def then(config: Config) -> tuple[Launch, ...]:
        named = {"HEAD": LATENT, "BLOCK_D": LATENT, "SEGMENTS": config.blocks[2], "num_warps": 4}
        return (Launch(kernels.merge_segments, (batch, LATENT_HEADS),
                       (parts, lse, out, *out.stride()[:2], LATENT_HEADS), named),)  # fmt: skip

    def reference() -> torch.Tensor:
        want = torch.empty_like(out)
        for z in range(batch):
            own = rows_of(cache, table[z : z + 1])[0].float()
            weights = (q[z].float() @ own.T * scale).softmax(-1)
            want[z] = (weights @ own[:, :LATENT]).half()
        return want

    moved = 2 * batch * length * (LATENT + ROPE)
    return Prepared(launch, out, reference, (2**-6, 2**-8), {"copy": tensors.copier(moved)},
                    then=then)  # fmt: skip


#: BLOCK_H, BLOCK_N, segments, warps, stages.
LATENT_CONFIGS = configs(
    (16, 16, 8, 4, 2), (16, 32, 4, 4, 2), (16, 32, 8, 4, 2), (16, 32, 8, 8, 2), (16, 64, 8, 8, 2),
    (64, 16, 8, 4, 2), (64, 32, 4, 4, 2), (64, 32, 8, 8, 2), (64, 32, 16, 8, 2), (64, 64, 8, 8, 2),
    (128, 32, 8, 8, 2),
)  # fmt: skip


def mixed(tensors: Tensors, sequences: tuple[tuple[int, int], ...], page: int) -> Prepared:
    """Return queries of all sequences, (queries, keys) of each; dense attention where all agree."""
    counts = [cdiv(n, page) for _, n in sequences]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(2)).int()
    names = torch.zeros(len(sequences), max(counts), dtype=torch.int32)
    for z, (count, last) in enumerate(zip(counts, accumulate(counts), strict=True)):
        names[z, :count] = order[last - count : last]
    table = tensors.of(names)
    k, v = (tensors.normal(sum(counts), page, HEADS_KV, HEAD, dtype=F16) for _ in "kv")
    first = [0, *accumulate(m for m, _ in sequences)]
    starts = tensors.of(torch.tensor(first, dtype=torch.int32))
    lengths = tensors.of(torch.tensor([n for _, n in sequences], dtype=torch.int32))
    q = tensors.normal(first[-1], HEADS, HEAD, dtype=F16)
    out = tensors.empty(first[-1], HEADS, HEAD, dtype=F16)

    def launch(config: Config) -> Launch:
        block_q, block = config.blocks
        return Launch(
            kernels.paged_prefill, (first[-1] // block_q + len(sequences), HEADS_KV),
            (q, k, v, out, starts, table, lengths, HEAD**-0.5, 1.0, 1.0, *q.stride()[:2],
             *k.stride()[:3], *v.stride()[:3], *out.stride()[:2], table.stride(0),
             len(sequences)),
            {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_Q": block_q, "PAGE": page,
             "BLOCK_N": block, **config.options},
        )  # fmt: skip

    def gathered(z: int) -> list[torch.Tensor]:
        n = sequences[z][1]
        return [rows_of(x, table[z : z + 1, : counts[z]])[0, :n].transpose(0, 1) for x in (k, v)]

    def reference() -> torch.Tensor:
        want = torch.empty_like(out)
        for z, (queries, keys) in enumerate(sequences):
            own = slice(first[z], first[z + 1])
            some_k, some_v = gathered(z)
            behind = torch.arange(keys, device=q.device) - (
                torch.arange(queries, device=q.device)[:, None] + keys - queries
            )
            for h in range(HEADS):
                scores = q[own, h].float() @ some_k[h // GROUP].float().T * HEAD**-0.5
                weights = scores.masked_fill(behind > 0, -torch.inf).softmax(-1)
                want[own, h] = (weights @ some_v[h // GROUP].float()).half()
        return want

    baselines = {}
    if len(set(sequences)) == 1 and sequences[0][0] == sequences[0][1] and q.device.type != "meta":
        queries = q.view(len(sequences), -1, HEADS, HEAD).transpose(1, 2).contiguous()
        keys, values = (
            torch.stack([gathered(z)[i] for z in range(len(sequences))]) for i in range(2)
        )

        def cudnn() -> torch.Tensor:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(
                    queries, keys, values, is_causal=True, enable_gqa=True
                )

        baselines["cudnn"] = cudnn
    return Prepared(launch, out, reference, (2**-6, 2**-8), baselines)


#: Sequences of (queries, keys): prefill, prefill behind a prefix, decoding and prefill together.
MIXTURES = {
    "prefill 4x2048": ((2048, 2048),) * 4,
    "prefill 8192": ((8192, 8192),),
    "prefill 8x512 of 4096": ((512, 4096),) * 8,
    "mixed": (*((1, 1000 + 97 * i) for i in range(32)), (1777, 1777), (512, 3000), (900, 900)),
    "decoding 64x4096": ((1, 4096),) * 64,
}


def contests() -> Iterator[Contest]:
    """Yield all contests over pages."""
    for page in PAGES:
        for batch, length in DECODE:
            few = batch <= 8
            yield Contest(
                "paged_decode", f"batch {batch} pages of {page}", F16, length, kernels,
                partial(decode, batch=batch, length=length, page=page), FEW_OURS if few else MANY,
                4 * batch * length * HEADS * HEAD,
                4 * batch * length * HEADS_KV * HEAD, f"decode {page} {batch} {length}",
                tunes=True, peer_configs=FEW if few else MANY,
            )  # fmt: skip
    yield Contest(
        "paged_decode", "batch 64 fp8 pages of 16", E4M3, 4096, kernels,
        partial(decode, batch=64, length=4096, page=16, dtype=E4M3), MANY_OURS,
        4 * 64 * 4096 * HEADS * HEAD, 2 * 64 * 4096 * HEADS_KV * HEAD, "decode fp8", tunes=True,
        peer_configs=MANY,
    )  # fmt: skip
    for batch, length in ((1, 32768), (64, 4096)):
        yield Contest(
            "paged_decode", f"latent batch {batch} pages of 64", F16, length, kernels,
            partial(latent_decode, batch=batch, length=length, page=64), LATENT_CONFIGS,
            2 * batch * length * LATENT_HEADS * (2 * LATENT + ROPE),
            2 * batch * length * (LATENT + ROPE), f"latent {batch}", tunes=True,
        )  # fmt: skip
    for page in PAGES:
        for name, sequences in MIXTURES.items():
            pairs = sum(m * (2 * n - m + 1) // 2 for m, n in sequences)
            yield Contest(
                "paged_prefill", f"{name} pages of {page}", F16, sum(m for m, _ in sequences),
                kernels, partial(mixed, sequences=sequences, page=page), PREFILL_OURS,
                4 * HEADS * HEAD * pairs, 4 * sum(n for _, n in sequences) * HEADS_KV * HEAD,
                f"{name} {page}", tunes=True, peer_configs=PREFILL,
            )  # fmt: skip
