"""Ops that only NVIDIA targets have: asynchronous copies.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.nvidia.ops.copies import AsyncCopy, CommitCopies, WaitCopies

__all__ = ["AsyncCopy", "CommitCopies", "WaitCopies"]
