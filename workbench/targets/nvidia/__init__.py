"""NVIDIA chips from sm_80 on: GPU IR, its lowering to LLVM IR, PTX and SASS.

One file per family of ops holds the lowering rules; ops/ what only these chips have; passes/ what
only they need. pipeline.py is the list of what runs.
"""

# pyright: reportUnusedImport=false
from workbench.targets.nvidia import (  # noqa: F401 - importing a family registers its rules
    arithmetic,
    atomics,
    casts,
    control,
    debug,
    dots,
    inline_assembly,
    layout,
    memory,
    program,
    reductions,
    scans,
    shapes,
    shared,
    shared_dots,
    sorts,
    staged,
)
