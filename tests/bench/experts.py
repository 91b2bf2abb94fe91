"""Contests of grouped products and of experts: the sum of dense products, Triton, a copy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import accumulate, pairwise

import torch

from tests.bench.contests import (
    Config,
    Contest,
    Prepared,
    Tensors,
    configs,
    instead,
    with_options,
)
from tests.corpus.sample import Launch
from tests.kernels import experts, grouped
from workbench import cdiv, next_power_of_2

F16, F32 = torch.float16, torch.float32
PROGRAMS = 132

#: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages.
CONFIGS = configs(
    (16, 64, 128, 4, 4), (16, 128, 64, 4, 4), (16, 128, 128, 4, 3), (32, 64, 128, 4, 4),
    (32, 128, 64, 4, 4), (64, 64, 64, 4, 4), (64, 128, 64, 4, 3), (64, 128, 64, 4, 4),
    (64, 256, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3),
    (128, 256, 64, 8, 3), (256, 128, 64, 8, 3),
)  # fmt: skip
#: Where each block of rows is a program, those that stay take one after the other.
BLOCKS_OURS = instead(
    CONFIGS,
    with_options("warp_specialize persistent", (128, 128, 64, 8, 3), (128, 256, 64, 8, 3)),
    configs((16, 64, 128, 4, 4), (64, 64, 64, 4, 4)),
)
#: Rows by group; N and K of all.
GROUPS = {
    "4 of 1024": (1024,) * 4,
    "16 of 256": (256,) * 16,
    "64 of 37": (37,) * 64,
    "8 uneven": (1024, 0, 700, 3, 0, 300, 1000, 57),
    "64 uneven": tuple((i * i * 37) % 1025 for i in range(64)),
}
N, K = 4096, 2048
#: Experts, choices of a token, width, inner width.
MODELS = ((8, 2, 4096, 1792), (64, 8, 2048, 1408))
TOKENS = (1, 16, 64, 512, 4096, 8192)


def group_products(
    tensors: Tensors, rows: tuple[int, ...], how: str, n: int = N, k: int = K
) -> Prepared:
    """Return X W[g] for the rows of each group; `how`: by "tickets", "tables" or "blocks"."""
    first = [0, *accumulate(rows)]
    x = tensors.normal(first[-1], k, dtype=F16)
    w = tensors.normal(len(rows), k, n, dtype=F16)
    c, library = (tensors.empty(first[-1], n, dtype=F16) for _ in "cl")
    starts = tensors.of(torch.tensor(first, dtype=torch.int32))
    tickets = tensors.empty(2, dtype=torch.int32)
    sizes = tensors.of(torch.tensor([(m, n, k) for m in rows], dtype=torch.int32))
    strides = tensors.of(torch.tensor([(k, n, n)] * len(rows), dtype=torch.int32))
    parts = list(pairwise(first))
    tables = [tensors.empty(len(rows), dtype=torch.int64) for _ in "abc"]
    if tensors.device != "meta":
        tables = [
            tensors.of(torch.tensor(places, dtype=torch.int64))
            for places in (
                [x[low:].data_ptr() for low, _ in parts],
                [w[g].data_ptr() for g in range(len(rows))],
                [c[low:].data_ptr() for low, _ in parts],
            )
        ]

    def launch(config: Config) -> Launch:
        bm, bn, bk = config.blocks
        blocks = sum(cdiv(m, bm) for m in rows) * cdiv(n, bn)
        named = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, **config.options}
        grid = (min(blocks, 2 * PROGRAMS),)
        if how == "tables":
            return Launch(grouped.product_of_tables, grid,
                          (*tables, x, sizes, strides, len(rows)), named)  # fmt: skip
        if how == "blocks":
            grid = cdiv(n, bn), first[-1] // bm + len(rows)
            return Launch(grouped.ragged_blocks, grid,
                          (x, w, c, starts, len(rows), n, k, k, *w.stride(), n), named)  # fmt: skip
        return Launch(
            grouped.ragged_product, grid,
            (x, w, c, starts, tickets, len(rows), n, k, k, *w.stride(), n),
            {"GROUPS": next_power_of_2(len(rows)), **named},
        )  # fmt: skip

    def multiply() -> torch.Tensor:
        for g, (low, high) in enumerate(parts):
            if high > low:
                torch.mm(x[low:high], w[g], out=library[low:high])
        return library

    return Prepared(launch, c, multiply, (2**-9, 1e-4 * k**0.5), {"cublas": multiply})


def expert_products(
    tensors: Tensors, tokens: int, n_experts: int, top_k: int, width: int, inner: int
) -> Prepared:
    """Return each token's rows times the matrices of its experts, sorted beforehand."""
    generator = torch.Generator().manual_seed(3)
    chosen = torch.rand(tokens, n_experts, generator=generator).topk(top_k).indices
    x = tensors.normal(tokens, width, dtype=F16)
    w = tensors.normal(n_experts, inner, width, dtype=F16)
    y, library = (tensors.empty(tokens * top_k, inner, dtype=F16) for _ in "yl")
    weights = tensors.normal(tokens, top_k, dtype=F32)
    order = chosen.flatten().argsort(stable=True)
    counts = torch.bincount(chosen.flatten(), minlength=n_experts).tolist()
    tables: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def sorted_for(tile: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return pairs by place, padded to tiles, and the expert of each tile."""
        if tile not in tables:
            placed, owners, at = [], [], 0
            for expert, count in enumerate(counts):
                padded = -(-count // tile) * tile
                own = torch.full((padded,), tokens * top_k, dtype=torch.int32)
                own[:count] = order[at : at + count]
                at += count
                placed.append(own)
                owners += [expert] * (padded // tile)
            tables[tile] = (
                tensors.of(torch.cat(placed)),
                tensors.of(torch.tensor(owners, dtype=torch.int32)),
            )
        return tables[tile]

    def launch(config: Config) -> Launch:
        bm, bn, bk = config.blocks
        placed, owners = sorted_for(bm)
        return Launch(
            experts.grouped_product, (cdiv(inner, bn), owners.numel()),
            (x, w, y, weights, placed, owners, tokens * top_k, inner, width, x.stride(0),
             w.stride(0), w.stride(2), w.stride(1)),
            {"TOP_K": top_k, "WEIGHTED": False, "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk,
             **config.options},
        )  # fmt: skip

    starts = [0, *accumulate(counts)]
    rows = tensors.of(torch.div(order, top_k, rounding_mode="floor"))
    dense = x if x.device.type == "meta" else x[rows]

    def multiply() -> torch.Tensor:
        """Dense products of rows that lie together: no gathering is in its time."""
        for expert, count in enumerate(counts):
            if count:
                own = slice(starts[expert], starts[expert + 1])
                torch.mm(dense[own], w[expert].T, out=library[own])
        return library

    def reference() -> torch.Tensor:
        want = torch.empty_like(y)
        want[tensors.of(order)] = multiply()
        return want

    used = sum(1 for count in counts if count)
    moved = 2 * (tokens * width + used * inner * width + tokens * top_k * inner)
    return Prepared(launch, y, reference, (2**-9, 1e-4 * width**0.5),
                    {"cublas": multiply, "copy": tensors.copier(moved)})  # fmt: skip


def contests() -> Iterator[Contest]:
    """Yield all contests of groups and experts."""
    for how, table in (("tickets", CONFIGS), ("tables", CONFIGS), ("blocks", BLOCKS_OURS)):
        for name, rows in GROUPS.items():
            with_rows = sum(1 for m in rows if m)
            yield Contest(
                "grouped", f"{name} by {how}", F16, sum(rows), grouped,
                partial(group_products, rows=rows, how=how), table, 2 * sum(rows) * N * K,
                2 * (sum(rows) * (N + K) + with_rows * N * K), f"grouped {name} {how}", tunes=True,
                peer_configs=CONFIGS,
            )  # fmt: skip
    for n_experts, top_k, width, inner in MODELS:
        for tokens in TOKENS:
            yield Contest(
                "moe", f"{n_experts} experts", F16, tokens, experts,
                partial(expert_products, tokens=tokens, n_experts=n_experts, top_k=top_k,
                        width=width, inner=inner),
                CONFIGS, 2 * tokens * top_k * width * inner,
                2 * (tokens * width + n_experts * inner * width + tokens * top_k * inner),
                f"moe {n_experts} {tokens}", tunes=True,
            )  # fmt: skip
