"""Family 10: the forward pass of attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.corpus.sample import (
    BF16,
    F16,
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    exact,
    once,
    sample,
)
from tests.kernels import attention_by_blocks, attention_forward
from workbench import cdiv, next_power_of_2
from workbench.triton.tools.tensor_descriptor import TensorDescriptor

#: BLOCK_M, BLOCK_N, warps, stages.
SMALL = (16, 16, 4, 2)


def blocks(tile: tuple[int, ...], head: int) -> dict[str, Any]:
    """Return what a launch gets for a tile."""
    names = ("BLOCK_M", "BLOCK_N", "num_warps", "num_stages")
    return {"HEAD": head, **dict(zip(names, tile, strict=True))}


def checked(
    out: torch.Tensor, lse: torch.Tensor, scores: torch.Tensor, v: torch.Tensor,
    sinks: torch.Tensor | None = None,
) -> Iterator[Check]:  # fmt: skip
    """Compare with softmax(scores) v in float64; rows without keys are 0 and -inf.

    Weights are rounded to the type of v, the scores' operands have been (fp32: to tf32): each
    weight is off by at most two roundings, of a size that the sum over |v| bounds.
    """
    nothing = scores.new_full((*scores.shape[:-1], 1), -torch.inf)
    top = torch.cat([scores, nothing], -1).amax(-1, keepdim=True)
    if sinks is not None:
        top = torch.maximum(top, sinks)
    top = top.masked_fill(top.isinf(), 0.0)
    p = (scores - top).exp()
    total = p.sum(-1, keepdim=True)
    if sinks is not None:
        total = total + (sinks - top).exp()
    empty = (total == 0)[..., 0]
    p = p / total.masked_fill(total == 0, 1.0)
    eps = max(torch.finfo(v.dtype).eps, 2**-10)
    size = 4 * eps * (p @ v.double().abs()) + 2 * eps * (p @ v.double()).abs() + 1e-6
    yield Check("out", out, p @ v.double(), size if v.dtype != F32 else 4 * size)
    wanted = total[..., 0].log() + top[..., 0]
    yield exact("lse of empty rows", lse[empty], wanted[empty])
    allowed = 1e-3 if v.dtype != F32 else 2e-2
    yield Check("lse", lse[~empty], wanted[~empty], allowed)


def _scores(
    q: torch.Tensor, k: torch.Tensor, scale: float, *, causal: bool
) -> torch.Tensor:  # fmt: skip
    scores = q.double() @ k.double().mT * scale
    if causal:
        above = torch.ones(scores.shape[-2:], device=q.device).triu(1).bool()
        scores = scores.masked_fill(above, -torch.inf)
    return scores


@sample(
    "attention", attention_forward,
    fast=((1, 2, 1, 40, 16, True, SMALL), (1, 2, 2, 32, 20, False, (32, 16, 4, 2))),
    slow=((1, 1, 1, 7, 16, False, SMALL), (2, 1, 1, 32, 16, True, (32, 16, 4, 2))),
    gpu=(
        (2, 4, 4, 512, 64, False, (128, 64, 4, 3)),
        (1, 4, 4, 1023, 64, True, (64, 64, 4, 3)),
        (1, 2, 2, 512, 128, True, (128, 128, 8, 2)),
        (1, 2, 2, 1023, 128, False, (128, 64, 8, 3)),
        (1, 2, 2, 300, 80, True, (64, 64, 4, 2)),
        (1, 2, 2, 256, 96, False, (128, 64, 8, 2)),
        (1, 2, 1, 200, 256, True, (64, 32, 8, 2)),
        (1, 8, 2, 400, 64, True, (64, 64, 4, 2)),
        (1, 1, 1, 1, 64, True, (64, 64, 4, 2)),
    ),
    dtypes=(F16, BF16, F32), layouts=("contiguous", "shifted", "strided"),
)  # fmt: skip
def forward(
    make: Maker, batches: int, heads: int, heads_kv: int, n: int, head: int, causal: bool,
    tile: tuple[int, ...],
) -> Problem:  # fmt: skip
    """The tutorials' form, causal in two stages; heads of keys are shared, tails are masked."""
    q = make.normal(batches, heads, n, head)
    k, v = (make.normal(batches, heads_kv, n, head) for _ in "kv")
    out = make.output(batches, heads, n, head)
    # The logarithms lie densely, whatever the layout.
    lse = torch.full((batches, heads, n), torch.nan, device=make.device)
    scale = head**-0.5
    launch = Launch(
        attention_forward.attention, (cdiv(n, tile[0]), batches * heads),
        (q, k, v, out, lse, scale, *q.stride(), *k.stride(), *v.stride(), *out.stride(), heads,
         heads_kv, n, n),
        {**blocks(tile, head), "BLOCK_D": next_power_of_2(head), "CAUSAL": causal,
         "EVEN": n % tile[0] == 0 == n % tile[1]},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        keys, values = (x.repeat_interleave(heads // heads_kv, 1) for x in (k, v))
        yield from checked(out, lse, _scores(q, keys, scale, causal=causal), values)

    flops = 4 * batches * heads * n * n * head // (2 if causal else 1)
    return Problem((launch,), checks, once(q, k, v, out, lse), flops=flops)


@sample(
    "attention", attention_forward,
    fast=(("plain", 16, SMALL), ("window sinks soft cap slopes bias", 20, SMALL)),
    gpu=(
        *((what, head, (64, 64, 4, 2)) for head in (64, 128)
          for what in ("plain", "window", "soft cap", "slopes", "sinks", "bias")),
        ("window sinks", 80, (128, 64, 8, 3)),
    ),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def varlen(make: Maker, what: str, head: int, tile: tuple[int, ...]) -> Problem:
    """Sequences of several lengths, one empty, some with more keys than queries; heads shared."""
    heads, heads_kv = 4, 2
    step = tile[0]
    lengths = [(step + 3, step + 3), (0, 5), (1, 2 * step + 1), (5, step), (2 * step, 2 * step)]
    if "plain" in what:
        lengths.append((6, 2))  # the first queries see no keys
    n_q, n_k = (torch.tensor([pair[i] for pair in lengths]) for i in (0, 1))
    starts_q, starts_k = (
        make.tensor(torch.nn.functional.pad(n.cumsum(0), (1, 0)).int()) for n in (n_q, n_k)
    )
    q = make.normal(int(n_q.sum()), heads, head)
    k, v = (make.normal(int(n_k.sum()), heads_kv, head) for _ in "kv")
    out = make.output(*q.shape)
    lse = make.output(heads, q.shape[0], dtype=F32)
    slopes = make.tensor(2.0 ** -torch.arange(1.0, heads + 1)) if "slopes" in what else None
    sinks = make.normal(heads, dtype=F32) if "sinks" in what else None
    longest = int(n_k.max())
    bias = make.normal(heads, q.shape[0], longest) if "bias" in what else None
    window = step // 2 + 1 if "window" in what else 0
    cap, scale = 3.0, head**-0.5
    launch = Launch(
        attention_forward.attention_varlen, (cdiv(int(n_q.max()), step), heads, len(lengths)),
        (q, k, v, out, lse, starts_q, starts_k, slopes, sinks, bias, scale, cap, *q.stride()[:2],
         *k.stride()[:2], *v.stride()[:2], *out.stride()[:2], lse.stride(0),
         *(bias.stride()[:2] if bias is not None else (0, 0)), heads, heads_kv),
        {**blocks(tile, head), "BLOCK_D": next_power_of_2(head), "CAUSAL": True, "WINDOW": window,
         "SOFT_CAP": "soft cap" in what},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        at_q = at_k = 0
        for queries, keys in lengths:
            mine, theirs = slice(at_q, at_q + queries), slice(at_k, at_k + keys)
            at_q, at_k = at_q + queries, at_k + keys
            some_k, some_v = (
                x[theirs].transpose(0, 1).repeat_interleave(heads // heads_kv, 0) for x in (k, v)
            )
            scores = q[mine].transpose(0, 1).double() @ some_k.double().mT * scale
            if "soft cap" in what:
                scores = cap * (scores / cap).tanh()
            behind = torch.arange(keys)[None, :] - (torch.arange(queries)[:, None] + keys - queries)
            behind = behind.to(make.device)
            if slopes is not None:
                scores = scores + slopes.double()[:, None, None] * behind
            if bias is not None:
                scores = scores + bias[:, mine, :keys].double()
            hidden = (behind > 0) | ((behind <= -window) if window else False)
            scores = scores.masked_fill(hidden, -torch.inf)
            each = None if sinks is None else sinks.double()[:, None, None]
            if queries:
                found = out[mine].transpose(0, 1), lse[:, mine]
                yield from checked(*found, scores, some_v, each)

    used = [x for x in (q, k, v, out, lse, slopes, sinks, bias) if x is not None]
    return Problem((launch,), checks, once(*used), flops=1)


def _by_blocks(
    make: Maker, kernel: Any, heads: int, n: int, n_keys: int, head: int, causal: bool,
    tile: tuple[int, ...], *, described: bool,
) -> Problem:  # fmt: skip
    q, out = make.normal(heads, n, head), make.output(heads, n, head)
    k, v = (make.normal(heads, n_keys, head) for _ in "kv")
    lse = make.output(heads, n, dtype=F32)
    scale = head**-0.5
    bm, bn = tile[:2]
    if described:
        arrays = tuple(
            TensorDescriptor.from_tensor(x, [1, block, head])
            for x, block in ((q, bm), (k, bn), (v, bn), (out, bm))
        )
        arguments = (*arrays, lse, scale, n, n_keys)
    else:
        arguments = (q, k, v, out, lse, scale, q.stride(0), q.stride(1), n, n_keys)
    launch = Launch(kernel, (cdiv(n, bm), heads), arguments,
                    {**blocks(tile, head), "CAUSAL": causal})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield from checked(out, lse, _scores(q, k, scale, causal=causal), v)

    return Problem((launch,), checks, once(q, k, v, out, lse), flops=4 * heads * n * n_keys * head)


@sample(
    "attention", attention_by_blocks, fast=((2, 40, 40, 16, True, SMALL),),
    slow=((1, 20, 20, 16, False, SMALL),),
    gpu=((4, 1023, 1023, 64, True, (128, 64, 4, 3)), (2, 512, 512, 128, False, (128, 128, 8, 2)),
         (2, 300, 300, 128, True, (64, 64, 4, 3))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_block_pointers(
    make: Maker, heads: int, n: int, n_keys: int, head: int, causal: bool, tile: tuple[int, ...]
) -> Problem:
    kernel = attention_by_blocks.attention_by_block_pointers
    return _by_blocks(make, kernel, heads, n, n_keys, head, causal, tile, described=False)


@sample(
    "attention", attention_by_blocks, fast=((2, 40, 40, 16, True, SMALL),),
    slow=((1, 20, 50, 16, False, SMALL),),
    gpu=((4, 1023, 1023, 64, True, (128, 64, 4, 3)), (2, 512, 512, 128, False, (64, 64, 4, 3)),
         (2, 100, 700, 128, False, (128, 128, 8, 2))),
    dtypes=(F16, BF16), layouts=("contiguous",),
)  # fmt: skip
def by_descriptors(
    make: Maker, heads: int, n: int, n_keys: int, head: int, causal: bool, tile: tuple[int, ...]
) -> Problem:
    """Descriptors of the host."""
    kernel = attention_by_blocks.attention_by_descriptors
    return _by_blocks(make, kernel, heads, n, n_keys, head, causal, tile, described=True)
