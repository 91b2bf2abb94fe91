"""Family 15: linear attention with decay, triangular solves."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem, close, once, sample
from tests.kernels import linear_attention
from workbench import cdiv, next_power_of_2


def _recurrence(q, k, v, g, h, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs and last state, one step after another, in float64."""
    outputs = []
    for t in range(q.shape[1]):
        h = h * g[:, t].exp()[:, None, None] + k[:, t, :, None] * v[:, t, None, :]
        outputs.append((q[:, t, None, :] @ h)[:, 0] * scale)
    return torch.stack(outputs, 1), h


def _inputs(make: Maker, heads: int, length: int, key: int, value: int):
    q, k = make.normal(heads, length, key), make.normal(heads, length, key)
    v = make.normal(heads, length, value)
    g = make.tensor(-make.uniform(heads, length, dtype=F32) * 0.5)
    return q, k, v, g


def _checks(q, k, v, g, h0, out, ht, scale: float, own: float) -> Iterator[Check]:
    """Errors are bounded by what would be summed without signs; `own` is the relative one."""
    tensors = [t.double() for t in (q, k, v, g, h0)]
    want, state = _recurrence(*tensors, scale)
    sizes = [t.abs() for t in tensors]
    size, state_size = _recurrence(*sizes[:3], tensors[3], sizes[4], scale)
    yield Check("out", out, want, own * size + torch.finfo(out.dtype).eps * want.abs() + 1e-6)
    yield Check("state", ht, state, own * state_size + 1e-6)


@sample(
    "linear_attention", linear_attention,
    fast=((1, 1, 16, 16, False), (2, 15, 20, 40, True)),
    slow=((2, 33, 64, 32, True),),
    gpu=((4, 100, 100, 60, True), (8, 500, 128, 128, False)),
    bench=((256, 512, 128, 128, True),),
)  # fmt: skip
def recurrent(make: Maker, heads: int, length: int, key: int, value: int, start: bool) -> Problem:
    q, k, v, g = _inputs(make, heads, length, key, value)
    h0 = make.normal(heads, key, value, dtype=F32)
    out, ht = make.output(heads, length, value), make.output(heads, key, value, dtype=F32)
    scale = key**-0.5
    launch = Launch(
        linear_attention.recurrent,
        (cdiv(value, 16), heads),
        (q, k, v, g, out, h0 if start else None, ht, length, scale),
        {"K": key, "V": value, "PAD_K": next_power_of_2(key), "BLOCK_V": 16, "USE_G": True,
         "USE_H0": start, "num_warps": 1 if key <= 64 else 4},
    )  # fmt: skip
    state = h0 if start else torch.zeros_like(h0)
    eps = 2 * (length + key) ** 0.5 * torch.finfo(F32).eps + 4 * torch.finfo(F32).eps
    moved = once(q, k, v, g, out, ht) + (once(h0) if start else 0)
    return Problem((launch,), lambda: _checks(q, k, v, g, state, out, ht, scale, eps), moved)


@sample(
    "linear_attention", linear_attention,
    fast=((1, 1, 16, 16), (2, 70, 40, 24)),
    slow=((2, 63, 32, 32), (1, 64, 64, 32), (1, 65, 60, 100)),
    gpu=((4, 1000, 100, 60), (8, 500, 128, 128)),
    bench=((64, 4096, 128, 128),),
    dtypes=(BF16, F16, F32),
)  # fmt: skip
def chunked(make: Maker, heads: int, length: int, key: int, value: int) -> Problem:
    q, k, v, g = _inputs(make, heads, length, key, value)
    chunk = 32 if length < 256 else 64
    chunks = cdiv(length, chunk)
    sums = make.output(heads, length, dtype=F32)
    h, ht = make.output(heads, chunks, key, value), make.output(heads, key, value, dtype=F32)
    out = make.output(heads, length, value)
    scale = key**-0.5
    # Blocks of 64 x 64; smaller ones where the state is.
    block_k, block_v = min(64, next_power_of_2(key)), min(64, next_power_of_2(value))
    named = {"K": key, "V": value, "CHUNK": chunk, "BLOCK_K": block_k, "BLOCK_V": block_v,
             "num_warps": 4, "num_stages": 2}  # fmt: skip
    launches = (
        Launch(linear_attention.chunk_cumsum, (chunks, heads), (g, sums, length),
               {"CHUNK": chunk, "REVERSE": False, "num_warps": 1}),
        Launch(linear_attention.chunk_states, (cdiv(key, block_k), cdiv(value, block_v), heads),
               (k, v, sums, h, ht, length, chunks), named),
        Launch(linear_attention.chunk_outputs, (cdiv(value, block_v), chunks, heads),
               (q, k, v, sums, h, out, length, chunks, scale), named),
    )  # fmt: skip
    h0 = torch.zeros(heads, key, value, device=q.device)
    # Operands of products are rounded: states and weights to the data's type, fp32 to tf32.
    eps = 4 * max(torch.finfo(make.dtype).eps, 2**-10)
    # Of each position its keys with its values, its query with the state; within a chunk queries
    # with the keys before them, and these products with values.
    pairs = length * (chunk + 1) // 2
    flops = heads * (4 * length * key * value + 2 * pairs * (key + value))
    return Problem(launches, lambda: _checks(q, k, v, g, h0, out, ht, scale, eps),
                   once(q, k, v, g, out, ht), flops=flops, scratch=(sums, h))  # fmt: skip


@sample(
    "triangular", linear_attention,
    fast=((1, 16, 16), (2, 40, 16)),
    slow=((1, 5, 8), (2, 32, 32)),
    gpu=((8, 1000, 16), (4, 1024, 64)),
    bench=((256, 4096, 16),),
    dtypes=(F32,),
)  # fmt: skip
def solve_unit_lower(make: Maker, heads: int, length: int, n: int) -> Problem:
    a = make.tensor(make.normal(heads, length, n, scale=0.3))
    out = make.output(heads, length, n)
    launch = Launch(linear_attention.solve_unit_lower, (cdiv(length, n), heads), (a, out, length),
                    {"N": n, "num_warps": 1 if n < 32 else 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        blocks = cdiv(length, n)
        padded = torch.nn.functional.pad(a.double(), (0, 0, 0, blocks * n - length))
        lower = padded.view(heads, blocks, n, n).tril(-1)
        eye = torch.eye(n, dtype=torch.float64, device=a.device)
        want, size = (
            torch.linalg.inv(eye + x).tril().reshape(heads, blocks * n, n)[:, :length]
            for x in (lower, -lower.abs())
        )
        # The float64 reference itself is off by 1e-16 where the inverse is 0.
        yield close("inverse", out, want, size + 1e-6, n)

    return Problem((launch,), checks, 2 * a.nbytes)


@sample("triangular", linear_attention, fast=((2, 32),), slow=((1, 64),), gpu=((8, 1024),),
        bench=((256, 4096),), dtypes=(F32,))  # fmt: skip
def merge_inverses(make: Maker, heads: int, length: int) -> Problem:
    n = 16
    a = make.tensor(make.normal(heads, length, 2 * n, scale=0.3))
    lower = a.double().view(heads, -1, 2 * n, 2 * n).tril(-1)
    eye = torch.eye(2 * n, dtype=torch.float64, device=a.device)
    want, size = (torch.linalg.inv(eye + x).tril() for x in (lower, -lower.abs()))
    diagonal = torch.stack([want[..., :n, :n], want[..., n:, n:]], 2)
    x, out = (
        make.tensor(diagonal.reshape(heads, length, n).float()),
        make.output(heads, length, 2 * n),
    )
    grid = length // (2 * n), heads
    launch = Launch(linear_attention.merge_inverses, grid, (a, x, out, length),
                    {"N": n, "num_warps": 2})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield close(
            "inverse", out, want.reshape(out.shape), 2 * size.reshape(out.shape) + 1e-6, 2 * n
        )

    return Problem(
        (launch,), checks, once(a) // 4 + once(x, out), flops=4 * heads * (length // (2 * n)) * n**3
    )
