"""How much work one launch is: floating-point operations of its dots, bytes it must move.

Operations are counted from the ops and the grid: 2 M N K for each dot, times the trips of the loops
around it, times the programs. Trips are computed from the scalar arguments; where they depend on
data, the count is unknown, never guessed. Bytes are the compulsory traffic: every array argument
once for each direction in which the kernel uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from workbench.bench.arrays import bytes_of, is_array
from workbench.ir import Array, Block, Module, Op, Scalar, Value, element_of, shape_of
from workbench.ops import Dot, Elementwise, For, If, Reduce, Scan, While, count_rounds


@dataclass(frozen=True, slots=True)
class DotWork:
    """All dots of a launch: operations (None: unknown), the longest sum, operand types."""

    flops: float | None
    length: int | None
    operand_types: tuple[str, ...]


class UnknownValueError(Exception):
    """A value that is not known before the kernel runs."""


def dot_work(module: Module, grid: Sequence[int], scalars: Mapping[str, Any]) -> DotWork | None:
    """Return the work of a kernel's dots, or None if it has none.

    `scalars` holds the scalar arguments by parameter name.
    """
    dots = [op for op in module.walk() if isinstance(op, Dot)]
    if not dots:
        return None
    types = dict.fromkeys(
        "tf32" if str(element_of(dot.a.type)) == "f32" and dot.precision == "tf32"
        else str(element_of(operand.type))
        for dot in dots
        for operand in (dot.a, dot.b)
    )  # fmt: skip
    frame = ScalarFrame(module, grid, scalars)
    try:
        found = list(_dots(module.body, 1, 1, frame))
    except UnknownValueError:
        return DotWork(None, None, tuple(types))
    flops = float(sum(2 * _products(dot) * trips for dot, trips, _ in found) * prod(grid))
    length = max(shape_of(dot.a.type)[-1] * inner for dot, _, inner in found)
    return DotWork(flops, length, tuple(types))


def _products(dot: Dot) -> int:
    return prod(shape_of(dot.a.type)) * shape_of(dot.b.type)[-1]


def _dots(
    block: Block, trips: int, inner: int, frame: ScalarFrame
) -> Iterator[tuple[Dot, int, int]]:
    """Yield (dot, how often it runs, trips of the innermost loop around it)."""
    for op in block.ops:
        if isinstance(op, Dot):
            yield op, trips, inner
        elif not any(isinstance(below, Dot) for region in op.regions for below in _walk(region)):
            continue
        elif isinstance(op, For):
            count = frame.trips(op)
            yield from _dots(op.body, trips * count, count, frame)
        elif isinstance(op, If):
            taken = op.then if bool(frame.value(op.condition)) else op.otherwise
            yield from _dots(taken, trips, inner, frame)
        elif isinstance(op, While):
            raise UnknownValueError
        else:
            for region in op.regions:
                yield from _dots(region, trips, inner, frame)


def operations(module: Module, grid: Sequence[int], scalars: Mapping[str, Any]) -> float | None:
    """Return a launch's operations on floats: 2 M N K of dots, one for each other result.

    Elements that a mask leaves out count, as those of full tiles do. None where the length of a
    loop depends on data.
    """
    frame = ScalarFrame(module, grid, scalars)
    try:
        return _operations(module.body, frame) * prod(grid)
    except UnknownValueError:
        return None


def _operations(block: Block, frame: ScalarFrame) -> float:
    total = 0.0
    for op in block.ops:
        if isinstance(op, Dot):
            total += 2 * _products(op)
        elif isinstance(op, For):
            total += frame.trips(op) * _operations(op.body, frame)
        elif isinstance(op, If):
            taken = op.then if bool(frame.value(op.condition)) else op.otherwise
            total += _operations(taken, frame)
        elif isinstance(op, While):
            raise UnknownValueError
        elif isinstance(op, Reduce | Scan):
            total += sum(prod(shape_of(v.type)) for v in op.operands if _is_float(v))
        elif isinstance(op, Elementwise) and _is_float(op.result):
            total += prod(shape_of(op.result.type))
    return total


def _is_float(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.is_float


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)


class ScalarFrame:
    """Evaluates scalars of program 0 that follow from the arguments alone (a `Frame`)."""

    def __init__(self, module: Module, grid: Sequence[int], scalars: Mapping[str, Any]) -> None:
        self.grid = (*grid, 1, 1, 1)[:3]
        self.known: dict[Value, Array] = {
            parameter.value: np.asarray(scalars[parameter.name])
            for parameter in module.parameters
            if parameter.name in scalars
        }

    def trips(self, loop: For) -> int:
        """Return how often a loop runs."""
        bounds = (int(self.value(v)) for v in (loop.lower, loop.upper, loop.step))
        return count_rounds(*bounds)

    def value(self, value: Value) -> Array:
        """Return a scalar; raises UnknownValueError where it is not known beforehand."""
        if value not in self.known:
            op = value.op
            if op is None or op.regions or not isinstance(value.type, Scalar):
                raise UnknownValueError
            if not op.pure:
                raise UnknownValueError
            for operand in op.operands:
                self.value(operand)
            result = op.interpret(self)  # type: ignore[arg-type]
            results = result if isinstance(result, tuple) else (result,)
            for name, array in zip(op.results, results, strict=True):
                self.known[name] = np.asarray(array)
        return self.known[value]

    def __getitem__(self, value: Value) -> Array:
        return self.value(value)

    # What an op's interpretation asks of a frame.
    def get(self, value: Value | None, default: Any) -> Array:  # noqa: D102
        return np.asarray(default) if value is None else self.value(value)

    def program_id(self, axis: int) -> int:  # noqa: D102
        return 0

    def num_programs(self, axis: int) -> int:  # noqa: D102
        return self.grid[axis]


def bytes_moved(arguments: Mapping[str, Any], roles: Mapping[str, str]) -> int:
    """Return the compulsory traffic: arrays once per direction ("in", "out", "inout")."""
    return sum(
        bytes_of(value) * (2 if roles.get(name) == "inout" else 1)
        for name, value in arguments.items()
        if is_array(value) and roles.get(name) in ("in", "out", "inout")
    )
