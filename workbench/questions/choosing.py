"""Which program to look at: the one that stored a wrong element, found by running few of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from workbench.bench.arrays import is_array, is_tensor
from workbench.bench.locate import outwards
from workbench.interpreter import Machine
from workbench.interpreter.outside import pointers_of
from workbench.ir import Module, Op
from workbench.questions.running import Bench, Program, Run, coordinates, differing
from workbench.source import KernelError

SECONDS = 3.0


def address_of(bench: Bench, name: str, element: int) -> int:
    """Return the address of the element that lies so many elements behind an array's first."""
    array = bench.arguments[name]
    size = array.element_size() if is_tensor(array) else array.itemsize
    return int(bench.slot(name)) + element * int(size)


def live_addresses(op: Op, values: Any) -> np.ndarray[Any, Any]:
    """Return the addresses of the lanes of an access that are on, flat; (-1,) for those off."""
    pointer = pointers_of(op)
    if pointer is None:
        return np.empty(0, np.int64)
    addresses = np.asarray(values[pointer], np.int64)
    mask = getattr(op, "mask", None)
    if mask is None:
        return addresses.ravel()
    return np.where(np.asarray(values[mask]), addresses, -1).ravel()


def who_stores(
    module: Module, grid: Sequence[int], bench: Bench, address: int, share: float
) -> tuple[Program | None, bool]:
    """Return a program that stores to an address, and whether all programs have run.

    Those near `share` of the grid are tried first.
    """
    found: list[bool] = []

    def heard(op: Op, frame: Any) -> None:
        if op.writes_memory and address in live_addresses(op, frame.values):
            found.append(True)

    end = time.monotonic() + SECONDS
    bench.reset()
    machine = Machine(module, grid, bench.values(module))
    machine.listener = heard
    with np.errstate(all="ignore"):
        for number in outwards(prod(grid), share):
            program = coordinates(number, grid)
            try:
                machine.run([program])
            except KernelError:
                return (program if found else None), False
            if found:
                return program, False
            if time.monotonic() > end:
                return None, False
    return None, True


def sampled(grid: Sequence[int], seconds: float = SECONDS) -> Iterator[Program]:
    """Yield programs of a grid as long as there is time: the corners first, where edges are."""
    count = prod(grid)
    if not count:
        return
    corners = [coordinates(n, grid) for n in (0, count - 1, count // 2)]
    x, y, z = (*grid, 1, 1, 1)[:3]
    corners += [(x - 1, 0, 0), (0, y - 1, 0), (0, 0, z - 1)]
    end = time.monotonic() + seconds
    rest = (coordinates(number, grid) for number in range(count))
    seen: set[Program] = set()
    for program in (*corners, *rest):
        if program in seen:
            continue
        seen.add(program)
        yield program
        if time.monotonic() > end:
            return


def touched(bench: Bench, run: Run) -> dict[str, np.ndarray[Any, Any]]:
    """Say for each output which of its elements a program's stores reach."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    stored = [
        live_addresses(event.op, dict(zip(event.op.operands, event.inputs, strict=True)))
        for event in run.events
        if event.op.writes_memory
    ]
    everything = np.unique(np.concatenate(stored)) if stored else np.empty(0, np.int64)
    for name in bench.names:
        found[name] = np.isin(addresses_of(bench, name), everything)
    return found


def addresses_of(bench: Bench, name: str) -> np.ndarray[Any, Any]:
    """Return the address of each element of an array, in its shape."""
    array = bench.arguments[name]
    assert is_array(array)
    size = array.element_size() if is_tensor(array) else array.itemsize
    strides = [stride * size for stride in array.stride()] if is_tensor(array) else array.strides
    places = np.full(tuple(array.shape), int(bench.slot(name)), np.int64)
    for axis, stride in enumerate(strides):
        extent = [1] * places.ndim
        extent[axis] = -1
        places += (np.arange(places.shape[axis]) * stride).reshape(extent)
    return places


def outputs_differ(
    bench: Bench, one: dict[str, Any], other: dict[str, Any],
    where: dict[str, Any] | None = None, least: float = 0.0,
) -> dict[str, np.ndarray[Any, Any]]:  # fmt: skip
    """Return for each output the elements that differ by more than rounding, if any do."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name in bench.names:
        wrong = differing(one[name], other[name], bench.dtype(name), least)
        if where is not None:
            wrong = wrong & where[name]
        if wrong.any():
            found[name] = wrong
    return found
