"""One package's side of a comparison (`compare.py`): runs the cases when it is told to.

The package and these tests come from a folder of links that `compare.py` makes, so that `workbench`
is the tree that is measured, and `tests` the tree that measures. The clock is read from its files,
whatever clock the measured tree has. Orders come as JSON, one a line, on standard input:

    {"do": "warm", "cases": [...]}           build and run each once, so that it is in the cache
    {"do": "build", "case": 3}               build a case and run it once
    {"do": "record"}                         capture it anew: a round begins
    {"do": "sample", "milliseconds": 15}     some runs, in microseconds, in "samples"
    {"do": "drop"}                           forget the case

Each is answered by one line; what went wrong is in "error", and the next order is awaited, unless
the device is lost to this process, which then ends.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.bench.cases import Case, all_cases
from tests.corpus.sample import Maker, Problem, jitted

#: Runs of a batch, and replays before it that do not count: the device was another process's.
MOST_RUNS, LEAST_RUNS, IDLE_REPLAYS = 60, 10, 1


def clock(folder: Path) -> tuple[ModuleType, ModuleType]:
    """Return the modules `timing` and `device_clock` of a folder, beside the package's own."""
    names = "timing", "device_clock"
    kept = {f"workbench.runtime.{name}": None for name in names}
    kept |= {name: sys.modules.get(name) for name in kept}
    found: list[ModuleType] = []
    try:
        for name in names:
            full = f"workbench.runtime.{name}"
            spec = importlib.util.spec_from_file_location(full, folder / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[full] = module  # where `device_clock` looks for `timing`
            spec.loader.exec_module(module)
            found.append(module)
    finally:
        for full, module in kept.items():
            if module is None:
                sys.modules.pop(full, None)
            else:
                sys.modules[full] = module
    return found[0], found[1]


def call_of(problem: Problem, target: str | None) -> Callable[[], None]:
    """Return a function that runs a problem's launches by the measured package."""
    named = {} if target is None else {"target": target}
    prepared = [
        (jitted(launch.kernel)[launch.grid], launch.arguments, {**launch.named, **named})
        for launch in problem.launches
    ]

    def run() -> None:
        for kernel, arguments, options in prepared:
            kernel(*arguments, **options)

    return run


class Server:
    """Follows orders about one case at a time."""

    def __init__(self, device: str, folder: Path) -> None:
        import workbench

        self.package = str(Path(workbench.__file__).resolve().parents[1])
        self.cases: tuple[Case, ...] = all_cases(small=device == "cpu")
        self._device = device
        _, self._clock = clock(folder)
        self._watch: Any = None
        self._recording: Any = None
        self._call: Callable[[], None] | None = None
        self._problem: Problem | None = None

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what an order says."""
        what = order.pop("do")
        return getattr(self, f"do_{what}")(**order)

    def do_hello(self) -> dict[str, Any]:
        return {"package": self.package, "cases": len(self.cases)}

    def do_warm(self, cases: list[int]) -> dict[str, Any]:
        failed: dict[str, str] = {}
        for number in cases:
            try:
                self.do_build(number)
            except Exception as error:
                failed[str(number)] = said(error)
            self.do_drop()
        return {"failed": failed}

    def do_build(self, case: int) -> dict[str, Any]:
        chosen = self.cases[case]
        self._problem = chosen.build(Maker(chosen.dtype, self._device))
        self._call = call_of(self._problem, "cpu" if self._device == "cpu" else None)
        self._call()
        self._wait()
        return {"bytes": self._problem.moved_bytes, "flops": self._problem.flops}

    def do_record(self) -> dict[str, Any]:
        assert self._call is not None
        if self._device == "cpu":
            return {"timed": "hot"}
        self._watch = self._clock.Stopwatch()
        self._recording = self._watch.record(self._call)
        return {"timed": self._recording.timed}

    def do_sample(self, milliseconds: float) -> dict[str, Any]:
        take = self._host_run if self._device == "cpu" else self._device_runs
        for _ in range(IDLE_REPLAYS):
            take()
        samples: list[float] = []
        while len(samples) < LEAST_RUNS or (
            len(samples) < MOST_RUNS and sum(samples) < milliseconds
        ):
            samples += take()
        return {"samples": [sample * 1e3 for sample in samples]}

    def do_drop(self) -> dict[str, Any]:
        self._problem = self._call = self._recording = self._watch = None
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()
        return {}

    def _device_runs(self) -> list[float]:
        return self._watch.sample({"": self._recording})[""]

    def _host_run(self) -> list[float]:
        assert self._call is not None
        start = time.perf_counter()
        self._call()
        return [(time.perf_counter() - start) * 1e3]

    def _wait(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()


def said(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


def main(device: str, folder: str) -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what others print is no answer
    if device == "cuda":
        # Backward passes and captures go well in a stream that is not the default one.
        torch.cuda.set_stream(torch.cuda.Stream())
    else:
        torch.set_num_threads(1)
    server = Server(device, Path(folder))
    for line in sys.stdin:
        try:
            found = server.answer(json.loads(line))
            lost = False
        except Exception as error:  # the next case may be better
            found = {"error": said(error)}
            lost = getattr(error, "code", None) in ("K502", "K503") or "CUDA error" in str(error)
        answers.write(json.dumps(found) + "\n")
        if lost:
            os._exit(1)  # what it holds on the device cannot be given back in order


if __name__ == "__main__":
    main(*sys.argv[1:])
