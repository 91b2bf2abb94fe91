"""A program that was put aside: the loop that it goes round, and what it waits to see changed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from workbench.interpreter.program import ProgramFrame, Step, same_bits
from workbench.ir import Array, Op

#: Programs that may wait at once. A GPU holds at most 32 per multiprocessor.
MOST_WAITING = 4096


@dataclass(eq=False, slots=True)
class Waiting:
    """A program that was put aside, and why."""

    frame: ProgramFrame
    #: The loop that it goes round, None where it only lets others run first.
    loop: Op | None
    #: What the loop read, and the bits that it found.
    reads: list[tuple[Step, Array]]
    #: It is not looked at before so many further programs were started.
    after: int
    awake: threading.Event = field(default_factory=threading.Event)

    def may_go_on(self) -> bool:
        """Say whether going round once more could make a difference."""
        return self.loop is None or any(
            not same_bits(step.places.read(), bits).all() for step, bits in self.reads
        )
