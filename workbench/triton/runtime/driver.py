"""Which device is current and what it is, asked in Triton's way: `driver.active.get_...()`.

    driver.active.get_current_target()                          GPUTarget("cuda", 90, 32)
    driver.active.utils.get_device_properties(0)["multiprocessor_count"]

There is an answer without a GPU too: the CPU is then the device.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from workbench.devices import arrays, cuda
from workbench.devices.streams import current_stream
from workbench.runtime.do_bench import do_bench
from workbench.runtime.gpu_target import SHOWN_CHIP, GPUTarget, name_of, target_of
from workbench.targets.nvidia.chip import REGISTERS, chip


def target_name(target: GPUTarget | str | None) -> str:
    """Return our name of a target, None for that of the current device: "sm_90a", "cpu".

    >>> target_name(GPUTarget("cuda", 90, 32)), target_name("sm_80")
    ('sm_90a', 'sm_80')
    """
    wanted: GPUTarget | str = driver.active.get_current_target() if target is None else target
    return wanted if isinstance(wanted, str) else name_of(wanted)


class DriverBase:
    """What is asked of a kind of device."""

    @classmethod
    def is_active(cls) -> bool:
        """Say whether there is such a device."""
        return False

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function that times calls."""
        return do_bench

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of a signature's word."""
        if ty.startswith("*"):
            return "void*"
        return _CPP[ty]


#: A signature's word -> the C++ type of such an argument
_CPP = {
    "u1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "fp16": "double",
    "bf16": "double", "fp32": "double", "fp64": "double",
}  # fmt: skip


class CudaUtils:
    """Numbers of CUDA devices."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Return counts and sizes under Triton's names; clocks in kHz, the bus in bits."""
        found = cuda.properties(device)
        return {
            "max_shared_mem": found.shared_bytes,
            "max_num_regs": found.registers,
            "multiprocessor_count": found.multiprocessors,
            "warpSize": found.warp_size,
            "sm_clock_rate": found.clock,
            "mem_clock_rate": found.memory_clock,
            "mem_bus_width": found.memory_bus_bits,
        }


class CudaDriver(DriverBase):
    """CUDA devices."""

    utils = CudaUtils()

    @classmethod
    def is_active(cls) -> bool:
        """Say whether there is a CUDA device."""
        return cuda.available()

    def get_current_device(self) -> int:
        """Return the number of torch's current device."""
        return _torch().cuda.current_device()

    def set_current_device(self, device: int) -> None:
        """Make a device torch's current one."""
        _torch().cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """Return torch's current stream of a device."""
        return current_stream(self.get_current_device() if device is None else device)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Return a device's compute capability."""
        return cuda.properties(self.get_current_device() if device is None else device).capability

    def get_current_target(self) -> GPUTarget:
        """Return what kernels for the current device are compiled for."""
        major, minor = self.get_device_capability()
        return GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self) -> Any:
        """Return the current device as torch names it."""
        return _torch().device("cuda", self.get_current_device())

    def get_device_interface(self) -> Any:
        """Return torch's module for these devices."""
        return _torch().cuda

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return a buffer larger than the L2 cache."""
        torch = _torch()
        return torch.empty(64 * 2**20, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: Any) -> None:
        """Overwrite the buffer, and with it the L2 cache."""
        cache.zero_()


class CpuUtils:
    """Numbers of the CPU."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Return the cores as multiprocessors; what a CPU does not have is that of the shown chip.

        Registers and shared memory of a kernel for the CPU are those of that chip's code, too
        (`CompiledKernel.n_regs`), so that an occupancy can be computed. Clocks and the bus are 0.
        """
        shown = chip(SHOWN_CHIP)
        return {
            "max_shared_mem": shown.shared_bytes,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": os.cpu_count() or 1,
            "warpSize": shown.lanes,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class CpuDriver(DriverBase):
    """The CPU as the only device."""

    utils = CpuUtils()

    @classmethod
    def is_active(cls) -> bool:
        """Say whether the CPU is what kernels run on by default: without a CUDA device."""
        return not cuda.available()

    def get_current_device(self) -> int:
        """Return the number under which host memory goes."""
        return arrays.HOST

    def set_current_device(self, device: Any) -> None:
        """There is only one."""

    def get_current_stream(self, device: Any = None) -> int:
        """Return 0: launches are done when they return."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return (0, 0)."""
        return 0, 0

    def get_current_target(self) -> GPUTarget:
        """Return what kernels are compiled for."""
        return target_of("cpu")

    def get_active_torch_device(self) -> Any:
        """Return the device as torch names it."""
        return _torch().device("cpu")

    def get_device_interface(self) -> Any:
        """Return torch's module for it."""
        return _torch().cpu

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return a small buffer: the CPU's caches are not flushed between runs."""
        torch = _torch()
        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, cache: Any) -> None:
        """Overwrite the buffer."""
        cache.zero_()


class DriverConfig:
    """The driver in use."""

    def __init__(self) -> None:
        self._default: Any = None
        self._active: Any = None

    @property
    def default(self) -> Any:
        """The driver of this machine: CUDA if there is a device, else the CPU."""
        if self._default is None:
            self._default = CudaDriver() if CudaDriver.is_active() else CpuDriver()
        return self._default

    @property
    def active(self) -> Any:
        """The driver in use."""
        return self.default if self._active is None else self._active

    def set_active(self, driver: Any) -> None:
        """Use another driver."""
        self._active = driver

    def reset_active(self) -> None:
        """Use the default again."""
        self._active = None


driver = DriverConfig()


def _torch() -> Any:
    return importlib.import_module("torch")
