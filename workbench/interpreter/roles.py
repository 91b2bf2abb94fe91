"""Roles of one program: regions that its warps run side by side, here in turns.

Each region runs on a thread of its own, the last one on the caller's; one of them runs at any time.
A role that waits (`until`) lets the others go on. If none can, something happens that happens at a
time of its own: a copy arrives. As late as possible is the time at which most mistakes show, and a
seed chooses other orders. If nothing is left to happen either, the roles wait for each other for
ever: a deadlock, said with the line at which each of them waits.
"""

from __future__ import annotations

import _thread
import contextvars
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.interpreter.run import AbandonedError
from workbench.ir import Block, Op
from workbench.source import LaunchError, Note


@dataclass(eq=False, slots=True)
class _Role:
    """One role: its region, and what it waits for while it does not run."""

    name: str
    region: Block
    started: bool = False
    ended: bool = False
    at: Op | None = None
    holds: Callable[[], bool] | None = None
    words: Callable[[], str] = str
    #: Held while it does not run.
    asleep: Any = field(default_factory=_thread.allocate_lock)

    def may_go_on(self) -> bool:
        return not self.ended and (self.holds is None or self.holds())


class Roles:
    """See the top of this file."""

    def __init__(self, frame: Any, op: Op, regions: Mapping[str, Block], seed: int) -> None:
        self.frame = frame
        self.op = op
        self.roles = [_Role(name, region) for name, region in regions.items()]
        self.random = random.Random(seed) if seed else None
        self.current = self.roles[-1]
        self.error: BaseException | None = None
        self.over = False
        #: Held while the thread of a role runs.
        self.threads: list[Any] = []
        for role in self.roles:
            role.asleep.acquire()

    def run(self) -> None:
        """Run all regions to their end.

        Raises:
            LaunchError: what a role raised; K515 where all that are left wait.
        """
        mine = self.roles[-1]
        try:
            self._hand_over(mine)
            self._region(mine)
            while not all(role.ended for role in self.roles):
                self._hand_over(mine)
        except BaseException as error:
            if self.error is None and not isinstance(error, AbandonedError):
                self.error = error
            if not isinstance(error, Exception):
                self.frame.machine.over = True  # what the others do is wanted no more
            if self.error is None:
                raise
        finally:
            self._dismiss()
        if self.error is not None:
            raise self.error

    # -- asked by roles -------------------------------------------------------------------
    def until(self, op: Op, holds: Callable[[], bool], words: Callable[[], str]) -> None:
        """Let others go on until something holds."""
        mine = self.current
        if holds() and (self.random is None or self.random.random() < 0.5):
            return
        mine.at, mine.holds, mine.words = op, holds, words
        self._hand_over(mine)
        mine.at = mine.holds = None

    # -- whose turn it is -----------------------------------------------------------------
    def _next(self) -> _Role:
        """Choose who goes on; let things happen where nobody can. Raises LaunchError K515."""
        events = self.frame.events
        while True:
            if self.random is not None and events and self.random.random() < 0.3:
                self._happen()
            ready = [role for role in self.roles if role.may_go_on()]
            if ready:
                return self.random.choice(ready) if self.random is not None else ready[0]
            if not events:
                waits = [role for role in self.roles if not role.ended]
                raise never(
                    self.op, [(r.at or self.op, f"{r.name} waits for {r.words()}") for r in waits]
                )
            self._happen()

    def _happen(self) -> None:
        """Let one of the things happen that happen at their own time, in any order."""
        events = self.frame.events
        if self.random is not None:
            events.rotate(-self.random.randrange(len(events)))
        events.popleft()()

    def _hand_over(self, mine: _Role) -> None:
        """Give the turn away, and sleep until it comes back."""
        if all(role.ended for role in self.roles):
            return
        chosen = self._next()
        if chosen is mine:
            mine.started = True
            self.current = mine
            return
        self._wake(chosen)
        mine.asleep.acquire()
        if self.over:
            raise AbandonedError
        self.current = mine

    def _wake(self, chosen: _Role) -> None:
        if chosen.started or chosen is self.roles[-1]:
            chosen.started = True
            chosen.asleep.release()
            return
        chosen.started = True
        done = _thread.allocate_lock()
        done.acquire()
        context = contextvars.copy_context()
        _thread.start_new_thread(lambda: context.run(self._work, chosen, done), ())
        self.threads.append(done)

    def _work(self, role: _Role, done: Any) -> None:
        """Run a region in a thread of its own."""
        try:
            self.current = role
            self._region(role)
            following = self._next() if not all(r.ended for r in self.roles) else self.roles[-1]
            self._wake(following)
        except BaseException as error:
            if self.error is None and not isinstance(error, AbandonedError):
                self.error = error
            if not self.over:
                self.over = True
                self.roles[-1].asleep.release()
        finally:
            done.release()

    def _region(self, role: _Role) -> None:
        role.started = True
        self.frame.of_role(self).run(role.region, ())
        role.ended = True

    def _dismiss(self) -> None:
        """End the roles that still wait."""
        self.over = True
        for role in self.roles[:-1]:
            if role.started and not role.ended:
                role.asleep.release()
        for done in self.threads:
            done.acquire()


def never(op: Op, waits: Sequence[tuple[Op, str]]) -> LaunchError:
    """Return LaunchError K515 for roles that wait for what will never be; (where, in words)."""
    where = next((at.span for at, _ in waits if at.span is not None), op.span)
    who = "a program waits" if len(waits) == 1 else "the roles of a program wait"
    return LaunchError(
        f"{who} for what will never happen: a deadlock",
        where,
        code="K515",
        notes=[Note(words, at.span) for at, words in waits],
        hint="count arrivals and phases: every wait needs one who arrives before",
    )
