"""Family 9, what is not dense: grouped products, and products whose steps are shared out.

Small integers, as in `products.py`: results are compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import torch

from tests.corpus.products import Tile, operands, wanted
from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    distinct,
    exact,
    once,
    sample,
)
from tests.kernels import grouped, products_by_shares
from workbench import cdiv, next_power_of_2

SMALL = Tile(16, 32, 16, 4, 2)
LARGE = Tile(64, 128, 64, 4, 3)


@sample(
    "grouped_product", grouped,
    fast=((((17, 24, 40), (0, 16, 16), (33, 40, 24)), 3, SMALL),),
    gpu=((((100, 200, 512), (0, 64, 64), (1, 1000, 256), (513, 136, 1024)), 132, LARGE),),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_tables(
    make: Maker, sizes: tuple[tuple[int, int, int], ...], programs: int, tile: Tile
) -> Problem:
    """N and K are multiples of 8, as the kernel promises, and so are the strides."""
    groups = [
        (make.integers(-2, 3, m, k), make.integers(-2, 3, k, n), make.output(m, n))
        for m, n, k in sizes
    ]  # fmt: skip
    tables = [
        make.tensor(torch.tensor([t.data_ptr() for t in column], dtype=torch.int64))
        for column in zip(*groups, strict=True)
    ]
    size = make.tensor(torch.tensor(sizes, dtype=torch.int32))
    strides = torch.tensor([[t.stride(0) for t in group] for group in groups], dtype=torch.int32)
    launch = Launch(
        grouped.product_of_tables, (programs,),
        (*tables, groups[0][0], size, make.tensor(strides), len(sizes)), tile._asdict(),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        for (m, n, k), (a, b, c) in zip(sizes, groups, strict=True):
            yield exact(f"c of {m}x{n}x{k}", c, wanted(a, b).to(c.dtype))

    moved = sum(once(*group) for group in groups)
    return Problem((launch,), checks, moved, flops=sum(2 * m * n * k for m, n, k in sizes))


@sample(
    "grouped_product", grouped, fast=(((17, 0, 33, 1), 40, 40, 3, "n", SMALL),),
    slow=(((0, 0), 20, 24, 2, "t", SMALL),),
    gpu=(((100, 0, 37, 1024, 1), 264, 512, 132, "n", LARGE),
         ((5,) * 64, 512, 1000, 132, "t", Tile(16, 128, 64, 4, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_tickets(
    make: Maker, rows: tuple[int, ...], n: int, k: int, programs: int, order: str, tile: Tile
) -> Problem:
    """Without programs one for each block."""
    x = make.integers(-2, 3, sum(rows), k)
    shape = (k, n) if order == "n" else (n, k)
    w = make.integers(-2, 3, len(rows), *shape)
    w = w if order == "n" else w.mT
    c = make.output(sum(rows), n)
    first = [0, *accumulate(rows)]
    starts = make.tensor(torch.tensor(first, dtype=torch.int32))
    tickets = make.output(2, dtype=torch.int32, fill=0)
    sizes = (len(rows), n, k, x.stride(0), *w.stride(), c.stride(0))
    if programs:
        launch = Launch(
            grouped.ragged_product, (programs,), (x, w, c, starts, tickets, *sizes),
            {"GROUPS": next_power_of_2(len(rows)), **tile._asdict()},
        )  # fmt: skip
    else:
        grid = cdiv(n, tile.BLOCK_N), sum(rows) // tile.BLOCK_M + len(rows)
        launch = Launch(grouped.ragged_blocks, grid, (x, w, c, starts, *sizes), tile._asdict())

    def checks() -> Iterator[Check]:
        for g, (low, high) in enumerate(pairwise(first)):
            yield exact(f"group {g}", c[low:high], wanted(x[low:high], w[g]).to(c.dtype))
        yield exact("tickets", tickets, torch.zeros_like(tickets))

    with_rows = torch.tensor([g for g, count in enumerate(rows) if count], device=make.device)
    weights = distinct(with_rows, len(rows)) * once(w[0])
    return Problem((launch,), checks, once(x, c, starts) + weights,
                   flops=2 * sum(rows) * n * k, scratch=(tickets,))  # fmt: skip


@sample(
    "grouped_product", grouped, fast=(((17, 0, 33, 1), 40, 40, "n", SMALL),),
    slow=(((0, 0), 20, 24, "t", SMALL),),
    gpu=(((100, 0, 37, 1024, 1), 264, 512, "n", LARGE),
         ((100, 0, 300, 1024, 129), 264, 576, "n", Tile(128, 256, 64, 8, 3)),
         ((5,) * 64, 512, 1000, "t", Tile(16, 128, 64, 4, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_blocks(
    make: Maker, rows: tuple[int, ...], n: int, k: int, order: str, tile: Tile
) -> Problem:  # fmt: skip
    return by_tickets(make, rows, n, k, 0, order, tile)


@sample(
    "grouped_product", products_by_shares, fast=((40, 50, 70, 5, SMALL),),
    slow=((16, 20, 100, 3, SMALL), (5, 7, 9, 4, SMALL)),
    gpu=((257, 512, 1000, 132, LARGE), (16, 256, 8192, 132, Tile(16, 64, 128, 4, 4))),
    dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def by_shares(make: Maker, m: int, n: int, k: int, programs: int, tile: Tile) -> Problem:
    a, b = operands(make, m, n, k, "nt")
    c = make.output(m, n)
    parts = make.output(programs, tile.BLOCK_M, tile.BLOCK_N, dtype=F32)
    flags = make.output(programs, dtype=torch.int32, fill=0)
    launch = Launch(
        products_by_shares.stream_k_product, (programs,),
        (a, b, c, parts, flags, m, n, k, *a.stride(), *b.stride(), c.stride(0)), tile._asdict(),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        yield exact("c", c, wanted(a, b).to(c.dtype))
        yield exact("flags", flags, torch.zeros_like(flags))

    return Problem((launch,), checks, once(a, b, c), flops=2 * m * n * k, scratch=(parts, flags))
