"""Compiling one configuration of a kernel, in whichever process: `_precompile_config` of torch."""

from __future__ import annotations

import functools
import importlib
import logging
import types
from collections.abc import Callable
from typing import Any

from workbench.inductor.artefacts import compile_artefact
from workbench.inductor.patching import Patches
from workbench.inductor.switching import has_real_triton, needed, switch
from workbench.source import KernelError, ResourceError, ToolError

AUTOTUNER = "torch._inductor.runtime.triton_heuristics:CachingAutotuner"
_HEURISTICS = "torch._inductor.runtime.triton_heuristics"

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


def compiling(patches: Patches) -> None:
    """Have kernels compiled by us: what workers need as well."""
    for path in USED:
        needed(path)
    patches.put(f"{_HEURISTICS}:CachingAutotuner._precompile_config", _precompiling)


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
        except (ResourceError, ToolError):
            raise  # torch knows them under Triton's names, and tries other configurations
        except Exception as error:
            if not has_real_triton() or properties.type == "cpu":
                raise
            return _fall_back(autotuner, config, stock, error)
        return results.Result(artefact, config, meta, autotuner.inductor_meta)

    return precompile


def _fall_back(autotuner: Any, config: Any, stock: Callable[..., Any], error: Exception) -> Any:
    """Compile one configuration with the real Triton."""
    name = autotuner.fn.__name__
    known = isinstance(error, KernelError)
    reason = f"{error.code}: {error.message}" if known else f"{type(error).__name__}: {error}"
    log.warning("%s is compiled by Triton: %s", name, reason)
    results = importlib.import_module("workbench.inductor.results")
    with switch.off():
        load = needed("torch._inductor.runtime.compile_tasks:_reload_python_module")
        module: types.ModuleType = load(f"triton_{name}", autotuner.fn.text_source.file, False)
        return results.FallenBack(stock(getattr(module, name), config), reason)
