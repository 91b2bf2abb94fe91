"""Which reads of shared memory go on after their op: those of products that nobody waited for yet.

An op that ends late (`later` in the tables) reads its buffers until it has ended, which is when at
most so many of the latest such ops go on: as it says itself, a later one, or who waits (`awaited`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from workbench.ir import Effect, Op
from workbench.targets.simt.rules import RuleTable

Read = TypeVar("Read", bound=Hashable)


def goes_on(effect: Effect) -> bool:
    """Say whether an effect is a read of shared memory that goes on after its op."""
    return effect.later and effect.space == "shared" and effect.reads and not effect.writes


def most_going(op: Op, rules: RuleTable) -> int | None:
    """Return how many of the latest ops that end late go on behind an op; None: it ends none."""
    awaited = op.awaited()
    if awaited is not None:
        return awaited[1]
    later = rules.later_of(op)
    return None if later is None else later.flight


class Going(Generic[Read]):
    """Reads under way, and how many ops that end late have been started since, at least."""

    def __init__(self) -> None:
        self.since: dict[Read, int] = {}

    def copy(self) -> Going[Read]:
        """Return the same reads, which go on by themselves."""
        new: Going[Read] = Going()
        new.since.update(self.since)
        return new

    def add(self, other: Going[Read]) -> None:
        """Let what goes on along another way go on, too."""
        for read, count in other.since.items():
            self.since[read] = min(count, self.since.get(read, count))

    def step(self, op: Op, rules: RuleTable, reads: Iterable[Read]) -> list[Read]:
        """Go past an op that starts some reads; returns those that have ended."""
        most = most_going(op, rules)
        if most is None:
            return []
        if op.awaited() is None:
            self.since = {read: count + 1 for read, count in self.since.items()}
            self.since.update(dict.fromkeys(reads, 0))
        ended = [read for read, count in self.since.items() if count >= most]
        for read in ended:
            del self.since[read]
        return ended


__all__ = ["Going", "goes_on", "most_going"]
