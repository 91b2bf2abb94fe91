"""Ops of GPU IR that tile IR does not have: shared buffers, their products, barriers, roles.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.simt.ops.programs import (
    EachProgram,
    cluster_of,
    is_drawn,
    is_persistent,
    most_rounds,
)
from workbench.targets.simt.ops.roles import Roles, all_warps, roles_of
from workbench.targets.simt.ops.shared import (
    Asked,
    BlockBarrier,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
    WarpBarrier,
)

__all__ = [
    "Asked",
    "BlockBarrier",
    "EachProgram",
    "Roles",
    "SharedAllocate",
    "SharedDot",
    "SharedLoad",
    "SharedStore",
    "WarpBarrier",
    "all_warps",
    "cluster_of",
    "is_drawn",
    "is_persistent",
    "most_rounds",
    "roles_of",
]
