"""Family 5 and what of family 9 is dense: matrix products.

Small integers, so that every sum is exact in fp32 and any order of adding gives the same: results
are compared bit for bit, rounded once to the type of C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import workbench.language as tl
from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    exact,
    once,
    sample,
)
from tests.kernels import matmul as tutorial
from tests.kernels import products, products_by_blocks
from tests.kernels.matmul import matmul
from workbench import cdiv
from workbench.triton.tools.tensor_descriptor import TensorDescriptor

I8, E4M3, E5M2 = torch.int8, torch.float8_e4m3fn, torch.float8_e5m2
LAYOUTS = ("contiguous", "shifted", "padded", "strided")


class Tile(NamedTuple):
    """Extents of a block, warps and stages, as a launch names them."""

    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    num_warps: int
    num_stages: int

    def __str__(self) -> str:
        return f"{self[0]}x{self[1]}x{self[2]}w{self[3]}s{self[4]}"


def operands(
    make: Maker, m: int, n: int, k: int, kind: str, most: int = 4, batches: tuple[int, ...] = ()
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B of small integers; `kind` says which is stored transposed, e.g. "nt"."""
    a = make.integers(-most, most + 1, *batches, *((m, k) if kind[0] == "n" else (k, m)))
    b = make.integers(-most, most + 1, *batches, *((k, n) if kind[1] == "n" else (n, k)))
    return a if kind[0] == "n" else a.mT, b if kind[1] == "n" else b.mT


def wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return A @ B in float64."""
    return a.double() @ b.double()


def blocks(tile: Tile, *, group: int | None = 3) -> dict[str, Any]:
    """Return what a launch gets for a tile."""
    found: dict[str, Any] = tile._asdict()
    return found if group is None else {**found, "GROUP_M": group}


def fitted(make: Maker, tile: Tile) -> Tile:
    """Return a tile with as many bytes along K as 16-bit types have, where that is much."""
    wide = make.dtype == F32 and tile.BLOCK_K >= 64
    return tile._replace(BLOCK_K=tile.BLOCK_K // 2) if wide else tile


def tiles(m: int, n: int, tile: Tile) -> int:
    """Return how many programs have a block of C."""
    return cdiv(m, tile[0]) * cdiv(n, tile[1])


def product_of(
    make: Maker, kernel: Callable[..., Any], m: int, n: int, k: int, kind: str, tile: Tile,
    out: torch.dtype | None = None, programs: int | None = None, **named: Any,
) -> Problem:  # fmt: skip
    """Return the problem of a kernel that has the arguments of the tutorials' product."""
    tile = fitted(make, tile)
    a, b = operands(make, m, n, k, kind)
    c = make.output(m, n, dtype=out)
    launch = Launch(
        kernel, (programs or tiles(m, n, tile),),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), {**blocks(tile), **named},
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, b).to(c.dtype))], once(a, b, c),
                   flops=2 * m * n * k)  # fmt: skip


SMALL = Tile(32, 32, 16, 4, 2)
#: Sizes that no block divides, rows and columns that begin at odd addresses, a K of one.
ODD = (257, 511, 129)
RAGGED = ((1, 17, 31), (130, 70, 1), (64, 160, 500))
LARGE = Tile(128, 128, 64, 4, 3)


@sample(
    "product", tutorial, fast=((37, 40, 50, "nn", SMALL),), slow=((33, 17, 24, "tt", SMALL),),
    gpu=(
        *((*ODD, kind, LARGE) for kind in ("nn", "nt", "tn", "tt")),
        (256, 512, 192, "nt", Tile(128, 256, 64, 8, 3)),
        (512, 256, 4096, "tn", Tile(64, 64, 64, 4, 5)),
        *((*size, "nt", Tile(64, 128, 32, 4, 4)) for size in RAGGED),
    ),
    dtypes=(F16, BF16, F32), layouts=LAYOUTS,
)  # fmt: skip
def wrapped(make: Maker, m: int, n: int, k: int, kind: str, tile: Tile) -> Problem:
    """The tutorials' form: rows and columns beyond the end wrap around."""
    return product_of(make, matmul, m, n, k, kind, tile)


@sample(
    "product", tutorial, fast=((20, 50, 40, Tile(16, 96, 16, 4, 2)),),
    gpu=((300, 400, 200, Tile(64, 160, 64, 4, 3)), (300, 500, 200, Tile(128, 192, 64, 4, 3)),
         (300, 500, 200, Tile(128, 224, 64, 8, 2)), (400, 300, 136, Tile(192, 128, 64, 8, 3)),
         (400, 304, 136, Tile(64, 144, 64, 4, 3)), (400, 304, 136, Tile(128, 80, 64, 8, 3)),
         (400, 400, 136, Tile(176, 192, 32, 8, 4))),
    dtypes=(F16, F32), layouts=("contiguous",),
)  # fmt: skip
def wide_blocks(make: Maker, m: int, n: int, k: int, tile: Tile) -> Problem:
    """Extents that are no powers of two."""
    return product_of(make, matmul, m, n, k, "nn", tile)


@sample(
    "product", products, fast=((40, 20, 70, "nt", Tile(32, 16, 32, 4, 2)),),
    gpu=(
        *((272, 528, 144, kind, Tile(128, 128, 128, 4, 3)) for kind in ("nn", "nt", "tn", "tt")),
        *((*ODD, kind, Tile(64, 64, 64, 4, 3)) for kind in ("nn", "tt")),
        (256, 256, 1024, "nt", Tile(128, 256, 128, 8, 3)),
    ),
    dtypes=(E4M3, E5M2), layouts=("contiguous",),
)  # fmt: skip
def in_8_bits(make: Maker, m: int, n: int, k: int, kind: str, tile: Tile) -> Problem:
    """Sums of some hundred small integers are exact in the tensor cores' short accumulator too."""
    return product_of(make, products.product_fp8, m, n, k, kind, tile, F32)


@sample(
    "product", products, fast=((18, 20, 70, Tile(16, 16, 32, 4, 2)),),
    gpu=((257, 512, 1008, Tile(128, 128, 128, 4, 3)), (256, 256, 8192, Tile(64, 256, 128, 4, 3))),
    dtypes=(E4M3,), layouts=("contiguous",),
)  # fmt: skip
def in_8_bits_precisely(make: Maker, m: int, n: int, k: int, tile: Tile) -> Problem:
    """Sums go to fp32 after every block along K."""
    limit = min(tile[2], 128)
    return product_of(make, products.product_fp8, m, n, k, "nt", tile, F32, IMPRECISE=limit)


@sample(
    "product", products, fast=((40, 20, 70, "nt", Tile(32, 16, 32, 4, 2)),),
    gpu=(
        *((272, 528, 144, kind, Tile(128, 128, 128, 4, 3)) for kind in ("nn", "nt", "tn", "tt")),
        *((*ODD, kind, Tile(64, 64, 64, 4, 3)) for kind in ("nn", "tt")),
        (256, 256, 8192, "nt", Tile(128, 256, 128, 8, 3)),
    ),
    dtypes=(I8,), layouts=("contiguous",),
)  # fmt: skip
def of_integers(make: Maker, m: int, n: int, k: int, kind: str, tile: Tile) -> Problem:
    a, b = operands(make, m, n, k, kind, most=127)
    c = make.output(m, n, dtype=torch.int32)
    launch = Launch(
        products.product_int8, (tiles(m, n, tile),),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), blocks(tile),
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, b).to(torch.int32))],
                   once(a, b, c), flops=2 * m * n * k)  # fmt: skip


@sample(
    "product", products, fast=((19, 20, 21, SMALL),),
    gpu=((257, 200, 129, Tile(64, 64, 32, 4, 2)),),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def widened(make: Maker, m: int, n: int, k: int, tile: Tile) -> Problem:
    return product_of(make, products.product_widened, m, n, k, "nn", tile, F32)


def _batched(
    make: Maker, batches: int, m: int, n: int, k: int, kind: str, tile: Tile, acc: Any,
    precision: str | None, out: torch.dtype | None = None,
) -> tuple[Problem, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    tile = fitted(make, tile)
    a, b = operands(make, m, n, k, kind, 2 if acc is tl.float16 else 4, (batches,))
    c = make.output(batches, m, n, dtype=out)
    named = {"EVEN_K": k % tile[2] == 0, "ACC": acc, "PRECISION": precision}
    launch = Launch(
        products.batched_product, (tiles(m, n, tile), batches),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), {**blocks(tile), **named},
    )  # fmt: skip
    problem = Problem((launch,), lambda: [exact("c", c, wanted(a, b).to(c.dtype))], once(a, b, c),
                      flops=2 * batches * m * n * k)  # fmt: skip
    return problem, a, b, c


@sample(
    "product", products, fast=((2, 37, 40, 48, "nt", SMALL),), slow=((1, 20, 20, 50, "tn", SMALL),),
    gpu=((3, *ODD, "nn", LARGE), (5, 128, 136, 256, "tt", LARGE), (2, 5, 7, 3, "nt", LARGE),
         (2, 129, 65, 64, "nt", Tile(64, 64, 64, 4, 3))),
    dtypes=(F16, BF16, F32), layouts=("contiguous", "padded"),
)  # fmt: skip
def batched(
    make: Maker, batches: int, m: int, n: int, k: int, kind: str, tile: Tile
) -> Problem:  # fmt: skip
    """Masks at all edges, none along K where blocks divide it."""
    return _batched(make, batches, m, n, k, kind, tile, tl.float32, None)[0]


@sample(
    "product", products, fast=((1, 33, 20, 40, "nn", SMALL),),
    gpu=((2, 100, 136, 200, "nt", LARGE), (1, 256, 256, 128, "nn", Tile(128, 128, 32, 8, 3))),
    dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def summed_in_fp16(
    make: Maker, batches: int, m: int, n: int, k: int, kind: str, tile: Tile
) -> Problem:
    """Sums stay below 2048, so that fp16 holds them."""
    return _batched(make, batches, m, n, k, kind, tile, tl.float16, None)[0]


@sample(
    "product", products, fast=((1, 20, 18, 40, "ieee", SMALL), (1, 18, 20, 33, "tf32x3", SMALL)),
    gpu=((2, 100, 72, 200, "ieee", Tile(64, 64, 32, 4, 2)), (2, 100, 72, 200, "tf32x3", LARGE),
         (2, 200, 136, 1000, "tf32", LARGE)),
    dtypes=(F32,), layouts=("contiguous",),
)  # fmt: skip
def in_fp32(
    make: Maker, batches: int, m: int, n: int, k: int, precision: str, tile: Tile
) -> Problem:
    """Random numbers: what the precision promises is kept."""
    a, b = make.normal(batches, m, k), make.normal(batches, k, n)
    c = make.output(batches, m, n)
    named = {"EVEN_K": k % tile[2] == 0, "ACC": tl.float32, "PRECISION": precision}
    launch = Launch(
        products.batched_product, (tiles(m, n, tile), batches),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), {**blocks(tile), **named},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        size = a.double().abs() @ b.double().abs()
        if precision == "tf32":  # both operands are rounded, or cut, to 11 bits
            yield Check("c", c, wanted(a, b), 2**-9 * size)
        else:
            yield close("c", c, wanted(a, b), size, terms=4 * k)

    return Problem((launch,), checks, once(a, b, c), flops=2 * batches * m * n * k)


@sample(
    "product", products,
    fast=((20, 40, 33, "bias relu residual", SMALL), (33, 20, 40, "scales leaky rectified", SMALL)),
    gpu=((*ODD, "bias leaky", LARGE), (*ODD, "bias relu residual", Tile(128, 256, 64, 8, 3)),
         (*ODD, "scales", LARGE), (256, 256, 200, "scales residual rectified", LARGE)),
    dtypes=(F16, BF16), layouts=("contiguous", "shifted"),
)  # fmt: skip
def fused(make: Maker, m: int, n: int, k: int, what: str, tile: Tile) -> Problem:
    """Everything is a small integer or a power of two, and exact."""
    words = what.split()
    a, b = operands(make, m, n, k, "nt", 2)
    c = make.output(m, n, dtype=F32)
    bias = make.integers(-8, 9, n) if "bias" in words else None
    residual = make.integers(-8, 9, m, n) if "residual" in words else None
    rows, columns = None, None
    if "scales" in words:
        rows, columns = (make.tensor(2.0 ** make.integers(-2, 3, e, dtype=F32)) for e in (m, n))
    activation = {"relu": products.relu, "leaky": products.leaky_relu}
    chosen = next((activation[word] for word in words if word in activation), None)
    rectified = "rectified" in words
    launch = Launch(
        products.fused_product, (tiles(m, n, tile),),
        (a, b, c, bias, residual, rows, columns, m, n, k, 0.5, *a.stride(), *b.stride(),
         *c.stride()),
        {**blocks(tile), "ACTIVATION": chosen and _jit(chosen), "RECTIFIED": rectified,
         "EVEN": m % tile[0] == 0 == n % tile[1]},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        left = a.double().clamp(min=0) ** 2 if rectified else a.double()
        want = 0.5 * (left @ b.double())
        if rows is not None and columns is not None:
            want = want * rows.double()[:, None] * columns.double()[None, :]
        if bias is not None:
            want = want + bias.double()
        if "relu" in words:
            want = want.clamp(min=0)
        if "leaky" in words:
            want = torch.where(want >= 0, want, 0.25 * want)
        if residual is not None:
            want = want + residual.double()
        yield exact("c", c, want)

    used = [x for x in (a, b, c, bias, residual, rows, columns) if x is not None]
    return Problem((launch,), checks, once(*used), flops=2 * m * n * k)


def _jit(function: Callable[..., Any]) -> Any:
    from tests.corpus.sample import jitted

    return jitted(function)


@sample(
    "product", products, fast=((20, 40, 70, 16, Tile(16, 32, 16, 4, 2)),),
    gpu=((130, 500, 384, 128, Tile(128, 128, 128, 4, 3)),
         (17, 257, 1000, 128, Tile(64, 128, 128, 4, 3))),
    dtypes=(E4M3, E5M2), layouts=("contiguous",),
)  # fmt: skip
def block_scaled(make: Maker, m: int, n: int, k: int, scaled: int, tile: Tile) -> Problem:
    """Scales are powers of two, so that sums are exact."""
    a, b = operands(make, m, n, k, "nt", 2)
    c = make.output(m, n, dtype=F32)
    groups = cdiv(k, scaled)
    rows = make.tensor(2.0 ** make.integers(-1, 2, m, groups, dtype=F32))
    columns = make.tensor(2.0 ** make.integers(-1, 2, groups, cdiv(n, scaled), dtype=F32))
    launch = Launch(
        products.block_scaled_product, (tiles(m, n, tile),),
        (a, b, c, rows, columns, m, n, k, scaled, scaled, *a.stride(), *b.stride(), *c.stride(),
         *rows.stride(), *columns.stride()),
        blocks(tile),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        left = a.double() * rows.double().repeat_interleave(scaled, 1)[:, :k]
        right = (
            b.double()
            * columns.double().repeat_interleave(scaled, 0)[:k].repeat_interleave(scaled, 1)[:, :n]
        )
        yield exact("c", c, left @ right)

    return Problem((launch,), checks, once(a, b, c, rows, columns), flops=2 * m * n * k)


@sample(
    "product", products, fast=((70, 50, 33, 2, SMALL),),
    gpu=((*ODD, 5, LARGE), (600, 700, 200, 132, Tile(128, 64, 64, 4, 3)), (100, 90, 64, 7, LARGE)),
    dtypes=(F16, F32), layouts=("contiguous", "shifted"),
)  # fmt: skip
def persistent(make: Maker, m: int, n: int, k: int, programs: int, tile: Tile) -> Problem:
    kernel = products.persistent_product
    return product_of(make, kernel, m, n, k, "nn", tile, programs=programs)


@sample(
    "product", products,
    fast=(*((20, 40, 90, 3, how, SMALL) for how in ("atomics", "at once")),
          (20, 40, 90, 2, "parts", SMALL)),
    gpu=((100, 200, 4000, 8, "atomics", Tile(64, 64, 64, 4, 3)),
         *((17, 257, 8191, 4, how, LARGE) for how in ("parts", "at once"))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def split(make: Maker, m: int, n: int, k: int, shares: int, how: str, tile: Tile) -> Problem:
    """Integers: atomics give the same bits in any order."""
    a, b = operands(make, m, n, k, "nt")
    atomic = how == "atomics"
    c = make.output(m, n, dtype=F32, fill=0.0)
    parts = c[None] if atomic else make.output(shares, m, n, dtype=F32)
    if how == "at once":
        count = make.output(tiles(m, n, tile), dtype=torch.int32, fill=0)
        launch = Launch(
            products.split_product_at_once,
            (tiles(m, n, tile), shares),
            (a, b, c, parts, count, m, n, k, *a.stride(), *b.stride(), c.stride(0)),
            {**blocks(tile), "SPLIT_K": shares},
        )
        return Problem((launch,), lambda: [exact("c", c, wanted(a, b))], once(a, b, c),
                       flops=2 * m * n * k, scratch=(parts, count))  # fmt: skip
    launches = [Launch(
        products.split_product, (tiles(m, n, tile), shares),
        (a, b, parts, m, n, k, *a.stride(), *b.stride(), *parts.stride()),
        {**blocks(tile), "SPLIT_K": shares, "ATOMIC": atomic},
    )]  # fmt: skip
    if not atomic:
        launches.append(Launch(products.sum_parts, (cdiv(m * n, 256),), (parts, c, m * n),
                               {"SPLIT_K": shares, "BLOCK": 256}))  # fmt: skip
    return Problem(tuple(launches), lambda: [exact("c", c, wanted(a, b))], once(a, b, c),
                   flops=2 * m * n * k, scratch=() if atomic else (parts,))  # fmt: skip


@sample(
    "product", products, fast=((3, 70, 40, Tile(16, 64, 32, 4, 2)),),
    gpu=((1, 1000, 512, Tile(16, 64, 128, 4, 4)), (17, 4096, 1000, Tile(32, 64, 64, 4, 3)),
         (8, 513, 129, Tile(8, 128, 64, 4, 3))),
    dtypes=(F16, BF16, F32), layouts=("contiguous", "shifted"),
)  # fmt: skip
def few_rows(make: Maker, m: int, n: int, k: int, tile: Tile) -> Problem:
    tile = fitted(make, tile)
    a, b = operands(make, m, n, k, "nt")
    c = make.output(m, n)
    launch = Launch(
        products.transposed_product, (cdiv(n, tile[1]), cdiv(m, tile[0])),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), blocks(tile, group=None),
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, b).to(c.dtype))], once(a, b, c),
                   flops=2 * m * n * k)  # fmt: skip


@sample(
    "product", products_by_blocks, fast=((37, 40, 50, "nt", SMALL),),
    gpu=(*((*ODD, kind, LARGE) for kind in ("nn", "nt", "tn", "tt")),
         (256, 512, 192, "nn", Tile(128, 256, 64, 8, 3))),
    dtypes=(F16, BF16, F32), layouts=("contiguous", "shifted", "strided"),
)  # fmt: skip
def by_block_pointers(make: Maker, m: int, n: int, k: int, kind: str, tile: Tile) -> Problem:
    tile = fitted(make, tile)
    a, b = operands(make, m, n, k, kind)
    c = make.output(m, n)
    launch = Launch(
        products_by_blocks.block_pointer_product, (cdiv(m, tile[0]), cdiv(n, tile[1])),
        (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()), blocks(tile, group=None),
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, b).to(c.dtype))], once(a, b, c),
                   flops=2 * m * n * k)  # fmt: skip


@sample(
    "product", products_by_blocks, fast=((40, 48, 56, SMALL),),
    gpu=((256, 512, 192, Tile(128, 256, 64, 8, 3)), (264, 520, 136, LARGE), (8, 1000, 4096, LARGE)),
    dtypes=(F16, BF16, F32), layouts=("contiguous",),
)  # fmt: skip
def by_descriptors(make: Maker, m: int, n: int, k: int, tile: Tile) -> Problem:
    """Descriptors of the host."""
    tile = fitted(make, tile)
    a, w = operands(make, m, n, k, "nn")[0], make.integers(-4, 5, n, k)
    c = make.output(m, n)
    bm, bn, bk = tile[:3]
    descriptors = (
        TensorDescriptor.from_tensor(a, [bm, bk]),
        TensorDescriptor.from_tensor(w, [bn, bk]),
        TensorDescriptor.from_tensor(c, [bm, bn]),
    )
    launch = Launch(products_by_blocks.descriptor_product, (tiles(m, n, tile),),
                    (*descriptors, m, n, k), blocks(tile))  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, w.mT).to(c.dtype))], once(a, w, c),
                   flops=2 * m * n * k)  # fmt: skip


@sample(
    "product", products_by_blocks, fast=((70, 48, 56, 2, True, SMALL),),
    gpu=((264, 520, 136, 7, False, LARGE), (1000, 1000, 512, 132, True, Tile(128, 256, 64, 8, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_device_descriptors(
    make: Maker, m: int, n: int, k: int, programs: int, halves: bool, tile: Tile
) -> Problem:
    a, w = operands(make, m, n, k, "nn")[0], make.integers(-4, 5, n, k)
    c = make.output(m, n)
    launch = Launch(
        products_by_blocks.device_descriptor_product, (programs,),
        (a, w, c, m, n, k, a.stride(0), w.stride(0), c.stride(0)),
        {**blocks(tile), "HALVES": halves},
    )  # fmt: skip
    return Problem((launch,), lambda: [exact("c", c, wanted(a, w.mT).to(c.dtype))], once(a, w, c),
                   flops=2 * m * n * k)  # fmt: skip
