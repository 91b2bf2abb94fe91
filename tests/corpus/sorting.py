"""Family 16: sorting, the largest k, radix sort, sampling."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.philox import philox, uniform
from tests.corpus.sample import F32, HALVES, Check, Launch, Maker, Problem, exact, once, sample
from tests.kernels import sorting
from workbench import cdiv, next_power_of_2

SIZES = ((2, 1), (3, 100))
MORE = ((1, 2), (3, 31), (2, 256))
LARGE = ((5, 1024), (3, 4001))
INTEGERS = (torch.int32, torch.int64, torch.int8)


def _warps(block: int) -> int:
    return min(max(block // 256, 1), 8)


@sample("sorts", sorting, fast=((2, 1, False), (3, 100, True)),
        slow=((3, 31, False), (2, 256, True)), gpu=((5, 4001, False),),
        bench=((4096, 1024, False), (1024, 4096, True)),
        layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def row_sort(make: Maker, rows: int, columns: int, descending: bool) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns)
    x[:, ::5] = x[:, :1].clone()  # equal ones
    block = next_power_of_2(columns)
    named = {"DESCENDING": descending, "BLOCK": block, "num_warps": _warps(block)}
    launch = Launch(sorting.row_sort, (rows,), (x, out, x.stride(0), columns), named)
    return Problem(
        (launch,),
        lambda: [exact("out", out, x.sort(1, descending=descending).values)],
        2 * x.nbytes,
        lambda: x.sort(1, descending=descending),
    )


@sample("sorts", sorting, fast=SIZES, slow=MORE, gpu=LARGE, bench=((4096, 1024),))
def row_argsort(make: Maker, rows: int, columns: int) -> Problem:
    x = make.integers(-9, 10, rows, columns)  # many equal ones
    x[0, columns // 2] = float("inf")
    x[-1, columns // 3] = -float("inf")
    out = make.output(rows, columns, dtype=F32)
    index = make.output(rows, columns, dtype=torch.int32)
    block = next_power_of_2(columns)
    launch = Launch(sorting.row_argsort, (rows,), (x, out, index, x.stride(0), columns),
                    {"BLOCK": block, "num_warps": _warps(block)})  # fmt: skip

    def checks() -> Iterator[Check]:
        values, places = x.float().sort(dim=1, stable=True)
        yield exact("values", out, values)
        yield exact("places", index, places)

    return Problem((launch,), checks, x.nbytes + out.nbytes + index.nbytes,
                   lambda: x.sort(dim=1, stable=True))  # fmt: skip


def _largest(make: Maker, kernel, rows: int, columns: int, k: int) -> Problem:
    x = make.integers(-99, 100, rows, columns)
    dense = Maker(make.dtype, make.device)
    value, index = dense.output(rows, k, dtype=F32), dense.output(rows, k, dtype=torch.int32)
    block = next_power_of_2(columns)
    launch = Launch(kernel, (rows,), (x, value, index, x.stride(0), columns),
                    {"K": k, "BLOCK": block, "num_warps": _warps(block)})  # fmt: skip

    def checks() -> Iterator[Check]:
        values, places = x.float().sort(dim=1, descending=True, stable=True)
        yield exact("values", value, values[:, :k])
        yield exact("places", index, places[:, :k])

    return Problem((launch,), checks, once(x, value, index), lambda: x.topk(k, 1))


@sample("topk", sorting, fast=((2, 5, 1), (3, 100, 8)), slow=((1, 64, 64), (2, 256, 2)),
        gpu=((5, 4001, 16), (3, 16384, 64)), bench=((4096, 4096, 8), (4096, 1024, 64)),
        layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def row_topk(make: Maker, rows: int, columns: int, k: int) -> Problem:
    return _largest(make, sorting.row_topk, rows, columns, k)


@sample("topk", sorting, fast=((2, 5, 1), (3, 100, 3)), slow=((1, 64, 6),), gpu=((5, 4001, 4),),
        bench=((4096, 4096, 4),), layouts=("contiguous", "padded"))  # fmt: skip
def topk_by_rounds(make: Maker, rows: int, columns: int, k: int) -> Problem:
    return _largest(make, sorting.topk_by_rounds, rows, columns, k)


@sample("sorts", sorting, fast=((1,), (100,)), slow=((2,), (33,), (128,)), gpu=((500,),),
        dtypes=(torch.int32,))  # fmt: skip
def bitonic_pairs(make: Maker, n: int) -> Problem:
    key, value = make.integers(-5, 6, n), make.integers(0, 1000, n)
    old = key.clone(), value.clone()
    log = (next_power_of_2(n) - 1).bit_length()
    launch = Launch(sorting.bitonic_pairs, (1,), (key, value, n), {"LOG": log, "num_warps": 4})

    def checks() -> Iterator[Check]:
        yield exact("keys", key, old[0].sort().values)
        # The network is not stable: the pairs as a set are kept.
        pairs = [(k.long() * 1000 + v).sort().values for k, v in ((key, value), old)]
        yield exact("pairs", *pairs)

    return Problem((launch,), checks)


@sample("sorts", sorting, fast=((5,), (1000,)), slow=((256,),), gpu=((2**20 + 1,),),
        bench=((1 << 22,),), dtypes=INTEGERS, bench_dtypes=(torch.int32,))  # fmt: skip
def radix_sort(make: Maker, n: int) -> Problem:
    bits = 12 if n < 2**16 else 32
    keys = make.integers(0, 2 ** min(bits, 8 * make.dtype.itemsize - 1), n)
    before, spare = keys.clone(), make.output(n)
    block, digits = (256, 16) if n < 2**16 else (512, 16)
    blocks = cdiv(n, block)
    counts = make.output(digits * blocks, dtype=torch.int32)
    launches, here, there = [], keys, spare
    named = {"DIGITS": digits, "BLOCK": block, "num_warps": 4}
    for shift in range(0, 8 if make.dtype == torch.int8 else bits, 4):
        launches += [
            Launch(sorting.radix_count, (blocks,), (here, counts, n, shift, blocks), named),
            Launch(sorting.radix_offsets, (1,), (counts, digits * blocks),
                   {"BLOCK": 1024, "num_warps": 4}),
            Launch(sorting.radix_scatter, (blocks,), (here, there, counts, n, shift, blocks),
                   named),
        ]  # fmt: skip
        here, there = there, here
    return Problem(tuple(launches), lambda: [exact("keys", here, before.sort().values)],
                   2 * once(keys), lambda: before.sort(), scratch=(counts,))  # fmt: skip


@sample("sampling", sorting, fast=((3, 5, 1.0), (4, 100, 0.7)), gpu=((64, 32000, 1.3),),
        bench=((4096, 32768, 1.0),))  # fmt: skip
def gumbel_sample(make: Maker, rows: int, columns: int, temperature: float) -> Problem:
    logits, out = make.normal(rows, columns), make.output(rows, dtype=torch.int32)
    launch = Launch(sorting.gumbel_sample, (rows,),
                    (logits, out, logits.stride(0), columns, temperature, 17),
                    {"BLOCK": 64 if columns < 2048 else 2048, "num_warps": 8})  # fmt: skip

    def checks() -> Iterator[Check]:
        u = uniform(philox(17, torch.arange(rows * columns, device=out.device))[0])
        u = u.clamp(min=1e-7).double().view(rows, columns)
        noisy = logits.double() / temperature - (-u.log()).log()
        chosen = noisy.gather(1, out.long()[:, None])[:, 0]
        # log(-log u) near u = 1 loses the low bits of u; a tie that close may go either way.
        yield Check("noisy logit", chosen, noisy.amax(1), 1e-4)

    def by_torch() -> object:
        return torch.multinomial((logits.float() / temperature).softmax(1), 1)

    return Problem((launch,), checks, once(logits, out), by_torch)


@sample("sampling", sorting, fast=((3, 5, 0.5), (4, 100, 0.9)), gpu=((16, 4001, 0.8),),
        bench=((4096, 4096, 0.9),), dtypes=HALVES)  # fmt: skip
def nucleus_sample(make: Maker, rows: int, columns: int, top_p: float) -> Problem:
    logits, draws = make.normal(rows, columns, scale=2.0), make.uniform(rows, dtype=F32)
    kept, place = (make.output(rows, dtype=torch.int32) for _ in range(2))
    block = next_power_of_2(columns)
    launch = Launch(sorting.nucleus_sample, (rows,),
                    (logits, draws, kept, place, logits.stride(0), columns, top_p),
                    {"BLOCK": block, "num_warps": _warps(block)})  # fmt: skip

    def checks() -> Iterator[Check]:
        p = logits.double().softmax(1).sort(1, descending=True).values
        mass = p.cumsum(1)
        keep = mass - p < top_p
        limit = draws.double() * torch.where(keep, p, 0).sum(1)
        wanted = ((mass < limit[:, None]) & keep).sum(1)
        near = (mass - p - top_p).abs().amin(1) < 1e-5
        yield Check("kept", kept, keep.sum(1), near.double())
        near |= (mass - limit[:, None]).abs().amin(1) < 1e-5
        yield Check("place", place, wanted, near.double())

    return Problem((launch,), checks, once(logits, draws, kept, place))
