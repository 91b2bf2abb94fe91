"""Turns: groups of four warps that start their products one group after the other.

Each group waits for its turn, starts the products of a round and passes the turn on; what it
computes with their results is done while the others multiply. Left to themselves the groups of a
block come to multiply, and then to compute, at the same time.
"""

from __future__ import annotations

from workbench.ir import Effect, Effects, Frame, Op, attribute
from workbench.source import ShapeError

#: Nothing that products read, and no product, moves over it.
_MEETING: Effects = (Effect("shared", order="relaxed", scope="cta"),)
#: Warps of a group: those whose products are one instruction.
WARPS = 4
#: So many groups have barriers of their own.
MOST_GROUPS = 4


class AwaitTurn(Op, mnemonic="gpu.await_turn", effects=_MEETING, exact=True):
    """A group of warps waits until the one before has passed its turn on, the first for the last.

    gpu.await_turn {groups = 2}
    """

    groups: int

    def verify(self) -> None:
        _verify(self, self.groups)

    def interpret(self, frame: Frame) -> None:
        return None


class PassTurn(Op, mnemonic="gpu.pass_turn", effects=_MEETING, exact=True):
    """A group of warps lets the next one take its turn; nobody waits.

    The first turn (`first`) the last group alone passes on.

        gpu.pass_turn {groups = 2, first = True}
    """

    groups: int
    first: bool = attribute(default=False)

    def verify(self) -> None:
        _verify(self, self.groups)

    def interpret(self, frame: Frame) -> None:
        return None


def _verify(op: Op, groups: int) -> None:
    if not 2 <= groups <= MOST_GROUPS:
        raise ShapeError(f"{op.name}: {groups} groups take no turns", op.span)
