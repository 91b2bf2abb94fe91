"""The names of `triton.*` bound to ours: what pasted `import triton` cells get.

Only names that work are here, so that `hasattr` and `try: import` probes tell the truth.
"""

import sys

from workbench.language import constexpr
from workbench.runtime.autotune import Config, autotune, heuristics
from workbench.runtime.host import cdiv, next_power_of_2
from workbench.runtime.jit import JITFunction, KernelInterface, jit
from workbench.source import CompileError as CompilationError
from workbench.source import KernelError as TritonError
from workbench.source import ResourceError as OutOfResources
from workbench.triton import language, testing

#: The version whose language this is; libraries compare it.
__version__ = "3.6.0"
# Read, not imported: the package's root knows the rooms above this one.
__workbench__ = sys.modules["workbench"].__version__

__all__ = [
    "CompilationError", "Config", "JITFunction", "KernelInterface", "OutOfResources",
    "TritonError", "__workbench__", "autotune", "cdiv", "constexpr", "heuristics", "jit",
    "language", "next_power_of_2", "testing",
]  # fmt: skip
