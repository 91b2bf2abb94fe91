"""What runs in the processes in which torch compiles kernels."""

from __future__ import annotations

import copyreg
import importlib
from collections.abc import Callable
from typing import Any

# The compiler is loaded before the workers are forked.
import workbench.targets.cpu.pipeline
import workbench.targets.nvidia.pipeline  # noqa: F401
from workbench.inductor.compiling import AUTOTUNER, compiling
from workbench.inductor.patching import Patches
from workbench.inductor.switching import needed, switch

_CHOOSING = "torch._inductor.runtime.triton_helpers:set_driver_to_gpu"
_CONFIG = "torch._inductor.runtime.triton_heuristics:Config"


class Unloaded:
    """A kernel object without its function, which stays in the process that compiled it."""

    def __init__(self, kernel: Any) -> None:
        self.__name__ = kernel.__name__
        self.arg_names = kernel.arg_names
        self.constexprs = kernel.constexprs
        self.src = kernel.src
        #: Torch loads the kernel again where it needs the function, and knows it by this.
        self.fn = None
        self._hash_lock: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_hash_lock": None}


def prepare() -> None:
    """Load everything that compiling a kernel takes."""
    with switch.on():
        importlib.import_module("workbench.inductor.results")


def compile_kernel(
    load_kernel: Callable[[], Any], extra_env: dict[str, str], extra_config: dict[str, Any]
) -> tuple[Any, int]:
    """Compile all configurations of a kernel; returns torch's autotuner, and microseconds."""
    stock = needed("torch._inductor.runtime.compile_tasks:_worker_compile_triton")
    send_configurations()
    ours = Patches()
    with switch.on():
        try:
            compiling(ours)
            ours.put(f"{AUTOTUNER}.prepare_for_pickle", _unloading)
            # Where nothing is launched no device is asked for: a worker may not be able to.
            ours.put(_CHOOSING, lambda stock: _no_driver)
            return stock(load_kernel, extra_env, extra_config)
        finally:
            ours.undo()


def _no_driver() -> None:
    """Stand where torch chooses the driver of a kernel that is to run."""


def send_configurations() -> None:
    """Have this process pickle torch's configurations so that they arrive as torch's."""
    copyreg.pickle(needed(_CONFIG), _reduced)


def _reduced(config: Any) -> tuple[Callable[[dict[str, Any]], Any], tuple[dict[str, Any]]]:
    return config_of, (vars(config),)


def config_of(attributes: dict[str, Any]) -> Any:
    """Return a configuration as torch knows it where it arrives.

    By its class's name it would be ours there, for as long as Triton's names mean ours, and torch
    derives from and asks for the class that it bound when it was imported.
    """
    kind = needed(_CONFIG)
    config = kind.__new__(kind)
    vars(config).update(attributes)
    return config


def _unloading(stock: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_for_pickle(autotuner: Any) -> None:
        autotuner.fn = Unloaded(autotuner.fn)
        autotuner.launchers = []

    return prepare_for_pickle
