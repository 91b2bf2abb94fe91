"""Kernels at run time: jit objects, compiled kernels, cache, clocks, operators of torch.

It calls the compiler, never the other way. Nothing here imports torch or cuda before an array of
theirs is seen, and a launch that finds its code in the cache imports no compiler at all.
"""

from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import compile  # noqa: A004 - the public name
from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction, jit, kernel

__all__ = ["CompiledKernel", "JITFunction", "KernelInterface", "compile", "jit", "kernel"]
