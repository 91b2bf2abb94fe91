"""Family 11: the backward pass of attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem, once, sample
from tests.kernels import attention_backward as kernels
from workbench import cdiv

#: BLOCK_M and BLOCK_N of dK and dV, those of dQ, warps, stages.
SMALL = (16, 32, 32, 16, 4, 2)


class Gradients(NamedTuple):
    """What a backward pass reads and writes; heads of all sequences lie behind one another."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    delta: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    scale: float
    group: int
    causal: bool

    def scores(self) -> torch.Tensor:
        """The scores in float64, -inf where a query does not see a key."""
        keys = self.k.double().repeat_interleave(self.group, 0)
        scores = self.q.double() @ keys.mT * self.scale
        if self.causal:
            above = torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool()
            scores = scores.masked_fill(above, -torch.inf)
        return scores

    def checks(self) -> Iterator[Check]:
        """Compare with float64.

        Probabilities and their gradients are rounded to the operands' type: each is off by at
        most two roundings of it, of a size that the products of absolute values bound.
        """
        p = self.scores().softmax(-1)
        values = self.v.double().repeat_interleave(self.group, 0)
        do, q = self.do.double(), self.q.double()
        keys = self.k.double().repeat_interleave(self.group, 0)
        dp = do @ values.mT
        delta = (self.out.double() * do).sum(-1, keepdim=True)
        ds = p * (dp - delta)
        size = p * (do.abs() @ values.abs().mT + delta.abs())

        def summed(x: torch.Tensor) -> torch.Tensor:
            return x.unflatten(0, (-1, self.group)).sum(1)

        # Products of fp32 operands go by tf32, which has fp16's fraction.
        eps = max(torch.finfo(self.q.dtype).eps, 2**-10) * (4 if self.q.dtype == F32 else 2)
        for name, got, want, bound in (
            ("dq", self.dq, ds @ keys * self.scale, size @ keys.abs() * self.scale),
            ("dk", self.dk, summed(ds.mT @ q) * self.scale,
             summed(size.mT @ q.abs()) * self.scale),
            ("dv", self.dv, summed(p.mT @ do), summed(p.mT @ do.abs())),
        ):  # fmt: skip
            yield Check(name, got, want, eps * (want.abs() + 2 * bound) + 1e-6)

    def flops(self) -> int:
        """Five products of each query and key that it sees."""
        heads, n, head = self.q.shape
        return 10 * heads * n * self.k.shape[1] * head // (2 if self.causal else 1)


def gradients(
    make: Maker, heads: int, group: int, n: int, n_keys: int, head: int, *, causal: bool,
    sums: torch.dtype | None = None,
) -> Gradients:  # fmt: skip
    """Return tensors with the forward pass's results; `sums`: the type of dQ where it is added."""
    q, do = (make.normal(heads, n, head) for _ in "qd")
    k, v = (make.normal(heads // group, n_keys, head) for _ in "kv")
    out, dq = make.output(heads, n, head), make.output(heads, n, head, dtype=sums or make.dtype)
    dk, dv = (make.output(heads // group, n_keys, head) for _ in "kv")
    lse, delta = (torch.full((heads, n), torch.nan, device=make.device) for _ in "ld")
    found = Gradients(q, k, v, do, out, lse, delta, dq, dk, dv, head**-0.5, group, causal)
    if heads * n * n_keys < 1 << 26:
        scores = found.scores()
        out.copy_(scores.softmax(-1) @ v.double().repeat_interleave(group, 0))
        lse.copy_(scores.logsumexp(-1))
    if sums is not None:
        dq.zero_()
    return found


def prepared(x: Gradients) -> Launch:
    """Return the launch that all others follow."""
    heads, n, head = x.q.shape
    return Launch(
        kernels.row_products, (cdiv(n, 32), heads),
        (x.out, x.do, x.delta, x.q.stride(0), x.q.stride(1), n), {"HEAD": head, "BLOCK": 32},
    )  # fmt: skip


def _problem(x: Gradients, *launches: Launch) -> Problem:
    moved = once(*x[:6], x.dq, x.dk, x.dv)
    return Problem((prepared(x), *launches), x.checks, moved, flops=x.flops(), scratch=(x.delta,))


@sample(
    "attention_backward", kernels,
    fast=((2, 1, 40, 40, 16, True, SMALL), (4, 2, 20, 37, 32, False, SMALL)),
    gpu=(
        (4, 1, 512, 512, 64, True, (64, 128, 128, 64, 8, 2)),
        (4, 1, 512, 512, 128, True, (64, 128, 128, 64, 8, 2)),
        (4, 2, 1023, 1023, 64, True, (64, 128, 128, 64, 8, 2)),
        (8, 4, 300, 777, 128, False, (64, 64, 64, 64, 4, 2)),
        (2, 1, 1, 1, 64, True, (64, 64, 64, 64, 4, 2)),
    ),
    dtypes=(F16, F32), layouts=("contiguous",),
)  # fmt: skip
def in_two_launches(
    make: Maker, heads: int, group: int, n: int, n_keys: int, head: int, causal: bool,
    tile: tuple[int, ...],
) -> Problem:  # fmt: skip
    x = gradients(make, heads, group, n, n_keys, head, causal=causal)
    m1, n1, m2, n2, warps, stages = tile
    named = {"HEAD": head, "GROUP": group, "CAUSAL": causal, "num_warps": warps,
             "num_stages": stages}  # fmt: skip
    tail = (x.lse, x.delta, x.scale, x.q.stride(0), x.k.stride(0), x.q.stride(1), n, n_keys)
    return _problem(
        x,
        Launch(kernels.key_value_gradients, (cdiv(n_keys, n1), heads // group),
               (x.q, x.k, x.v, x.do, x.dk, x.dv, *tail),
               {"BLOCK_M": m1, "BLOCK_N": n1, "EVEN": n % m1 == 0 == n_keys % n1, **named}),
        Launch(kernels.query_gradients, (cdiv(n, m2), heads),
               (x.q, x.k, x.v, x.do, x.dq, *tail),
               {"BLOCK_M": m2, "BLOCK_N": n2, "EVEN": n % m2 == 0 == n_keys % n2, **named}),
    )  # fmt: skip


@sample(
    "attention_backward", kernels,
    fast=((2, 64, 16, False, SMALL), (2, 37, 16, True, SMALL)),
    gpu=((4, 512, 64, True, (32, 128, 128, 32, 4, 3)),
         (4, 1000, 128, False, (32, 128, 128, 32, 8, 2)),
         (2, 256, 128, True, (32, 128, 128, 32, 4, 5))),
    dtypes=(F16,), layouts=("contiguous",),
)  # fmt: skip
def fused(
    make: Maker, heads: int, n: int, head: int, causal: bool, tile: tuple[int, ...]
) -> Problem:
    x = gradients(make, heads, 1, n, n, head, causal=causal)
    m1, n1, m2, n2, warps, stages = tile
    even = all(n % extent == 0 for extent in tile[:4])
    return _problem(
        x,
        Launch(kernels.fused_gradients, (cdiv(n, n1), heads),
               (x.q, x.k, x.v, x.do, x.dq, x.dk, x.dv, x.lse, x.delta, x.scale, *x.q.stride()[:2],
                n),
               {"HEAD": head, "BLOCK_M1": m1, "BLOCK_N1": n1, "BLOCK_M2": m2, "BLOCK_N2": n2,
                "CAUSAL": causal, "EVEN": even, "num_warps": warps, "num_stages": stages}),
    )  # fmt: skip


@sample(
    "attention_backward", kernels, fast=((2, 37, 16, True, SMALL),),
    gpu=((4, 500, 64, True, (64, 64, 0, 0, 4, 2)), (4, 512, 128, False, (64, 64, 0, 0, 8, 2))),
    dtypes=(BF16,), layouts=("contiguous",), repeatable=False,
)  # fmt: skip
def by_atomics(
    make: Maker, heads: int, n: int, head: int, causal: bool, tile: tuple[int, ...]
) -> Problem:
    x = gradients(make, heads, 1, n, n, head, causal=causal, sums=F32)
    bm, bn, _, _, warps, stages = tile
    return _problem(
        x,
        Launch(kernels.gradients_by_atomics, (cdiv(n, bn), heads),
               (x.q, x.k, x.v, x.do, x.dq, x.dk, x.dv, x.lse, x.delta, x.scale, *x.q.stride()[:2],
                n),
               {"HEAD": head, "BLOCK_M": bm, "BLOCK_N": bn, "CAUSAL": causal, "num_warps": warps,
                "num_stages": stages}),
    )  # fmt: skip
