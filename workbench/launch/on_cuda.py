"""Runs kernels on NVIDIA devices: packs a launch's values and calls the driver.

Runners are generated code over a prepared buffer. A call that finds the buffer in use by another
thread, or whose thread has no context yet, takes the slow way through a buffer of its own. A launch
whose arguments make no tensor map (tensor_maps.py) runs the same kernel compiled without any.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

from workbench.devices import cuda
from workbench.devices.launching import address_of, launch_of
from workbench.devices.tickets import tickets
from workbench.launch import tensor_maps  # noqa: F401 - registers what makes them
from workbench.launch.abi import PACK_ERRORS, Loadable, NativeCode, Runner, fitted, slots
from workbench.launch.assembly import Arguments, not_made
from workbench.launch.conditions import python_lines
from workbench.launch.grids import GPU_LIMITS, MOST_NUMBERED, blocks_for, check_limits
from workbench.launch.hulls import asked_of_values
from workbench.launch.rows import Chosen, Held, rows_program
from workbench.source import LaunchError


@dataclass(slots=True)
class Loaded:
    """A function on a device; keeps its module alive.

    `most_blocks`: how many blocks take all programs of a launch, 0 where each has one of its own.
    `chosen`: where a launch takes another function by its values, that of `few` blocks at one time.
    """

    kernel: Loadable
    device: int
    module: Any
    function: Any
    most_blocks: int = 0
    chosen: Chosen | None = None
    few: tuple[Any, Any] = (None, None)


def load(kernel: Loadable, device: int) -> Runner:
    """Return the runner of a kernel on a device; raises LaunchError where it cannot be loaded."""
    launch = kernel.launch
    image = cuda.Image(
        kernel.code, launch.kind, launch.symbol, launch.dynamic_shared_bytes, kernel.name,
        kernel.target, launch.threads if launch.reads_again else 0,
    )  # fmt: skip
    module, function = cuda.load(image, device)
    most = 0
    if launch.persistent:
        shared_bytes = launch.dynamic_shared_bytes
        most = cuda.blocks_at_once(function, launch.threads, shared_bytes, device, launch.cluster)
    loaded = Loaded(kernel, device, module, function, most)
    _keep_rows(loaded, image)
    return _runner(loaded)


def _keep_rows(loaded: Loaded, image: cuda.Image) -> None:
    """Load what is launched where few blocks keep the rows that they read again."""
    kernel, device = loaded.kernel, loaded.device
    if kernel.launch.extra.get("rows") is None:
        return
    size = kernel.launch.dynamic_shared_bytes
    everywhere = cuda.blocks_at_once(loaded.function, kernel.launch.threads, size, device)
    blocks = everywhere // cuda.properties(device).multiprocessors
    held = Held(blocks, cuda.few_blocks(size), cuda.memory_bytes(device))
    if rows_program(kernel, held) is not None:
        loaded.few = cuda.load(replace(image, is_cached=True), device)
        loaded.chosen = Chosen(kernel, (loaded.function, loaded.few[1]), held)


def loaded_on(kernel: Loadable, device: int) -> Runner:
    """Return the runner of a kernel on a device, which is loaded once."""
    runner = kernel.loaded.get(device)
    if runner is None:
        runner = kernel.loaded[device] = load(kernel, device)
    return runner


def _packer(kernel: Loadable) -> struct.Struct:
    """Return what packs a launch's values; the grid is behind them where code takes it.

    Behind that is the address of a counter, where blocks draw programs.
    """
    packer, launch = slots(kernel), kernel.launch
    more = "qqqQ" if launch.drawn else "qqq"
    return struct.Struct(f"{packer.format}{more}") if launch.persistent else packer


#: A line of runners whose code takes more than the slots: `again` words what went wrong.
_ASSEMBLING = """\
            if assemble():
                raise OverflowError
"""


def _runner(loaded: Loaded) -> Runner:
    """Return generated code that packs the values and calls the driver."""
    api, kernel = cuda.driver(), loaded.kernel
    launch, packer, most = kernel.launch, _packer(kernel), loaded.most_blocks
    count = len(launch.parameters)
    arguments = Arguments(packer.size // 8, launch.made)
    lock = threading.Lock()
    words = [f"a{n}" for n in range(count)]
    values = "".join(f", {word}" for word in words)
    asked = asked_of_values(kernel)
    given = "".join(word + ", " for word in words)
    checks = [] if asked is None else python_lines(
        asked, words, "    ", f"return others((x, y, z), stream, ({given}))"
    )  # fmt: skip
    blocks, free, packed = "x, y, z", "acquire(False)", values
    if launch.persistent:
        blocks = f"blocks_for(x * y * z, {most}, {launch.most_rounds}, {launch.cluster}), 1, 1"
        packed = f"{values}, x, y, z" + (", counter_of(stream)" if launch.drawn else "")
        free = f"max(y, z) <= {GPU_LIMITS[1]} and x * y * z <= {MOST_NUMBERED} and {free}"
    chosen = loaded.chosen
    function = "function" if chosen is None else f"few if {chosen.expression} else function"
    text = (
        f"def run(x, y, z, stream{values}):\n"
        f"{''.join(line + chr(10) for line in checks)}"
        f"    if {free}:\n"
        "        try:\n"
        f"            pack(memory, 0{packed})\n"
        f"{_ASSEMBLING if launch.made else ''}"
        f"            code = launch({function}, {blocks}, {launch.threads}, 1, 1, "
        f"{launch.dynamic_shared_bytes}, streams[stream], {arguments.pointers}, 0)[0]\n"
        "        except PACK_ERRORS:\n"
        "            code = None\n"
        "        finally:\n"
        "            release()\n"
        "        if code is SUCCESS:\n"
        "            return kernel\n"
        f"    return again((x, y, z), stream, ({given}))\n"
    )
    names: dict[str, Any] = {
        "acquire": lock.acquire,
        "release": lock.release,
        "pack": packer.pack_into,
        "memory": arguments.memory,
        "assemble": arguments.assemble,  # keeps the memory alive with the function
        "launch": launch_of(launch.attribute),
        "function": loaded.function,
        "few": loaded.few[1],
        "streams": cuda.streams,
        "SUCCESS": api.CUresult.CUDA_SUCCESS,
        "kernel": kernel,
        "PACK_ERRORS": PACK_ERRORS,
        "blocks_for": blocks_for,
        "counter_of": tickets(loaded.device).of,
        "again": _careful(loaded, packer),
        "others": partial(_without_maps, loaded, -1),
    }
    exec(compile(text, f"<runner of {kernel.name}>", "exec"), names)
    run = names["run"]
    address = address_of(launch.attribute)
    if address and not launch.drawn:  # native code knows no streams' counters
        handle, shared_bytes = int(loaded.function), launch.dynamic_shared_bytes
        if chosen is not None:
            address, handle = chosen.launch, chosen.record
        run.native = NativeCode(
            address, handle, launch.threads, shared_bytes, launch.made, most,
            most * launch.most_rounds, launch.cluster,
        )  # fmt: skip
    return run


def _staying(programs: int, loaded: Loaded) -> tuple[int, int, int]:
    launch = loaded.kernel.launch
    return blocks_for(programs, loaded.most_blocks, launch.most_rounds, launch.cluster), 1, 1


def _without_maps(
    loaded: Loaded, status: int, grid: tuple[int, int, int], stream: int, values: Sequence[Any]
) -> Loadable:
    """Launch the kernel without tensor maps, for arguments that are none for those it has.

    Nor does it number programs.
    """
    other = loaded.kernel.without_maps()
    if other is None and status:
        raise not_made(loaded.kernel.name, status)
    if other is None:
        raise LaunchError(
            f"{loaded.kernel.name}: the grid {grid} has more programs than blocks that stay can "
            f"number ({MOST_NUMBERED:,})",
            hint="compile it with persistent=False",
            code="K506",
        )
    return loaded_on(other, loaded.device)(*grid, stream, *values)


def _careful(loaded: Loaded, packer: struct.Struct) -> Callable[..., Loadable]:
    """Return the slow way to launch: own buffer, own context, errors in words."""

    def again(grid: tuple[int, int, int], stream: int, values: Sequence[Any]) -> Loadable:
        kernel, device = loaded.kernel, loaded.device
        cuda.check_usable(device)
        check_limits(grid, kernel.name, gpu=True)
        launch = kernel.launch
        total, blocks, packed = prod(grid), grid, tuple(values)
        if launch.persistent:
            if total > MOST_NUMBERED:
                return _without_maps(loaded, 0, grid, stream, values)
            blocks, packed = _staying(total, loaded), (*values, *grid)
        if launch.drawn:
            packed = (*packed, tickets(device).of(stream))
        arguments = Arguments(len(packed), launch.made)
        packer.pack_into(arguments.memory, 0, *fitted(packer.format, packed))
        status = arguments.assemble()
        if status:
            return _without_maps(loaded, status, grid, stream, values)
        with cuda.current(device):
            (code,) = launch_of(launch.attribute)(
                loaded.function,
                *blocks,
                launch.threads,
                1,
                1,
                launch.dynamic_shared_bytes,
                cuda.streams[stream],
                arguments.pointers,
                0,
            )
        if int(code):
            raise cuda.error_of(int(code), f"{kernel.name} with grid {grid}", device)
        return kernel

    return again
