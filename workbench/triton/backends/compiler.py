"""`triton.backends.compiler`: targets."""

from workbench.runtime.driver import GPUTarget
from workbench.triton.compiler.ahead import BaseBackend

__all__ = ["BaseBackend", "GPUTarget"]
