"""Loads raised to tensor maps wherever that is possible, and what a launch of them does.

A kernel is interpreted as it is and with every load raised that can be, whether a product reads it
or not, and all bytes are compared. Arrays hold NaN where the kernel has nothing to read, and a box
that reads outside of an array is an error of the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import tile_steps
from workbench.analysis.ranges import index_program
from workbench.ir import Block, Module, Tile, verify_module
from workbench.launch.hulls import asked_program
from workbench.ops import For
from workbench.passes.cleanup import hoist_invariants
from workbench.passes.manager import Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.source import KernelError
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import TensorLoad
from workbench.targets.nvidia.passes.feeders import Feeders, Feeding
from workbench.targets.nvidia.passes.raise_tma import Raiser, asked
from workbench.targets.nvidia.passes.tma_plans import Plans

SM_90A = chip("sm_90a")


class Every(Feeders):
    """Finds each load of a tile for itself, whether a product reads it or not."""

    def groups(self) -> Iterator[tuple[For | None, list[Feeding]]]:
        """Yield all loads of tiles, one by one."""

        def inside(block: Block, loop: For | None) -> Iterator[tuple[For | None, list[Feeding]]]:
            for op in block.ops:
                found = self.feeding(op)
                if found is not None and isinstance(op.result.type, Tile):
                    yield loop, [found]
                for region in op.regions:
                    yield from inside(region, op if isinstance(op, For) else loop)

        yield from inside(self.module.body, None)

    def feeds(self, feeding: Feeding, inner: int | None) -> bool:
        """Say that it may lie in any order."""
        return True


class Tried:
    """A kernel with all loads raised that can be: how many are, and what was said of the others."""

    def __init__(self, function: Any, words: str, constexprs: Mapping[str, Any]) -> None:
        tile = tile_ir(function, words, constexprs)
        final = [tile, *(after for _, after in tile_steps(tile))][-1]
        final = replace(final, attributes={**final.attributes, "narrow_index": True})
        self.constexprs = constexprs
        self.fits = index_program(tile).fits
        self.module = hoist_invariants(narrow_index(final, Remarks()), Remarks())
        remarks = Remarks()
        every = Every(self.module, SM_90A)
        plans = Plans(self.module, every)
        found = plans.of(every.groups(), remarks)
        self.after = Raiser(self.module, plans).written(found) if found else self.module
        verify_module(self.after)
        self.boxes = sum(isinstance(op, TensorLoad) for op in self.after.walk())
        self.missed = [item.text for item in remarks.items if item.severity == "missed"]

    def launch(self, make: Callable[[], list[Any]], grid: tuple[int, ...]) -> str:
        """Return what came of a launch; `make` gives its arguments, fresh ones each time.

        "same": both store the same bytes; "twin": the launch has to take the code without maps;
        "outside": the kernel itself accesses what is not there.
        """
        arguments = make()
        named = {p.name: a for p, a in zip(self.module.parameters, arguments, strict=True)}
        integers = {name: a for name, a in named.items() if isinstance(a, int)}
        if not self.fits(integers, grid) or not may_run(self.after, arguments, grid):
            return "twin"
        try:
            wanted = meaning(self.module, grid, make())
        except KernelError:
            return "outside"
        try:
            got = meaning(self.after, grid, make())
        except KernelError as error:
            if "no tensor map can be made" in str(error):
                return "twin"
            raise
        assert got == wanted, f"{self.constexprs} {integers} {grid}"
        return "same"


def may_run(module: Module, arguments: Sequence[Any], grid: Sequence[int]) -> bool:
    """Say whether a launch fulfils what a module with tensor maps asks of it."""
    facts = asked(module)
    if facts is None:
        return True
    numbers = [int(a) if isinstance(a, int) else 0 for a in arguments]
    places = tuple(
        (p.name, place, number < 0)
        for place, (p, number) in enumerate(zip(module.parameters, numbers, strict=True))
    )
    return asked_program(facts, places).evaluate(numbers, grid) is not None


def matrix(rows: int, columns: int, pitch: int, seed: int) -> np.ndarray:
    """Return rows that begin `pitch` elements apart; what lies between them is NaN."""
    held = np.full((rows, pitch), np.nan, np.float32)
    held[:, :columns] = np.random.default_rng(seed).integers(-4, 5, (rows, columns))
    return held.ravel()
