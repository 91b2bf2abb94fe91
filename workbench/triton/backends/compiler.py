"""`triton.backends.compiler`: targets."""

from workbench.triton.compiler.ahead import BaseBackend
from workbench.triton.runtime.driver import GPUTarget

__all__ = ["BaseBackend", "GPUTarget"]
