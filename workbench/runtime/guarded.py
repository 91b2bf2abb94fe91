"""Guarded launches of kernels: which code one runs, and where the checked code comes from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from workbench.devices.streams import HOST
from workbench.interpreter import Storage, storage_of
from workbench.launch.abi import Loadable, Runner
from workbench.launch.binding import Call
from workbench.launch.facts import Signature
from workbench.launch.guarded import holds
from workbench.launch.hulls import hull_program
from workbench.launch.index_width import fits_launch
from workbench.source.captures import Captures

#: Gives the runner of a kernel on a device.
Load = Callable[[Any, int], Runner]


class Guardable(Loadable, Protocol):
    """A compiled kernel as guarded launches need it."""

    @property
    def signature(self) -> Signature:
        """What it is specialised on."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The pointer parameters that it stores through."""
        ...

    @property
    def has_twin(self) -> bool:
        """Whether launches choose the width of its indices."""
        ...

    def checked(self, captured: Captures | None = None, fits: Any = None) -> Any:
        """Return its code that checks every access."""
        ...


def guarded_runner(
    kernel: Guardable, call: Call, plain: Runner, load: Load, captured: Captures | None = None
) -> Runner:
    """Return what runs one bound launch: the plain code where no access can go wrong."""
    parameters = kernel.signature.runtime()
    pointers = [n for n, (_, word) in enumerate(parameters) if word.startswith("*")]
    arrays = [call.objects[n] for n in pointers]

    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> Guardable:
        if _fits(kernel, call, pointers, arrays, (x, y, z)):
            return plain(x, y, z, stream, *values)
        grid, fits = (x, y, z), None
        if kernel.has_twin:
            fits = partial(fits_launch, integers=call.integers, grid=grid)
        code = load(kernel.checked(captured, fits), HOST)
        code(x, y, z, stream, *values, *arrays)
        return kernel

    return run


def _fits(
    kernel: Guardable,
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


def written_by(kernel: Guardable, call: Call) -> list[Storage]:
    """Return the storages of the arguments that a launch may write."""
    names = [name for name, _ in kernel.signature.runtime()]
    held = dict(zip(names, call.objects, strict=True))
    found = [storage_of(held[name]) for name in kernel.outputs if name in held]
    return [storage for storage in found if storage is not None]
