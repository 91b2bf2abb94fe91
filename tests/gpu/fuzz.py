"""Random programs and sources on the device, with several numbers of warps and stages.

`python -m tests.gpu.fuzz [COUNT] [FIRST] [SECONDS]`; what fails is made small and kept in
tests/fuzz/found. Each kind of program ends after SECONDS, whatever was left.
"""

from __future__ import annotations

import os
import sys

COUNT = 300
SECONDS = 40


def main(count: int = COUNT, first: int = 0, seconds: int = SECONDS) -> int:
    """Run the programs in some processes of their own; returns how many failed."""
    from tests.fuzz.run import fuzz_programs
    from workbench.runtime import cuda

    # Each process has a context on the device and assembles on a core.
    workers = max(1, min(12, len(os.sched_getaffinity(0)) - 2))
    chip = cuda.chip(0)
    return sum(
        fuzz_programs(kind, first, count, chip, workers, seconds)
        for kind in ("programs", "sources")
    )


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
