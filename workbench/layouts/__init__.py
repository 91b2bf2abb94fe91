"""Linear layouts over F2: the algebra, the hardware's families, and plans for moving data.

Belongs here: pure mathematics on bases, with plain data as the result. Does not
belong here: ops, IR types, instructions of a target, cost models of whole
kernels. Imports nothing of ours.
"""

from workbench.layouts.convert import (
    Gather,
    Plan,
    RegisterPlan,
    SharedAccess,
    SharedInstruction,
    SharedPlan,
    ShufflePlan,
    classify,
    plan_convert,
)
from workbench.layouts.families import (
    SWIZZLES,
    blocked,
    fragment,
    mma_a,
    mma_b,
    mma_c,
    split_warps,
    swizzle_width,
    swizzled,
    vector_width,
    wgmma_a,
    wgmma_d,
)
from workbench.layouts.linear import PLACE, LinearLayout
from workbench.layouts.matrix_access import (
    BYTE_PAIRS,
    MatrixInstruction,
    MatrixPlan,
    apart_fits,
    byte_pairs_fit,
    ldmatrix_fits,
    stmatrix_fits,
)
from workbench.layouts.packing import Packing, packing
from workbench.layouts.parsing import parse_layout
from workbench.layouts.predict import BANKS, Banks
from workbench.layouts.reduce import Mask, ReducePlan, reduce_plan
from workbench.layouts.tensor_access import TensorPlan, tensor_fits
from workbench.layouts.warpgroup_access import WarpgroupPlan, warpgroup_fits

__all__ = [
    "BANKS",
    "BYTE_PAIRS",
    "PLACE",
    "SWIZZLES",
    "Banks",
    "Gather",
    "LinearLayout",
    "Mask",
    "MatrixInstruction",
    "MatrixPlan",
    "Packing",
    "Plan",
    "ReducePlan",
    "RegisterPlan",
    "SharedAccess",
    "SharedInstruction",
    "SharedPlan",
    "ShufflePlan",
    "TensorPlan",
    "WarpgroupPlan",
    "apart_fits",
    "blocked",
    "byte_pairs_fit",
    "classify",
    "fragment",
    "ldmatrix_fits",
    "mma_a",
    "mma_b",
    "mma_c",
    "packing",
    "parse_layout",
    "plan_convert",
    "reduce_plan",
    "split_warps",
    "stmatrix_fits",
    "swizzle_width",
    "swizzled",
    "tensor_fits",
    "vector_width",
    "warpgroup_fits",
    "wgmma_a",
    "wgmma_d",
]
