"""The CPU suites: vector add, softmax and matmul in fp32 against torch with `out=`.

Both run with the same number of threads. They take turns in short rounds, with a pause before
each in which the other's idle workers stop spinning (two spinning pools on the same cores spoil
each other's times), and the best call of all rounds counts: the rest is what else the machine did.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

import workbench
from tests.bench.rows import Row, row
from tests.kernels import matmul as matmul_kernels
from tests.kernels import softmax, vector_add
from workbench.runtime.cpu import set_num_threads

#: Rounds for each side, at least this long; more on a busy machine, until the best has settled.
_ROUND_SECONDS = 0.06
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 40
_PAUSE_SECONDS = 0.004

BLOCK = 1024
MATMUL_BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}


def race(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Return the best microseconds of both, in turns until neither has improved for five rounds."""
    best = [float("inf"), float("inf")]
    settled = 0
    for number in range(_MOST_ROUNDS):
        before = list(best)
        for side, call in enumerate((ours, theirs)):
            time.sleep(_PAUSE_SECONDS)
            end = time.perf_counter() + _ROUND_SECONDS
            while (start := time.perf_counter()) < end:
                call()
                best[side] = min(best[side], time.perf_counter() - start)
        improved = any(new < 0.99 * old for new, old in zip(best, before, strict=True))
        settled = 0 if improved else settled + 1
        if number >= _LEAST_ROUNDS and settled >= 5:
            break
    return best[0] * 1e6, best[1] * 1e6


def _threads() -> int:
    """Give both sides all cores of this process; return how many."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = count or 1
    torch.set_num_threads(threads)
    set_num_threads(threads)
    return threads


def vector_add_rows() -> list[Row]:
    """Return the rows of the suite `cpu_vector_add`, by elements."""
    kernel = workbench.jit(vector_add.add)
    threads, rows = _threads(), []
    for power in (20, 22, 24, 26):
        n = 1 << power
        x, y, out = torch.randn(n), torch.randn(n), torch.empty(n)
        grid = (-(-n // BLOCK),)
        kernel[grid](x, y, out, n, BLOCK=BLOCK)
        assert torch.equal(out, x + y)
        times = race(
            lambda: kernel[grid](x, y, out, n, BLOCK=BLOCK), lambda: torch.add(x, y, out=out)
        )
        rows.append(row("cpu_vector_add", _case(threads), "fp32", n, times[0], "torch", times[1]))
    return rows


def softmax_rows() -> list[Row]:
    """Return the rows of the suite `cpu_softmax`: 4096 rows, by columns."""
    kernel = workbench.jit(softmax.softmax)
    threads, rows = _threads(), []
    for columns in (256, 512, 1024, 2048, 4096, 8192):
        x = torch.randn(4096, columns) * 3
        out = torch.empty_like(x)

        def ours(x: torch.Tensor = x, out: torch.Tensor = out, columns: int = columns) -> None:
            block = workbench.next_power_of_2(columns)
            kernel[(4096,)](out, x, columns, columns, columns, BLOCK=block)

        ours()
        torch.testing.assert_close(out, torch.softmax(x, -1))
        times = race(ours, lambda: torch.softmax(x, -1, out=out))
        case = _case(threads)
        rows.append(row("cpu_softmax", case, "fp32", columns, times[0], "torch", times[1]))
    return rows


def matmul_rows() -> list[Row]:
    """Return the rows of the suite `cpu_matmul`, by M = N = K."""
    kernel = workbench.jit(matmul_kernels.matmul)
    threads, rows = _threads(), []
    for n in (512, 1024, 2048):
        a, b, c = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
        grid = ((-(-n // 128)) ** 2,)

        def ours(
            a: torch.Tensor = a, b: torch.Tensor = b, c: torch.Tensor = c, n: int = n,
            grid: tuple[int] = grid,
        ) -> None:  # fmt: skip
            kernel[grid](a, b, c, n, n, n, n, 1, n, 1, n, 1, **MATMUL_BLOCKS)

        ours()
        torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-3)
        times = race(ours, lambda: torch.mm(a, b, out=c))
        case = f"128x128x32, {_case(threads)}"
        rows.append(row("cpu_matmul", case, "fp32", n, times[0], "torch", times[1]))
    return rows


def _case(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


SUITES: dict[str, Callable[[], list[Row]]] = {
    "cpu_vector_add": vector_add_rows,
    "cpu_softmax": softmax_rows,
    "cpu_matmul": matmul_rows,
}
