"""One kernel on one case: compiled, run in the interpreter and on the CPU, with all it touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from workbench.bench.subject import Subject, call_by_name
from workbench.interpreter import Access, Machine, Recording
from workbench.ir import Module, Op
from workbench.launch.grids import resolve_grid
from workbench.puzzles.arguments import NAN, Arguments
from workbench.puzzles.puzzle import Case, Puzzle
from workbench.source import OptionError, limit_of

#: The GPU whose IR and PTX questions are about; it need not be there.
CHIP = "sm_90a"
MOST_PROGRAMS = 4096


@dataclass(slots=True)
class Attempt:
    """What a learner hands in: a kernel, a grid of their own, and constexprs of their own."""

    kernel: Any
    grid: Any = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


class Trial:
    """One launch of an attempt. Everything in it is made when it is asked for."""

    def __init__(self, puzzle: Puzzle, case: Case, attempt: Attempt, seed: int) -> None:
        self.puzzle = puzzle
        self.case = case
        self.attempt = attempt
        self.constants = {**puzzle.constants, **attempt.settings}
        self.data = puzzle.data(np.random.default_rng(seed), case.sizes)

    # -- the launch -----------------------------------------------------------------------
    @cached_property
    def grid(self) -> tuple[int, ...]:
        """The programs along each axis; raises OptionError K111 for what is no grid."""
        names = {**self.case.sizes, **self.constants}
        own = self.puzzle.grid if self.attempt.grid is None else self.attempt.grid
        if callable(own):
            try:
                own = call_by_name(own, names)
            except Exception as error:
                raise OptionError(
                    f"the grid raised {type(error).__name__}: {error}", code="K111",
                    hint=f"it is called by name with {', '.join(names)}",
                ) from error  # fmt: skip
        found = own if self.attempt.grid is None else resolve_grid(own, lambda: names)
        if prod(found) > MOST_PROGRAMS:
            raise OptionError(f"{prod(found)} programs are too many for a puzzle", code="K111")
        return tuple(found)

    def arguments(self, garbage: float = NAN) -> Arguments:
        """Return fresh arguments of this launch."""
        return Arguments(self.puzzle, self.case, self.data, garbage)

    def compiled(self, target: str, **options: Any) -> Any:
        """Return the kernel compiled for this launch on a target; raises KernelError."""
        given = self.arguments().values
        return self.attempt.kernel.warmup(
            **given, **self.constants, grid=self.grid, target=target, **options
        )

    @cached_property
    def module(self) -> Module:
        """Its tile IR."""
        return self.compiled("interpreter", debug=True).module

    @cached_property
    def gpu(self) -> Module:
        """Its GPU IR, for CHIP."""
        found = self.compiled(CHIP).compiled.built.gpu
        assert found is not None
        return found

    @cached_property
    def ops(self) -> dict[int, Op]:
        """The ops of its tile IR by id."""
        return {op.id: op for op in self.module.walk()}

    # -- running --------------------------------------------------------------------------
    def interpret(self, schedule: int = 0, *, record: bool = True) -> tuple[Arguments, Recording]:
        """Run it in the interpreter, watched; raises LaunchError for what ends the run.

        With `record`, `accesses` are those of this run from now on, up to where it ended.
        """
        arguments = self.arguments()
        given = [arguments.values[parameter.name] for parameter in self.module.parameters]
        unwritten = [name for name, held in self.data.items() if held.role in ("out", "scratch")]
        names = {parameter.name for parameter in self.module.parameters}
        machine = Machine(
            self.module, self.grid, given, record=record, watch=True, schedule=schedule,
            uninitialised=[name for name in unwritten if name in names],
        )  # fmt: skip
        machine.most_rounds = limit_of("interpreted")
        with np.errstate(all="ignore"):
            try:
                machine.run_all()
            finally:
                if record:
                    vars(self)["accesses"] = machine.recording.accesses
        return arguments, machine.recording

    def launch(self, garbage: float) -> Arguments:
        """Launch it on the CPU, guarded; raises KernelError."""
        arguments = self.arguments(garbage)
        self.attempt.kernel.run(
            **arguments.values, **self.constants, grid=self.grid, target="cpu", guard=True
        )
        return arguments

    @cached_property
    def accesses(self) -> list[Access]:
        """Every lane of every access of the launch in the interpreter."""
        return self.interpret()[1].accesses

    def subject(self, arguments: Arguments, target: str) -> Subject:
        """Return the launch as what results are compared of."""
        return Subject(
            self.puzzle.name, arguments.values, dict(self.constants), self.grid, lambda: None,
            self.module, self.roles, target,
        )  # fmt: skip

    @property
    def roles(self) -> Mapping[str, str]:
        """What the kernel has to do with each array whose result counts."""
        return {name: held.role for name, held in self.data.items() if held.role != "scratch"}

    # -- what accesses mean ---------------------------------------------------------------
    def index_of(self, name: str, element: int) -> tuple[int, ...] | None:
        """Return the index of the element so far behind an array's first one; None: in a gap."""
        arguments = self._laid_out
        array = arguments.values[name]
        index, left = [0] * array.dim(), element
        order = sorted(range(array.dim()), key=lambda axis: -array.stride(axis))
        for axis in order:
            step = max(1, array.stride(axis))
            index[axis], left = divmod(left, step)
            if index[axis] >= array.shape[axis]:
                return None
        return tuple(index) if not left else None

    @cached_property
    def _laid_out(self) -> Arguments:
        return self.arguments()

    def program(self, number: int) -> tuple[int, ...]:
        """Return a program's coordinates, as many as the grid has axes."""
        x, y, _ = (*self.grid, 1, 1, 1)[:3]
        return (number % x, number // x % y, number // (x * y))[: len(self.grid)]
