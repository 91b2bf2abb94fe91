"""What GPUs have in common: lanes and warps with registers, and memory that a block shares.

One file per family of ops holds the rules that are LLVM IR on any of them; ops/ what GPU IR has
beside tile IR; passes/ the way from tile IR to GPU IR. How many lanes a warp has, what an access
costs, and how a lane is asked for its number, shuffles or waits is told by the target
(hardware.py). A target's table of rules has this room's as its parent and imports it, never the
other way round.
"""

# pyright: reportUnusedImport=false
from workbench.targets.simt import (  # noqa: F401 - importing a family registers its rules
    arithmetic,
    atomics,
    casts,
    control,
    debug,
    dots,
    layout,
    memory,
    moves,
    program,
    reductions,
    roles,
    scans,
    shapes,
    shared,
    shared_dots,
    sorts,
    staged,
)
