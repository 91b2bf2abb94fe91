"""`make fuzz`: many random programs and mutated cells; what fails is made small and kept.

    python -m tests.fuzz.run [programs COUNT] [sources COUNT] [cells COUNT] [from SEED]
                             [on TARGET] [workers COUNT] [seconds LIMIT]

Programs (IR) and sources (text) go through the target (cpu; `sm_90a` interprets the GPU IR where
there is no GPU) and are compared with the interpreter and with NumPy. All run in child processes,
one for each worker, so that one that ends or hangs is a finding like any other. LIMIT ends each
kind early; what was run is said.
"""

from __future__ import annotations

import collections
import os
import queue
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tests.fuzz.cells import outcomes
from tests.fuzz.children import rows

CORES = len(os.sched_getaffinity(0))
#: How long a program may take; making one small that fails takes longest.
PATIENCE = 300.0
DEFAULT = {"programs": 2000, "sources": 2000, "cells": 10_000}


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def spread(
    first: int,
    count: int,
    workers: int,
    seconds: float | None,
    run: Callable[[int, int], Generator[Any]],
) -> Iterator[Any]:
    """Yield what `run(first, count)` yields for shares of the seeds, as it comes."""
    end = time.monotonic() + (seconds or float("inf"))
    share = -(-count // workers)
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def part(start: int) -> None:
        try:
            with closing(run(start, min(share, first + count - start))) as cases:
                for case in cases:
                    found.put(case)
                    if time.monotonic() > end:
                        break
        finally:
            found.put(None)

    starts = range(first, first + count, share)
    with ThreadPoolExecutor(workers) as pool:
        for start in starts:
            pool.submit(part, start)
        for _ in starts:
            yield from iter(found.get, None)


def fuzz_programs(
    kind: str,
    first: int,
    count: int,
    target: str,
    workers: int = CORES,
    seconds: float | None = None,
    keep: bool = True,
) -> int:
    """Run random programs or sources; returns how many failed."""
    start = time.monotonic()
    command = ["tests.fuzz.batch", kind, target, "keep" if keep else "no"]
    patience = min(PATIENCE, seconds or PATIENCE)
    ran = failed = 0
    for row in spread(first, count, workers, seconds, lambda a, n: rows(command, a, n, patience)):
        ran += 1
        failure = row.get("failure") or ({"said": row["ended"]} if "ended" in row else None)
        if failure is None:
            continue
        failed += 1
        say(f"{kind} seed {row['seed']} on {target}: {failure['said']}")
        if failure.get("kept"):
            say(f"    {failure['lines']} lines, kept as tests/fuzz/found/{failure['kept']}")
        say(f"    again: python -m tests.fuzz.run {kind} 1 from {row['seed']} on {target}")
    took = f"{time.monotonic() - start:.0f} s"
    early = f" of {count} (the time was up)" if ran < count else ""
    options = "; num_warps 1 to 8, num_stages 1 to 4" if target.startswith("sm_") else ""
    verdict = "ok" if not failed else "FAILED"
    say(f"{verdict}: {kind} on {target}: {ran} run{early} from seed {first}{options}, "
        f"{failed} failed, {took}")  # fmt: skip
    return failed


def fuzz_cells(first: int, count: int, workers: int = CORES, seconds: float | None = None) -> int:
    """Compile mutated cells; returns how many did anything but compile or be refused."""
    start = time.monotonic()
    counted: collections.Counter[str] = collections.Counter()
    for seed, what, said in spread(first, count, workers, seconds, outcomes):
        counted[what] += 1
        if what == "wrong":
            say(f"cell {seed}: {said}")
    took = f"{time.monotonic() - start:.0f} s"
    words = ", ".join(f"{number} {what}" for what, number in sorted(counted.items()))
    say(f"{'FAILED' if counted['wrong'] else 'ok'}: cells: {words}, {took}")
    return counted["wrong"]


def main(words: list[str]) -> int:
    """Run what the words ask for; the exit status is 1 if anything failed."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    first, target = int(given.pop("from", 1000)), given.pop("on", "cpu")
    workers = int(given.pop("workers", CORES))
    seconds = float(given.pop("seconds")) if "seconds" in given else None
    if unknown := set(given) - set(DEFAULT):
        known = ", ".join((*DEFAULT, "from", "on", "workers", "seconds"))
        say(f"unknown: {', '.join(sorted(unknown))}; known: {known}")
        return 2
    counts = {name: int(number) for name, number in given.items()} or DEFAULT
    failed = 0
    for kind in ("programs", "sources"):
        if kind in counts:
            failed += fuzz_programs(kind, first, counts[kind], target, workers, seconds)
    if "cells" in counts:
        failed += fuzz_cells(first, counts["cells"], workers, seconds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
