"""Ops that only NVIDIA targets have: asynchronous copies and products.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.nvidia.ops.copies import AsyncCopy, CommitCopies, WaitCopies
from workbench.targets.nvidia.ops.products import (
    FenceProducts,
    ScaleProducts,
    WaitProducts,
    WarpgroupDot,
)

__all__ = [
    "AsyncCopy",
    "CommitCopies",
    "FenceProducts",
    "ScaleProducts",
    "WaitCopies",
    "WaitProducts",
    "WarpgroupDot",
]
