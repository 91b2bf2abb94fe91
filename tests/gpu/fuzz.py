"""Random programs and sources on the device, with several numbers of warps and stages.

`python -m tests.gpu.fuzz [COUNT] [FIRST] [SECONDS]`; what fails is made small and kept in
tests/fuzz/found. COUNT is of each kind; SECONDS end the run, whatever is left. For long ranges,
which may be interrupted, see tests/fuzz/run.py.
"""

from __future__ import annotations

import sys

COUNT = 300
SECONDS = 80


def main(count: int = COUNT, first: int = 0, seconds: int = SECONDS) -> int:
    """Run the programs in some processes of their own; returns how many failed."""
    from tests.fuzz.run import CORES, Run
    from workbench.devices import cuda

    # Each process has a context on the device and assembles on a core.
    jobs = max(1, min(12, CORES - 2))
    counts = {"programs": count, "sources": count}
    return Run(counts, first, (cuda.chip(0),), jobs, seconds).go()


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
