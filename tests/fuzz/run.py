"""`make fuzz`: many random programs and mutated cells; what fails is made small and kept.

    python -m tests.fuzz.run [programs COUNT] [cells COUNT] [from SEED] [on TARGET]

Programs go through the interpreter and the target (cpu; `sm_90a` interprets the GPU IR where there
is no GPU). Cells run in as many processes as there are cores.
"""

from __future__ import annotations

import collections
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

from tests.fuzz.batch import try_seed
from tests.fuzz.cells import outcomes

CORES = len(os.sched_getaffinity(0))


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fuzz_programs(first: int, count: int, target: str, workers: int = CORES) -> int:
    """Run random programs; returns how many failed."""
    start, failed = time.monotonic(), 0
    # A fork would inherit a CUDA context that it cannot use.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh) as pool:
        seeds = range(first, first + count)
        for failure in pool.map(partial(try_seed, target=target), seeds, chunksize=4):
            if failure is not None:
                failed += 1
                say(f"seed {failure.seed}: {failure.said}")
                say(f"    {failure.lines} lines, kept as tests/fuzz/found/{failure.kept}")
    seconds = time.monotonic() - start
    say(f"programs on {target}: {count} run, {failed} failed, {seconds:.0f} s")
    return failed


def fuzz_cells(first: int, count: int) -> int:
    """Compile mutated cells; returns how many did anything but compile or be refused."""
    start = time.monotonic()
    share = -(-count // CORES)
    parts = [(first + k, min(share, count - k)) for k in range(0, count, share)]
    counted: collections.Counter[str] = collections.Counter()
    with ThreadPoolExecutor(CORES) as pool:
        for found in pool.map(lambda part: list(outcomes(*part)), parts):
            for seed, what, said in found:
                counted[what] += 1
                if what == "wrong":
                    say(f"cell {seed}: {said}")
    seconds = time.monotonic() - start
    words = ", ".join(f"{number} {what}" for what, number in sorted(counted.items()))
    say(f"cells: {words}, {seconds:.0f} s")
    return counted["wrong"]


def main(words: list[str]) -> int:
    """Run what the words ask for; the exit status is 1 if anything failed."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    first, target = int(given.pop("from", 1000)), given.pop("on", "cpu")
    counts = {name: int(number) for name, number in given.items()}
    counts = counts or {"programs": 2000, "cells": 10_000}
    if unknown := set(counts) - {"programs", "cells"}:
        say(f"unknown: {', '.join(unknown)}; known: programs, cells, from, on")
        return 2
    failed = fuzz_programs(first, counts["programs"], target) if "programs" in counts else 0
    failed += fuzz_cells(first, counts["cells"]) if "cells" in counts else 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
