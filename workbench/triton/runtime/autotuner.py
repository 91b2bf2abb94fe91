"""`triton.runtime.autotuner`: tuning and heuristics."""

from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction
from workbench.triton.runtime.driver import driver
from workbench.triton.runtime.errors import AutotunerError, OutOfResources, PTXASError
from workbench.tuning.autotune import Autotuner, Config, autotune
from workbench.tuning.heuristics import Heuristics, heuristics

__all__ = [
    "Autotuner", "AutotunerError", "Config", "Heuristics", "JITFunction", "KernelInterface",
    "OutOfResources", "PTXASError", "autotune", "driver", "heuristics",
]  # fmt: skip
