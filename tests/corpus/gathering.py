"""Family 18: embedding, gather, scatter, segments."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from tests.corpus.sample import (
    BF16,
    F16,
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
from tests.kernels import gathering
from workbench import cdiv, next_power_of_2

BENCH = ((1 << 16, 1 << 16, 1024), (1 << 18, 1 << 16, 128))


@sample("gather", gathering, fast=((5, 7, 1), (9, 20, 48)), slow=((1, 1, 300),),
        gpu=((1001, 5000, 4096), (100, 10**6, 48)), bench=BENCH)  # fmt: skip
def embedding(make: Maker, count: int, rows: int, columns: int) -> Problem:
    weight, out = make.normal(rows, columns), make.output(count, columns)
    index = make.integers(-rows, rows, count, dtype=torch.int64)
    index[::3] = 0  # the padding index
    block = min(next_power_of_2(columns), 1024)
    launch = Launch(gathering.embedding, (count, cdiv(columns, block)),
                    (index, weight, out, rows, columns, 0),
                    {"BLOCK": block, "num_warps": max(block // 256, 1)})  # fmt: skip

    def checks() -> Iterator[Check]:
        want = weight[index % rows]
        yield exact("out", out, torch.where(index[:, None] == 0, 0, want))

    moved = once(index, out) + distinct((index % rows)[index != 0], rows) * once(weight[0])
    return Problem((launch,), checks, moved,
                   lambda: functional.embedding(index % rows, weight))  # fmt: skip


@sample("gather", gathering, fast=((5, 7, 1), (37, 20, 70)), slow=((16, 1, 128),),
        gpu=((1001, 5000, 4096),), bench=BENCH, dtypes=(*HALVES, torch.int8))  # fmt: skip
def gather_rows(make: Maker, count: int, rows: int, columns: int) -> Problem:
    x, out = make.integers(-99, 100, rows, columns), make.output(count, columns)
    index = make.integers(0, rows, count, dtype=torch.int32)
    launch = Launch(gathering.gather_rows, (cdiv(count, 16), cdiv(columns, 128)),
                    (index, x, out, count, columns),
                    {"ROWS": 16, "COLS": 128, "num_warps": 4})  # fmt: skip
    moved = once(index, out) + distinct(index, rows) * once(x[0])
    return Problem((launch,), lambda: [exact("out", out, x[index.long()])], moved,
                   lambda: torch.index_select(x, 0, index))  # fmt: skip


@sample("gather", gathering, fast=((2, 1, 5), (7, 33, 100)), gpu=((1000, 1001, 777),),
        bench=((8192, 4096, 4096),))  # fmt: skip
def take_along(make: Maker, rows: int, columns: int, n_out: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, n_out)
    index = make.integers(0, columns, rows, n_out, dtype=torch.int64)
    launch = Launch(gathering.take_along, (cdiv(rows * n_out, 512),),
                    (x, index, out, rows * n_out, n_out, x.stride(0)),
                    {"BLOCK": 512, "num_warps": 4})  # fmt: skip
    named = torch.zeros(x.shape, dtype=torch.bool, device=x.device).scatter_(1, index, True)
    moved = once(index, out) + int(named.sum()) * x.element_size()
    return Problem((launch,), lambda: [exact("out", out, x.gather(1, index))], moved,
                   lambda: x.gather(1, index))  # fmt: skip


@sample("gather", gathering, fast=((2, 1), (3, 100)), slow=((2, 256),), gpu=((9, 1000),),
        bench=((16384, 1024),))  # fmt: skip
def shuffle_row(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns)
    index = make.permutation(columns)
    block = next_power_of_2(columns)
    launch = Launch(gathering.shuffle_row, (rows,), (x, index, out, x.stride(0), columns),
                    {"BLOCK": block, "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [exact("out", out, x[:, index])], once(x, index, out),
                   lambda: x[:, index])  # fmt: skip


@sample("scatter", gathering, fast=((5, 3, 1), (40, 7, 48)), slow=((33, 1, 100),),
        gpu=((5001, 100, 1000),), bench=((1 << 16, 1 << 14, 1024),), repeatable=False)  # fmt: skip
def scatter_add(make: Maker, count: int, rows: int, columns: int) -> Problem:
    """In the type of the data where that is 32 bits, else in fp32."""
    x, out = make.normal(count, columns), make.output(rows, columns, dtype=F32, fill=0)
    index = make.integers(0, rows, count, dtype=torch.int64)
    block = min(next_power_of_2(columns), 1024)
    launch = Launch(gathering.scatter_add, (count, cdiv(columns, block)), (index, x, out, columns),
                    {"BLOCK": block, "num_warps": max(block // 256, 1)})  # fmt: skip

    def checks() -> Iterator[Check]:
        zero = torch.zeros(rows, columns, dtype=torch.float64, device=x.device)
        want, size = (zero.index_add(0, index, v) for v in (x.double(), x.double().abs()))
        yield close("out", out, want, size, count)

    total = torch.zeros_like(out) if x.is_cuda else out
    moved = once(x, index) + 2 * distinct(index, rows) * once(out[0])
    return Problem((launch,), checks, moved,
                   lambda: total.index_add_(0, index, x.float()))  # fmt: skip


@sample("scatter", gathering, fast=((40, 7, 48),), gpu=((501, 100, 1000),),
        bench=((1 << 16, 1 << 14, 1024),), dtypes=(F16, BF16), repeatable=False)  # fmt: skip
def scatter_add_in_16_bits(make: Maker, count: int, rows: int, columns: int) -> Problem:
    """Small integers, so that every sum is exact."""
    x, out = make.integers(-3, 4, count, columns), make.output(rows, columns, fill=0)
    index = make.integers(0, rows, count, dtype=torch.int64)
    block = min(next_power_of_2(columns), 1024)
    launch = Launch(gathering.scatter_add, (count, cdiv(columns, block)), (index, x, out, columns),
                    {"BLOCK": block, "num_warps": max(block // 256, 1)})  # fmt: skip

    def checks() -> Iterator[Check]:
        zero = torch.zeros(rows, columns, dtype=torch.float64, device=x.device)
        yield exact("out", out, zero.index_add(0, index, x.double()))

    moved = once(x, index) + 2 * distinct(index, rows) * once(out[0])
    return Problem((launch,), checks, moved)


@sample("scatter", gathering, fast=((40, 7),), slow=((1, 1),), gpu=((10**5, 999),),
        bench=((1 << 24, 1 << 16),), dtypes=(torch.int32, torch.int64, F32))  # fmt: skip
def scatter_max(make: Maker, count: int, places: int) -> Problem:
    x, out = make.integers(-1000, 1000, count), make.output(places, fill=-2000)
    index = make.integers(0, places, count, dtype=torch.int64)
    launch = Launch(gathering.scatter_max, (cdiv(count, 512),), (index, x, out, count),
                    {"BLOCK": 512, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        start = torch.full((places,), -2000, dtype=make.dtype, device=x.device)
        yield exact("out", out, start.scatter_reduce(0, index, x, "amax"))

    moved = once(x, index) + 2 * distinct(index, places) * out.element_size()
    return Problem((launch,), checks, moved,
                   lambda: out.scatter_reduce_(0, index, x, "amax"))  # fmt: skip


def _offsets(make: Maker, segments: int, longest: int) -> torch.Tensor:
    """Return where segments start and end; some of them are empty."""
    lengths = make.integers(0, longest + 1, segments, dtype=torch.int64)
    lengths[::4] = 0
    return make.tensor(functional.pad(lengths.cumsum(0), (1, 0)))


@sample("segments", gathering, fast=((3, 5, 1, False), (6, 40, 50, True)),
        slow=((1, 1, 32, False),), gpu=((200, 1000, 300, True),),
        bench=((4096, 128, 512, True),))  # fmt: skip
def segment_sum(make: Maker, segments: int, longest: int, columns: int, mean: bool) -> Problem:
    offsets = _offsets(make, segments, longest)
    x, out = make.normal(int(offsets[-1]), columns), make.output(segments, columns, dtype=F32)
    grid = segments, cdiv(columns, 64)
    launch = Launch(gathering.segment_sum, grid, (offsets, x, out, columns),
                    {"MEAN": mean, "ROWS": 16, "COLS": 64, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        lengths = offsets.diff()
        owner = torch.repeat_interleave(torch.arange(segments, device=x.device), lengths)
        zero = torch.zeros(segments, columns, dtype=torch.float64, device=x.device)
        want, size = (zero.index_add(0, owner, v) for v in (x.double(), x.double().abs()))
        share = lengths.clamp(min=1)[:, None] if mean else 1
        yield close("out", out, want / share, size / share, longest)

    def by_torch() -> object:
        return torch.segment_reduce(x.float(), "mean", offsets=offsets)

    return Problem((launch,), checks, once(offsets, x, out), by_torch)


@sample("segments", gathering, fast=((1,), (700,)), slow=((256,),), gpu=((20001,),))
def segmented_cumsum(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(n, dtype=F32)
    start = make.tensor(make.uniform(n, dtype=F32) < 0.02)
    launch = Launch(gathering.segmented_cumsum, (1,), (x, start, out, n),
                    {"BLOCK": 256, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        def summed(values: torch.Tensor) -> torch.Tensor:
            total = values.cumsum(0)
            before = torch.where(start, total - values, 0)
            place = torch.where(start, torch.arange(n, device=x.device), 0).cummax(0).values
            return total - before[place]

        yield close("out", out, summed(x.double()), x.double().abs().cumsum(0), n)

    return Problem((launch,), checks)


@sample("segments", gathering, fast=((3, 5), (6, 300)), gpu=((200, 3000),), bench=((4096, 4096),))
def jagged_softmax(make: Maker, segments: int, longest: int) -> Problem:
    offsets = _offsets(make, segments, longest)
    x, out = make.normal(int(offsets[-1])), make.output(int(offsets[-1]))
    launch = Launch(gathering.jagged_softmax, (segments,), (offsets, x, out),
                    {"BLOCK": 128 if longest < 1000 else 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        for i, (start, end) in enumerate(zip(offsets.tolist(), offsets[1:].tolist(), strict=False)):
            want = x[start:end].double().softmax(0)
            size = want * 2 * x[start:end].double().abs()
            yield close(f"segment {i}", out[start:end], want, size, longest)

    return Problem((launch,), checks, once(offsets, x, out))


@sample("segments", gathering, fast=((3, 5, 1), (6, 9, 50)), gpu=((50, 300, 300),),
        bench=((512, 256, 512),))  # fmt: skip
def pad_jagged(make: Maker, segments: int, longest: int, columns: int) -> Problem:
    offsets = _offsets(make, segments, longest)
    x, out = make.normal(int(offsets[-1]), columns), make.output(segments, longest, columns)
    launch = Launch(gathering.pad_jagged, (longest, segments),
                    (offsets, x, out, longest, columns, -1.5),
                    {"COLS": next_power_of_2(columns), "num_warps": 2})  # fmt: skip

    def checks() -> Iterator[Check]:
        want = torch.full_like(out, -1.5)
        for i, (start, end) in enumerate(zip(offsets.tolist(), offsets[1:].tolist(), strict=False)):
            want[i, : end - start] = x[start:end]
        yield exact("out", out, want)

    return Problem((launch,), checks, once(offsets, x, out))
