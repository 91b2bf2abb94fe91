"""Kernels that are right, and the same with one fault each: what a check must tell apart.

FAULT is "" or one of FAULTS: "mask" forgets a mask, "scaled" multiplies the result by 1.01,
"shifted" adds 0.01, "row" is off by one row (or element), "stale" takes a tile of the round (or of
the program) before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

import workbench.language as tl

FAULTS = ("mask", "scaled", "shifted", "row", "stale")


def spoiled(y, FAULT: tl.constexpr):
    if FAULT == "scaled":
        y = y * 1.01
    if FAULT == "shifted":
        y = y + 0.01
    return y


def add(x_ptr, y_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    moved = offsets + (1 if FAULT == "row" else 0)
    if FAULT == "stale":
        moved = tl.maximum(offsets - BLOCK, 0)
    x = tl.load(x_ptr + moved, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if FAULT == "mask":
        y = tl.where(offsets < n - 1, y, 0.0)
    tl.store(out_ptr + offsets, spoiled(x + y, FAULT), mask=mask)


def gelu(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    moved = offsets + (1 if FAULT == "row" else 0)
    if FAULT == "stale":
        moved = tl.maximum(offsets - BLOCK, 0)
    x = tl.load(x_ptr + moved, mask=mask, other=0.0).to(tl.float32)
    if FAULT == "mask":
        x = tl.where(offsets < n - 2, x, 0.0)
    y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + offsets, spoiled(y, FAULT), mask=mask)


def softmax(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    source = row + 1 if FAULT == "row" else row
    lost = 0.0 if FAULT == "mask" else -float("inf")
    x = tl.load(x_ptr + source * stride + cols, mask=mask, other=lost).to(tl.float32)
    if FAULT == "stale":
        x = tl.where(cols < 8, tl.load(x_ptr + cols + tl.maximum(row - 1, 0) * stride), x)
    powers = tl.exp(x - tl.max(x, axis=0))
    y = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row * n + cols, spoiled(y, FAULT), mask=mask)


def layer_norm(
    x_ptr, w_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    source = row + 1 if FAULT == "row" else row
    if FAULT == "stale":
        source = tl.maximum(row - 1, 0)
    x = tl.load(x_ptr + source * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    apart = x - mean if FAULT == "mask" else tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(apart * apart, axis=0) / n + 1e-5)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n + cols, spoiled(apart * rstd * w, FAULT), mask=mask)


def rms_norm(x_ptr, w_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    source = row + 1 if FAULT == "row" else row
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        if FAULT == "stale":
            cols = tl.maximum(cols - BLOCK, cols % BLOCK)
        mask = cols < (stride if FAULT == "mask" else n)
        x = tl.load(x_ptr + source * stride + cols, mask=mask, other=0.0).to(tl.float32)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + 1e-6)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * n + cols, spoiled(x * rstd * w, FAULT), mask=mask)


def row_sum(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    source = row + 1 if FAULT == "row" else row
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        if FAULT == "stale":
            cols = tl.maximum(cols - BLOCK, cols % BLOCK)
        mask = cols < (stride if FAULT == "mask" else n)
        total += tl.load(x_ptr + source * stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, spoiled(tl.sum(total, axis=0), FAULT))


def running_sum(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    source = row + 1 if FAULT == "row" else row
    if FAULT == "stale":
        source = tl.maximum(row - 1, 0)
    x = tl.load(x_ptr + source * stride + cols, mask=mask, other=0.0).to(tl.float32)
    if FAULT == "mask":
        x = tl.where(cols < n // 2, x, 0.0)
    tl.store(out_ptr + row * n + cols, spoiled(tl.cumsum(x, axis=0), FAULT), mask=mask)


def matmul(
    a_ptr, b_ptr, out_ptr, M, N, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FAULT: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    shift = 1 if FAULT == "row" else 0
    for k in range(0, K, BK):
        here = tl.maximum(k - BK, 0) if FAULT == "stale" else k
        end = stride if FAULT == "mask" else K
        a = tl.load(
            a_ptr + (rows[:, None] + shift) * stride + k + ks[None, :],
            mask=(rows[:, None] < M) & (k + ks[None, :] < end), other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + (here + ks[:, None]) * N + cols[None, :],
            mask=(here + ks[:, None] < end) & (cols[None, :] < N), other=0.0,
        )  # fmt: skip
        total = tl.dot(a, b, total)
    place = rows[:, None] * N + cols[None, :]
    tl.store(out_ptr + place, spoiled(total, FAULT), mask=(rows[:, None] < M) & (cols[None, :] < N))


def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    FAULT: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    within = rows[:, None] < N
    shift = 1 if FAULT == "row" else 0
    q = tl.load(q_ptr + (rows[:, None] + shift) * D + d[None, :], mask=within, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        keys = start + tl.arange(0, BN)
        live = keys < N
        k = tl.load(k_ptr + keys[None, :] * D + d[:, None], mask=live[None, :], other=0.0)
        s = tl.dot(q, k) * scale
        if FAULT != "mask":
            s = tl.where(live[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, axis=1)
        here = tl.maximum(keys - BN, keys % BN) if FAULT == "stale" else keys
        v = tl.load(v_ptr + here[:, None] * D + d[None, :], mask=(here < N)[:, None], other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        top = new
    y = acc / total[:, None]
    tl.store(out_ptr + rows[:, None] * D + d[None, :], spoiled(y, FAULT), mask=within)


def rotary(x_ptr, angle_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    source = row + 1 if FAULT == "row" else row
    if FAULT == "stale":
        source = tl.maximum(row - 1, 0)
    a = tl.load(
        angle_ptr + tl.minimum(source, tl.num_programs(0) - 1) * n + cols, mask=mask, other=0.0
    )
    c, s = tl.cos(a), tl.sin(a)
    left = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(x_ptr + row * stride + n + cols, mask=mask, other=0.0).to(tl.float32)
    if FAULT == "mask":
        right = tl.where(cols < n - 2, right, 0.0)
    tl.store(out_ptr + row * 2 * n + cols, spoiled(left * c - right * s, FAULT), mask=mask)
    tl.store(out_ptr + row * 2 * n + n + cols, spoiled(right * c + left * s, FAULT), mask=mask)


def logsumexp(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    row = tl.program_id(0)
    source = row + 1 if FAULT == "row" else row
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        if FAULT == "stale":
            cols = tl.maximum(cols - BLOCK, cols % BLOCK)
        lost = 0.0 if FAULT == "mask" else -float("inf")
        x = tl.load(x_ptr + source * stride + cols, mask=cols < n, other=lost).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    tl.store(out_ptr + row, spoiled(top + tl.log(total), FAULT))


def swiglu(gate_ptr, up_ptr, out_ptr, n, stride, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    moved = offsets + (1 if FAULT == "row" else 0)
    if FAULT == "stale":
        moved = tl.maximum(offsets - BLOCK, 0)
    g = tl.load(gate_ptr + moved, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if FAULT == "mask":
        u = tl.where(offsets < n - 2, u, 0.0)
    tl.store(out_ptr + offsets, spoiled(g * tl.sigmoid(g) * u, FAULT), mask=mask)


@dataclass(frozen=True)
class Case:
    """One kernel over data: launch arguments, grid, and the reference of its last array."""

    kernel: Callable[..., None]
    arguments: dict[str, Any]
    settings: dict[str, Any]
    grid: tuple[int, ...]
    reference: Callable[..., Any]


def cases(dtype: torch.dtype, large: bool) -> dict[str, Case]:
    """Return the twelve kernels at one of two sizes.

    Their inputs lie in larger arrays of other numbers, which what reads beyond its own gets.
    """
    rng = torch.Generator().manual_seed(5)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, generator=rng).to(dtype)

    def empty(*shape: int) -> Any:
        return torch.empty(*shape, dtype=dtype)

    rows, columns = (200, 500) if large else (40, 90)
    n = 100_003 if large else 4_001
    over = (-(-n // 1024),)
    x = random(rows + 1, columns + 128)
    by_row = {"n": columns, "stride": x.stride(0)}
    of_row = {"BLOCK": 512 if large else 128}
    M, N, K = (200, 150, 300) if large else (50, 40, 75)
    length, head = (300, 64) if large else (75, 32)

    def flat(kernel: Any, names: str, reference: Any) -> Case:
        arrays = {name: random(n + 1) for name in names.split()}
        arguments = dict(**arrays, out_ptr=empty(n), n=n, stride=1)
        return Case(kernel, arguments, {"BLOCK": 1024}, over, reference)

    def along(kernel: Any, reference: Any, width: int = columns, **more: Any) -> Case:
        shape = (rows, width) if width else (rows,)
        arguments = dict(x_ptr=x, **more, out_ptr=empty(*shape), **by_row)
        settings = {"BLOCK": 64} if kernel in (rms_norm, row_sum, logsumexp) else of_row
        return Case(kernel, arguments, settings, (rows,), reference)

    def part(x_ptr: Any, n: int) -> Any:
        return x_ptr[:rows, :n]

    def normed(x: Any, w: Any) -> Any:
        return x * torch.rsqrt((x**2).mean(-1, True) + 1e-6) * w

    def attend(q: Any, k: Any, v: Any, scale: float) -> Any:
        return torch.softmax(q @ k.T * scale, -1) @ v

    return {
        "add": flat(add, "x_ptr y_ptr", lambda x_ptr, y_ptr: (x_ptr + y_ptr)[:n]),
        "gelu": flat(gelu, "x_ptr", lambda x_ptr: functional.gelu(x_ptr)[:n]),
        "swiglu": flat(
            swiglu,
            "gate_ptr up_ptr",
            lambda gate_ptr, up_ptr: (functional.silu(gate_ptr) * up_ptr)[:n],
        ),
        "softmax": along(softmax, lambda x_ptr, n: part(x_ptr, n).softmax(-1)),
        "layer_norm": along(
            layer_norm,
            lambda x_ptr, w_ptr, n: functional.layer_norm(part(x_ptr, n), (n,), w_ptr, None, 1e-5),
            w_ptr=random(columns),
        ),
        "rms_norm": along(
            rms_norm, lambda x_ptr, w_ptr, n: normed(part(x_ptr, n), w_ptr), w_ptr=random(columns)
        ),
        "row_sum": along(row_sum, lambda x_ptr, n: part(x_ptr, n).sum(-1), 0),
        "running_sum": along(running_sum, lambda x_ptr, n: part(x_ptr, n).cumsum(-1)),
        "logsumexp": along(logsumexp, lambda x_ptr, n: part(x_ptr, n).logsumexp(-1), 0),
        "rotary": Case(
            rotary,
            {
                "x_ptr": random(rows, 2 * columns),
                "angle_ptr": torch.rand(rows, columns, generator=rng),
                "out_ptr": empty(rows, 2 * columns), "n": columns, "stride": 2 * columns,
            },
            of_row, (rows,), _turned,
        ),
        "matmul": Case(
            matmul,
            {
                "a_ptr": random(M + 1, K + 64), "b_ptr": random(K + 64, N), "out_ptr": empty(M, N),
                "M": M, "N": N, "K": K, "stride": K + 64,
            },
            {"BM": 32, "BN": 32, "BK": 32}, (-(-M // 32), -(-N // 32)),
            lambda a_ptr, b_ptr, K: a_ptr[:-1, :K] @ b_ptr[:K],
        ),
        "attention": Case(
            attention,
            {
                "q_ptr": random(length + 1, head), "k_ptr": random(length, head),
                "v_ptr": random(length, head), "out_ptr": empty(length, head), "N": length,
                "scale": head**-0.5,
            },
            {"D": head, "BM": 32, "BN": 32}, (-(-length // 32),),
            lambda q_ptr, k_ptr, v_ptr, scale: attend(q_ptr[:-1], k_ptr, v_ptr, scale),
        ),
    }  # fmt: skip


def _turned(x_ptr: Any, angle_ptr: Any) -> Any:
    left, right = x_ptr.chunk(2, -1)
    c, s = angle_ptr.cos(), angle_ptr.sin()
    return torch.cat([left * c - right * s, right * c + left * s], -1)
