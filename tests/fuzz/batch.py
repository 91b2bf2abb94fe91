"""The child process of the fuzz: runs one case after the other, makes small what fails, keeps it.

    python -m tests.fuzz.batch      # a line of JSON in, a line of JSON out

A case is {"kind", "target", "seed", "keep" (a folder), "reducing" (seconds)}; kinds are `programs`
(IR), `sources` (text) and `cells` (mutated cells of the corpus, whose target their seed says).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fuzz import sourced
from tests.fuzz.cells import outcome
from tests.fuzz.children import Case, Report, serve
from tests.fuzz.keep import FOUND, save
from tests.fuzz.programs import launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import DEVICE_LOST, difference, kind_of, options_for, with_options
from workbench.ir import Module


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that a target got wrong: `lines` of it are left, kept in the file `kept`."""

    seed: int
    said: str
    lines: int
    kept: str


class Budget:
    """How long a failing case may be made small; whoever waits is told that it goes on."""

    def __init__(self, seconds: float = 60.0, report: Report | None = None) -> None:
        self.end = time.monotonic() + seconds
        self.report = report

    def allows(self) -> bool:
        """Return whether there is time for one more try."""
        if self.report is not None:
            self.report("reducing")
        return time.monotonic() < self.end


def module_for(seed: int, target: str) -> Module:
    """Return the program of a seed, with options for a GPU."""
    return with_options(program(seed), **options_for(seed, target))


def try_seed(
    seed: int, target: str, *, keep: Path | None = FOUND, budget: Budget | None = None
) -> Failure | None:
    """Run the program of a seed in the interpreter and on a target; None if both agree."""
    module, numbers = module_for(seed, target), launch(seed)
    said = difference(module, numbers, target)
    if not said:
        return None
    kind, time_left = kind_of(said), budget or Budget()
    if DEVICE_LOST not in said:
        module = reduced(
            module,
            lambda other: (
                time_left.allows()
                and kind_of(difference(other, numbers, target, watch=True)) == kind
            ),
        )
        said = difference(module, numbers, target)
    kept = save(f"{target}_{seed}", module, numbers, target, said, keep).name if keep else ""
    return Failure(seed, said, lines_of(module), kept)


def try_source(
    seed: int, target: str, *, keep: Path | None = FOUND, budget: Budget | None = None
) -> Failure | None:
    """Run the kernel of a seed by NumPy and on a target; None if both agree."""
    text = sourced.kernel_text(seed)
    said = sourced.difference(text, seed, target)
    if not said:
        return None
    kind, time_left = kind_of(said), budget or Budget()
    if DEVICE_LOST not in said:
        text = sourced.reduced(
            text,
            lambda other: (
                time_left.allows() and kind_of(sourced.difference(other, seed, target)) == kind
            ),
        )
        said = sourced.difference(text, seed, target)
    kept = sourced.save(f"{target}_{seed}", text, seed, target, said, keep).name if keep else ""
    return Failure(seed, said, len(text.splitlines()), kept)


RUNS: dict[str, Callable[..., Failure | None]] = {"programs": try_seed, "sources": try_source}


def answer(case: Case, report: Report) -> Case:
    """Run a case and say what came of it.

    A device that has met an illegal access answers nothing any more: other cases are for a process
    of their own.
    """
    seed = case["seed"]
    if case["kind"] == "cells":
        what, said = outcome(seed)
        failure = Failure(seed, said, 0, "") if what == "wrong" else None
        return {"outcome": what, "failure": failure and asdict(failure)}
    budget = Budget(case.get("reducing", 60.0), report)
    keep = Path(case["keep"]) if case["keep"] else None
    failure = RUNS[case["kind"]](seed, case["target"], keep=keep, budget=budget)
    lost = failure is not None and DEVICE_LOST in failure.said
    return {"outcome": "", "failure": failure and asdict(failure), "stops": lost}


if __name__ == "__main__":
    serve(answer)
