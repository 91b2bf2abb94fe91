"""Find out which program stored an element, by running programs in the interpreter.

After a failed check the kernel is run again, one program after the other, over copies of its
arguments. Programs near the element's place in the grid are tried first, since most kernels hand
out their outputs in order; the search ends when a program stores it, or after some seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.bench.arrays import to_host
from workbench.interpreter import Machine
from workbench.ir import Module
from workbench.source import KernelError, Span

SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Storing:
    """Who stored an element: `program` and `op` are None where `nobody` did, or nobody knows."""

    program: tuple[int, ...] | None = None
    number: int | None = None
    op: int | None = None
    span: Span | None = None
    nobody: bool = False


def who_stored(
    module: Module,
    grid: Sequence[int],
    arguments: Mapping[str, Any],
    name: str,
    element: int,
    share: float,
    seconds: float = SECONDS,
) -> Storing:
    """Return which program stored element `element` (counted in memory) of parameter `name`.

    `arguments` are values from before the launch, by parameter name; `share` in [0, 1) says where
    the element lies in the output, which is where the search begins in the grid.
    """
    values = [to_host(arguments[parameter.name]) for parameter in module.parameters]
    machine = Machine(module, grid, values, record=True)
    end = time.monotonic() + seconds
    for number in _outwards(prod(grid), share):
        program = _coordinates(number, grid)
        try:
            machine.run_program(program)
        except KernelError:
            return Storing()  # the program cannot be run here; the check's own message stands
        accesses = machine.recording.accesses
        for access in accesses:
            hit = access.write and access.live and access.argument == name
            if hit and access.element == element:
                return Storing(program[: len(grid)], number, access.op, _span(module, access.op))
        accesses.clear()
        if time.monotonic() > end:
            return Storing()
    return Storing(nobody=True)


def _outwards(count: int, share: float) -> Iterator[int]:
    """Yield 0 … count - 1, beginning at a place and going outwards from there."""
    middle = min(int(count * share), count - 1)
    for distance in range(count):
        if middle - distance >= 0:
            yield middle - distance
        if distance and middle + distance < count:
            yield middle + distance


def _coordinates(number: int, grid: Sequence[int]) -> tuple[int, int, int]:
    x, y, _ = (*grid, 1, 1, 1)[:3]
    return number % x, number // x % y, number // (x * y)


def _span(module: Module, number: int) -> Span | None:
    return next((op.span for op in module.walk() if op.id == number), None)
