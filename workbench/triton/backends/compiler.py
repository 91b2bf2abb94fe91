"""`triton.backends.compiler`: targets."""

from workbench.runtime.ahead import BaseBackend
from workbench.runtime.driver import GPUTarget

__all__ = ["BaseBackend", "GPUTarget"]
