"""What questions ask: functions from a learner's trial to the right answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from workbench.interpreter import Access
from workbench.ir import Block, Op, Value
from workbench.ops import For, While
from workbench.ops.atomics import AtomicCompareExchange, AtomicUpdate
from workbench.puzzles.trial import CHIP, Trial
from workbench.targets.nvidia.moves import moves_in


# -- of the access record ---------------------------------------------------------------------
def loads(trial: Trial) -> Iterator[Access]:
    """Yield the lanes of all loads."""
    for access in trial.accesses:
        if not access.write and trial.ops[access.op].name == "tile.load":
            yield access


def lanes_off(trial: Trial) -> int:
    """Return how many lanes of loads are off, over all programs."""
    return sum(not access.live for access in loads(trial))


def loaded_by_first(trial: Trial) -> int:
    """Return how many elements the first program loads."""
    return sum(access.live and access.program == 0 for access in loads(trial))


def touching(trial: Trial, name: str, element: int) -> set[int]:
    """Return the programs that load or store an element."""
    return {
        access.program
        for access in trial.accesses
        if access.live and access.argument == name and access.element == element
    }


def loaded_bytes(trial: Trial) -> int:
    """Return how many bytes all programs load together."""
    sizes = {name: held.values.itemsize for name, held in trial.data.items()}
    return sum(sizes[access.argument] for access in loads(trial) if access.live)


def moved_bytes(trial: Trial) -> int:
    """Return how many bytes all programs load and store together."""
    sizes = {name: held.values.itemsize for name, held in trial.data.items()}
    return sum(sizes[access.argument] for access in trial.accesses if access.live)


def atomics(trial: Trial) -> tuple[int, str]:
    """Return how many elements atomics touch, and the scope of the first one."""
    found = {
        op.id: op for op in trial.module.walk()
        if isinstance(op, AtomicUpdate | AtomicCompareExchange)
    }  # fmt: skip
    touched = {
        (access.op, access.program, access.lane, n)
        for n, access in enumerate(trial.accesses)
        if access.live and access.op in found and access.write
    }
    scopes = [str(op.scope) for op in found.values()]
    return len(touched), scopes[0] if scopes else "none"


# -- of the tile IR ---------------------------------------------------------------------------
def _loops(trial: Trial) -> list[For | While]:
    return [op for op in trial.module.walk() if isinstance(op, For | While)]


def carried(trial: Trial) -> list[Value]:
    """Return what the innermost loops carry from round to round."""
    inner = [
        loop for loop in _loops(trial)
        if not any(isinstance(op, For | While) for op in _within(loop))
    ]  # fmt: skip
    return [value for loop in inner for value in loop.results]


def carried_types(trial: Trial) -> list[str]:
    """Return the types of what loops carry, in any order."""
    return [str(value.type) for value in carried(trial)]


def carried_names(trial: Trial) -> set[str]:
    """Return the names of what loops carry, as the source has them."""
    return {value.hint for value in carried(trial)}


def carry_makers(trial: Trial) -> set[str]:
    """Return the ops that make what a loop hands on to its next round."""
    found: set[str] = set()
    for loop in _loops(trial):
        handed = loop.regions[-1].ops[-1].operands
        found |= {value.op.name for value in handed if value.op is not None}
    return found


def _within(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from _of(region)


def _of(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        yield from _within(op)


# -- of the GPU IR ----------------------------------------------------------------------------
def widths(trial: Trial) -> tuple[int, int]:
    """Return how many elements an access of one lane moves: of the loads, of the stores."""
    found = {"load": 1, "store": 1}
    for _, move in moves_in(trial.gpu, CHIP):
        if move.space == "global" and move.direction in found:
            found[move.direction] = max(found[move.direction], move.vector)
    return found["load"], found["store"]


def after_barriers(trial: Trial) -> tuple[str, ...]:
    """Return the names of the ops that stand right after a barrier, in program order."""
    ops = list(trial.gpu.walk())
    return tuple(after.name for op, after in itertools.pairwise(ops) if op.name == "gpu.barrier")


def copied_ahead(trial: Trial) -> tuple[set[int], int]:
    """Return the lines of the loads that are copied ahead, and how many rounds ahead."""
    copies = [op for op in trial.gpu.walk() if op.name in ("gpu.async_copy", "gpu.tensor_copy")]
    lines = {op.span.line for op in copies if op.span is not None}
    inside = {op.id for loop in trial.gpu.walk() if isinstance(loop, For) for op in _within(loop)}
    buffers = {id(op.buffer) for op in copies}  # type: ignore[attr-defined]
    before = sum(op.id not in inside for op in copies)
    return lines, before // max(1, len(buffers))
