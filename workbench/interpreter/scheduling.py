"""Whose turn it is: programs run one after the other, and change over where one has to wait.

A program runs on the caller's thread, to its end, as long as it waits for nobody. One that waits
(`LoopRounds` in program.py says when) keeps its thread, which sleeps, and another thread goes on;
only one of them runs at any time, so what happens depends on nothing but the order of the grid, or
on the seed of a schedule.

Programs that wait go on when what they read has changed. If none has and none is left to start,
nobody can end the waits: a deadlock.
"""

from __future__ import annotations

import _thread
import contextvars
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from workbench.interpreter.deadlocks import deadlock
from workbench.interpreter.program import ProgramFrame, Step
from workbench.interpreter.run import AbandonedError, Run
from workbench.interpreter.waiting import MOST_WAITING, Waiting
from workbench.ir import Op

Program = tuple[int, int, int]


class Scheduler:
    """The turns of one run."""

    def __init__(self, machine: Run, seed: int = 0) -> None:
        self.machine = machine
        #: None: programs start in order, and go on as soon as they can, the first one first.
        self.random = random.Random(seed) if seed else None
        self.order: Iterator[Program] = iter(())
        self.after: Callable[[Program], object] | None = None
        self.waiting: list[Waiting] = []
        #: How often each program waited in vain; it is asked again the more rarely.
        self.vain: dict[int, int] = {}
        self.started = 0
        self.finished = 0
        self.error: BaseException | None = None
        self.over = threading.Event()
        #: Held while the thread of a program runs. These are no objects of `threading`: those have
        #: callbacks when they are collected, and a KeyboardInterrupt that comes then is lost.
        self.threads: list[Any] = []

    def run(
        self, order: Iterable[Program], after: Callable[[Program], object] | None = None
    ) -> None:
        """Run programs. `after` is called when one has ended; the run is over if it says true.

        Raises:
            LaunchError: what a program raised; K515 where all that are left wait for each other
                and the whole grid was started.
        """
        self.order, self.after = iter(order), after
        self.machine.over = False
        try:
            self._go_on(self._next())
            if self.threads:
                self.over.wait()
        except BaseException as error:
            self._end(error)
        finally:
            self._dismiss()
        if self.error is not None:
            raise self.error

    # -- asked by programs ----------------------------------------------------------------
    def wait(self, frame: ProgramFrame, loop: Op, reads: Sequence[Step]) -> None:
        """Put a program aside until something that it read has changed."""
        patience = 1 << min(self.vain.get(frame.number, 0), 30)
        self.vain[frame.number] = self.vain.get(frame.number, 0) + 1
        held = [(step, step.places.read()) for step in reads]
        self._put_aside(Waiting(frame, loop, held, self.started + patience))

    def give_way(self, frame: ProgramFrame) -> None:
        """Let others run first."""
        self._put_aside(Waiting(frame, None, [], self.started))

    def meet(self, frame: ProgramFrame) -> None:
        """Change over before an access that orders programs, if the schedule says so."""
        if self.random is not None and not frame.waiting and self.random.random() < 0.5:
            self.give_way(frame)

    def _put_aside(self, mine: Waiting) -> None:
        self._check()
        self.waiting.append(mine)
        chosen = self._next()
        if chosen is mine:
            return
        self._hand_over(chosen)
        mine.awake.wait()
        self._check()

    # -- whose turn it is -----------------------------------------------------------------
    def _next(self) -> Waiting | Program | None:
        """Choose who goes on; None where nobody is left. Raises LaunchError K515."""
        if len(self.waiting) < MOST_WAITING:
            ready = [w for w in self.waiting if w.loop is not None and w.after <= self.started]
            if self.random is not None and self.random.random() < 0.5:
                ready = []
            chosen = self._first(w for w in ready if w.may_go_on())
            if chosen is not None:
                return chosen
            program = next(self.order, None)
            if program is not None:
                self.started += 1
                return program
        chosen = self._first(w for w in self.waiting if w.may_go_on())
        if chosen is None and self.waiting:
            self._stuck()
        return chosen

    def _first(self, ready: Iterable[Waiting]) -> Waiting | None:
        if self.random is not None:
            among = list(ready)
            chosen = self.random.choice(among) if among else None
        else:
            chosen = next(iter(ready), None)
        if chosen is not None:
            self.waiting.remove(chosen)
        return chosen

    def _stuck(self) -> None:
        x, y, z = self.machine.grid
        if self.started < x * y * z and len(self.waiting) < MOST_WAITING:
            return  # who could end the waits was not to be run
        raise deadlock(self.machine, self.waiting, full=self.started < x * y * z)

    def _hand_over(self, chosen: Waiting | Program | None) -> None:
        """Let another thread go on with the turn."""
        if isinstance(chosen, Waiting):
            chosen.awake.set()
        elif chosen is None:
            self._end(None)
        else:
            ended = _thread.allocate_lock()
            ended.acquire()
            context = contextvars.copy_context()
            self.threads.append(ended)
            try:
                _thread.start_new_thread(lambda: context.run(self._work, chosen, ended), ())
            except RuntimeError:  # no more threads
                self.threads.pop()
                raise

    def _work(self, program: Program, ended: Any) -> None:
        """Go on in a thread of its own."""
        try:
            self._go_on(program)
        except AbandonedError:
            pass
        except BaseException as error:
            self._end(error)
        finally:
            ended.release()

    def _go_on(self, chosen: Waiting | Program | None) -> None:
        """Run programs on this thread until one that waits on another thread has its turn."""
        while isinstance(chosen, tuple):
            frame = ProgramFrame(self.machine, chosen)
            frame.run(self.machine.module.body, ())
            frame.finished(self.machine.module.body)
            if self.machine.watcher is not None:
                self.machine.watcher.ended(frame.number)
            self.finished += 1
            if self.after is not None and self.after(chosen):
                self.order = iter(())
                chosen = None
                break
            self._check()
            chosen = self._next()
        self._hand_over(chosen)

    # -- the end --------------------------------------------------------------------------
    def _end(self, error: BaseException | None) -> None:
        if self.error is None and not isinstance(error, AbandonedError):
            self.error = error
        self.machine.over = True
        self.over.set()
        for waiting in self.waiting:
            waiting.awake.set()

    def _check(self) -> None:
        if self.over.is_set():
            raise AbandonedError

    def _dismiss(self) -> None:
        """End the programs that still wait."""
        self._end(None)
        for ended in self.threads:
            ended.acquire()
        self.waiting.clear()
        self.threads.clear()
