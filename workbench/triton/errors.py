"""`triton.errors`: the base class of everything that a kernel can do wrong."""

from workbench.source import KernelError as TritonError

__all__ = ["TritonError"]
