"""What we take the place of where torch writes kernels, each by its name there.

AsyncCompile.triton                     is told of every kernel of a graph
async_compile._worker_compile_triton    compiles in a worker
async_compile.SubprocPool.__init__      starts the workers
CpuDeviceOpOverrides.import_get_raw_…   is one line, as torch's texts need it to be
CpuDeviceOpOverrides.device_guard       is something that `with` takes (torch 2.11: the word `pass`)
CpuInterface.device                     makes the CPU current
_reload_python_module                   shows the line where what torch wrote is no Python
get_kernel_metadata                     writes what a kernel was made of into the graph's module
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from workbench.inductor import workers
from workbench.inductor.graphs import torch_lines
from workbench.inductor.patching import Patches
from workbench.inductor.switching import WRITTEN, needed

_ASYNC = "torch._inductor.async_compile"
_WORDS_OF_CPU = "torch._inductor.codegen.cpu_device_op_overrides:CpuDeviceOpOverrides"
_WORDS_OF_DEVICES = "torch._inductor.codegen.common:get_device_op_overrides"
#: Where a module that torch wrote is read, by the names under which that is called.
_READING = ("torch._inductor.runtime.compile_tasks", "torch._inductor.codecache")

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
    patches.put(f"{_ASYNC}:SubprocPool.__init__", _preloading)
    # Torch looks for the words of devices where there are none yet: those of the CPU alone, which
    # importing them leaves, would be CUDA's too.
    needed(_WORDS_OF_DEVICES)("cpu")
    patches.put(f"{_WORDS_OF_CPU}.import_get_raw_stream_as", lambda stock: _raw_stream)
    patches.put(f"{_WORDS_OF_CPU}.device_guard", lambda stock: _no_guard)
    patches.put(_CPU, lambda stock: contextlib.nullcontext)
    for module in _READING:
        patches.put(f"{module}:_reload_python_module", _showing)
    stock = needed("torch._inductor.utils:get_kernel_metadata")
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._inductor.") and vars(module).get("get_kernel_metadata") is stock:
            patches.put(f"{name}:get_kernel_metadata", _explaining)


def _raw_stream(words: Any, name: str) -> str:
    return f"{name} = lambda device: 0"


def _no_guard(words: Any, device: int) -> str:
    return "torch._ops.contextlib.nullcontext()"


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


def _preloading(stock: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stock)
    def start(pool: Any, *args: Any, **given: Any) -> None:
        # The workers' parent imports the pickler's module first, which loads the compiler.
        pickling = importlib.import_module("workbench.inductor.pickling")
        stock(pool, *args, **{"pickler": pickling.Pickler(), **given})

    return start


def _showing(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def reload(key: str, path: str, *args: Any, **given: Any) -> Any:
        try:
            return stock(key, path, *args, **given)
        except RuntimeError as error:
            shown = _wrong_lines(path)
            if not shown:
                raise
            raise RuntimeError(f"{error}\n{shown}") from None

    return reload


def _wrong_lines(path: str) -> str:
    """Return the line at which a file is no Python with its neighbours; empty if it is Python."""
    lines = Path(path).read_text().splitlines()
    try:
        compile("\n".join(lines), path, "exec", dont_inherit=True)
    except SyntaxError as error:
        wrong = error.lineno or 1
        first = max(wrong - 4, 0)
        return "\n".join(
            f"{'>' if number == wrong else ' '} {number:4} | {line}"
            for number, line in enumerate(lines[first : wrong + 2], first + 1)
        )
    return ""


def _explaining(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def metadata(schedule: Any, wrapper: Any) -> tuple[str, str]:
        brief, detailed = stock(schedule, wrapper)
        lines = [f"{wrapper.comment} {line}" for line in torch_lines(schedule)]
        return brief, "\n".join([detailed, *lines]) if lines else detailed

    return metadata
