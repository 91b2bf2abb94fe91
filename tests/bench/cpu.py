"""The CPU suites: vector add, softmax and matmul in fp32 against torch with `out=`, and a copy.

All run with the same number of threads. They take turns in short bursts, with a pause before each
in which the others' idle workers stop spinning (spinning pools on the same cores spoil each other's
times), and the best call of all bursts counts: the rest is what else the machine did. A race is run
twice; rows whose ratios differ by more than 3 % (6 % below 10 µs) between the two are unsteady.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

import workbench
from tests.bench.rows import Row, compared, row, steady
from tests.kernels import matmul as matmul_kernels
from tests.kernels import softmax, vector_add
from workbench.devices.pool import set_num_threads
from workbench.runtime.timing import ROUNDS

#: Bursts for each side, at least this long; more on a busy machine, until the best has settled.
_BURST_SECONDS = 0.06
_LEAST_BURSTS, _MOST_BURSTS = 6, 40
_PAUSE_SECONDS = 0.004

BLOCK = 1024
MATMUL_BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}


Calls = Mapping[str, Callable[[], object]]


def race(calls: Calls) -> dict[str, float]:
    """Return the best microseconds of each, in turns until none has improved for five bursts."""
    best = dict.fromkeys(calls, float("inf"))
    settled = 0
    for number in range(_MOST_BURSTS):
        before = dict(best)
        for name, call in calls.items():
            time.sleep(_PAUSE_SECONDS)
            end = time.perf_counter() + _BURST_SECONDS
            while (start := time.perf_counter()) < end:
                call()
                best[name] = min(best[name], time.perf_counter() - start)
        improved = any(best[name] < 0.99 * before[name] for name in best)
        settled = 0 if improved else settled + 1
        if number >= _LEAST_BURSTS and settled >= 5:
            break
    return {name: seconds * 1e6 for name, seconds in best.items()}


def _rows(suite: str, case: str, size: int, calls: Calls, moved: int, flops: int = 0) -> list[Row]:
    """Race "ours" against the others, and against a copy of as many bytes; return the rows."""
    source = torch.zeros(moved // 2, dtype=torch.uint8)
    copied = torch.empty_like(source)
    calls = {**calls, "copy": lambda: copied.copy_(source)}
    races = [race(calls) for _ in range(ROUNDS)]
    best = {name: min(found[name] for found in races) for name in calls}
    rows = []
    for name in calls:
        if name != "ours":
            timings = steady([(found["ours"], found[name]) for found in races])
            plain = row(suite, case, "fp32", size, best["ours"], name, best[name])
            rows.append(replace(compared(plain, *timings), bytes=moved, flops=flops))
    return rows


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
        calls = {
            "ours": lambda: kernel[grid](x, y, out, n, BLOCK=BLOCK),
            "torch": lambda: torch.add(x, y, out=out),
        }
        rows += _rows("cpu_vector_add", _case(threads), n, calls, 3 * x.nbytes)
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
        calls = {"ours": ours, "torch": lambda: torch.softmax(x, -1, out=out)}
        rows += _rows("cpu_softmax", _case(threads), columns, calls, 2 * x.nbytes)
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
        calls = {"ours": ours, "torch": lambda: torch.mm(a, b, out=c)}
        case = f"128x128x32, {_case(threads)}"
        rows += _rows("cpu_matmul", case, n, calls, 3 * a.nbytes, 2 * n**3)
    return rows


def _case(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


SUITES: dict[str, Callable[[], list[Row]]] = {
    "cpu_vector_add": vector_add_rows,
    "cpu_softmax": softmax_rows,
    "cpu_matmul": matmul_rows,
}
