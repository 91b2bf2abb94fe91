"""Loads raised to tensor maps wherever that is possible, and what a launch of them does.

`run` interprets a kernel as it is and with every load raised that can be, whether a product reads
it or not, and compares all bytes. Arrays hold NaN where the kernel has nothing to read, and a box
that reads outside of an array is an error of the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import tile_steps
from workbench.analysis.ranges import index_program
from workbench.ir import Block, Module, Op, verify_module
from workbench.launch.hulls import asked_program
from workbench.ops import For, Load
from workbench.passes.cleanup import hoist_invariants
from workbench.passes.manager import Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.source import KernelError
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.passes.raise_tma import Raiser, asked

SM_90A = chip("sm_90a")


class Every(Raiser):
    """Raises each load for itself, product or not."""

    def groups(self) -> Iterator[tuple[For | None, list[Load]]]:
        def inside(block: Block, loop: For | None) -> Iterator[tuple[For | None, list[Load]]]:
            for op in block.ops:
                if isinstance(op, Load) and op.pointers.type != op.result.type:
                    if hasattr(op.pointers.type, "shape"):
                        yield loop, [op]
                for region in op.regions:
                    yield from inside(region, op if isinstance(op, For) else loop)

        yield from inside(self.module.body, None)

    def feeds(self, load: Load, inner: int | None) -> bool:
        return True


def before_raising(module: Module) -> Module:
    """Return what tile IR is after the passes that all targets have, in 32 bits."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    return hoist_invariants(narrow_index(final, Remarks()), Remarks())


def raised(module: Module, remarks: Remarks | None = None) -> Module:
    """Return a module with every load raised that can be."""
    found = Every(module, remarks or Remarks(), SM_90A).run()
    verify_module(found)
    return found


def loads(module: Module) -> list[str]:
    """Return what each load of a module is, in order: "box", or "pointers"."""
    names = {"gpu.tensor_load": "box", "tile.load": "pointers"}
    return [names[op.name] for op in module.walk() if op.name in names and _is_tile(op)]


def _is_tile(op: Op) -> bool:
    return hasattr(op.results[0].type, "shape")


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


def run(
    function: Any, words: str, constexprs: Mapping[str, Any], make: Any, grid: tuple[int, ...]
) -> tuple[str, list[str]]:
    """Return what came of a launch, and what was said of the loads.

    "same": what is stored is the same; "twin": the launch has to take the code without maps;
    "refused": no load was raised; "outside": the kernel itself accesses what is not there.
    """
    tile = tile_ir(function, words, constexprs)
    module = before_raising(tile)
    remarks = Remarks()
    after = raised(module, remarks)
    said = [item.text for item in remarks.items]
    if "box" not in loads(after):
        return "refused", said
    arguments = make()
    launch = dict(zip((p.name for p in module.parameters), arguments, strict=True))
    integers = {name: v for name, v in launch.items() if isinstance(v, int)}
    if not index_program(tile).fits(integers, grid) or not may_run(after, arguments, grid):
        return "twin", said
    try:
        wanted = meaning(module, grid, make())
    except KernelError:
        return "outside", said
    try:
        got = meaning(after, grid, make())
    except KernelError as error:
        if error.code == "K509" and "no tensor map can be made" in str(error):
            return "twin", said
        raise
    assert got == wanted, f"{constexprs} {integers} {grid}: {said}"
    return "same", said


def matrix(rows: int, columns: int, pitch: int, seed: int, dtype: Any = np.float32) -> np.ndarray:
    """Return rows that begin `pitch` elements apart; what lies between them is NaN."""
    held = np.full((rows, pitch), np.nan, dtype)
    held[:, :columns] = np.random.default_rng(seed).integers(-4, 5, (rows, columns))
    return held.ravel()
