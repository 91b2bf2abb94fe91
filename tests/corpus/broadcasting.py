"""Family 22: batches of small products, and products that are sums of broadcast tiles."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.attentions import checked
from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem, close, once, sample
from tests.kernels import broadcasting as kernels
from workbench import cdiv

#: The rows that Triton's products ask for: heads are repeated until there are as many.
ROWS = 16


class _Sparse:
    """Queries that see their own block up to themselves, and blocks of their own choice."""

    def __init__(
        self, make: Maker, groups: int, heads: int, n: int, head: int, block: int, chosen: int
    ) -> None:
        self.q = make.normal(groups * heads, n, head)
        self.k, self.v = (make.normal(groups, n, head) for _ in "kv")
        self.index = make.integers(0, n // block, groups, n, chosen, dtype=torch.int32)
        self.live = make.tensor(make.uniform(groups, n, chosen, dtype=F32) < 0.8)
        self.heads, self.block, self.scale = heads, block, head**-0.5
        self.grid = (n // block, groups)
        self.named = {
            "HEADS": heads, "COPIES": ROWS // heads, "BLOCK": block,
            "D": head, "CHOSEN": chosen, "num_warps": 4, "num_stages": 1,
        }  # fmt: skip
        self.flops = 4 * groups * heads * n * head * block * (chosen + 1)

    def times_seen(self) -> torch.Tensor:
        """How often each query sees each key: what is chosen twice counts twice."""
        groups, n, _ = self.k.shape
        at = torch.arange(n, device=self.k.device)
        own = (at[:, None] // self.block == at // self.block) & (at[:, None] >= at)
        seen = own.expand(groups, n, n).double()
        for j in range(self.index.shape[-1]):
            hit = self.index[..., j, None] == (at // self.block)
            seen = seen + (hit & self.live[..., j, None])
        return seen.repeat_interleave(self.heads, 0)

    def scores(self) -> torch.Tensor:
        """Scores in float64; a key that is seen twice weighs twice as much."""
        keys = self.k.double().repeat_interleave(self.heads, 0)
        return self.q.double() @ keys.mT * self.scale + self.times_seen().log()


@sample(
    "broadcasting", kernels,
    fast=((1, 8, 32, 16, 16, 2), (2, 4, 48, 32, 16, 1)),
    gpu=((2, 8, 512, 64, 16, 4),),
    bench=((8, 8, 2048, 64, 16, 4),),
    dtypes=(F16, BF16), bench_dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def sparse_heads(
    make: Maker, groups: int, heads: int, n: int, head: int, block: int, chosen: int
) -> Problem:
    made = _Sparse(make, groups, heads, n, head, block, chosen)
    out = make.output(groups * heads, n, head)
    lse = make.output(groups * heads, n, dtype=F32)
    launch = Launch(
        kernels.sparse_heads, made.grid,
        (made.q, made.k, made.v, made.index, made.live, out, lse, n, made.scale), made.named,
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        values = made.v.repeat_interleave(heads, 0)
        yield from checked(out, lse, made.scores(), values)

    moved = once(made.q, made.k, made.v, made.index, made.live, out, lse)
    return Problem((launch,), checks, moved, flops=made.flops)


@sample(
    "broadcasting", kernels,
    fast=((1, 8, 32, 16, 16, 2), (1, 4, 48, 16, 16, 1)),
    gpu=((2, 8, 512, 64, 16, 4),),
    bench=((8, 8, 2048, 64, 16, 4),),
    dtypes=(F16, BF16), bench_dtypes=(F16,), layouts=("contiguous",), repeatable=False,
)  # fmt: skip
def sparse_heads_backward(
    make: Maker, groups: int, heads: int, n: int, head: int, block: int, chosen: int
) -> Problem:
    """Run once, gradients of keys and values are sums over queries; run again, they are more."""
    made = _Sparse(make, groups, heads, n, head, block, chosen)
    do = make.normal(groups * heads, n, head)
    dq = make.output(groups * heads, n, head, dtype=F32)
    dk, dv = (make.output(groups, n, head, dtype=F32, fill=0.0) for _ in "kv")
    small = groups * heads * n * n < 1 << 26
    lse = make.normal(groups * heads, n, dtype=F32)
    delta = make.normal(groups * heads, n, dtype=F32)
    values = made.v.repeat_interleave(heads, 0)
    if small:
        scores = made.scores()
        lse.copy_(scores.logsumexp(-1))
        p = (scores - lse.double()[..., None]).exp()
        delta.copy_(((p @ values.double()) * do.double()).sum(-1))
    launch = Launch(
        kernels.sparse_heads_backward, made.grid,
        (made.q, made.k, made.v, made.index, made.live, do, lse, delta, dq, dk, dv, n, made.scale),
        made.named,
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        keys = made.k.double().repeat_interleave(heads, 0)
        p = (made.scores() - lse.double()[..., None]).exp()
        dp = do.double() @ values.double().mT
        ds = p * (dp - delta.double()[..., None])
        size = p * (do.double().abs() @ values.double().abs().mT + delta.double().abs()[..., None])
        q = made.q.double()

        def summed(x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(0, (-1, heads)).sum(1)

        eps = 2 * torch.finfo(make.dtype).eps
        for name, got, want, bound in (
            ("dq", dq, ds @ keys * made.scale, size @ keys.abs() * made.scale),
            ("dk", dk, summed(ds.mT @ q) * made.scale, summed(size.mT @ q.abs()) * made.scale),
            ("dv", dv, summed(p.mT @ do.double()), summed(p.mT @ do.double().abs())),
        ):
            yield Check(name, got, want, eps * (want.abs() + 2 * bound) + 1e-6)

    moved = once(made.q, made.k, made.v, made.index, made.live, do, lse, delta, dq, dk, dv)
    moved += once(dk, dv)  # added to: read, too
    return Problem((launch,), checks, moved, flops=5 * made.flops // 2)


@sample(
    "broadcasting", kernels,
    fast=((5, 16, 16, 4), (3, 16, 32, 2)),
    gpu=((1000, 32, 64, 4),),
    bench=((16384, 64, 32, 2), (65536, 16, 32, 8)),
    dtypes=(F16, BF16), bench_dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def windows(make: Maker, count: int, rows: int, head: int, block: int) -> Problem:
    q, k, v = (make.normal(count, rows, head) for _ in "qkv")
    out, scale = make.output(count, rows, head), head**-0.5
    launch = Launch(
        kernels.windows, (cdiv(count, block),), (q, k, v, out, count, scale),
        {"BLOCK": block, "M": rows, "D": head, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        p = (q.double() @ k.double().mT * scale).softmax(-1)
        eps = torch.finfo(make.dtype).eps
        yield Check("out", out, p @ v.double(), 4 * eps * (p @ v.double().abs()) + 1e-6)

    return Problem((launch,), checks, once(q, k, v, out), flops=4 * count * rows**2 * head)


@sample(
    "broadcasting", kernels,
    fast=((32, 32, 32, 16, 16, 16), (32, 64, 64, 32, 32, 8)),
    gpu=((256, 256, 256, 32, 32, 32),),
    bench=((2048, 1024, 1024, 32, 64, 16),),
    dtypes=(F16, F32), bench_dtypes=(F32,),
)  # fmt: skip
def product_by_sums(
    make: Maker, M: int, N: int, K: int, block_m: int, block_n: int, block_k: int
) -> Problem:
    a, b, out = make.normal(M, K), make.normal(K, N), make.output(M, N)
    launch = Launch(
        kernels.product_by_sums, (M // block_m, N // block_n), (a, b, out, M, N, K),
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        size = a.double().abs() @ b.double().abs()
        yield close("out", out, a.double() @ b.double(), size, K)

    return Problem((launch,), checks, once(a, b, out))


@sample(
    "broadcasting", kernels,
    fast=((17, 20, 30, 16, 16, 16), (32, 33, 8, 16, 32, 8)),
    gpu=((100, 300, 100, 32, 32, 32),),
    bench=((2048, 2048, 128, 32, 32, 32),),
    dtypes=(F16, F32), bench_dtypes=(F32,),
)  # fmt: skip
def distances(
    make: Maker, M: int, N: int, K: int, block_m: int, block_n: int, block_k: int
) -> Problem:
    """Arrays have whole tiles of rows; only the result is masked."""
    rows_a, rows_b = cdiv(M, block_m) * block_m, cdiv(N, block_n) * block_n
    a, b, out = make.normal(rows_a, K), make.normal(rows_b, K), make.output(M, N)
    launch = Launch(
        kernels.distances, (rows_a // block_m, rows_b // block_n), (a, b, out, M, N, K),
        {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        want = torch.cdist(a[:M].double(), b[:N].double(), p=1)
        yield close("out", out, want, want, K)

    return Problem((launch,), checks, once(a, b, out))


@sample(
    "broadcasting", kernels,
    fast=((2, 4, 40, 16, 16), (1, 1, 17, 32, 16)),
    gpu=((8, 8, 1000, 64, 32),),
    bench=((256, 8, 2048, 128, 32), (512, 1, 2048, 64, 64)),
    dtypes=(F16, BF16, F32), bench_dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def decode_by_sums(make: Maker, groups: int, heads: int, n: int, head: int, block: int) -> Problem:
    q, out = make.normal(groups * heads, head), make.output(groups * heads, head)
    k, v = (make.normal(groups, n, head) for _ in "kv")
    scale = head**-0.5
    launch = Launch(
        kernels.decode_by_sums, (groups,), (q, k, v, out, n, scale),
        {"HEADS": heads, "BLOCK": block, "D": head, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        keys, values = (x.double().repeat_interleave(heads, 0) for x in (k, v))
        scores = (q.double()[:, None] @ keys.mT)[:, 0] * scale
        p = scores.softmax(-1)
        want = (p[:, None] @ values)[:, 0]
        yield close("out", out, want, 8 * (p[:, None] @ values.abs())[:, 0], n)

    return Problem((launch,), checks, once(q, k, v, out))


@sample(
    "broadcasting", kernels,
    fast=((2, 4, 2, 2, 8, 16), (1, 2, 1, 1, 16, 16)),
    gpu=((4, 16, 2, 2, 64, 128),),
    bench=((64, 32, 4, 1, 64, 128), (64, 32, 4, 4, 32, 64)),
    dtypes=(F16, BF16, F32), bench_dtypes=(BF16, F32), layouts=("contiguous",),
)  # fmt: skip
def states_step(
    make: Maker, batch: int, heads: int, groups: int, block: int, rows: int, columns: int
) -> Problem:
    state = make.normal(batch, heads, rows, columns)
    x, z = (make.normal(batch, heads, rows) for _ in "xz")
    dt, b, c = make.normal(batch, heads), *(make.normal(batch, groups, columns) for _ in "bc")
    a, d = make.tensor(-make.uniform(heads, dtype=F32)), make.normal(heads, dtype=F32)
    out = make.output(batch, heads, rows)
    before = state.double().clone()
    launch = Launch(
        kernels.states_step, (heads // block, batch),
        (state, x, dt, a, b, c, d, z, out, heads, groups),
        {"BLOCK_H": block, "P": rows, "N": columns, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        step = torch.nn.functional.softplus(dt.double())
        kept = (a.double() * step).exp()
        bs, cs = (t.double().repeat_interleave(heads // groups, 1) for t in (b, c))
        more = (step[..., None] * x.double())[..., None] * bs[:, :, None, :]
        want = before * kept[..., None, None] + more
        size = before.abs() * kept[..., None, None] + more.abs()
        yield close("state", state, want, 4 * size, 4)
        gate = z.double() * z.double().sigmoid()
        sums = (want * cs[:, :, None, :]).sum(-1) + x.double() * d.double()[:, None]
        sizes = (size * cs.abs()[:, :, None, :]).sum(-1) + (x.double() * d.double()[:, None]).abs()
        yield close("out", out, sums * gate, 4 * sizes * gate.abs() + 1e-6, columns)

    return Problem((launch,), checks, 2 * once(state) + once(x, z, dt, b, c, a, d, out))


@sample(
    "broadcasting", kernels,
    fast=((20, 40, 4, 16, 32), (7, 16, 2, 16, 16)),
    gpu=((1000, 300, 4, 32, 64),),
    bench=((8192, 4096, 4, 32, 64),),
    dtypes=(F16, BF16, F32), bench_dtypes=(BF16,),
)  # fmt: skip
def mixed_taps(
    make: Maker, tokens: int, channels: int, taps: int, block_t: int, block_c: int
) -> Problem:
    x, w, out = (
        make.normal(tokens, channels),
        make.normal(channels, taps),
        make.output(tokens, channels),
    )
    launch = Launch(
        kernels.mixed_taps, (cdiv(tokens, block_t), cdiv(channels, block_c)),
        (x, w, out, tokens, channels),
        {"TAPS": taps, "BLOCK_T": block_t, "BLOCK_C": block_c, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        padded = torch.nn.functional.pad(x.double(), (0, 0, taps - 1, 0))
        shifted = torch.stack([padded[i : i + tokens] for i in range(taps)], -1)
        want = (shifted * w.double()).sum(-1)
        size = (shifted * w.double()).abs().sum(-1)
        yield close("out", out, want * want.sigmoid(), 4 * size, taps)

    return Problem((launch,), checks, once(x, w, out))
