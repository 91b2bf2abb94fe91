"""The names of `triton.*` bound to ours: what pasted code and modules written for Triton get.

All names of the version that `__version__` claims are here (names.json has the lists), and none
of later versions, so that `hasattr` and `try: import` probes are answered as that Triton would. The
few that do not work here raise when they are used (`workbench.language.table.ONLY_RAISES`).
"""

import sys

from workbench.language import constexpr
from workbench.language.core import _aggregate, must_use_result
from workbench.language.versions import DEFAULT, versioned
from workbench.launch.stand_ins import MockTensor, TensorWrapper, reinterpret
from workbench.runtime import knobs
from workbench.runtime.callables import constexpr_function
from workbench.runtime.host import cdiv, next_power_of_2
from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction, jit
from workbench.triton import (
    _utils,
    backends,
    compiler,
    errors,
    language,
    profiler,
    runtime,
    testing,
    tools,
)
from workbench.triton.compiler.ahead import compile
from workbench.triton.compiler.errors import CompilationError
from workbench.triton.errors import TritonError
from workbench.triton.runtime._async_compile import AsyncCompileMode, FutureKernel
from workbench.triton.runtime.errors import InterpreterError, OutOfResources
from workbench.triton.runtime.scratch import set_allocator
from workbench.tuning.autotune import Config, autotune
from workbench.tuning.heuristics import heuristics

#: The version whose language this is; libraries compare it.
__version__ = DEFAULT
# Read, not imported: the package's root knows the rooms above this one.
__workbench__ = sys.modules["workbench"].__version__

__all__ = [
    "AsyncCompileMode", "CompilationError", "Config", "FutureKernel", "InterpreterError",
    "JITFunction", "KernelInterface", "MockTensor", "OutOfResources", "TensorWrapper",
    "TritonError", "__workbench__", "_utils", "autotune", "backends", "cdiv", "compile", "compiler",
    "constexpr", "constexpr_function", "errors", "heuristics", "jit", "knobs", "language",
    "must_use_result", "next_power_of_2", "profiler", "reinterpret", "runtime", "set_allocator",
    "testing", "tools",
]  # fmt: skip

__getattr__ = versioned("triton", {"aggregate": ("3.8.0", None, lambda: _aggregate)})
