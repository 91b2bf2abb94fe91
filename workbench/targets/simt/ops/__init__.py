"""Ops of GPU IR that tile IR does not have: shared buffers, products of them, barriers.

They are ops like all others: with inference, verification, interpretation and an example.
"""

from workbench.targets.simt.ops.shared import (
    BlockBarrier,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
)

__all__ = ["BlockBarrier", "SharedAllocate", "SharedDot", "SharedLoad", "SharedStore"]
