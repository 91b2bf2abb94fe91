"""A Jupyter-centric workbench for GPU kernels: compile, look at, launch, check and time them.

    import workbench as wb
    from workbench import tl

    @wb.jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)

    add[(wb.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    wb.compile(add, "*f32:16 *f32:16 *f32:16 i32", {"BLOCK": 1024}, target="sm_90a").asm["ptx"]

Importing this loads next to nothing: a name brings what it needs when it is first used, the first
compilation the compiler and the passes of its target. Torch, IPython, CUDA and LLVM come later.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: name -> (module, name there; "" for the module itself)
_NAMES = {
    "jit": ("workbench.runtime.jit", "jit"),
    "kernel": ("workbench.runtime.jit", "kernel"),
    "JITFunction": ("workbench.runtime.jit", "JITFunction"),
    "CompiledKernel": ("workbench.runtime.compiled", "CompiledKernel"),
    "compile": ("workbench.runtime.compiling", "compile"),
    "autotune": ("workbench.tuning.autotune", "autotune"),
    "Config": ("workbench.tuning.autotune", "Config"),
    "heuristics": ("workbench.tuning.heuristics", "heuristics"),
    "cdiv": ("workbench.runtime.host", "cdiv"),
    "next_power_of_2": ("workbench.runtime.host", "next_power_of_2"),
    "testing": ("workbench.triton.testing", ""),
    "cache": ("workbench.runtime.cache", ""),
    "tune": ("workbench.tuning.tune", "tune"),
    "torch_op": ("workbench.runtime.torch_ops", "torch_op"),
    "as_triton": ("workbench.triton.installing", "as_triton"),
    "use_in_torch_compile": ("workbench.inductor", "use_in_torch_compile"),
    "tl": ("workbench.language", ""),
    "constexpr": ("workbench.language", "constexpr"),
    "check": ("workbench.bench", "check"),
    "bench": ("workbench.bench", "bench"),
    "run_cell": ("workbench.magics", "run_cell"),
    "KernelError": ("workbench.source", "KernelError"),
}

if TYPE_CHECKING:
    from workbench import language as tl
    from workbench.bench import bench, check
    from workbench.inductor import use_in_torch_compile
    from workbench.language import constexpr
    from workbench.magics import run_cell
    from workbench.runtime import cache
    from workbench.runtime.compiled import CompiledKernel
    from workbench.runtime.compiling import compile  # noqa: A004 - the public name
    from workbench.runtime.host import cdiv, next_power_of_2
    from workbench.runtime.jit import JITFunction, jit, kernel
    from workbench.runtime.torch_ops import torch_op
    from workbench.source import KernelError
    from workbench.triton import testing
    from workbench.triton.installing import as_triton
    from workbench.tuning.autotune import Config, autotune
    from workbench.tuning.heuristics import heuristics
    from workbench.tuning.tune import tune

    device: str

__all__ = [
    "CompiledKernel", "Config", "JITFunction", "KernelError", "as_triton", "autotune", "bench",
    "cache", "cdiv", "check", "compile", "constexpr", "device", "heuristics", "jit", "kernel",
    "next_power_of_2", "run_cell", "testing", "tl", "torch_op",
    "tune", "use_in_torch_compile",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "device":
        from workbench.bench.device import current

        return current()
    if name not in _NAMES:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    from workbench.collecting import rarely_collected

    module, attribute = _NAMES[name]
    with rarely_collected():
        # Parents first: two threads that import from both ends would wait for each other.
        for end, letter in enumerate(module):
            if letter == ".":
                importlib.import_module(module[:end])
        found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Register all magics: what `%load_ext workbench` calls."""
    from workbench.magics import load_ipython_extension as load

    load(shell)
