"""Find out which program stored an element, by running programs in the interpreter.

After a failed check the kernel is run again, one program after the other, over copies of its
arguments. Programs near the element's place in the grid are tried first, since most kernels hand
out their outputs in order; the search ends when a program stores it, or after some seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from workbench.bench.arrays import to_host
from workbench.interpreter import Finding, Machine
from workbench.ir import Module
from workbench.source import KernelError, Span

SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Storing:
    """Who stored an element: `program` is None where nobody did, or where nobody knows."""

    program: tuple[int, ...] | None = None
    number: int | None = None
    op: int | None = None
    span: Span | None = None


@dataclass(slots=True)
class Search:
    """What running programs in the interpreter found out about some elements of one array.

    `complete` says that every program ran: then an element that is not in `found` was stored by
    nobody, and `covered` are all elements that the grid stores. `findings` are races and promises
    that do not hold, which may be why an element is wrong.
    """

    found: dict[int, Storing] = field(default_factory=dict[int, Storing])
    complete: bool = False
    covered: set[int] = field(default_factory=set[int])
    findings: list[Finding] = field(default_factory=list[Finding])

    def nobody(self, element: int) -> bool:
        """Whether it is certain that no program stored the element."""
        return self.complete and element not in self.found


def who_stored(
    module: Module,
    grid: Sequence[int],
    arguments: Mapping[str, Any],
    name: str,
    elements: Collection[int],
    share: float,
    seconds: float = SECONDS,
) -> Search:
    """Return which programs stored elements (counted in memory) of array parameter `name`.

    `arguments` are values from before the launch, by parameter name; they are written to. `share`
    in [0, 1) says where in the output the elements lie, which is where the search begins.
    """
    values = [to_host(arguments[parameter.name]) for parameter in module.parameters]
    machine = Machine(module, grid, values, record=True, watch=True)
    search = Search(findings=machine.recording.findings)
    end = time.monotonic() + seconds

    def ended(_: object) -> bool:
        for access in machine.recording.accesses:
            if access.write and access.live and access.argument == name:
                search.covered.add(access.element)
                if access.element in elements:
                    program = _coordinates(access.program, grid)
                    span = _span(module, access.op)
                    search.found[access.element] = Storing(
                        program[: len(grid)], access.program, access.op, span
                    )
        machine.recording.accesses.clear()
        return len(search.found) == len(elements) or time.monotonic() > end

    programs = [_coordinates(number, grid) for number in outwards(prod(grid), share)]
    # Where a program cannot be run here, the check's own message stands.
    with contextlib.suppress(KernelError):
        search.complete = machine.run(programs, ended)
    return search


def outwards(count: int, share: float) -> Iterator[int]:
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
