"""Ops of GPU IR that tile IR does not have: shared buffers, products of them, barriers, roles.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.simt.ops.roles import Roles, all_warps, roles_of
from workbench.targets.simt.ops.shared import (
    BlockBarrier,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
)

__all__ = [
    "BlockBarrier",
    "Roles",
    "SharedAllocate",
    "SharedDot",
    "SharedLoad",
    "SharedStore",
    "all_warps",
    "roles_of",
]
