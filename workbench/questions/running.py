"""One program of a kernel, run in the interpreter with every tile kept.

An `Event` is one execution of one op. Where its operands came from is found by identity: control
flow hands arrays on as they are, so the array that a loop's round receives is the very object that
the round before yielded.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.bench.arrays import dtype_of, host_copies, is_array, is_tensor, to_numpy
from workbench.bench.roundings import UNIT
from workbench.interpreter import Machine
from workbench.ir import Array, Block, Module, Op
from workbench.ops.control import For, If, While
from workbench.source import KernelError

#: Tiles are kept until they take so many bytes; a longer program is looked at so far.
MOST_BYTES = 1 << 30
#: What is kept of an event besides its tiles, and of the step that is made of it.
EVENT_BYTES = 1200

Program = tuple[int, int, int]

#: Seconds that this process computed: an answer does not depend on what else the machine does.
clock = time.process_time


@dataclass(slots=True, eq=False)
class Event:
    """One execution of an op.

    `round` counts the executions of this op from 0. `inputs` and `results` are the tiles of its
    operands and results; `sources` the numbers of the events whose results the operands are, -1
    for arguments of the kernel and counters of loops.
    """

    number: int
    op: Op
    round: int
    inputs: tuple[Array, ...]
    results: tuple[Array, ...]
    sources: tuple[int, ...]


@dataclass(slots=True)
class Run:
    """What one program did: its events, and the arguments afterwards; `error` ended it.

    It took so many `seconds`. Where it is not `complete`, later events were not kept.
    """

    module: Module
    program: Program
    events: list[Event] = field(default_factory=list[Event])
    outputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict[str, Any])
    error: KernelError | None = None
    complete: bool = True
    seconds: float = 0.0


class Bench:
    """A place where programs run over the same memory again and again.

    The arrays keep their addresses and get their contents back before each run, so that pointers
    of two runs can be compared.
    """

    def __init__(self, arguments: Mapping[str, Any], outputs: Sequence[str]) -> None:
        self.arguments = host_copies(arguments)
        self.names = tuple(outputs)
        #: What another kernel calls the arguments.
        self.alias: dict[str, str] = {}
        self._pristine = {name: _copy(self.arguments[name]) for name in outputs}

    def reset(self) -> None:
        """Give the outputs the contents that they had at first; nothing else is written."""
        for name, held in self._pristine.items():
            if is_tensor(held):
                self.arguments[name].copy_(held)
            else:
                self.arguments[name][...] = held

    def poison(self, name: str) -> None:
        """Let an output of floats hold NaN at first, so that only what is written can be right.

        One that shares memory with another argument stays as it is.
        """
        if self.dtype(name) not in ("f16", "bf16", "f32", "f64"):
            return
        extents = [held for other in self.arguments if other != name
                   and (held := self.extent(other)) is not None]  # fmt: skip
        own = self.extent(name)
        assert own is not None
        if not any(start < own[1] and own[0] < end for start, end, _ in extents):
            self._pristine[name][...] = float("nan")

    def values(self, module: Module) -> list[Any]:
        """Return the arguments in the order of a module's parameters."""
        names = [parameter.name for parameter in module.parameters]
        return [self.arguments[self.alias.get(name, name)] for name in names]

    def slot(self, name: str) -> Any:
        """Return what a launch on the CPU passes for an argument: an address, or the number."""
        value = self.arguments[name]
        if not is_array(value):
            return value
        return value.data_ptr() if is_tensor(value) else value.ctypes.data

    def extent(self, name: str) -> tuple[int, int, int] | None:
        """Return (first address, end, bytes of an element) of an array, None for a number."""
        value = self.arguments[name]
        if not is_array(value):
            return None
        size = int(value.element_size() if is_tensor(value) else value.itemsize)
        strides = value.stride() if is_tensor(value) else [s // size for s in value.strides]
        last = sum((n - 1) * s for n, s in zip(value.shape, strides, strict=True))
        start = int(self.slot(name))
        return start, start + (int(last) + 1) * size, size

    def is_dense(self, name: str) -> bool:
        """Whether an array's elements lie in memory in order and without gaps."""
        value = self.arguments[name]
        return bool(value.is_contiguous() if is_tensor(value) else value.flags.c_contiguous)

    def dtype(self, name: str) -> str:
        """Return the element type of an array in the compiler's spelling."""
        return dtype_of(self.arguments[name])

    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the outputs as they are now, floats in float64."""
        return {name: np.array(to_numpy(self.arguments[name])) for name in self.names}

    def run(
        self, module: Module, grid: Sequence[int], program: Program, *, keep: bool = False,
        end: float | None = None, whole: bool = True,
    ) -> Run:  # fmt: skip
        """Run one program; with `keep` every tile is kept; where `clock` says `end` it is given up.

        Its loops may take as long as those of a check (K406). Unless it is the `whole` program that
        is wanted, it ends where no more is kept.
        """
        self.reset()
        began = time.monotonic()
        found = Run(module, program)
        with np.errstate(all="ignore"):
            try:
                machine = Machine(module, grid, self.values(module))
                if keep:
                    machine.listener = _Keeper(found, whole=whole).heard
                elif end is not None:
                    machine.listener = lambda op, frame: _in_time(end)
                machine.run([program])
            except _FullError:
                pass
            except KernelError as error:
                found.error = error
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                # What a wrong pass left need not have a meaning.
                said = f"the IR cannot be run: {type(error).__name__}: {error}"
                found.error = KernelError(said)
        found.outputs = self.outputs()
        found.seconds = time.monotonic() - began
        return found


def _copy(value: Any) -> Any:
    return value.clone() if is_tensor(value) else value.copy()


def _in_time(end: float) -> None:
    if clock() > end:
        raise ArithmeticError("it takes too long")


class _FullError(Exception):
    """No more events are kept, and nobody wants the rest of the program."""


class _Keeper:
    """Writes events down."""

    def __init__(self, run: Run, *, whole: bool) -> None:
        self.run, self.whole = run, whole
        self.of: dict[int, int] = {}  # id of an array -> the event that made it
        self.held: list[Array] = []  # so that no id is given out twice
        self.rounds: Counter[Op] = Counter()
        self.bytes = 0
        self.kept: dict[Op, None] = {}
        _flat(run.module.body, self.kept)

    def heard(self, op: Op, frame: Any) -> None:
        if not self.run.complete and not self.whole:
            raise _FullError
        if op not in self.kept or not self.run.complete:
            return
        values = frame.values
        inputs = tuple(values[value] for value in op.operands)
        # What a loop gives back is the very array that its last round yielded.
        results = () if isinstance(op, For) else tuple(values[value] for value in op.results)
        number = len(self.run.events)
        sources = tuple(self.of.get(id(array), -1) for array in inputs)
        for array in results:
            self.of[id(array)] = number
            self.bytes += np.asarray(array).nbytes
            self.held.append(array)
        self.run.events.append(Event(number, op, self.rounds[op], inputs, results, sources))
        self.rounds[op] += 1
        self.bytes += EVENT_BYTES
        self.run.complete = self.bytes <= MOST_BYTES


def _flat(block: Block, found: dict[Op, None]) -> None:
    """Collect ops at every depth of control flow: of that itself loops with a known end only."""
    for op in block.ops:
        if isinstance(op, For | While | If):
            for region in op.regions:
                _flat(region, found)
        if not isinstance(op, While | If):
            found[op] = None


def coordinates(number: int, grid: Sequence[int]) -> Program:
    """Return where a program stands in the grid; axis 0 counts fastest."""
    x, y, _ = (*grid, 1, 1, 1)[:3]
    return number % x, number // x % y, number // (x * y)


# -- when two tiles are the same ------------------------------------------------------------------
def share_of(dtype: str) -> float:
    """Return which share of a tile's largest element two right results may differ by."""
    unit = UNIT.get(dtype, 2.0**-53)
    return max(2 * unit, min(256 * unit, 0.01))


def differing(one: Any, other: Any, dtype: str, least: float = 0.0) -> np.ndarray[Any, Any]:
    """Say for each element whether two tiles of a type differ by more than rounding.

    Integers, pointers and truth values must be equal; floats may be off by some units in the last
    place of the tile's largest element, or by a share of it that is given. Shapes that differ,
    differ everywhere.
    """
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return np.ones(a.shape, bool)
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        return np.asarray(a != b)
    if b.dtype.kind != "f" or a.dtype.kind != "f":
        dtype = "f32"
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.abs(np.where(np.isfinite(a), a, 0.0))
        most = float(sizes.max()) if sizes.size else 0.0
        allowed = max(least, share_of(dtype)) * most
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)
    return np.asarray(~same)
