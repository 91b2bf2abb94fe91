"""NVIDIA chips from sm_80 on: GPU IR, its lowering to LLVM IR, PTX and SASS.

What any GPU has is in targets/simt. Here is what only these chips have: the instructions behind
its hooks (instructions.py), rules that use more than those (one file per family of ops), ops/ and
passes/ for asynchronous copies, the tools. pipeline.py is the list of what runs.
"""

# pyright: reportUnusedImport=false
from workbench.targets.nvidia import (  # noqa: F401 - importing a family registers its rules
    copied_rounds,
    copies,
    dots,
    extremes,
    inline_assembly,
    late_products,
    launch_attributes,
    moves,
    scaling,
    tensors,
    tickets,
    turns,
    vector_atomics,
    warpgroup_code,
    warpgroups,
)
