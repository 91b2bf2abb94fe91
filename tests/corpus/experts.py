"""Family 14: mixture of experts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    distinct,
    exact,
    once,
    sample,
)
from tests.kernels import experts
from workbench import cdiv, next_power_of_2


@sample("moe_routing", experts, fast=((1, 8, 2), (5, 60, 3)), slow=((3, 5, 1), (2, 64, 8)),
        gpu=((1001, 256, 8),), bench=((16384, 64, 8),))  # fmt: skip
def route(make: Maker, tokens: int, n_experts: int, top_k: int) -> Problem:
    logits = make.tensor(torch.stack([make.permutation(n_experts) for _ in range(tokens)])
                         .to(make.dtype) / 16)  # fmt: skip
    weights = make.output(tokens, top_k, dtype=F32)
    chosen = make.output(tokens, top_k, dtype=torch.int32)
    named = {"TOP_K": top_k, "BLOCK": next_power_of_2(n_experts), "num_warps": 1}
    launch = Launch(experts.route, (tokens,), (logits, weights, chosen, n_experts), named)

    def checks() -> Iterator[Check]:
        values, places = logits.double().softmax(1).topk(top_k, 1)
        yield exact("experts", chosen, places)
        want = values / values.sum(1, keepdim=True)
        yield close("weights", weights, want, want * logits.double().abs().amax(1, keepdim=True))

    return Problem((launch,), checks, logits.nbytes + weights.nbytes + chosen.nbytes,
                   lambda: logits.float().softmax(1).topk(top_k, 1))  # fmt: skip


def _sorting(make: Maker, chosen: torch.Tensor, n_experts: int, tile: int):
    """Return the launches that sort pairs by expert, and what they fill."""
    n = chosen.numel()
    block = 64
    blocks, width = cdiv(n, block), next_power_of_2(n_experts)
    most = cdiv(n, tile) + n_experts
    counts = make.output(width, blocks, dtype=torch.int32, fill=0)
    starts = make.output(n_experts + 1, dtype=torch.int32)
    owners = make.output(most, dtype=torch.int32)
    placed = make.output(most * tile, dtype=torch.int32, fill=n)
    named = {"EXPERTS": width, "BLOCK": block, "num_warps": 4}
    launches = (
        Launch(experts.count_by_expert, (blocks,), (chosen, counts, n, blocks), named),
        Launch(experts.place_experts, (1,), (counts, starts, n_experts, blocks),
               {"TILE": tile, "EXPERTS": width, "BLOCKS": min(next_power_of_2(blocks), 32),
                "num_warps": 4}),
        Launch(experts.own_tiles, (n_experts + 1,), (starts, owners, n_experts, most),
               {"TILE": tile, "num_warps": 1}),
        Launch(experts.scatter_tokens, (blocks,), (chosen, counts, placed, n, blocks), named),
    )  # fmt: skip
    return launches, starts, owners, placed, counts


def _layout(chosen: torch.Tensor, n_experts: int, tile: int, most: int):
    """Return starts, owners of tiles and pairs by place, by torch."""
    counts = torch.bincount(chosen.flatten(), minlength=n_experts)
    padded = (counts + tile - 1) // tile * tile
    end = padded.cumsum(0)
    owners = torch.bucketize(torch.arange(most, device=chosen.device) * tile, end, right=True)
    placed = torch.full((most * tile,), chosen.numel(), device=chosen.device)
    order = chosen.flatten().argsort(stable=True)
    first = (counts.cumsum(0) - counts)[chosen.flatten()[order]]
    rank = torch.arange(chosen.numel(), device=chosen.device) - first
    placed[(end - padded)[chosen.flatten()[order]] + rank] = order
    starts = torch.cat([end - padded, end[-1:]])
    return starts, torch.where(owners < n_experts, owners, -1), placed


@sample("moe_routing", experts, fast=((1, 2, 1), (50, 6, 3)), slow=((16, 8, 2),),
        gpu=((1001, 64, 4),), bench=((4096, 64, 4),), dtypes=(torch.int32,))  # fmt: skip
def sort_by_expert(make: Maker, tokens: int, n_experts: int, top_k: int) -> Problem:
    chosen = make.integers(0, n_experts, tokens, top_k)
    chosen[chosen == 1] = 0  # one expert without tokens
    launches, starts, owners, placed, counts = _sorting(make, chosen, n_experts, 16)

    def checks() -> Iterator[Check]:
        wants = _layout(chosen, n_experts, 16, owners.numel())
        for name, got, want in zip(("starts", "owners", "pairs"), (starts, owners, placed), wants,
                                   strict=True):  # fmt: skip
            yield exact(name, got, want)

    return Problem(
        launches, checks, once(chosen, starts, owners) + 4 * chosen.numel(), scratch=(counts,)
    )


@sample(
    "moe", experts,
    fast=((1, 2, 1, 16, 16), (20, 5, 2, 40, 72)),
    slow=((64, 8, 2, 64, 64),),
    gpu=((300, 8, 2, 512, 1000), (33, 64, 8, 256, 256)),
    dtypes=(F16, BF16, F32),
)  # fmt: skip
def expert_products(make, tokens: int, n_experts: int, top_k: int, width: int, inner: int):
    """Small integers, so that sums are exact in any order; weights are powers of two."""
    x = make.integers(-2, 3, tokens, width)
    w = make.integers(-2, 3, n_experts, inner, width)
    chosen = make.integers(0, n_experts, tokens, top_k, dtype=torch.int32)
    weights = make.tensor(2.0 ** -make.integers(0, 3, tokens, top_k, dtype=F32))
    y, out = make.output(tokens * top_k, inner), make.output(tokens, inner, dtype=F32)
    large = tokens * top_k >= 16 * n_experts
    tile = 64 if large else 16
    sort_launches, *tables = _sorting(make, chosen, n_experts, tile)
    _, owners, placed, _ = tables
    columns = 128 if large else 64
    main = Launch(
        experts.grouped_product,
        (cdiv(inner, columns), owners.numel()),
        (x, w, y, weights, placed, owners, tokens * top_k, inner, width, x.stride(0), w.stride(0),
         w.stride(2), w.stride(1)),
        {"TOP_K": top_k, "WEIGHTED": True, "BLOCK_M": tile, "BLOCK_N": columns,
         "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
    )  # fmt: skip
    last = Launch(experts.sum_choices, (tokens, cdiv(inner, 256)), (y, out, inner),
                  {"TOP_K": top_k, "BLOCK": 256, "num_warps": 2})  # fmt: skip

    def checks() -> Iterator[Check]:
        want = torch.zeros(tokens, top_k, inner, dtype=torch.float64, device=x.device)
        for e in range(n_experts):
            at = chosen == e
            rows = torch.where(at)[0]
            want[at] = x.double()[rows] @ w[e].double().T
        want *= weights.double()[:, :, None]
        yield close("products", y.view(tokens, top_k, inner), want)
        rounded = want.to(make.dtype).double()
        yield close("sum", out, rounded.sum(1), rounded.abs().sum(1), top_k)

    def by_torch() -> None:
        flat = chosen.flatten()
        for e in range(n_experts):
            rows = torch.where(flat == e)[0]
            y[rows] = x[rows // top_k] @ w[e].T

    moved = once(x, chosen, weights, y, out) + distinct(chosen, n_experts) * once(w[0])
    return Problem(
        (*sort_launches, main, last),
        checks,
        moved,
        by_torch,
        flops=2 * chosen.numel() * inner * width,
        scratch=tuple(tables),
    )
