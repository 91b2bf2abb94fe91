"""Runs modules on the CPU target and on the interpreter, on copies of the same arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.interpreter import run_module
from workbench.ir import Module, Pointer
from workbench.launch.on_cpu import make_runner
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.cpu.pipeline import build

SLOTS = {
    "i1": "?7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q", "u8": "B7x", "u16": "H6x",
    "u32": "I4x", "u64": "Q", "f16": "e6x", "f32": "f4x", "f64": "d", "index": "q",
}  # fmt: skip


def run_cpu(
    module: Module, grid: Sequence[int], arguments: Sequence[Any], *, passes: bool = True
) -> None:
    """Compile a module for the host and run it on the arguments."""
    recorder = Recorder()
    if passes:
        module = tile_passes(module, recorder)
    built = build(module, "cpu", recorder)
    form = "<"
    values = []
    for parameter, argument in zip(module.parameters, arguments, strict=True):
        if isinstance(parameter.value.type, Pointer):
            form += "Q"
            values.append(argument.ctypes.data)
        else:
            form += SLOTS[str(parameter.value.type)]
            values.append(argument)
    run = make_runner(built.assemble().data, built.symbol, built.extra["scratch_bytes"], form,
                      waits=bool(built.extra.get("waits")))  # fmt: skip
    run(*(*grid, 1, 1, 1)[:3], *values)


def run_both(
    module: Module, grid: Sequence[int], arguments: Sequence[Any], *, passes: bool = True
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return (name, interpreter's, CPU's) for every array argument after a run on each."""
    ours = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    theirs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    run_module(module, grid, theirs)
    run_cpu(module, grid, ours, passes=passes)
    return [
        (p.name, want, got)
        for p, want, got in zip(module.parameters, theirs, ours, strict=True)
        if isinstance(want, np.ndarray)
    ]
