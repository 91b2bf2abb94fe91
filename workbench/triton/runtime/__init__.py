"""`triton.runtime`: kernel objects, tuning, devices and caches."""

from workbench.runtime.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from workbench.runtime.driver import driver
from workbench.runtime.jit import JITFunction, KernelInterface
from workbench.runtime.stand_ins import MockTensor, TensorWrapper, reinterpret
from workbench.triton.runtime import cache, errors, interpreter, jit
from workbench.triton.runtime.errors import InterpreterError, OutOfResources

__all__ = [
    "Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface",
    "MockTensor", "OutOfResources", "TensorWrapper", "autotune", "cache", "driver", "errors",
    "heuristics", "interpreter", "jit", "reinterpret",
]  # fmt: skip
