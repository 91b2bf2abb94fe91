"""Runs a module: every program instance of a grid, every op by its own meaning."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from workbench.interpreter.recording import Recording
from workbench.interpreter.run import Run
from workbench.interpreter.scheduling import Program, Scheduler
from workbench.interpreter.watching import Watcher
from workbench.ir import Module
from workbench.source import deep, seconds_of_loops


@deep
def run_module(
    module: Module,
    grid: Sequence[int],
    arguments: Sequence[Any],
    *,
    record: bool = False,
    watch: bool = False,
    uninitialised: Collection[str] = (),
    schedule: int = 0,
) -> Recording:
    """Run a kernel over a grid and return what it printed and, if asked for, what it accessed.

    `arguments` are in the order of the module's parameters: arrays (see `describe_argument`) for
    pointers, numbers for the rest. What the kernel stores is in the arrays afterwards. With
    `watch` races, false promises, and reads of elements that nobody wrote are found too, the last
    in the arguments that `uninitialised` names. Programs run in the order of the grid, one that
    waits lets others run; a `schedule` other than 0 is the seed of another order, in which programs
    change over at atomics too. Loops take as long as they like, unless this is a check.

    Raises:
        LaunchError: a wrong argument (K501), an access that leaves its argument (K502), programs
            that wait for ever (K515), or, where it is watched, an assertion that fails (K510).
        ResourceError: K406 for a loop that takes longer than a check may.
    """
    machine = Machine(
        module, grid, arguments, record=record, watch=watch, uninitialised=uninitialised,
        schedule=schedule,
    )  # fmt: skip
    machine.most_seconds = seconds_of_loops()
    machine.run_all()
    return machine.recording


class Machine(Run):
    """A run that can be started: it gives programs their turns, and has them watched."""

    def __init__(
        self,
        module: Module,
        grid: Sequence[int],
        arguments: Sequence[Any],
        *,
        record: bool = False,
        watch: bool = False,
        uninitialised: Collection[str] = (),
        schedule: int = 0,
    ) -> None:
        super().__init__(module, grid, arguments, record=record)
        self._schedule = schedule
        self.scheduler = Scheduler(self, schedule)
        if watch:
            self.watcher = Watcher(self, uninitialised)

    def run_all(self) -> None:
        """Run every program instance, axis 0 fastest, or as the schedule has it."""
        x, y, z = self.grid
        programs: Iterable[Program] = (
            (i, j, k) for k, j, i in itertools.product(range(z), range(y), range(x))
        )
        if self._schedule:
            programs = list(programs)
            random.Random(self._schedule).shuffle(programs)
        self.run(programs)

    def run(
        self, programs: Iterable[Program], after: Callable[[Program], object] | None = None
    ) -> bool:
        """Run some program instances, in this order as far as none has to wait.

        `after` is called when one has ended; nothing more is run once it says true. Programs that
        wait for others are left where they are if those are not among `programs`. Returns whether
        all programs of the grid ran to their end.
        """
        scheduler = self.scheduler = Scheduler(self, self._schedule)
        scheduler.run(programs, after)
        x, y, z = self.grid
        return scheduler.finished == x * y * z
