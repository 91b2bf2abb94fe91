"""`triton.runtime`: kernel objects, tuning, devices and caches."""

from workbench.launch.stand_ins import MockTensor, TensorWrapper, reinterpret
from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction
from workbench.triton.runtime import autotuner, build, cache, errors, interpreter, jit
from workbench.triton.runtime import driver as _devices
from workbench.triton.runtime.cache import RedisRemoteCacheBackend, RemoteCacheBackend
from workbench.triton.runtime.errors import InterpreterError, OutOfResources
from workbench.tuning.autotune import Autotuner, Config, autotune
from workbench.tuning.heuristics import Heuristics, heuristics

#: The object, as in Triton, although a module has the same name.
driver = _devices.driver

__all__ = [
    "Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface",
    "MockTensor", "OutOfResources", "RedisRemoteCacheBackend", "RemoteCacheBackend",
    "TensorWrapper", "autotune", "autotuner", "build", "cache", "driver", "errors", "heuristics",
    "interpreter", "jit", "reinterpret",
]  # fmt: skip
