"""`triton.backends.nvidia`."""

from workbench.triton.backends.nvidia import driver

__all__ = ["driver"]
