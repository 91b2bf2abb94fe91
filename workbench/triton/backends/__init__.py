"""`triton.backends`: the targets there are, by the names that libraries look for."""

from workbench.triton.backends import compiler, nvidia
from workbench.triton.compiler.ahead import Backend, BaseBackend
from workbench.triton.runtime.driver import CpuDriver, CudaDriver, DriverBase

backends = {
    "nvidia": Backend(BaseBackend, CudaDriver),
    "cpu": Backend(BaseBackend, CpuDriver),
}

__all__ = ["Backend", "BaseBackend", "DriverBase", "backends", "compiler", "nvidia"]
