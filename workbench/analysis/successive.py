"""How numbers change from one program of a launch to the next.

Programs are numbered along axis 0 first, and those that run at one time are mostly neighbours. A
number is the same for all of them, the same for runs of neighbours (what division leaves of the
number along the first axis that a kernel asks for, and numbers along further axes), or another for
each. What is found is how it usually is: with one tile along an axis a run is one program long.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from workbench.ir import Block, Module, Op, Value
from workbench.ops import Elementwise, ProgramId

#: Functions whose results stay while their first operand goes on by one.
_COARSE = frozenset(("div", "shr"))


class Pace(IntEnum):
    """How often a number changes along the programs of a launch."""

    NEVER = 0
    IN_RUNS = 1
    ALWAYS = 2


class Successive:
    """How often the numbers of a kernel change along its programs."""

    def __init__(self, module: Module) -> None:
        """Look at all ops of a module once, at those in loops until nothing changes any more."""
        self._found: dict[Value, Pace] = {}
        axes = [op.axis for op in module.walk() if isinstance(op, ProgramId)]
        self._first = min(axes, default=0)
        self._block(module.body)

    def pace(self, values: Iterable[Value]) -> Pace:
        """Return how often a part of memory changes that numbers like these name."""
        return max((self._found.get(value, Pace.NEVER) for value in values), default=Pace.NEVER)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.regions:
                self._control(op)
                continue
            found = self._of(op)
            for result in op.results:
                self._found[result] = found

    def _of(self, op: Op) -> Pace:
        if isinstance(op, ProgramId):
            return Pace.ALWAYS if op.axis == self._first else Pace.IN_RUNS
        found = self.pace(op.operands)
        if isinstance(op, Elementwise) and op.function in _COARSE:
            return max(min(found, Pace.IN_RUNS), self.pace(op.operands[1:]))
        return found

    def _control(self, op: Op) -> None:
        """Look at a loop or a branch: what decides it is in all that it hands on.

        A loop's counter is where a program is on its way, not where its way lies.
        """
        flows = op.flows()
        while True:
            before = dict(self._found)
            for region in op.regions:
                self._block(region)
            decided = self.pace(op.decided_by())
            for source, target in flows:
                found = self.pace((source, target))
                self._found[target] = max(found, decided) if target in op.results else found
            if before == self._found:
                return


__all__ = ["Pace", "Successive"]
