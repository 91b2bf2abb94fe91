"""What guarded launches on the CPU cost: every kernel of tests/kernels, guarded against unguarded.

`python -m tests.bench.guards [word ...]` times each launch of the corpus at the first size at which
it takes a millisecond, in turns, and prints the ratio, whether the launch was shown to be right
beforehand ("hull") or ran checked code, and what compiling costs. Tensors have no room around them.
Kernels whose accesses depend on data (gathers, scatters, atomics) are a mean of their own. On a
machine that does other things too, one thread runs and its processor time counts.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import workbench
from tests.bench.rows import Row, row
from tests.corpus import every, sample
from tests.corpus.sample import Launch, Maker, Sample
from workbench.devices.pool import set_num_threads
from workbench.interpreter.dependence import accessed
from workbench.ops import AtomicUpdate
from workbench.runtime import guarded, guards
from workbench.runtime.compiling import forget
from workbench.source import LaunchError

_LEAST_SECONDS = 1e-3
#: Work of a launch that is tried for its time, in bytes of its arguments.
_MOST_BYTES = 1 << 27
_BURST_SECONDS = 0.02
_ROUNDS = 12
#: What times are read from.
_clock: Callable[[], float] = time.perf_counter


class Cost(NamedTuple):
    """One kernel: times in seconds without and with guards, and how it ran."""

    suite: str
    kernel: str
    size: tuple[Any, ...]
    plain: float
    guarded: float
    way: str
    compiled: float
    compiled_guarded: float

    @property
    def ratio(self) -> float:
        """Guarded over unguarded."""
        return self.guarded / self.plain

    @property
    def compile_ratio(self) -> float:
        """The first launch guarded over the first launch unguarded, CPU time."""
        return self.compiled_guarded / self.compiled


def _call(launch: Launch) -> Callable[[], object]:
    kernel = workbench.jit(launch.kernel)[launch.grid]
    return lambda: kernel(*launch.arguments, **launch.named)


def _best(call: Callable[[], object], seconds: float) -> float:
    best, end = math.inf, _clock() + seconds
    while True:
        start = _clock()
        call()
        now = _clock()
        best = min(best, now - start)
        if now >= end:
            return best


def _first(launch: Launch, on: bool) -> float:
    """Return the CPU time of a first launch, from source to the end."""
    forget()
    gc.collect()
    with tempfile.TemporaryDirectory() as cache, guards.guarding(on):
        os.environ["WORKBENCH_CACHE_DIR"] = cache
        start = time.process_time()
        _call(launch)()
        return time.process_time() - start


def _repeatable(call: Callable[[], object]) -> bool:
    """Say whether a launch can run again and again without those around it."""
    try:
        with guards.guarding(True):
            for _ in range(3):
                call()
    except LaunchError:
        return False
    return True


def _way(launch: Launch) -> str:
    """Say how a guarded launch runs: "hull", "checked", or "data" where accesses depend on it."""
    said: list[str] = []
    fits = guarded._fits

    def noting(kernel: Any, *rest: Any) -> bool:
        found = fits(kernel, *rest)
        atomic = any(isinstance(op, AtomicUpdate) for op in kernel.module.walk() if accessed(op)[0])
        data = kernel.hulls is None or atomic
        said.append("hull" if found and not atomic else "data" if data else "checked")
        return found

    guarded._fits = noting
    try:
        with guards.guarding(True):
            _call(launch)()
    finally:
        guarded._fits = fits
    return said[-1]


def _bytes(entry: Sample, size: tuple[Any, ...]) -> int:
    numbers = [n for n in size if isinstance(n, int)]
    return 4 * math.prod(sorted(numbers)[-2:])


def costs(entry: Sample) -> Iterator[Cost]:
    """Yield the cost of each kernel of a sample."""
    done: set[Any] = set()
    sizes = [*entry.fast, *entry.slow, *entry.gpu, *entry.bench]
    for size in sizes:
        if _bytes(entry, size) > _MOST_BYTES:
            continue
        problem = entry.build(Maker(entry.dtypes[0]), *size)
        for launch in problem.launches:
            if launch.kernel in done:
                continue
            call = _call(launch)
            if not _repeatable(call):
                done.add(launch.kernel)
                continue
            with guards.guarding(False):
                call()
                if min(_best(call, 0.0) for _ in range(5)) < _LEAST_SECONDS:
                    continue
            done.add(launch.kernel)
            best = {False: math.inf, True: math.inf}
            for _ in range(_ROUNDS):
                for on in best:
                    with guards.guarding(on):
                        call()
                        best[on] = min(best[on], _best(call, _BURST_SECONDS))
            way = _way(launch)
            first = [min(_first(launch, on) for _ in range(2)) for on in (False, True)]
            yield Cost(
                entry.suite, launch.kernel.__name__, size, best[False], best[True], way, *first
            )


def _mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def guard_rows() -> list[Row]:
    """Return the rows of the suite `cpu_guards`: ours guarded, the baseline unguarded."""
    found = [cost for entry in every.SAMPLES for cost in costs(entry)]
    return [
        row("cpu_guards", f"{c.suite}: {c.kernel} {c.way}", "", 1, c.guarded * 1e6, "unguarded",
            c.plain * 1e6)
        for c in found
    ]  # fmt: skip


def main(words: list[str]) -> int:
    """Print a line for each kernel and the means."""
    global _clock
    sample._GUARD = 0
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (load := os.getloadavg()[0]) > 1:
        print(f"note: the load is {load:.1f}; one thread, processor time")
        count, _clock = 1, time.thread_time
    set_num_threads(count or 1)
    found: list[Cost] = []
    for entry in every.SAMPLES:
        if words and not any(word in f"{entry.suite} {entry.name}" for word in words):
            continue
        for c in costs(entry):
            found.append(c)
            print(
                f"{c.suite:18} {c.kernel:26} {c.way:8} {c.plain * 1e3:9.2f} ms {c.ratio:6.2f}"
                f"   compile {c.compiled * 1e3:6.0f} ms {c.compile_ratio:5.2f}  {c.size}",
                flush=True,
            )
    for words_of, kinds in (("affine", ("hull", "checked")), ("data", ("data",))):
        some = [c for c in found if c.way in kinds]
        if some:
            worst = max(some, key=lambda c: c.ratio)
            print(
                f"{words_of}: {len(some)} kernels, mean {_mean([c.ratio for c in some]):.3f}, "
                f"worst {worst.ratio:.2f} ({worst.kernel}), "
                f"compile mean {_mean([c.compile_ratio for c in some]):.3f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
