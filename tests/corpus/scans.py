"""Family 6, second half: scans and histograms."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from tests.corpus.sample import (
    F32,
    HALVES,
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
from tests.kernels import scans
from workbench import cdiv, next_power_of_2

ROWS = ("contiguous", "shifted", "padded")
SIZES = ((2, 1), (3, 100))
MORE = ((1, 128), (2, 1025))
BENCH = ((16384, 2048),)


def _by_row(
    make: Maker,
    kernel: Callable,
    x: torch.Tensor,
    more: tuple[torch.Tensor, ...],
    checks: Callable[[torch.Tensor], Iterator[Check]],
    named: dict[str, bool],
    torch_call: Callable[[], object],
) -> Problem:
    rows, columns = x.shape
    out = make.output(rows, columns, dtype=F32)
    block = next_power_of_2(columns)
    warps = min(max(block // 256, 1), 8)
    launch = Launch(kernel, (rows,), (x, out, *more, x.stride(0), columns),
                    {**named, "BLOCK": block, "num_warps": warps})  # fmt: skip
    return Problem((launch,), lambda: checks(out), once(x, out, *more), torch_call)


@sample(
    "scans", scans,
    fast=((2, 1, False), (3, 100, True)),
    slow=((1, 128, True), (2, 1025, False)),
    gpu=((5, 4096, False), (5, 4001, True)),
    bench=((16384, 2048, False), (16384, 2048, True)),
    layouts=ROWS,
)  # fmt: skip
def row_cumsum(make: Maker, rows: int, columns: int, reverse: bool) -> Problem:
    x = make.normal(rows, columns)

    def checks(out: torch.Tensor) -> Iterator[Check]:
        def summed(values: torch.Tensor) -> torch.Tensor:
            return values.flip(1).cumsum(1).flip(1) if reverse else values.cumsum(1)

        yield close("out", out, summed(x.double()), summed(x.double().abs()), columns)

    return _by_row(make, scans.row_cumsum, x, (), checks, {"REVERSE": reverse},
                   lambda: x.cumsum(1, dtype=F32))  # fmt: skip


@sample("scans", scans, fast=((2, 1), (3, 1000)), slow=((1, 128),), gpu=((5, 100003),),
        bench=((4096, 16384),), layouts=ROWS)  # fmt: skip
def long_cumsum(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns, dtype=F32)
    launch = Launch(scans.long_cumsum, (rows,), (x, out, x.stride(0), columns),
                    {"BLOCK": 128 if columns < 2048 else 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("out", out, x.double().cumsum(1), x.double().abs().cumsum(1), columns)

    return Problem((launch,), checks, x.nbytes + out.nbytes, lambda: x.cumsum(1, dtype=F32))


@sample("scans", scans, fast=((3, 5), (60, 33)), slow=((1, 1),), gpu=((100, 1000),),
        bench=((128, 1 << 18),))  # fmt: skip
def column_cumsum(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns, dtype=F32)
    launch = Launch(scans.column_cumsum, (cdiv(columns, 32),), (x, out, rows, columns),
                    {"ROWS": next_power_of_2(rows), "COLS": 32, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("out", out, x.double().cumsum(0), x.double().abs().cumsum(0), rows)

    return Problem((launch,), checks, x.nbytes + out.nbytes, lambda: x.cumsum(0, dtype=F32))


@sample("scans", scans, fast=SIZES, slow=MORE, gpu=((5, 3000),), bench=BENCH)
def row_cumprod(make: Maker, rows: int, columns: int) -> Problem:
    x = make.tensor((1 + make.normal(rows, columns, scale=0.02).float()).to(make.dtype))

    def checks(out: torch.Tensor) -> Iterator[Check]:
        yield close("out", out, x.double().cumprod(1), columns * x.double().cumprod(1).abs(), 1)

    return _by_row(make, scans.row_cumprod, x, (), checks, {},
                   lambda: x.cumprod(1, dtype=F32))  # fmt: skip


@sample(
    "scans", scans, fast=SIZES, slow=MORE, gpu=((5, 3000),), bench=BENCH, layouts=("contiguous",)
)
def row_cummax(make: Maker, rows: int, columns: int) -> Problem:
    x = make.integers(-8, 9, rows, columns)
    places = make.output(rows, columns, dtype=torch.int32)

    def checks(out: torch.Tensor) -> Iterator[Check]:
        values = x.float().cummax(1).values
        cols = torch.arange(columns, device=x.device).expand_as(x)
        yield exact("values", out, values)
        yield exact("places", places, torch.where(x == values, cols, 0).cummax(1).values)

    return _by_row(make, scans.row_cummax, x, (places,), checks, {},
                   lambda: x.cummax(1))  # fmt: skip


@sample("scans", scans, fast=SIZES, slow=MORE, gpu=((5, 3000),), bench=BENCH)
def linear_recurrence(make: Maker, rows: int, columns: int) -> Problem:
    gate, x, out = (
        make.uniform(rows, columns),
        make.normal(rows, columns),
        make.output(rows, columns, dtype=F32),
    )
    block = next_power_of_2(columns)
    launch = Launch(scans.linear_recurrence, (rows,), (gate, x, out, x.stride(0), columns),
                    {"BLOCK": block, "num_warps": min(max(block // 256, 1), 8)})  # fmt: skip

    def run(gates: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        state, states = torch.zeros_like(values[:, 0]), []
        for t in range(columns):
            state = gates[:, t] * state + values[:, t]
            states.append(state)
        return torch.stack(states, 1)

    def checks() -> Iterator[Check]:
        size = run(gate.double(), x.double().abs())
        yield close("out", out, run(gate.double(), x.double()), size, columns)

    return Problem((launch,), checks, gate.nbytes + x.nbytes + out.nbytes)


@sample("scans", scans, fast=SIZES, slow=MORE, gpu=((5, 3000),), bench=BENCH)
def row_logcumsumexp(make: Maker, rows: int, columns: int) -> Problem:
    x = make.normal(rows, columns)

    def checks(out: torch.Tensor) -> Iterator[Check]:
        size = x.double().abs().amax(1, keepdim=True) + 8  # a few errors of log at each level
        yield close("out", out, x.double().logcumsumexp(1), size, columns)

    return _by_row(make, scans.row_logcumsumexp, x, (), checks, {},
                   lambda: x.logcumsumexp(1))  # fmt: skip


@sample(
    "scans", scans, fast=((1,), (3000,)), slow=((1024,),), gpu=((10**6 + 1,),), bench=((1 << 24,),)
)
def two_stage_cumsum(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(n, dtype=F32)
    block = 256 if n < 2**16 else 8192
    blocks = cdiv(n, block)
    total = make.output(blocks, dtype=F32)
    launches = (
        Launch(scans.scan_blocks, (blocks,), (x, out, total, n), {"BLOCK": block, "num_warps": 8}),
        Launch(scans.add_before, (blocks,), (out, total, n),
               {"N_BLOCKS": next_power_of_2(blocks), "BLOCK": block, "num_warps": 8}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("out", out, x.double().cumsum(0), x.double().abs().cumsum(0), n)

    return Problem(launches, checks, once(x, out), lambda: x.cumsum(0, dtype=F32), scratch=(total,))


@sample("scans", scans, fast=((1,), (3000,)), slow=((1024,),), gpu=((10**6 + 1,),))
def look_back_cumsum(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(n, dtype=F32)
    block = 256 if n < 2**16 else 4096
    total = make.output(cdiv(n, block), dtype=F32)
    flags = make.output(cdiv(n, block), dtype=torch.int32, fill=0)
    launch = Launch(scans.look_back_cumsum, (cdiv(n, block),), (x, out, total, flags, n),
                    {"BLOCK": block, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close("out", out, x.double().cumsum(0), x.double().abs().cumsum(0), n)

    return Problem((launch,), checks, x.nbytes + out.nbytes)


@sample("histogram", scans, fast=((1, 2), (3000, 16)), slow=((512, 256),), gpu=((10**6 + 1, 128),),
        bench=((1 << 24, 256),), dtypes=(torch.int32, torch.int64, torch.uint8))  # fmt: skip
def histogram(make: Maker, n: int, bins: int) -> Problem:
    x, out = make.integers(0, bins, n), make.output(bins, dtype=torch.int32, fill=0)
    block = 512 if n < 2**16 else 4096
    launch = Launch(scans.histogram, (cdiv(n, block),), (x, out, n),
                    {"BINS": bins, "BLOCK": block, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield exact("counts", out, torch.bincount(x.long(), minlength=bins))

    return Problem((launch,), checks, once(x, out, out),
                   lambda: torch.bincount(x, minlength=bins))  # fmt: skip


@sample("histogram", scans, fast=((1, 3), (3000, 10)), gpu=((10**6 + 1, 100),),
        bench=((1 << 24, 100),), dtypes=HALVES[:1])  # fmt: skip
def atomic_histogram(make: Maker, n: int, bins: int) -> Problem:
    x, out = make.normal(n), make.output(bins, dtype=torch.int32, fill=0)
    scale = bins / 4
    launch = Launch(scans.atomic_histogram, (cdiv(n, 1024),), (x, out, n, -2.0, scale, bins),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    places = ((x + 2) * scale).int()
    kept = places[(x >= -2) & (places < bins)]

    def checks() -> Iterator[Check]:
        yield exact("counts", out, torch.bincount(kept.long(), minlength=bins))

    moved = once(x) + 2 * distinct(kept, bins) * out.element_size()
    return Problem((launch,), checks, moved, lambda: torch.histc(x, bins, -2, 2))
