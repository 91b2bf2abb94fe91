"""`make inductor`: every function and model through us, forward and backward, against eager.

`python -m tests.inductor.run [cpu|cuda] [NAME ...]` runs them in two processes (on a GPU in more),
prints a line for each, and exits with 1 where one differs, fails or has a kernel that fell back.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context


@dataclass(frozen=True)
class Outcome:
    """What came of one case; `wrong` is empty where it is right."""

    name: str
    seconds: float
    kernels: int
    ours: int
    fell_back: int
    calls: tuple[str, ...]
    wrong: str

    def __str__(self) -> str:
        calls = f"  and {', '.join(self.calls)} of torch" if self.calls else ""
        counted = f"{self.kernels:3} kernels, {self.ours} ours, {self.fell_back} fell back"
        return f"{self.name:24} {self.seconds:6.1f} s {counted}{calls}  {self.wrong}"


def run_case(device: str, name: str) -> Outcome:
    """Run one case, with one compile thread: its process is one of several."""
    import torch  # noqa: F401 - the pool's processes import it first here
    from torch._inductor import config

    from tests.inductor.comparing import compare, compare_model
    from tests.inductor.functions import CASES

    start = time.perf_counter()
    graphs: Sequence[object] = ()
    wrong = ""
    with config.patch(compile_threads=1, autotune_num_choices_displayed=0):
        try:
            found = compare(CASES[name], device) if name in CASES else compare_model(name, device)
            graphs, wrong = found.graphs, found.difference
        except Exception as error:
            text = str(error)
            wrong = f"{type(error).__name__}: {text[max(text.find('error K'), 0) :][:400]}"
    graphs = list(graphs)
    kernels = sum(len(graph.kernels) for graph in graphs)
    ours, fell_back = (sum(getattr(g, what) for g in graphs) for what in ("ours", "fell_back"))
    if not wrong and (ours != kernels or fell_back or not kernels):
        wrong = f"{kernels - ours} kernels are not ours"
    calls = tuple(dict.fromkeys(call for graph in graphs for call in graph.calls))
    seconds = time.perf_counter() - start
    return Outcome(name, seconds, kernels, ours, fell_back, calls, " ".join(wrong.split())[:500])


def names_on(device: str) -> list[str]:
    """Return the functions and models of a device."""
    from tests.inductor.functions import CASES
    from tests.inductor.models import MODELS

    functions = [name for name, case in CASES.items() if device == "cuda" or not case.cuda_only]
    return [*functions, *MODELS]


def run(device: str, names: Sequence[str], processes: int) -> list[Outcome]:
    """Run cases in several processes with fresh caches; prints each as it ends."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton"
        outcomes = []
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for future in [pool.submit(run_case, device, name) for name in names]:
                outcomes.append(future.result())
                print(outcomes[-1], flush=True)
        return outcomes


def main(arguments: Sequence[str]) -> int:
    """Run the named cases, or all; returns the exit status."""
    device = arguments[0] if arguments and arguments[0] in ("cpu", "cuda") else "cpu"
    names = [name for name in arguments if name != device] or names_on(device)
    outcomes = run(device, names, 2 if device == "cpu" else min(8, os.cpu_count() or 2))
    wrong = [outcome.name for outcome in outcomes if outcome.wrong]
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} are right; "
          f"{sum(o.ours for o in outcomes)} kernels of workbench, "
          f"{sum(o.fell_back for o in outcomes)} fell back")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
