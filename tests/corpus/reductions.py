"""Family 6, first half: reductions of rows, columns and everything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.corpus.sample import F32, Check, Launch, Maker, Problem, close, exact, once, sample
from tests.kernels import reductions
from workbench import cdiv, next_power_of_2

ROWS = ("contiguous", "shifted", "padded")
LENGTHS = ((1,), (5000,))
LONG = ((2**20 - 1,), (2**20 + 1,))
INTEGERS = (torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool)


@sample("reductions", reductions, fast=LENGTHS, slow=((1025,),), gpu=LONG,
        bench=((1 << 24,), (1 << 28,)))  # fmt: skip
def two_stage_sum(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(1, dtype=F32)
    block = 256 if n < 2**16 else 8192
    partial = make.output(cdiv(n, block), dtype=F32)
    launches = (
        Launch(reductions.block_sums, (cdiv(n, block),), (x, partial, n),
               {"BLOCK": block, "num_warps": 8 if block > 1024 else 4}),
        Launch(reductions.last_sum, (1,), (partial, out, cdiv(n, block)),
               {"BLOCK": 1024, "num_warps": 4}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("sum", out, x.double().sum()[None], x.double().abs().sum(), n)

    return Problem(launches, checks, once(x, out), lambda: x.sum(dtype=F32), scratch=(partial,))


@sample("reductions", reductions, fast=LENGTHS, gpu=LONG, bench=((1 << 24,),), repeatable=False)
def atomic_sum(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(1, dtype=F32, fill=0)
    block = 1024 if n < 2**20 else 8192
    launch = Launch(reductions.atomic_sum, (cdiv(n, block),), (x, out, n),
                    {"BLOCK": block, "num_warps": 8})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("sum", out, x.double().sum()[None], x.double().abs().sum(), n)

    return Problem((launch,), checks, once(x, out, out), lambda: x.sum(dtype=F32))


@sample("reductions", reductions, fast=LENGTHS, gpu=LONG, dtypes=INTEGERS,
        bench=((1 << 26,),), bench_dtypes=(torch.int8,))  # fmt: skip
def integer_sum(make: Maker, n: int) -> Problem:
    low = 0 if make.dtype in (torch.uint8, torch.bool) else -100
    x = make.integers(low, 2 if make.dtype == torch.bool else 101, n)
    out = make.output(1, dtype=torch.int64, fill=0)
    launch = Launch(reductions.integer_sum, (cdiv(n, 4096),), (x, out, n),
                    {"BLOCK": 4096, "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [exact("sum", out, x.long().sum()[None])],
                   once(x, out, out),
                   lambda: x.sum())  # fmt: skip


@sample("reductions", reductions, fast=((3, 1), (4, 1000)), slow=((2, 33), (1, 1024)),
        gpu=((7, 100003),), bench=((4096, 16384),), layouts=ROWS)  # fmt: skip
def long_row_sum(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, dtype=F32)
    launch = Launch(reductions.long_row_sum, (rows,), (x, out, x.stride(0), columns),
                    {"BLOCK": 256 if columns < 4096 else 2048, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("sum", out, x.double().sum(1), x.double().abs().sum(1), columns)

    return Problem((launch,), checks, once(x, out), lambda: x.sum(1, dtype=F32))


@sample("reductions", reductions, fast=((1, 3), (100, 65)), slow=((64, 64), (33, 1)),
        gpu=((5000, 1000),), bench=((16384, 4096),), layouts=ROWS)  # fmt: skip
def column_sum(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(columns, dtype=F32)
    launch = Launch(
        reductions.column_sum,
        (cdiv(columns, 32),),
        (x, out, rows, columns, x.stride(0)),
        {"ROWS": 32 if rows < 1000 else 128, "COLS": 32, "num_warps": 4},
    )

    def checks() -> Iterator[Check]:
        yield close("sum", out, x.double().sum(0), x.double().abs().sum(0), rows)

    return Problem((launch,), checks, once(x, out), lambda: x.sum(0, dtype=F32))


@sample("reductions", reductions, fast=((2, 3, 5), (3, 7, 40)), slow=((1, 16, 32),),
        gpu=((5, 60, 1000),), bench=((256, 64, 4096),))  # fmt: skip
def middle_max(make: Maker, outer: int, middle: int, inner: int) -> Problem:
    x, out = make.normal(outer, middle, inner), make.output(outer, inner)
    launch = Launch(reductions.middle_max, (outer, cdiv(inner, 64)), (x, out, middle, inner),
                    {"MIDDLE": next_power_of_2(middle), "INNER": 64, "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [exact("max", out, x.amax(1))], once(x, out),
                   lambda: x.amax(1))  # fmt: skip


@sample("reductions", reductions, fast=((2, 1), (3, 1000)), slow=((2, 255), (1, 256)),
        gpu=((7, 100003),), bench=((4096, 16384),), layouts=ROWS)  # fmt: skip
def row_variance(make: Maker, rows: int, columns: int) -> Problem:
    x, mean, var = (
        make.normal(rows, columns),
        make.output(rows, dtype=F32),
        make.output(rows, dtype=F32),
    )
    launch = Launch(reductions.row_variance, (rows,), (x, mean, var, x.stride(0), columns),
                    {"BLOCK": 256 if columns < 4096 else 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        a = x.double()
        yield close("mean", mean, a.mean(1), a.abs().mean(1), columns)
        yield close("variance", var, a.var(1, unbiased=False), a.square().mean(1), columns)

    return Problem((launch,), checks, once(x, mean, var), lambda: torch.var_mean(x, 1))


def _first_largest(x: torch.Tensor) -> torch.Tensor:
    """Return the places of the first maxima: torch does not promise them, NumPy does."""
    return torch.from_numpy(np.argmax(x.float().cpu().numpy(), axis=1)).to(x.device)


@sample("reductions", reductions, fast=((2, 1), (3, 1000)), slow=((2, 33),), gpu=((7, 100003),),
        bench=((4096, 16384),), layouts=ROWS)  # fmt: skip
def row_max_index(make: Maker, rows: int, columns: int) -> Problem:
    x = make.integers(-8, 9, rows, columns)  # many equal ones
    value, index = make.output(rows, dtype=F32), make.output(rows, dtype=torch.int32)
    launch = Launch(reductions.row_max_index, (rows,), (x, value, index, x.stride(0), columns),
                    {"BLOCK": 256 if columns < 4096 else 2048, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield exact("value", value, x.amax(1))
        yield exact("index", index, _first_largest(x))

    return Problem((launch,), checks, once(x, value, index), lambda: x.max(1))


@sample("reductions", reductions, fast=((2, 1), (3, 100)), slow=((2, 1025),), gpu=((7, 4096),),
        bench=((16384, 2048),))  # fmt: skip
def row_argmax_by_pairs(make: Maker, rows: int, columns: int) -> Problem:
    x, index = make.integers(-8, 9, rows, columns), make.output(rows, dtype=torch.int64)
    launch = Launch(reductions.row_argmax_by_pairs, (rows,), (x, index, x.stride(0), columns),
                    {"BLOCK": next_power_of_2(columns), "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [exact("index", index, _first_largest(x))],
                   once(x, index),
                   lambda: x.argmax(1))  # fmt: skip


@sample("reductions", reductions, fast=((4, 3), (5, 100)), gpu=((9, 4096),))
def any_all(make: Maker, rows: int, columns: int) -> Problem:
    x = make.integers(0, 2, rows, columns)
    x[0], x[1] = 0, 1
    some, every = (make.output(rows, dtype=torch.int8) for _ in range(2))
    launch = Launch(reductions.any_all, (rows,), (x, some, every, x.stride(0), columns),
                    {"BLOCK": next_power_of_2(columns)})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield exact("any", some, x.any(1))
        yield exact("all", every, x.all(1))

    return Problem((launch,), checks)
