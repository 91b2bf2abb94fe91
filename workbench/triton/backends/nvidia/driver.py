"""`triton.backends.nvidia.driver`: NVIDIA devices."""

from workbench.triton.runtime.driver import CudaDriver, CudaUtils

__all__ = ["CudaDriver", "CudaUtils"]
