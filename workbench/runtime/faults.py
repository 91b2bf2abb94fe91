"""Where an illegal access on a device came from: the launch again, in the interpreter.

A device that reports an illegal access says neither which program nor which line it was, and its
memory cannot be read any more. The interpreter runs the kernel's programs over arrays of the same
extents, filled with zeros, until one leaves them. That finds wrong masks and grids, which depend on
shapes and numbers; it does not find addresses that depend on what the arrays held.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from workbench.devices import arrays
from workbench.source import KernelError, LaunchError

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel

#: Searching ends after this long.
SECONDS = 5.0


def wait(kernel: CompiledKernel, grid: Sequence[int], values: Mapping[str, Any]) -> None:
    """Wait for a launch on a GPU; an access that went wrong is located as well as can be.

    Raises:
        LaunchError: K502 with the place of the access if it was found, or K503.
    """
    from workbench.devices import cuda

    found = (arrays.describe(value) for value in values.values() if arrays.is_array(value))
    device = next((array.device for array in found if array.device is not None), arrays.HOST)
    if device == arrays.HOST:
        return
    try:
        cuda.synchronize(device)
    except LaunchError as error:
        if error.code != "K502":
            raise
        raise locate(kernel, grid, values, error) from None


def locate(
    kernel: CompiledKernel,
    grid: Sequence[int],
    values: Mapping[str, Any],
    error: LaunchError,
    seconds: float = SECONDS,
) -> LaunchError:
    """Return the error with the place of the access, or as it is where that was not found."""
    from workbench.interpreter import Machine

    module = kernel.module
    arguments = [_like(values, parameter.name) for parameter in module.parameters]
    machine = Machine(module, tuple(grid), arguments)
    end = time.monotonic() + seconds
    begun: list[tuple[int, int, int]] = []

    def in_time() -> Iterator[tuple[int, int, int]]:
        for program in from_both_ends(grid):
            if time.monotonic() > end:
                return
            begun.append(program)
            yield program

    try:
        machine.run(in_time())
    except LaunchError as found:
        if found.code == "K502":
            return _joined(found, error, begun[-1])
    except KernelError:
        pass
    return error


def _joined(found: LaunchError, error: LaunchError, program: Sequence[int]) -> LaunchError:
    where = f"located by running program {tuple(program)} in the interpreter with the same shapes"
    notes = [*found.notes, where, *error.notes]
    return LaunchError(found.message, found.span, hint=found.hint, notes=notes, code="K502")


def _like(values: Mapping[str, Any], name: str) -> Any:
    """Return an argument: a number as it is, for an array zeros of the same extent."""
    parts = name.split(".")
    value = values[parts[0]]
    for part in parts[1:]:
        value = value[int(part)]
    if not arrays.is_array(value):
        return value
    return _of_zeros(value)


def _of_zeros(value: Any) -> Any:
    """Return an array of zeros with the extents of an array, in a storage like its own."""
    import numpy as np

    from workbench.interpreter import describe_argument, storage_of

    shape = tuple(int(extent) for extent in value.shape)
    size = value.element_size() if hasattr(value, "element_size") else value.dtype.itemsize
    found = describe_argument(value) if hasattr(value, "stride") else None
    held = storage_of(value) if found is not None else None
    if found is not None and held is not None and held.end > held.start:
        storage = np.zeros(held.end - held.start, np.uint8)
        strides = tuple(stride * size for stride in value.stride())
        return np.ndarray(shape, f"u{size}", storage.data, found[0] - held.start, strides)
    steps = tuple(s // size for s in getattr(value, "strides", None) or ())
    if not steps:
        extent = prod(shape)
    else:
        reach = sum((n - 1) * abs(step) for n, step in zip(shape, steps, strict=True))
        extent = reach + 1 if prod(shape) else 0
    return np.zeros(extent, f"u{size}")


def from_both_ends(grid: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield program ids, the last and the first ones before those between."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    total = x * y * z
    for step in range((total + 1) // 2):
        for number in dict.fromkeys((total - 1 - step, step)):
            yield number % x, number // x % y, number // (x * y)
