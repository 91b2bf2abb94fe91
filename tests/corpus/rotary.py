"""Family 8: rotary position embedding."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.sample import F32, Check, Launch, Maker, Problem, close, distinct, once, sample
from tests.kernels import rotary
from workbench import cdiv, next_power_of_2


def _angles(make: Maker, length: int, half: int, dtype: torch.dtype = F32):
    """Return cosines and sines of each position and pair."""
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return (make.tensor(t.to(dtype).to(make.device)) for t in (angles.cos(), angles.sin()))


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn halves; x is (..., heads, dim), the angles (..., half)."""
    first, second = x.chunk(2, -1)
    cos, sin = cos[..., None, :], sin[..., None, :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _swapped(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([second, first], -1)


@sample(
    "rope", rotary,
    fast=((1, 3, 4, 2, 16, False), (2, 5, 3, 1, 80, True)),
    slow=((2, 1, 32, 4, 64, False), (1, 7, 6, 6, 96, False)),
    gpu=((1, 4097, 32, 8, 128, False), (2, 100, 32, 8, 80, True)),
    bench=((4, 4096, 32, 8, 128, False),),
)  # fmt: skip
def rope_half(make, batch: int, length: int, q_heads: int, k_heads: int, dim: int, backward: bool):
    q, k = make.normal(batch, length, q_heads, dim), make.normal(batch, length, k_heads, dim)
    cos, sin = _angles(make, length, dim // 2)
    old = q.clone(), k.clone()
    launch = Launch(
        rotary.rope_half,
        (batch * length,),
        (q, k, cos, sin, q.stride(1), k.stride(1), cos.stride(0), length),
        {"Q_HEADS": q_heads, "K_HEADS": k_heads, "HEAD_DIM": dim,
         "PAD_Q": next_power_of_2(q_heads), "PAD_K": next_power_of_2(k_heads),
         "PAD_HALF": next_power_of_2(dim // 2), "BACKWARD": backward, "num_warps": 4},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        sine = -sin.double() if backward else sin.double()
        for name, got, x in zip("qk", (q, k), old, strict=True):
            x = x.double()
            yield close(name, got, _turned(x, cos.double(), sine), x.abs() + _swapped(x).abs())

    return Problem((launch,), checks, 2 * once(q, k) + once(cos, sin),
                   lambda: (_turned(q, cos, sin), _turned(k, cos, sin)))  # fmt: skip


@sample(
    "rope", rotary,
    fast=((3, 2, 16), (5, 3, 80)),
    slow=((1, 1, 2), (4, 8, 128)),
    gpu=((4097, 32, 128),),
    bench=((16384, 32, 128),),
)  # fmt: skip
def rope_interleaved(make: Maker, tokens: int, heads: int, dim: int) -> Problem:
    x, out = make.normal(tokens, heads, dim), make.output(tokens, heads, dim)
    length = 2 * tokens
    cos, sin = _angles(make, length, dim // 2)
    positions = make.integers(0, length, tokens, dtype=torch.int64)
    launch = Launch(
        rotary.rope_interleaved,
        (tokens,),
        (x, out, cos, sin, positions, x.stride(0), out.stride(0), heads),
        {"HEAD_DIM": dim, "PAD_HEADS": next_power_of_2(heads), "PAD_DIM": next_power_of_2(dim),
         "num_warps": 4},
    )  # fmt: skip

    def turned(x, cos, sin) -> torch.Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def checks() -> Iterator[Check]:
        c, s = (t[positions][:, None].double() for t in (cos, sin))
        size = (
            x.double()
            .unflatten(-1, (-1, 2))
            .abs()
            .sum(-1, keepdim=True)
            .expand(*x.shape[:2], -1, 2)
        )
        yield close("out", out, turned(x.double(), c, s), size.flatten(-2))

    c, s = (t[positions][:, None].to(x.dtype) for t in (cos, sin))
    angles = distinct(positions, length) * once(cos[0], sin[0])
    return Problem((launch,), checks, once(x, out, positions) + angles, lambda: turned(x, c, s))


@sample(
    "rope", rotary,
    fast=((1, 2, 5, 16, 1), (2, 3, 33, 64, -1)),
    slow=((1, 1, 1, 32, 1),),
    gpu=((2, 8, 1001, 128, 1),),
    bench=((4, 32, 4096, 128, 1),),
)  # fmt: skip
def rope_by_head(make, batch: int, heads: int, length: int, dim: int, sign: int) -> Problem:
    x, out = make.normal(batch, heads, length, dim), make.output(batch, heads, length, dim)
    cos, sin = _angles(make, length, dim // 2)
    launch = Launch(
        rotary.rope_by_head,
        (cdiv(length, 32), heads, batch),
        (x, out, cos, sin, x.stride(0), x.stride(2), x.stride(1), length),
        {"HEAD_DIM": dim, "TOKENS": 32, "SIGN": sign, "num_warps": 4},
    )

    def turned(x, cos, sin) -> torch.Tensor:
        return _turned(x[..., None, :], cos, sin)[..., 0, :]

    def checks() -> Iterator[Check]:
        a = x.double()
        want = turned(a, cos.double(), sign * sin.double())
        yield close("out", out, want, a.abs() + _swapped(a).abs())

    return Problem((launch,), checks, once(x, out, cos, sin), lambda: turned(x, cos, sin))
