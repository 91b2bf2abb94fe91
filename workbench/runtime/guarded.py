"""Guarded launches of kernels: which code one runs, and where the checked code comes from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from workbench.devices.streams import HOST
from workbench.launch.abi import Runner
from workbench.launch.binding import Call
from workbench.launch.guarded import holds
from workbench.launch.hulls import hull_program
from workbench.runtime.bound import load
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import checked_twin
from workbench.source.captures import Captures


def guarded_runner(
    kernel: CompiledKernel, call: Call, plain: Runner, captured: Captures | None = None
) -> Runner:
    """Return what runs one bound launch: the plain code where no access can go wrong."""
    parameters = kernel.signature.runtime()
    pointers = [n for n, (_, word) in enumerate(parameters) if word.startswith("*")]
    arrays = [call.objects[n] for n in pointers]

    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> CompiledKernel:
        if _fits(kernel, call, pointers, arrays, (x, y, z)):
            return plain(x, y, z, stream, *values)
        code = load(checked_twin(kernel, captured), HOST)
        code(x, y, z, stream, *values, *arrays)
        return kernel

    return run


def _fits(
    kernel: CompiledKernel,
    call: Call,
    pointers: list[int],
    arrays: list[Any],
    grid: tuple[int, int, int],
) -> bool:
    """Say whether all accesses of a launch lie in the storages of its arguments."""
    if kernel.hulls is None:
        return False
    names = [name for name, _ in kernel.signature.runtime()]
    count = len(names)
    integers = tuple(
        (name, n, value < 0)
        for n, (name, value) in enumerate(zip(names, call.runtime, strict=True))
        if isinstance(value, int) and n not in pointers
    )
    received = {name for name, _, _ in integers}
    fixed = tuple(item for item in call.integers.items() if item[0] not in received)
    places = tuple((names[n], n, count + 2 * m) for m, n in enumerate(pointers))
    program = hull_program(kernel.hulls, integers, places, fixed)
    return holds(program, call.runtime, arrays, grid)


def checked_loader(
    kernel: CompiledKernel, captured: Captures | None = None
) -> Callable[[bool | None], Runner]:
    """Return what loads the checked code of a kernel, with 32-bit (True) or exact indices."""

    @cache
    def loaded(narrow: bool | None) -> Runner:
        return load(checked_twin(kernel, captured, narrow), HOST)

    return loaded
