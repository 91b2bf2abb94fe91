"""Clusters: blocks that run at the same time and reach each other's shared memory.

Blocks of a cluster take programs whose numbers follow each other (`gpu.each_program`). What one of
them does here is what each does: an op that tells the others something, or waits for them, means of
one block what it would if the others did the same at the same time. PTX ISA 9.0, barrier.cluster.
"""

from __future__ import annotations

from math import prod

import numpy as np

from workbench.ir import I1, NONE, Array, Effect, Effects, Frame, Op, Type
from workbench.ops.program import number_of
from workbench.source import ShapeError

#: What nothing that a block does to shared memory moves over.
_MEETING: Effects = (Effect("shared", order="relaxed", scope="cta"),)
#: What nothing behind moves in front of.
_WAITING: Effects = (Effect("shared", order="acquire", scope="cta"),)
#: As many blocks as a cluster may have on every chip that has clusters.
MOST_BLOCKS = 8


class ClusterArrive(Op, mnemonic="gpu.cluster_arrive", effects=_MEETING, exact=True):
    """The threads of a block have begun: those of its cluster's others may use its shared memory.

    Each thread says so once, and goes on; `gpu.cluster_wait` waits for all.

        gpu.cluster_arrive
    """

    def interpret(self, frame: Frame) -> None:
        return None


class ClusterWait(Op, mnemonic="gpu.cluster_wait", effects=_WAITING, exact=True):
    """Wait until all threads of a cluster's blocks have arrived.

    None uses another's shared memory before. Barriers that have begun are seen by all; other memory
    is ordered by a block's own barriers.

        gpu.cluster_wait
    """

    def interpret(self, frame: Frame) -> None:
        return None


class HasPeers(Op, mnemonic="gpu.has_peers", effects=NONE, exact=True, of_program=True):
    """Whether each of a cluster's `blocks` has a program, which all but the launch's last have.

    %0 = gpu.has_peers {blocks = 2} : i1
    """

    blocks: int

    def infer(self) -> Type:
        return I1

    def verify(self) -> None:
        verify_cluster(self, self.blocks)

    def interpret(self, frame: Frame) -> Array:
        last = number_of(frame) | self.blocks - 1
        return np.asarray(last < prod(map(frame.num_programs, range(3))))


def verify_cluster(op: Op, blocks: int) -> None:
    """Raise ShapeError unless so many blocks may be a cluster."""
    if not 1 <= blocks <= MOST_BLOCKS or blocks & blocks - 1:
        raise ShapeError(f"{op.name}: {blocks} blocks are no cluster", op.span)
