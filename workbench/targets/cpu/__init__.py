"""The CPU target: one function over a range of program ids, written as explicit vectors.

Rules live in families, as in ops/; how tiles become loops in planning, nests and writer; the
code runs on the pool of devices/pool.py.
"""

# pyright: reportUnusedImport=false
from workbench.targets.cpu import (  # noqa: F401 - importing a family registers its rules
    atomics,
    control,
    debug,
    dots,
    elementwise,
    guards,
    memory,
    program,
    reductions,
    shapes,
    sorts,
)
from workbench.targets.cpu.table import CHUNKS, CPU

__all__ = ["CHUNKS", "CPU"]
