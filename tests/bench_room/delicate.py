"""Kernels that are right and round in ways that a check may take for a fault."""

from __future__ import annotations

from typing import Any

import torch

import workbench.language as tl
from tests.bench_room.judged import Case


def narrow_accumulator(
    a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float16)
    for k in range(0, K, BK):
        at_a = (rows[:, None] < M) & (k + ks[None, :] < K)
        at_b = (k + ks[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :], mask=at_a, other=0.0)
        b = tl.load(b_ptr + (k + ks[:, None]) * N + cols[None, :], mask=at_b, other=0.0)
        total += tl.dot(a, b).to(tl.float16)
    place = rows[:, None] * N + cols[None, :]
    tl.store(out_ptr + place, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


def split_k(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.program_id(2) * BK + tl.arange(0, BK)
    at_a = (rows[:, None] < M) & (ks[None, :] < K)
    at_b = (ks[:, None] < K) & (cols[None, :] < N)
    a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=at_a, other=0.0)
    b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=at_b, other=0.0)
    place = rows[:, None] * N + cols[None, :]
    tl.atomic_add(out_ptr + place, tl.dot(a, b), mask=(rows[:, None] < M) & (cols[None, :] < N))


def block_sums(x_ptr, out_ptr, n, groups, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + tl.program_id(0) % groups, tl.sum(x, axis=0))


def fast_exp(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.exp2(x * 1.4426950408889634), mask=offsets < n)


def in_its_type(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0)
    z = x * y + x
    z = (z - y) * x + y * y
    tl.store(out_ptr + offsets, z * x + z, mask=offsets < n)


def cancelling(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, (x + 100 * y) - 100 * y - x, mask=offsets < n)


def centred(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * n + cols, x - tl.sum(x, axis=0) / n, mask=cols < n)


def variance(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    tl.store(out_ptr + row, tl.sum(x * x, axis=0) / n - mean * mean)


def divided(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.log(x / y), mask=offsets < n)


def squared(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * x * 1e30, mask=offsets < n)


def stepped(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.floor(x) + tl.where(x > 1, 1.0, 0.0), mask=offsets < n)


def moved(x_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(out_ptr + cols * rows + row, x, mask=cols < n)


def running(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(out_ptr + row * n + cols, tl.cumsum(x, axis=0), mask=cols < n)


def truncated(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    y = (x * 1.7).to(tl.float16, fp_downcast_rounding="rtz")
    tl.store(out_ptr + offsets, y.to(tl.float32), mask=offsets < n)


def tiny(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.exp(x * 20 - 85), mask=offsets < n)


def tanh_of_sum(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    z = 2 / (1 + tl.exp(-2 * (x + y))) - 1
    tl.store(out_ptr + offsets, z, mask=offsets < n)


def long_dot(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        total += tl.sum(x * y, axis=0)
    tl.store(out_ptr + row, total)


def scores_then_values(q_ptr, k_ptr, out_ptr, N: tl.constexpr, D: tl.constexpr):
    rows, d = tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    k = tl.load(k_ptr + rows[:, None] * D + d[None, :])
    s = tl.dot(q, tl.trans(k)) * 0.125
    p = tl.exp(s - tl.max(s, axis=1)[:, None])
    p = p / tl.sum(p, axis=1)[:, None]
    tl.store(out_ptr + rows[:, None] * D + d[None, :], tl.dot(p.to(k.dtype), k))


def scaled(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x * factor, mask=offsets < n)


def shifted(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, x + SHIFT, mask=offsets < n)


def there_and_back(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, (x + 100.0) - 100.0, mask=offsets < n)


def with_numbers(dtype: torch.dtype, shift: float = 0.3, factor: float = 0.1) -> dict[str, Case]:
    """Return kernels with numbers that no binary float holds, which references take exactly."""
    n = 5_003
    x = torch.randn(n, generator=torch.Generator().manual_seed(7)).to(dtype)

    def flat(kernel: Any, reference: Any, given: Any, **settings: Any) -> Case:
        arguments = {"x_ptr": x, "out_ptr": torch.zeros_like(x), "n": n, **given}
        return Case(kernel, arguments, {"BLOCK": 1024, **settings}, (5,), reference)

    return {
        "scaled": flat(scaled, lambda x_ptr: x_ptr * 0.1, {"factor": factor}),
        "shifted": flat(shifted, lambda x_ptr: x_ptr + 0.3, {}, SHIFT=shift),
        "there and back": flat(there_and_back, lambda x_ptr: (x_ptr + 100) - 100, {}),
    }


def cases(dtype: torch.dtype) -> dict[str, Case]:
    """Return the kernels over data of one type."""
    rng = torch.Generator().manual_seed(11)
    n, rows, columns = 5_003, 30, 100

    def random(*shape: int, scale: float = 1.0) -> Any:
        return (torch.randn(*shape, generator=rng) * scale).to(dtype)

    def empty(*shape: int, type: torch.dtype = dtype) -> Any:
        return torch.zeros(*shape, dtype=type)

    def flat(kernel: Any, reference: Any, **arrays: Any) -> Case:
        arguments = {"out_ptr": empty(n), **arrays, "n": n}
        return Case(kernel, arguments, {"BLOCK": 1024}, (-(-n // 1024),), reference)

    def along(kernel: Any, reference: Any, *shape: int, **arrays: Any) -> Case:
        arguments = {"out_ptr": empty(*shape), **arrays, "n": columns}
        return Case(kernel, arguments, {"BLOCK": 128}, (rows,), reference)

    def product(kernel: Any, splits: int, a: Any, b: Any, out: Any) -> Case:
        arguments = {"a_ptr": a, "b_ptr": b, "out_ptr": out, "M": 70, "N": 60, "K": 200}
        grid = (3, 2, splits)
        return Case(
            kernel, arguments, {"BM": 32, "BN": 32, "BK": 32}, grid,
            lambda a_ptr, b_ptr: a_ptr @ b_ptr,
        )  # fmt: skip

    odd = random(n)
    odd[::7], odd[1::11], odd[2::13] = float("inf"), float("-inf"), float("nan")
    whole = torch.randint(-3, 4, (n,), generator=rng).to(dtype)
    positive = torch.rand(70, 200, generator=rng).to(dtype)
    single = torch.float32
    return {
        "f16 sums": product(
            narrow_accumulator, 1, random(70, 200), random(200, 60), empty(70, 60)
        ),
        "f16 sums of positives": product(
            narrow_accumulator, 1, positive, torch.rand(200, 60, generator=rng).to(dtype),
            empty(70, 60),
        ),
        "split-K": product(
            split_k, 7, random(70, 200), random(200, 60), empty(70, 60, type=single)
        ),
        "atomics": Case(
            block_sums, {"x_ptr": random(n), "out_ptr": empty(4, type=single), "n": n, "groups": 4},
            {"BLOCK": 64}, (-(-n // 64),), _group_sums,
        ),
        "fast exp": flat(
            fast_exp, lambda x_ptr: x_ptr.exp(), x_ptr=random(n, scale=15),
            out_ptr=empty(n, type=single),
        ),
        "in its type": flat(in_its_type, _polynomial, x_ptr=random(n), y_ptr=random(n)),
        "cancelling": flat(
            cancelling, lambda x_ptr, y_ptr: (x_ptr + 100 * y_ptr) - 100 * y_ptr - x_ptr,
            x_ptr=random(n), y_ptr=random(n),
        ),
        "centred": along(
            centred, lambda x_ptr: x_ptr - x_ptr.mean(-1, True), rows, columns,
            x_ptr=random(rows, columns) + 50,
        ),
        "variance": along(
            variance, lambda x_ptr: (x_ptr**2).mean(-1) - x_ptr.mean(-1) ** 2, rows,
            x_ptr=random(rows, columns) + 5,
        ),
        "inf and NaN": flat(
            divided, lambda x_ptr, y_ptr: (x_ptr / y_ptr).log(), x_ptr=odd, y_ptr=whole
        ),
        "overflow": flat(squared, lambda x_ptr: x_ptr * x_ptr * 1e30, x_ptr=random(n, scale=1e4)),
        "steps": flat(
            stepped, lambda x_ptr: x_ptr.floor() + (x_ptr > 1), x_ptr=random(n)
        ),
        "steps at whole numbers": flat(
            stepped, lambda x_ptr: x_ptr.floor() + (x_ptr > 1), x_ptr=whole
        ),
        "moved": Case(
            moved, {"x_ptr": random(rows, columns), "out_ptr": empty(columns, rows), "rows": rows,
                    "n": columns}, {"BLOCK": 128}, (rows,), lambda x_ptr: x_ptr.T,
        ),
        "running": along(
            running, lambda x_ptr: x_ptr.cumsum(-1), rows, columns, x_ptr=random(rows, columns)
        ),
        "truncated": flat(
            truncated, lambda x_ptr: x_ptr * 1.7, x_ptr=random(n), out_ptr=empty(n, type=single)
        ),
        "tiny": flat(
            tiny, lambda x_ptr: (x_ptr * 20 - 85).exp(), x_ptr=random(n),
            out_ptr=empty(n, type=single),
        ),
        "tanh": flat(
            tanh_of_sum, lambda x_ptr, y_ptr: (x_ptr + y_ptr).tanh(), x_ptr=random(n),
            y_ptr=-random(n),
        ),
        "long dot": Case(
            long_dot, {"x_ptr": random(20, 3000), "y_ptr": random(20, 3000),
                       "out_ptr": empty(20, type=single), "n": 3000}, {"BLOCK": 64}, (20,),
            lambda x_ptr, y_ptr: (x_ptr * y_ptr).sum(-1),
        ),
        "two dots": Case(
            scores_then_values, {"q_ptr": random(64, 32), "k_ptr": random(64, 32),
                                 "out_ptr": empty(64, 32)}, {"N": 64, "D": 32}, (1,),
            lambda q_ptr, k_ptr: torch.softmax(q_ptr @ k_ptr.T * 0.125, -1) @ k_ptr,
        ),
        "reference in float32": flat(
            fast_exp, lambda x_ptr: x_ptr.float().exp(), x_ptr=random(n),
            out_ptr=empty(n, type=single),
        ),
    }  # fmt: skip


def _group_sums(x_ptr: Any) -> Any:
    padded = torch.nn.functional.pad(x_ptr, (0, -len(x_ptr) % 256))
    return padded.reshape(-1, 4, 64).sum((0, 2))


def _polynomial(x_ptr: Any, y_ptr: Any) -> Any:
    z = x_ptr * y_ptr + x_ptr
    z = (z - y_ptr) * x_ptr + y_ptr * y_ptr
    return z * x_ptr + z
