"""Many random programs by seed: runs them, makes what fails small, writes it down as a test."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.keep import save
from tests.fuzz.programs import launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import difference, with_options
from workbench.ir import Module

WARPS = (1, 2, 4, 8)
STAGES = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Failure:
    """A program that a target got wrong: `lines` of it are left, kept in the file `kept`."""

    seed: int
    said: str
    lines: int
    kept: str


def module_for(seed: int, target: str) -> Module:
    """Return the program of a seed, with options for a GPU."""
    module = program(seed)
    if target.startswith("sm_"):
        warps, stages = WARPS[seed % 4], STAGES[seed // 4 % 4]
        module = with_options(module, num_warps=warps, num_stages=stages)
    return module


def try_seed(seed: int, target: str, *, keep: bool = True) -> Failure | None:
    """Run the program of a seed in the interpreter and on a target; None if both agree."""
    module, numbers = module_for(seed, target), launch(seed)
    said = difference(module, numbers, target)
    if not said:
        return None
    kind = _kind(said)
    small = reduced(module, lambda other: _kind(difference(other, numbers, target)) == kind)
    said = difference(small, numbers, target)
    kept = ""
    if keep:
        kept = save(f"{target}_{seed}", small, numbers, target, said).name
    return Failure(seed, said, lines_of(small), kept)


def _kind(said: str) -> str:
    """Return the sort of a difference: an exception and its first words, or a wrong value."""
    name, colon, rest = said.partition(": ")
    return f"{name} {' '.join(rest.split()[:3])}" if colon else said.partition("[")[0]
