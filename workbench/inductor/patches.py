"""What we take the place of in torch's compiler, each by its name there.

    CachingAutotuner._precompile_config     compiles one configuration of a kernel
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
import importlib
import logging
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from workbench.inductor import workers
from workbench.inductor.artefacts import compile_artefact
from workbench.inductor.graphs import torch_lines
from workbench.inductor.switching import WRITTEN, has_real_triton, needed, switch
from workbench.source import KernelError

_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_ASYNC = "torch._inductor.async_compile"
_RAW_STREAM = (
    "torch._inductor.codegen.cpu_device_op_overrides:CpuDeviceOpOverrides.import_get_raw_stream_as"
)

_CPU = "torch._dynamo.device_interface:CpuInterface.device"

#: What is used of torch besides what is replaced.
USED = (
    f"{_HEURISTICS}:CachingAutotuner._create_compile_meta",
    f"{_HEURISTICS}:CachingAutotuner._create_compile_options",
    f"{_HEURISTICS}:CompileResult._get_arg_lists",
    f"{_HEURISTICS}:GridExpr.from_meta",
    f"{_HEURISTICS}:GPUTarget",
    "torch._inductor.runtime.compile_tasks:_reload_python_module",
    "torch._inductor.compile_worker.subproc_pool:SubprocPickler",
    "torch._inductor.config:cpu_backend",
    "torch._inductor.utils:aggregate_origins",
)

log = logging.getLogger("workbench.inductor")


class Patches:
    """Attributes of torch that have other values for a while."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, path: str, make: Callable[[Any], Any]) -> None:
        """Replace `module:name.name` by what `make` returns for it."""
        owner, name = _owner(path)
        needed(path)
        before = vars(owner).get(name, getattr(owner, name))
        self._before.append((owner, name, before))
        setattr(owner, name, make(before))

    def undo(self) -> None:
        """Put everything back."""
        while self._before:
            owner, name, before = self._before.pop()
            setattr(owner, name, before)


def _owner(path: str) -> tuple[Any, str]:
    module, _, names = path.partition(":")
    holder, _, name = names.rpartition(".")
    return needed(f"{module}:{holder}" if holder else module), name


def compiling(patches: Patches) -> None:
    """Have kernels compiled by us: what workers need as well."""
    for path in USED:
        needed(path)
    patches.put(f"{_HEURISTICS}:CachingAutotuner._precompile_config", _precompiling)


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


def _precompiling(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def precompile(autotuner: Any, config: Any) -> Any:
        results = importlib.import_module("workbench.inductor.results")
        meta = autotuner._create_compile_meta(config)
        options = autotuner._create_compile_options(config, meta)
        properties = autotuner.device_props
        target = needed(f"{_HEURISTICS}:GPUTarget")(properties.type, meta["cc"], 32)
        own = not getattr(autotuner, "custom_kernel", False)
        try:
            artefact = compile_artefact(autotuner.fn, meta, target, options, promised=own)
        except KernelError as error:
            if not has_real_triton() or properties.type == "cpu":
                raise
            return _fall_back(autotuner, config, stock, error)
        return results.Result(artefact, config, meta, autotuner.inductor_meta)

    return precompile


def _fall_back(autotuner: Any, config: Any, stock: Callable[..., Any], error: KernelError) -> Any:
    """Compile one configuration with the real Triton."""
    name = autotuner.fn.__name__
    reason = f"{error.code}: {error.message}"
    log.warning("%s is compiled by Triton: %s", name, reason)
    results = importlib.import_module("workbench.inductor.results")
    with switch.off():
        load = needed("torch._inductor.runtime.compile_tasks:_reload_python_module")
        module: types.ModuleType = load(f"triton_{name}", autotuner.fn.text_source.file, False)
        return results.FallenBack(stock(getattr(module, name), config), reason)


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
