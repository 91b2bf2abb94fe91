"""The suites `inductor` and `inductor_compile`: the same graphs compiled by us and by Triton.

Speed: both are compiled in one process and take turns. Compiling: all graphs in a new process, each
with empty caches, after a first graph has loaded everything; `kernels` is what configurations take
with one thread, `whole` what the first call takes with the workers that torch has by default.
On the CPU (`python -m tests.bench.inductor cpu`) the others are torch's C++ kernels, and eager.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from tests.bench.rows import RESULTS, Row, compared, row, save, steady, table
from workbench.devices.pool import set_num_threads
from workbench.runtime.measuring import measure
from workbench.runtime.timing import ROUNDS, Effort

ROOT = Path(__file__).resolve().parents[2]
EFFORT = Effort(milliseconds=60.0)
PARTS = ("kernels", "whole")


@dataclass(frozen=True)
class Graph:
    """A function to compile, its arguments on a device, and whether it is differentiated."""

    function: Callable[..., torch.Tensor]
    arguments: Callable[[str, int], tuple[torch.Tensor, ...]]
    backward: bool = False


def gelu_bias(x, bias):
    return functional.gelu(x + bias) * 2


def silu_times(gate, up):
    return functional.silu(gate) * up


def row_sums(x):
    return (x.float() * x).sum(1)


def column_sums(x):
    return x.float().sum(0)


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x, weight):
    return functional.rms_norm(x, x.shape[-1:], weight)


def softmax(x):
    return torch.softmax(x, -1)


def cross_entropy(x, target):
    return functional.cross_entropy(x.float(), target)


def transposed_add(x, y):
    return x.t() + y


def cumulative_sum(x):
    return x.cumsum(1)


def embedding(table, places):
    return functional.embedding(places, table) * 2


def _x(device: str, *shape: int, grad: bool = False) -> torch.Tensor:
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(device, kind).requires_grad_(grad)


def _i(device: str, count: int, high: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(high, (count,), generator=generator).to(device)


#: name -> the graph; arguments take the device and n rows
GRAPHS: dict[str, Graph] = {
    "gelu bias": Graph(gelu_bias, lambda d, n: (_x(d, n, 4096), _x(d, 4096))),
    "silu times": Graph(silu_times, lambda d, n: (_x(d, n, 4096), _x(d, n, 4096))),
    "row sums": Graph(row_sums, lambda d, n: (_x(d, n, 4096),)),
    "column sums": Graph(column_sums, lambda d, n: (_x(d, n, 4096),)),
    "layer norm": Graph(layer_norm, lambda d, n: (_x(d, n, 4096), _x(d, 4096), _x(d, 4096))),
    "rms norm": Graph(rms_norm, lambda d, n: (_x(d, n, 4096), _x(d, 4096))),
    "softmax": Graph(softmax, lambda d, n: (_x(d, n, 4096),)),
    "cross entropy": Graph(cross_entropy, lambda d, n: (_x(d, n, 32000), _i(d, n, 32000))),
    "transposed add": Graph(transposed_add, lambda d, n: (_x(d, 4096, n), _x(d, n, 4096))),
    "cumulative sum": Graph(cumulative_sum, lambda d, n: (_x(d, n, 1024),)),
    "embedding": Graph(embedding, lambda d, n: (_x(d, 32000, 1024), _i(d, n, 32000))),
    "layer norm, both ways": Graph(
        layer_norm,
        lambda d, n: (_x(d, n, 4096, grad=True), _x(d, 4096, grad=True), _x(d, 4096, grad=True)),
        backward=True,
    ),
    "softmax, both ways": Graph(softmax, lambda d, n: (_x(d, n, 4096, grad=True),), backward=True),
}


def own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function: torch keeps what it compiled by the code object."""
    code = function.__code__.replace(co_name=f"{function.__name__}_again")
    return types.FunctionType(code, function.__globals__, function.__name__)


@contextmanager
def compiler(name: str) -> Iterator[None]:
    """Have torch compile through us ("ours") or as it does, with empty caches."""
    import workbench

    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    # Kernels are loaded while they are launched: the folder stays until the process ends.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor-")
    try:
        with workbench.use_in_torch_compile() if name == "ours" else nullcontext():
            yield
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def call_of(graph: Graph, name: str, arguments: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    """Return a call of the graph compiled by `name` ("eager" compiles nothing), run once."""
    function = graph.function if name == "eager" else torch.compile(own_code(graph.function))

    def forward() -> torch.Tensor:
        return function(*arguments)

    def both() -> Any:
        result = function(*arguments)
        inputs = [x for x in arguments if x.requires_grad]
        return torch.autograd.grad(result, inputs, result.detach())

    call = both if graph.backward else forward
    with nullcontext() if name == "eager" else compiler(name):
        call()
    return call


# -- speed ----------------------------------------------------------------------------------------
def speed_rows(missing: Callable[[str], None]) -> list[Row]:
    """Return the rows of the suite `inductor`."""
    rows: list[Row] = []
    for name, graph in GRAPHS.items():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                arguments = graph.arguments("cuda", 8192)
                calls = {who: call_of(graph, who, arguments) for who in ("ours", "triton")}
                same(calls["ours"](), calls["triton"]())
                timings = measure(calls, gpu=True, effort=EFFORT)
        except Exception as error:
            missing(f"inductor {name}: {type(error).__name__}: {str(error)[-500:]}")
            continue
        size = sum(x.nbytes for x in arguments)
        ours, theirs = timings["ours"], timings["triton"]
        plain = row("inductor", name, "bf16", size, ours.median * 1e3, "triton",
                    theirs.median * 1e3)  # fmt: skip
        rows.append(compared(plain, ours, theirs))
        torch.cuda.empty_cache()
    return rows


def same(ours: Any, theirs: Any) -> None:
    """Raise AssertionError where results differ by more than 16 bits allow."""
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (ours, theirs)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=3e-2, atol=3e-2)


# -- compiling ------------------------------------------------------------------------------------
def compile_rows(missing: Callable[[str], None]) -> list[Row]:
    """Return the rows of the suite `inductor_compile`: microseconds of compiling, by graph."""
    rows: list[Row] = []
    for part in PARTS:
        # What takes one thread is measured of both at once, what takes all of them in turns.
        with ThreadPoolExecutor(2 if part == "kernels" else 1) as pool:
            rounds = list(pool.map(partial(in_a_process, part=part), ("ours", "triton") * ROUNDS))
        for name in GRAPHS:
            found = [done.get(name, "its process ended") for done in rounds]
            wrong = [str(said) for said in found if isinstance(said, str)]
            if wrong:
                missing(f"inductor_compile {name} {part}: {wrong[0]}")
                continue
            ours, theirs = steady(list(zip(found[::2], found[1::2], strict=True)))
            plain = row("inductor_compile", f"{name}, {part}", "bf16", 8192, ours.median * 1e3,
                        "triton", theirs.median * 1e3)  # fmt: skip
            rows.append(replace(compared(plain, ours, theirs), timed=None))
    return rows


def in_a_process(who: str, part: str) -> dict[str, Any]:
    """Return the microseconds of compiling each graph in a new process, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.inductor", "all", who, part, folder],
            cwd=ROOT, env={**os.environ, "WORKBENCH_CACHE_DIR": f"{folder}/workbench"},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    lines = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("=")]
    found = {name: said for line in lines for name, said in line.items()}
    if done.returncode:
        found |= {name: done.stderr[-300:] for name in GRAPHS if name not in found}
    return found


def compile_all(who: str, part: str, folder: str) -> None:
    """Compile every graph in this process, each with empty caches; prints microseconds."""
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    import workbench

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if part == "kernels":
        config.compile_threads = 1
    with workbench.use_in_torch_compile() if who == "ours" else nullcontext():
        first = torch.compile(lambda x: torch.softmax(x + 1, -1))
        first(torch.randn(64, 64, device=device))
        if part == "whole":
            AsyncCompile.wait_pool_ready()
        for place, (name, graph) in enumerate(GRAPHS.items()):
            # Our own are as empty: no graph has a kernel of another's, their sizes differ.
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/{place}"
            os.environ["TRITON_CACHE_DIR"] = f"{folder}/{place}/triton"
            try:
                said: Any = _time_of(graph, graph.arguments(device, 8192 - 16 * place), part)
            except Exception as error:
                said = f"{type(error).__name__}: {str(error)[-500:]}"
            print("=" + json.dumps({name: said}), flush=True)


def _time_of(graph: Graph, arguments: tuple[torch.Tensor, ...], part: str) -> float:
    """Return the microseconds of the first call of a graph, or of its kernels' compiling alone."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    spent = [0.0]
    stock = CachingAutotuner._precompile_config

    def timed(autotuner: Any, chosen: Any) -> Any:
        start = time.perf_counter()
        try:
            return stock(autotuner, chosen)
        finally:
            spent[0] += time.perf_counter() - start

    CachingAutotuner._precompile_config = timed
    try:
        function = torch.compile(own_code(graph.function))
        start = time.perf_counter()
        result = function(*arguments)
        if graph.backward:
            inputs = [x for x in arguments if x.requires_grad]
            torch.autograd.grad(result, inputs, result.detach())
        whole = time.perf_counter() - start
    finally:
        CachingAutotuner._precompile_config = stock
    return (spent[0] if part == "kernels" else whole) * 1e6


# -- the CPU --------------------------------------------------------------------------------------
def cpu_rows() -> list[Row]:
    """Return the graphs on one core beside torch's own kernels and eager: for information."""
    from tests.bench.cpu import race

    torch.set_num_threads(1)
    set_num_threads(1)
    rows: list[Row] = []
    for name, graph in GRAPHS.items():
        arguments = graph.arguments("cpu", 512)
        calls = {who: call_of(graph, who, arguments) for who in ("ours", "c++", "eager")}
        same(calls["ours"](), calls["eager"]())
        races = [race(calls) for _ in range(ROUNDS)]
        best = {who: min(found[who] for found in races) for who in calls}
        size = sum(x.nbytes for x in arguments)
        for who in ("c++", "eager"):
            timings = steady([(found["ours"], found[who]) for found in races])
            plain = row("inductor_cpu", f"{name}, 1 thread", "fp32", size, best["ours"],
                        who, best[who])  # fmt: skip
            rows.append(compared(plain, *timings))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    return rows


def main(arguments: list[str]) -> int:
    """Compile one graph and print its time, or measure the CPU."""
    if arguments[:1] == ["all"]:
        compile_all(*arguments[1:])
        return 0
    if arguments == ["cpu"]:
        rows = cpu_rows()
        save(RESULTS / "inductor" / "cpu-amd-epyc-2-cores.json", "AMD EPYC, 2 cores", rows)
        return 0
    print("python -m tests.bench.inductor cpu")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
