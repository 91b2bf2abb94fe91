"""What we take the place of where torch writes kernels, each by its name there.

AsyncCompile.triton                     is told of every kernel of a graph
async_compile._worker_compile_triton    compiles in a worker
async_compile.SubprocPool               starts the workers
CpuDeviceOpOverrides.import_get_raw_…   is one line, as torch's texts need it to be
CpuInterface.device                     makes the CPU current
get_kernel_metadata                     writes what a kernel was made of into the graph's module
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from workbench.inductor import workers
from workbench.inductor.graphs import torch_lines
from workbench.inductor.patching import Patches
from workbench.inductor.switching import WRITTEN, needed

_ASYNC = "torch._inductor.async_compile"
_RAW_STREAM = (
    "torch._inductor.codegen.cpu_device_op_overrides:CpuDeviceOpOverrides.import_get_raw_stream_as"
)

_CPU = "torch._dynamo.device_interface:CpuInterface.device"


class Listener(Protocol):
    """Who is told of kernels: the scope of their graph's module, the name there, what makes it."""

    def add(self, scope: Mapping[str, Any], name: str, made: Any) -> None:
        """Note a kernel."""
        ...


def driving(patches: Patches, graphs: Listener) -> None:
    """Have workers compile with us, and tell `graphs` of every kernel."""
    patches.put(f"{_ASYNC}:AsyncCompile.triton", lambda stock: _listing(stock, graphs))
    patches.put(f"{_ASYNC}:_worker_compile_triton", lambda stock: workers.compile_kernel)
    patches.put(f"{_ASYNC}:SubprocPool", _preloading)
    patches.put(_RAW_STREAM, lambda stock: lambda overrides, name: f"{name} = lambda device: 0")
    patches.put(_CPU, lambda stock: contextlib.nullcontext)
    stock = needed("torch._inductor.utils:get_kernel_metadata")
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._inductor.") and vars(module).get("get_kernel_metadata") is stock:
            patches.put(f"{name}:get_kernel_metadata", _explaining)


def _listing(stock: Callable[..., Any], graphs: Listener) -> Callable[..., Any]:
    @functools.wraps(stock)
    def triton(compiler: Any, name: str, source: str, *args: Any, **given: Any) -> Any:
        scope = sys._getframe(1).f_globals
        made = stock(compiler, name, source, *args, **given)
        # Torch also calls it ahead of time, so that workers start early.
        if str(scope.get("__name__")).startswith(WRITTEN):
            graphs.add(scope, name, made)
        return made

    return triton


def _preloading(stock: Any) -> Callable[..., Any]:
    @functools.wraps(stock)
    def pool(*args: Any, **given: Any) -> Any:
        return stock(*args, **{"pickler": workers.pickler(), **given})

    return pool


def _explaining(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def metadata(schedule: Any, wrapper: Any) -> tuple[str, str]:
        brief, detailed = stock(schedule, wrapper)
        lines = [f"{wrapper.comment} {line}" for line in torch_lines(schedule)]
        return brief, "\n".join([detailed, *lines]) if lines else detailed

    return metadata
