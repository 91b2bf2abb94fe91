"""Many random programs by seed: runs them, makes what fails small, writes it down as a test.

    python -m tests.fuzz.batch KIND TARGET KEEP FIRST COUNT      # a line of JSON for each seed

KIND is `programs` (IR) or `sources` (text).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass

from tests.fuzz import sourced
from tests.fuzz.keep import save
from tests.fuzz.programs import launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import DEVICE_LOST, difference, kind_of, options_for, with_options
from workbench.ir import Module


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that a target got wrong: `lines` of it are left, kept in the file `kept`."""

    seed: int
    said: str
    lines: int
    kept: str


def module_for(seed: int, target: str) -> Module:
    """Return the program of a seed, with options for a GPU."""
    return with_options(program(seed), **options_for(seed, target))


def try_seed(seed: int, target: str, *, keep: bool = True) -> Failure | None:
    """Run the program of a seed in the interpreter and on a target; None if both agree."""
    module, numbers = module_for(seed, target), launch(seed)
    said = difference(module, numbers, target)
    if not said:
        return None
    if DEVICE_LOST not in said:
        kind = kind_of(said)
        module = reduced(module, lambda other: kind_of(difference(other, numbers, target)) == kind)
        said = difference(module, numbers, target)
    kept = save(f"{target}_{seed}", module, numbers, target, said).name if keep else ""
    return Failure(seed, said, lines_of(module), kept)


def try_source(seed: int, target: str, *, keep: bool = True) -> Failure | None:
    """Run the kernel of a seed by NumPy and on a target; None if both agree."""
    text = sourced.kernel_text(seed)
    said = sourced.difference(text, seed, target)
    if not said:
        return None
    if DEVICE_LOST not in said:
        kind = kind_of(said)
        text = sourced.reduced(
            text, lambda other: kind_of(sourced.difference(other, seed, target)) == kind
        )
        said = sourced.difference(text, seed, target)
    kept = sourced.save(f"{target}_{seed}", text, seed, target, said).name if keep else ""
    return Failure(seed, said, len(text.splitlines()), kept)


KINDS = {"programs": try_seed, "sources": try_source}


def main(kind: str, target: str, keep: str, first: str, count: str) -> None:
    """Write the failure of each seed, or null, as a line of JSON.

    A device that has met an illegal access answers nothing any more: what is left of the seeds is
    for a process of its own.
    """
    for seed in range(int(first), int(first) + int(count)):
        failure = KINDS[kind](seed, target, keep=keep == "keep")
        lost = failure is not None and DEVICE_LOST in failure.said
        row = {"seed": seed, "failure": asdict(failure) if failure else None, "stops": lost}
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        if lost:
            os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
