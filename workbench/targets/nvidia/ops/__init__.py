"""Ops that only NVIDIA targets have: asynchronous copies and products, tensor maps, barriers.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.nvidia.ops.barriers import Arrive, Await, Barriers, Expect, RenewBarriers
from workbench.targets.nvidia.ops.clusters import ClusterArrive, ClusterWait, HasPeers
from workbench.targets.nvidia.ops.copies import AsyncCopy, CommitCopies, CopyRounds, WaitCopies
from workbench.targets.nvidia.ops.extremes import Kept
from workbench.targets.nvidia.ops.products import (
    FenceProducts,
    Scale,
    ScaleProducts,
    StillRead,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.ops.tensors import (
    AwaitStores,
    MakeTensorMap,
    TensorCopy,
    TensorLoad,
    TensorStore,
)
from workbench.targets.nvidia.ops.tickets import Draw, Drawn
from workbench.targets.nvidia.ops.turns import AwaitTurn, PassTurn

__all__ = [
    "Arrive",
    "AsyncCopy",
    "Await",
    "AwaitStores",
    "AwaitTurn",
    "Barriers",
    "ClusterArrive",
    "ClusterWait",
    "CommitCopies",
    "CopyRounds",
    "Draw",
    "Drawn",
    "Expect",
    "FenceProducts",
    "HasPeers",
    "Kept",
    "MakeTensorMap",
    "PassTurn",
    "RenewBarriers",
    "Scale",
    "ScaleProducts",
    "StillRead",
    "TensorCopy",
    "TensorLoad",
    "TensorStore",
    "WaitCopies",
    "WaitProducts",
    "WarpgroupDot",
]
