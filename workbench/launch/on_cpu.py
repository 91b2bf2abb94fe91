"""Host code: loads object files and runs grids on the pool of threads (`pool.py`)."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from workbench.devices import guard_block, pool
from workbench.devices.linking import link
from workbench.devices.pool import Startable, set_num_threads
from workbench.devices.stops import PREFIX_BYTES
from workbench.devices.together import run_together
from workbench.launch.abi import (
    MOST_ALIGNMENT,
    PACK_ERRORS,
    Loadable,
    Parameter,
    fitted,
    offsets,
    slots,
)
from workbench.launch.assembly import Arguments, not_made
from workbench.source import LaunchError

__all__ = ["AssertionFailedError", "load", "make_runner", "set_num_threads"]


def load(kernel: Loadable) -> Callable[..., Loadable]:
    """Return the runner of a kernel: `run(x, y, z, stream, *values)`.

    That of checked code takes the arrays of the kernel's pointers, too (`guarded.py`).
    """
    launch = kernel.launch
    if launch.extra.get("guarded"):
        return _load_checked(kernel)
    runner = make_runner(
        kernel.code, launch.symbol, int(launch.extra["scratch_bytes"]), slots(kernel).format,
        prints=bool(launch.extra.get("prints")), asserts=launch.extra.get("asserts"),
        made=launch.made, waits=bool(launch.extra.get("waits")),
    )  # fmt: skip

    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> Loadable:
        number = runner(x, y, z, *values)
        if number is not None:
            raise _failed(kernel, number)
        return kernel

    if not any(launch.extra.get(word) for word in ("prints", "asserts", "waits")):
        scratch_bytes = int(launch.extra["scratch_bytes"])
        places = _places(len(launch.parameters), launch.made)
        function: int = runner.function  # type: ignore[attr-defined]
        native = Startable(function, scratch_bytes, places, launch.made)
        run.native = native  # type: ignore[attr-defined]
    return run


def _load_checked(kernel: Loadable) -> Callable[..., Loadable]:
    """Return the runner of checked code."""
    from workbench.launch.guarded import CheckedCode

    launch = kernel.launch
    pointers = sum(word.startswith("*") for _, word in launch.parameters)
    words = guard_block.HEAD + guard_block.STORAGE * pointers
    packer = struct.Struct(f"{slots(kernel).format}qqq{words}Q")
    head = struct.Struct(f"{guard_block.HEAD}Q")
    block = packer.size - 8 * words
    scratch_bytes, asserts = int(launch.extra["scratch_bytes"]), launch.extra.get("asserts")
    linked = link(kernel.code, launch.symbol, *([asserts] if asserts else []))
    failure = ctypes.c_int64.from_address(linked.addresses[asserts]) if asserts else None
    function = linked.addresses[launch.symbol]
    start = _starting(waits=bool(launch.extra.get("waits")))

    def run(x: int, y: int, z: int, values: Sequence[Any], given: Sequence[int]) -> Sequence[int]:
        buffer = _aligned(packer.size)
        try:
            packer.pack_into(buffer, 0, *values, x, y, z, *given)
        except PACK_ERRORS:
            held = fitted(slots(kernel).format, values)
            packer.pack_into(buffer, 0, *held, x, y, z, *given)
        address = ctypes.addressof(buffer)
        start(function, address, scratch_bytes, x * y * z)
        if launch.extra.get("prints"):
            sys.stdout.flush()
            _libc().fflush(None)
        if failure is not None and failure.value:
            number, failure.value = failure.value - 1, 0
            raise _failed(kernel, number)
        return head.unpack_from(buffer, block)

    run.linked = linked  # type: ignore[attr-defined]  # the code lives as long as its runner
    return CheckedCode(kernel, run)


def _places(count: int, made: Sequence[Parameter]) -> list[tuple[int, int]]:
    """Return where the code finds its parameters: (offset, bytes) of each."""
    parameters = made or [Parameter((n,)) for n in range(count)]
    starts, _ = offsets(parameters)
    return [(start, p.size) for start, p in zip(starts, parameters, strict=True)]


def _failed(kernel: Loadable, number: int) -> LaunchError:
    """Return the error for an assertion, found by its op's number in the tile IR."""
    from workbench.ops import DeviceAssert

    op = next((op for op in kernel.module.walk() if op.id == number), None)
    words = f": {op.message}" if isinstance(op, DeviceAssert) and op.message else ""
    return AssertionFailedError(
        f"assertion failed in {kernel.name}{words}",
        op.span if op is not None else None,
        hint="kernel.interpret[grid](...) says in which program and at which element",
    )


class AssertionFailedError(LaunchError, RuntimeError):
    """A `device_assert` that does not hold (a RuntimeError, as devices give)."""

    code = "K510"


def make_runner(
    image: bytes,
    symbol: str,
    scratch_bytes: int,
    form: str,
    *,
    prints: bool = False,
    asserts: str | None = None,
    made: Sequence[Parameter] = (),
    waits: bool = False,
) -> Callable[..., int | None]:
    """Return `run(x, y, z, *values)` of an object file; `form` packs the values (struct).

    It returns the number of an assertion that failed; `asserts` is the variable that holds it.
    `made` are the code's parameters where they are not the values one by one. `waits`: programs
    wait for each other.
    """
    start = _starting(waits=waits)
    linked = link(image, symbol, *([asserts] if asserts else []))
    failure = ctypes.c_int64.from_address(linked.addresses[asserts]) if asserts else None
    function = linked.addresses[symbol]
    pack_into = struct.Struct(form + "qqq").pack_into if not made else _packing(form, made)
    size = struct.calcsize(form + "qqq") if not made else offsets(made)[1] + 24
    free: list[tuple[Any, int]] = []  # argument buffers that no launch is using

    def run(x: int, y: int, z: int, *values: Any) -> int | None:
        try:
            arguments = free.pop()
        except IndexError:
            buffer = _aligned(size)
            arguments = (buffer, ctypes.addressof(buffer))
        try:
            pack_into(arguments[0], 0, *values, x, y, z)
        except PACK_ERRORS:
            pack_into(arguments[0], 0, *fitted(form, values), x, y, z)
        if programs := x * y * z:  # without any, code would divide by the grid's extents
            start(function, arguments[1], scratch_bytes, programs)
        free.append(arguments)
        if prints:
            sys.stdout.flush()
            _libc().fflush(None)
        if failure is not None and failure.value:
            number, failure.value = failure.value - 1, 0
            return number
        return None

    run.linked = linked  # type: ignore[attr-defined]  # the code lives as long as its runner
    run.function = function  # type: ignore[attr-defined]
    return run


def _starting(*, waits: bool) -> Callable[[int, Any, int, int], None]:
    """Return what runs the programs of a launch: `run(function, arguments, scratch, programs)`."""
    if waits:
        return run_together
    return lambda *given: (pool._pool or pool.pool()).run(*given)


def _packing(form: str, made: Sequence[Parameter]) -> Callable[..., None]:
    """Return what packs values and grid for code whose parameters are made of the values."""
    packer, places = struct.Struct(form), _places(0, made)
    count, end = packer.size // 8, offsets(made)[1]
    free: list[Arguments] = []

    def pack_into(buffer: Any, start: int, *values: Any) -> None:
        arguments = free.pop() if free else Arguments(count, made)
        packer.pack_into(arguments.memory, 0, *values[:-3])
        status = arguments.assemble()
        if status:
            raise not_made("the kernel", status)
        arguments.follow(ctypes.addressof(buffer) + start, places)
        struct.pack_into("<qqq", buffer, start + end, *values[-3:])
        free.append(arguments)

    return pack_into


def _aligned(size: int) -> Any:
    """Return memory whose address suits every parameter, behind what a launch puts before it."""
    memory = ctypes.create_string_buffer(size + PREFIX_BYTES + MOST_ALIGNMENT)
    skipped = -ctypes.addressof(memory) % MOST_ALIGNMENT + PREFIX_BYTES
    return (ctypes.c_char * size).from_buffer(memory, skipped)


@lru_cache(1)
def _libc() -> Any:
    return ctypes.CDLL(None)
