"""The names of `triton.*` bound to ours: what pasted code and modules written for Triton get.

Only names that work are here, so that `hasattr` and `try: import` probes tell the truth.
"""

import sys

from workbench.language import constexpr
from workbench.launch.stand_ins import MockTensor, TensorWrapper, reinterpret
from workbench.runtime import knobs
from workbench.runtime.callables import constexpr_function
from workbench.runtime.host import cdiv, next_power_of_2
from workbench.runtime.jit import JITFunction, KernelInterface, jit
from workbench.triton import _utils, backends, compiler, errors, language, runtime, testing, tools
from workbench.triton.compiler.ahead import compile
from workbench.triton.compiler.errors import CompilationError
from workbench.triton.errors import TritonError
from workbench.triton.runtime.errors import InterpreterError, OutOfResources
from workbench.triton.runtime.scratch import set_allocator
from workbench.tuning.autotune import Config, autotune, heuristics

#: The version whose language this is; libraries compare it.
__version__ = "3.6.0"
# Read, not imported: the package's root knows the rooms above this one.
__workbench__ = sys.modules["workbench"].__version__

__all__ = [
    "CompilationError", "Config", "InterpreterError", "JITFunction", "KernelInterface",
    "MockTensor", "OutOfResources", "TensorWrapper", "TritonError", "__workbench__", "_utils",
    "autotune", "backends", "cdiv", "compile", "compiler", "constexpr", "constexpr_function",
    "errors", "heuristics", "jit", "knobs", "language", "next_power_of_2", "reinterpret", "runtime",
    "set_allocator", "testing", "tools",
]  # fmt: skip
