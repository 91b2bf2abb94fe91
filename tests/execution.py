"""Runs a module of tile IR on a chosen target, arguments in place: one face for all targets.

WORKBENCH_TEST_TARGET says where tests that do not name a target run: `interpreter` (default),
`cpu`, or a chip such as `sm_90a`; without a CUDA device the latter compiles all the way and
interprets the GPU IR.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from workbench.devices.printed import captured
from workbench.interpreter import run_module
from workbench.ir import Module, Pointer
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes

#: How the native launcher packs a number, by its type in the IR; pointers are addresses.
SLOTS = {
    "i1": "?7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q", "u8": "B7x", "u16": "H6x",
    "u32": "I4x", "u64": "Q", "f16": "e6x", "f32": "f4x", "f64": "d", "index": "i4x",
}  # fmt: skip


def default_target() -> str:
    """Return the target that the environment asks for."""
    return os.environ.get("WORKBENCH_TEST_TARGET", "interpreter")


def execute(
    module: Module, grid: Sequence[int], arguments: Sequence[Any], target: str
) -> list[str]:
    """Run a kernel; arrays hold its results afterwards. Returns what it printed, where known."""
    if target == "interpreter":
        return run_module(module, grid, arguments).output
    if target == "cpu":
        return _on_cpu(module, grid, arguments)
    return _on_gpu(module, grid, arguments, target)


def _on_cpu(module: Module, grid: Sequence[int], arguments: Sequence[Any]) -> list[str]:
    from workbench.launch import on_cpu
    from workbench.targets.cpu import pipeline

    recorder = Recorder()
    code = pipeline.build(tile_passes(module, recorder), "cpu", recorder)
    packed = [_address(a) if hasattr(a, "dtype") and np.ndim(a) else a for a in arguments]
    form = "<" + "".join(SLOTS.get(str(p.value.type), "Q") for p in module.parameters)
    prints = bool(code.extra["prints"])
    run = on_cpu.make_runner(
        code.assemble().data, code.symbol, code.extra["scratch_bytes"], form, prints=prints,
        waits=bool(code.extra.get("waits")),
    )  # fmt: skip
    if not prints:
        run(*(*grid, 1, 1)[:3], *packed)
        return []
    with captured() as lines:
        run(*(*grid, 1, 1)[:3], *packed)
    return lines


def _address(array: Any) -> int:
    return array.data_ptr() if hasattr(array, "data_ptr") else array.ctypes.data


def _bytes(array: Any) -> np.ndarray[Any, Any]:
    """Return an array's memory as bytes, shared with it."""
    if hasattr(array, "data_ptr"):
        import torch

        if not array.is_contiguous():
            pytest.skip("strided arrays are not copied to the device here")
        return array.view(torch.uint8).numpy().reshape(-1) if array.ndim else array
    if not array.flags.c_contiguous:
        pytest.skip("strided arrays are not copied to the device here")
    return array.reshape(-1).view(np.uint8)


def _on_gpu(
    module: Module, grid: Sequence[int], arguments: Sequence[Any], target: str
) -> list[str]:
    import ctypes
    import struct

    import torch

    from workbench.targets.nvidia import pipeline

    recorder = Recorder()
    built = pipeline.build(tile_passes(module, recorder), target, recorder)
    binary = built.assemble()
    if not torch.cuda.is_available():
        # The code assembles; what it means is checked on the IR it was made from.
        assert built.gpu is not None
        return run_module(built.gpu, grid, arguments).output
    from cuda.bindings import driver

    torch.zeros(1, device="cuda")

    def checked(answer: tuple[Any, ...]) -> Any:
        assert int(answer[0]) == 0, f"CUDA error {answer[0]}"
        return answer[1] if len(answer) == 2 else None

    library = checked(driver.cuModuleLoadData(binary.data))
    function = checked(driver.cuModuleGetFunction(library, built.symbol.encode()))
    if built.dynamic_shared_bytes > 48 * 1024:
        word = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, word, built.dynamic_shared_bytes))
    held: list[tuple[Any, Any]] = []
    slots = []
    formats = {
        ("int", 32): "i", ("index", 64): "i", ("int", 64): "q", ("uint", 32): "I",
        ("uint", 64): "Q", ("float", 32): "f", ("float", 64): "d", ("bool", 1): "?",
        ("int", 8): "b", ("int", 16): "h", ("uint", 8): "B", ("uint", 16): "H",
    }  # fmt: skip
    for parameter, value in zip(module.parameters, arguments, strict=True):
        type = parameter.value.type
        if isinstance(type, Pointer):
            raw = _bytes(value)
            device = torch.from_numpy(raw).cuda() if raw.size else torch.zeros(16, device="cuda")
            held.append((raw, device))
            slots.append(ctypes.create_string_buffer(struct.pack("Q", device.data_ptr())))
        else:
            form = formats[type.kind, type.bits]  # type: ignore[attr-defined]
            slots.append(ctypes.create_string_buffer(struct.pack(form, value)))
    pointers = (ctypes.c_void_p * max(1, len(slots)))(*(ctypes.addressof(s) for s in slots))
    x, y, z = (*grid, 1, 1)[:3]
    with _standard_output() as printed:
        checked(driver.cuLaunchKernel(
            function, x, y, z, built.threads, 1, 1, built.dynamic_shared_bytes, 0,
            ctypes.addressof(pointers), 0,
        ))  # fmt: skip
        torch.cuda.synchronize()
    for raw, device in held:
        if raw.size:
            raw[...] = device.cpu().numpy()
    checked(driver.cuModuleUnload(library))
    return printed


@contextmanager
def _standard_output() -> Iterator[list[str]]:
    """Collect the lines that the device prints: the driver writes them to file descriptor 1."""
    lines: list[str] = []
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 1)
        try:
            yield lines
        finally:
            os.dup2(saved, 1)
            os.close(saved)
            held.seek(0)
            lines += held.read().decode().splitlines()
