"""Linear layouts over F2: the algebra, the hardware's families, and plans for moving data.

Belongs here: pure mathematics on bases, with plain data as the result. Does not
belong here: ops, IR types, instructions of a target, cost models of whole
kernels. Imports nothing of ours.
"""

from workbench.layouts.families import (
    allocated_elements,
    blocked,
    fragment,
    ldmatrix_fits,
    mma_a,
    mma_b,
    mma_c,
    split_warps,
    stmatrix_fits,
    swizzled,
    wgmma_a,
    wgmma_d,
)
from workbench.layouts.linear import PLACE, LinearLayout, parse_layout
from workbench.layouts.matrix_access import MatrixInstruction, MatrixPlan

__all__ = [
    "PLACE",
    "LinearLayout",
    "MatrixInstruction",
    "MatrixPlan",
    "allocated_elements",
    "blocked",
    "fragment",
    "ldmatrix_fits",
    "mma_a",
    "mma_b",
    "mma_c",
    "parse_layout",
    "split_warps",
    "stmatrix_fits",
    "swizzled",
    "wgmma_a",
    "wgmma_d",
]
