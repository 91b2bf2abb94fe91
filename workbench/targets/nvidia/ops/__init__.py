"""Ops that only NVIDIA targets have: shared buffers, asynchronous copies, barriers.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.nvidia.ops.shared import (
    AsyncCopy,
    BlockBarrier,
    CommitCopies,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
    WaitCopies,
)

__all__ = [
    "AsyncCopy",
    "BlockBarrier",
    "CommitCopies",
    "SharedAllocate",
    "SharedDot",
    "SharedLoad",
    "SharedStore",
    "WaitCopies",
]
