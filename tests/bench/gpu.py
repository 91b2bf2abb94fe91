"""Everything that needs a GPU, in one script: correctness first, then the benchmark table.

Runs without IPython. `python -m tests.bench.gpu [tests] [notebooks] [check] [fuzz] [SUITE ...]`
runs parts; without arguments, all. Results go to results/<machine>.json.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import workbench
from tests.bench import peers
from tests.bench.rows import RESULTS, Row, row, save, table
from tests.corpus import every
from tests.corpus.sample import Maker, Problem, Sample, jitted
from tests.gpu import cases, fuzz
from tests.kernels import matmul as matmul_kernels
from tests.kernels import softmax, vector_add
from workbench.runtime.timing import Effort, measure

add = workbench.jit(vector_add.add)
row_softmax = workbench.jit(softmax.softmax)
matmul = workbench.jit(matmul_kernels.matmul)

#: Configurations tried for the matmul rows: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages.
MATMUL_CONFIGS = (
    (128, 128, 32, 4, 4),
    (128, 128, 32, 4, 5),
    (128, 128, 64, 4, 3),
    (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 32, 8, 4),
)


def interleaved(
    calls: dict[str, object], milliseconds: float = 60.0, warm: bool = False
) -> dict[str, float]:
    """Return the median of each call in microseconds, measured in turns with a cold L2."""
    timings = measure(calls, gpu=True, warm=warm, effort=Effort(milliseconds=milliseconds))  # type: ignore[arg-type]
    return {name: timing.median * 1e3 for name, timing in timings.items()}


def check() -> int:
    """Run all correctness cases, in several processes; print the failures and how many."""
    start = time.perf_counter()
    # Most of the time goes into compiling, on one core per process.
    workers = max(1, min(12, (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(check_part, range(workers), [workers] * workers))
    messages = [message for _, found in parts for message in found]
    for message in messages[:25]:
        print("FAILED", message)
    total = sum(count for count, _ in parts)
    seconds = time.perf_counter() - start
    print(f"correctness: {total - len(messages)} passed, {len(messages)} failed in {seconds:.0f} s")
    return len(messages)


def check_part(first: int, step: int) -> tuple[int, list[str]]:
    """Run every `step`th case; returns how many, and what is wrong with those that failed."""
    total, failed = 0, []
    for name, run in islice(
        chain.from_iterable(family() for family in cases.ALL), first, None, step
    ):
        total += 1
        try:
            outcome = run()
            if not outcome.ok:
                failed.append(f"{outcome.name}: error {outcome.error} allowed {outcome.allowed}")
        except Exception as error:
            last = " / ".join(traceback.format_exc().strip().splitlines()[-3:])
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:300]} | {last[:300]}")
    torch.cuda.synchronize()
    return total, failed


def run_tests() -> int:
    """Run the language's tests on this device's chip and the tests that need a GPU."""
    import os
    import subprocess

    from workbench.runtime import cuda

    failed = 0
    parts = [
        (["tests/language"], {"WORKBENCH_TEST_TARGET": cuda.chip(0)}),
        (["tests/runtime", "tests/tuning", "tests/targets", "tests/corpus", "-m", "gpu"], {}),
    ]
    for arguments, environment in parts:
        arguments = [a for a in arguments if not a.startswith("tests/") or Path(a).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        if importlib.util.find_spec("xdist") is not None and "-m" not in arguments:
            command += ["-n", "8"]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True
        )
        lines = done.stdout.strip().splitlines()
        print(f"{' '.join(arguments)}: {lines[-1] if lines else done.stderr[-300:]}")
        if done.returncode:
            failed += 1
            print(
                "\n".join(
                    line[:240] for line in lines if line.startswith(("FAILED", "ERROR", "E  "))
                )
            )
    return failed


def run_notebooks() -> int:
    """Run the notebooks' cells on the device."""
    from tests.gpu import notebooks

    return notebooks.main()


def bench_vector_add() -> list[Row]:
    rows = []
    for power in range(12, 29, 2):
        n = 1 << power
        x, y = (torch.randn(n, device="cuda") for _ in "xy")
        out, copied = torch.empty_like(x), torch.empty(n * 3 // 2, device="cuda")
        source = torch.empty_like(copied)
        grid = (workbench.cdiv(n, 1024),)
        times = interleaved({
            "ours": lambda: add[grid](x, y, out, n, BLOCK=1024),
            "torch": lambda: torch.add(x, y, out=out),
            "copy": lambda: copied.copy_(source),
        })  # fmt: skip
        rows += [
            row("vector_add", "add", "fp32", n, times["ours"], b, times[b])
            for b in ("torch", "copy")
        ]
    return rows


def bench_softmax() -> list[Row]:
    rows = []
    peer = peers.under_triton(softmax) if peers.triton_installed() else None
    for dtype, word in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        for power in range(8, 16):
            columns = 1 << power
            x = torch.randn(4096, columns, device="cuda").to(dtype)
            out = torch.empty_like(x)
            calls = {
                "ours": lambda: row_softmax[(4096,)](
                    out, x, columns, columns, columns, BLOCK=columns
                ),
                "torch": lambda: torch.softmax(x, -1),
                "copy": lambda: out.copy_(x),
            }
            if peer is not None:
                warps = max(1, min(32, columns // 512))
                calls["triton"] = lambda: peer.softmax[(4096,)](
                    out, x, columns, columns, columns, BLOCK=columns, num_warps=warps
                )
            times = interleaved(calls)
            rows += [
                row("softmax", "4096 rows", word, columns, times["ours"], b, times[b])
                for b in calls
                if b != "ours"
            ]
    return rows


def bench_matmul() -> list[Row]:
    rows = []
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, device="cuda").half() for _ in "ab")
        c, reference = torch.empty_like(a), torch.empty_like(a)
        calls = {"cublas": lambda: torch.mm(a, b, out=reference)}
        for bm, bn, bk, warps, stages in MATMUL_CONFIGS:
            grid = (workbench.cdiv(size, bm) * workbench.cdiv(size, bn),)

            def run(bm=bm, bn=bn, bk=bk, warps=warps, stages=stages, grid=grid) -> None:
                matmul[grid](
                    a, b, c, size, size, size, size, 1, size, 1, size, 1, BLOCK_M=bm, BLOCK_N=bn,
                    BLOCK_K=bk, GROUP_M=8, num_warps=warps, num_stages=stages,
                )  # fmt: skip

            try:
                run()
                torch.cuda.synchronize()
                want = torch.mm(a, b, out=reference)
                worst = (c.float() - want.float()).abs().max().item()
                if not worst <= 0.5:
                    print("WRONG matmul", size, (bm, bn, bk, warps, stages), worst)
                    continue
            except Exception as error:
                print("config", (bm, bn, bk, warps, stages), type(error).__name__, str(error)[:200])
                continue
            calls[f"{bm}x{bn}x{bk} w{warps} s{stages}"] = run
        times = interleaved(calls, 150.0)
        theirs = times.pop("cublas")
        print(
            size,
            {k: f"{2 * size**3 / v / 1e6:.0f}" for k, v in times.items()},
            f"cublas {2 * size**3 / theirs / 1e6:.0f} TFLOP/s",
        )
        best = min(times, key=times.__getitem__)
        rows.append(
            row("matmul_mma_sync", f"A@B {best}", "fp16", size, times[best], "cublas", theirs)
        )
    return rows


#: Products measured under Triton too, with the same options; BLOCK_K is that of 16-bit types.
PRODUCT_CONFIGS = ((128, 128, 64, 8, 3), (64, 64, 64, 4, 4))


def bench_products() -> list[Row]:
    """Measure the product kernel beside Triton's build of the same source."""
    rows = []
    peer = peers.under_triton(matmul_kernels) if peers.triton_installed() else None
    torch.backends.cuda.matmul.allow_tf32 = True  # as `tl.dot` has it by default
    for dtype, size in (
        (torch.float16, 1024),
        (torch.float16, 4096),
        (torch.bfloat16, 4096),
        (torch.float32, 2048),
    ):
        a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in "ab")
        c, reference = torch.empty_like(a), torch.empty_like(a)
        for bm, bn, bk, warps, stages in PRODUCT_CONFIGS:
            bk = bk * 2 // a.element_size()
            grid = (workbench.cdiv(size, bm) * workbench.cdiv(size, bn),)
            arguments = a, b, c, size, size, size, size, 1, size, 1, size, 1
            options: Any = {
                "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8, "num_warps": warps,
                "num_stages": stages,
            }  # fmt: skip
            calls: dict[str, object] = {
                "ours": partial(matmul[grid], *arguments, **options),
                "cublas": partial(torch.mm, a, b, out=reference),
            }
            if peer is not None:
                calls["triton"] = partial(peer.matmul[grid], *arguments, **options)
            times = interleaved(calls)
            case = f"matmul {bm}x{bn}x{bk} {warps} warps {stages} stages"
            rows += [
                row("matmul", case, DTYPES[dtype], size, times["ours"], baseline, times[baseline])
                for baseline in times
                if baseline != "ours"
            ]
    torch.backends.cuda.matmul.allow_tf32 = False
    return rows


def _host_time(call: object, rounds: int = 3000) -> float:
    """Return the CPU time of one warm launch in microseconds (best of several batches)."""
    best = float("inf")
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rounds // 10):
            call()  # type: ignore[operator]
        best = min(best, (time.perf_counter() - start) / (rounds // 10))
    torch.cuda.synchronize()
    return best * 1e6


def bench_launch() -> list[Row]:
    x, y = (torch.randn(1024, device="cuda") for _ in "xy")
    out = torch.empty_like(x)
    calls = {"ours": lambda: add[(1,)](x, y, out, 1024, BLOCK=1024),
             "torch": lambda: torch.add(x, y, out=out)}  # fmt: skip
    if peers.triton_installed():
        peer = peers.under_triton(vector_add)
        calls["triton"] = lambda: peer.add[(1,)](x, y, out, 1024, BLOCK=1024)
    for call in calls.values():
        for _ in range(200):
            call()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(5):
        for name, call in calls.items():
            samples[name].append(_host_time(call))
    times = {name: sorted(found)[len(found) // 2] for name, found in samples.items()}
    return [
        row("launch", "3 tensors and an int", "fp32", 1024, times["ours"], b, times[b])
        for b in times
        if b != "ours"
    ]


DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@cache
def _peer(module: object) -> object:
    return peers.under_triton(module)  # type: ignore[arg-type]


def _launches(problem: Problem, kernel_of: Callable[[object], object]) -> Callable[[], None]:
    """Return a function that runs a problem's launches, by kernels that `kernel_of` gives."""
    prepared = [
        (kernel_of(launch.kernel), launch.grid, launch.arguments, launch.named)
        for launch in problem.launches
    ]

    def run() -> None:
        for kernel, grid, arguments, named in prepared:
            kernel[grid](*arguments, **named)  # type: ignore[index]

    return run


def _corpus_calls(entry: Sample, problem: Problem) -> dict[str, Callable[[], object]]:
    """Return ours and the baselines of a problem; a baseline that fails is left out and named."""
    source = torch.empty(max(problem.moved_bytes // 2, 16), dtype=torch.uint8, device="cuda")
    copied = torch.empty_like(source)
    calls: dict[str, Callable[[], object]] = {
        "ours": _launches(problem, jitted),
        "copy": lambda: copied.copy_(source),
    }
    if problem.torch is not None:
        calls["torch"] = problem.torch
    if peers.triton_installed():
        peer = _peer(entry.module)
        calls["triton"] = _launches(problem, lambda kernel: getattr(peer, kernel.__name__))  # type: ignore[attr-defined]
    for name in list(calls):
        try:
            calls[name]()
            torch.cuda.synchronize()
        except Exception as error:
            print(entry.suite, entry.name, name, type(error).__name__, str(error)[:300])
            del calls[name]
    return calls


def bench_corpus(suite: str) -> list[Row]:
    """Measure the kernels of one family at the sizes their samples name."""
    rows = []
    for entry in every.SAMPLES:
        if entry.suite != suite:
            continue
        for dtype in entry.bench_dtypes:
            for size in entry.bench:
                problem = entry.build(Maker(dtype, "cuda"), *size)
                calls = _corpus_calls(entry, problem)
                if "ours" not in calls:
                    continue
                times = interleaved(calls)
                words = "x".join(str(part) for part in size)
                rows += [
                    row(suite, f"{entry.name} {words}", DTYPES.get(dtype, str(dtype)[6:]),
                        problem.moved_bytes, times["ours"], b, times[b])
                    for b in times
                    if b != "ours"
                ]  # fmt: skip
                del problem, calls
                torch.cuda.empty_cache()
    return rows


CORPUS = tuple(dict.fromkeys(entry.suite for entry in every.SAMPLES if entry.bench))
SUITES = {
    "vector_add": bench_vector_add,
    "softmax": bench_softmax,
    "matmul_mma_sync": bench_matmul,
    "launch": bench_launch,
    "matmul": bench_products,
    **{suite: partial(bench_corpus, suite) for suite in CORPUS},
}


def main(arguments: list[str]) -> int:
    """Run the named parts; the exit status is 1 if a correctness case failed."""
    if not torch.cuda.is_available():
        print("no CUDA device: nothing to run")
        return 0
    names = arguments or ["tests", "notebooks", "check", "fuzz", *SUITES]
    failed = run_tests() if "tests" in names else 0
    failed += run_notebooks() if "notebooks" in names else 0
    failed += check() if "check" in names else 0
    failed += fuzz.main() if "fuzz" in names else 0
    machine = torch.cuda.get_device_name()
    file = machine.lower().replace("nvidia ", "").replace(" ", "-") + ".json"
    folders = [RESULTS, *([Path(os.environ["OUT"])] if os.environ.get("OUT") else [])]
    rows: list[Row] = []
    for name, suite in SUITES.items():
        if name not in names:
            continue
        start = time.perf_counter()
        try:
            rows += suite()
        except Exception:
            traceback.print_exc()
            failed += 1
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for folder in folders:  # after each suite: a run that is cut short leaves what it has
            save(folder / file, machine, rows)
    if rows:
        print(table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
