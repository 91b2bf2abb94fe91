"""Contests of products with few rows: split along K, shared out, persistent; cuBLAS and a copy.

Sizes of results are M; names say K x N. Weights are (N, K), as layers keep them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

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
from tests.kernels import products, products_by_shares
from workbench import cdiv

F16, F32 = torch.float16, torch.float32
ROWS = (1, 16, 64, 256)
#: K and N.
SHAPES = ((4096, 4096), (4096, 14336), (14336, 4096))
#: Programs of persistent kernels: one or two for each multiprocessor of an H200.
PROGRAMS = 132

#: BLOCK_M, BLOCK_N, BLOCK_K, shares of K, launches, warps, stages, by rows. Shares are added by a
#: second launch, or in the first one by whoever comes last. Rings are deep where a block has a
#: multiprocessor to itself: to stream weights it wants some 64 kB on their way.
FEW = configs(
    (16, 32, 128, 1, 1, 4, 6), (16, 32, 256, 1, 1, 4, 4), (16, 32, 128, 1, 1, 4, 8),
    (16, 32, 256, 2, 1, 4, 3), (16, 64, 64, 4, 2, 4, 5), (16, 64, 128, 1, 1, 4, 4),
    (16, 64, 128, 1, 1, 4, 6), (16, 64, 128, 2, 1, 4, 4), (16, 64, 128, 4, 1, 4, 4),
    (16, 64, 128, 4, 2, 4, 4), (16, 64, 256, 2, 1, 4, 4), (16, 128, 128, 4, 1, 4, 3),
    (16, 128, 128, 4, 2, 4, 3), (16, 128, 128, 8, 2, 4, 3),
)  # fmt: skip
#: Of ours alone: rows are an instruction's columns, boxes bring the weights.
SWAPPED = with_options(
    "swap_operands",
    (16, 64, 128, 1, 1, 4, 4), (16, 64, 128, 1, 1, 4, 8), (16, 64, 128, 2, 1, 4, 6),
    (16, 64, 128, 2, 2, 4, 6), (16, 64, 128, 4, 1, 4, 4), (16, 64, 256, 2, 1, 4, 4),
    (16, 128, 128, 4, 1, 4, 4),
)  # fmt: skip
_NOT_FIRST = configs(
    (16, 32, 256, 2, 1, 4, 3), (16, 64, 64, 4, 2, 4, 5), (16, 64, 128, 1, 1, 4, 6),
    (16, 64, 256, 2, 1, 4, 4), (16, 64, 128, 4, 2, 4, 4), (16, 128, 128, 4, 1, 4, 3),
    (16, 128, 128, 8, 2, 4, 3),
)  # fmt: skip
SOME = configs(
    (64, 32, 128, 1, 1, 4, 6), (64, 32, 128, 1, 1, 4, 8), (64, 64, 64, 4, 2, 4, 5),
    (64, 64, 128, 1, 1, 4, 4), (64, 64, 128, 2, 1, 4, 4), (64, 64, 128, 2, 1, 4, 6),
    (64, 64, 128, 2, 2, 4, 6), (64, 64, 128, 4, 1, 4, 4), (64, 64, 128, 8, 2, 4, 4),
    (64, 128, 64, 1, 1, 4, 4), (64, 32, 256, 1, 1, 4, 4), (64, 64, 128, 1, 1, 4, 6),
    (64, 128, 128, 4, 1, 4, 4), (64, 128, 128, 4, 1, 8, 4),
)  # fmt: skip
MORE = configs(
    (64, 128, 64, 1, 1, 4, 4), (64, 128, 64, 1, 1, 4, 6), (64, 256, 64, 1, 1, 4, 3),
    (128, 64, 64, 1, 1, 4, 6), (128, 64, 128, 1, 1, 4, 4), (128, 128, 64, 1, 1, 4, 4),
    (128, 128, 64, 2, 1, 4, 4), (128, 128, 64, 2, 2, 4, 4), (128, 128, 64, 2, 1, 8, 4),
    (128, 128, 64, 2, 2, 8, 4), (128, 256, 64, 1, 1, 8, 3), (128, 256, 64, 2, 2, 8, 3),
    (128, 256, 64, 4, 1, 8, 3), (256, 128, 64, 4, 2, 8, 3),
)  # fmt: skip
#: For blocks that take steps of several blocks: shares are programs of a multiprocessor.
SHARED_FEW = configs(
    (16, 32, 256, 2, 4, 4), (16, 64, 64, 2, 4, 5), (16, 64, 128, 1, 4, 6), (16, 64, 128, 2, 4, 3),
    (16, 64, 128, 2, 4, 4), (16, 64, 256, 1, 4, 4), (16, 64, 256, 2, 4, 3), (16, 128, 64, 2, 4, 4),
    (16, 128, 64, 2, 4, 5), (16, 128, 128, 1, 4, 4), (16, 128, 128, 2, 4, 3),
)  # fmt: skip
SHARED_SOME = configs(
    (64, 64, 64, 2, 4, 5), (64, 64, 64, 2, 4, 6), (64, 64, 128, 1, 4, 4), (64, 64, 128, 1, 4, 5),
    (64, 64, 128, 1, 4, 6), (64, 64, 128, 2, 4, 3), (64, 128, 64, 1, 4, 6), (64, 128, 64, 2, 4, 4),
    (64, 128, 128, 1, 4, 4), (64, 128, 128, 1, 8, 3), (64, 256, 64, 1, 8, 4),
)  # fmt: skip
#: Of ours alone where N is 128 times 112: a block for each of 128 multiprocessors.
OF_14336 = {
    16: (
        *configs((16, 112, 128, 1, 1, 4, 4)),
        *with_options("swap_operands", (16, 112, 128, 1, 1, 4, 4), (16, 112, 64, 1, 1, 4, 8)),
    ),
    64: configs((64, 112, 64, 1, 1, 4, 6), (64, 112, 128, 1, 1, 4, 4)),
    256: configs((128, 224, 64, 1, 1, 8, 3)),
}


def table_for(m: int, how: str = "split") -> tuple[Config, ...]:
    """Return the configurations for so many rows that any compiler takes."""
    if how == "shared":
        return SHARED_FEW if m <= 16 else SHARED_SOME
    table = FEW if m <= 16 else SOME if m <= 64 else MORE
    if how == "split":
        return table
    # There is a program for each multiprocessor: those that differ in shares alone go.
    return tuple({c._replace(blocks=(*c.blocks[:3], 1, 1)): None for c in table})


def own_table(m: int, n: int, how: str) -> tuple[Config, ...]:
    """Return the configurations of ours, whose blocks are of any extent, and operands swapped."""
    table = table_for(m, how)
    if how == "split" and m <= 16:
        table = instead(table, SWAPPED, _NOT_FIRST)
    if n == 14336 and how != "shared":
        taken = next(found for rows, found in OF_14336.items() if m <= rows)
        taken = tuple(config for config in taken if how == "split" or not config.more)
        left = [config for config in table if config.blocks[3] > 2]
        table = instead(table, taken, tuple(left[: len(taken)]))
    if m > 1:
        return table
    # Eight rows of a block are as many columns as an instruction has.
    return tuple(
        c._replace(blocks=(8, *c.blocks[1:])) if "swap_operands" in c.more else c for c in table
    )


def skinny(tensors: Tensors, m: int, k: int, n: int, how: str) -> Prepared:
    """Return C = X @ W.T; `how`: "split", "shared" or "persistent"."""
    x, w = tensors.normal(m, k, dtype=F16), tensors.normal(n, k, dtype=F16).T
    c, library = (tensors.empty(m, n, dtype=F16) for _ in "cl")
    parts = tensors.empty(2 * PROGRAMS, 256 * 128, dtype=F32)
    if how == "split":
        parts = tensors.empty(8, m, n, dtype=F32)
    #: Flags of programs that wait, counts of blocks whose shares are counted.
    flags = tensors.empty(max(2 * PROGRAMS, cdiv(n, 32) * cdiv(m, 16)), dtype=torch.int32)

    def launch(config: Config) -> Launch:
        bm, bn, bk, shares, *launches = config.blocks
        tiles = cdiv(m, bm) * cdiv(n, bn)
        named = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, **config.options}
        head = (m, n, k, *x.stride(), *w.stride())
        if how == "shared":
            return Launch(products_by_shares.stream_k_product, (shares * PROGRAMS,),
                          (x, w, c, parts, flags, *head, n), named)  # fmt: skip
        named["GROUP_M"] = 8
        if how == "persistent":
            return Launch(products.persistent_product, (min(tiles, PROGRAMS),),
                          (x, w, c, *head, *c.stride()), named)  # fmt: skip
        if shares > 1 and launches == [1]:
            return Launch(products.split_product_at_once, (tiles, shares),
                          (x, w, c, parts, flags, *head, n),
                          {"SPLIT_K": shares, **named})  # fmt: skip
        into, stride = (c, 0) if shares == 1 else (parts, m * n)
        return Launch(products.split_product, (tiles, shares),
                      (x, w, into, *head, stride, n, 1),
                      {"SPLIT_K": shares, "ATOMIC": False, **named})  # fmt: skip

    def then(config: Config) -> tuple[Launch, ...]:
        shares, *launches = config.blocks[3:]
        if how != "split" or shares == 1 or launches == [1]:
            return ()
        return (Launch(products.sum_parts, (cdiv(m * n, 512),), (parts, c, m * n),
                       {"SPLIT_K": shares, "BLOCK": 512, "num_warps": 4}),)  # fmt: skip

    def multiply() -> torch.Tensor:
        return torch.mm(x, w, out=library)

    moved = 2 * (m * k + k * n + m * n)
    # Tensor cores cut off what they add, k / 16 times one way: of k = 131072 in one chain all
    # compilers' sums, the library's too, differ by that.
    return Prepared(launch, c, multiply, (2**-9, 1e-4 * k**0.5 * (1 + k / 2**15)),
                    {"cublas": multiply, "copy": tensors.copier(moved)}, then=then)  # fmt: skip


def contests() -> Iterator[Contest]:
    """Yield all contests of few rows; the last one's K is long, as that of a gradient."""
    cases = [(m, k, n, "split") for m in ROWS for k, n in SHAPES]
    cases += [(m, 4096, 14336, how) for m in (16, 64) for how in ("shared", "persistent")]
    cases += [(64, 131072, 4096, "split")]
    for m, k, n, how in cases:
        yield Contest(
            "skinny", f"{how} {k}x{n}", F16, m,
            products_by_shares if how == "shared" else products,
            partial(skinny, m=m, k=k, n=n, how=how), own_table(m, n, how), 2 * m * k * n,
            2 * (m * k + k * n + m * n), f"skinny {how} {m} {k}x{n}", tunes=True,
            peer_configs=table_for(m, how),
        )  # fmt: skip
