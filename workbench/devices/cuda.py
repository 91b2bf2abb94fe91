"""NVIDIA devices through `cuda.bindings`: chips, contexts, loading, launching, errors.

Contexts are the primary ones, which torch uses too. Nothing is imported before a kernel meets a
CUDA array.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from workbench.source import KernelError, LaunchError, ResourceError, ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Errors after which the context cannot be used any more, and what they mean.
STICKY = {
    214: "an uncorrectable memory error",
    700: "an illegal memory access",
    702: "a launch that ran into the time limit",
    710: "a device assertion that failed",
    714: "an error in the hardware stack",
    715: "an illegal instruction",
    716: "a misaligned address",
    717: "an address in the wrong memory space",
    718: "an invalid program counter",
    719: "a launch failure",
}

#: Shared memory up to this many bytes needs no permission (CUDA driver API, cuFuncSetAttribute).
FREE_SHARED_BYTES = 48 * 1024
#: What each block takes beside what it asks for (from compute capability 8.0 on).
_BESIDE_SHARED_BYTES = 1024
#: What a multiprocessor has of it at least (CUDA programming guide, compute capability 8 and 9).
_LEAST_SHARED_BYTES = 8192

_lost: dict[int, str] = {}


@lru_cache(1)
def driver() -> Any:
    """Return the initialised driver API; raises LaunchError K508 where there is none."""
    try:
        bindings = importlib.import_module("cuda.bindings.driver")  # typed nowhere
    except ImportError as error:
        raise ToolError(
            "the CUDA bindings for Python are not installed",
            hint="pip install cuda-python",
            code="K508",
        ) from error
    try:
        code = int(bindings.cuInit(0)[0])
    except RuntimeError as error:  # no libcuda on this machine
        raise _no_device(str(error)) from error
    if code:
        raise _no_device(f"the driver answers with error {code}")
    return bindings


def _no_device(why: str) -> LaunchError:
    return LaunchError(
        f"no CUDA device can be used: {why}",
        hint="run on the CPU target, or compile without launching",
        code="K508",
    )


def available() -> bool:
    """Say whether there is a CUDA device and a driver for it."""
    try:
        return device_count() > 0
    except KernelError:
        return False


def device_count() -> int:
    """Return how many CUDA devices this process sees."""
    return int(checked(driver().cuDeviceGetCount()))


def checked(answer: tuple[Any, ...], what: str = "the CUDA driver", device: int = 0) -> Any:
    """Return what the driver answers besides its code; raises what went wrong."""
    code = int(answer[0])
    if code:
        raise error_of(code, what, device)
    return answer[1] if len(answer) == 2 else answer[1:]


# -- devices ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Properties:
    """What a device is: counts, sizes in bytes, clocks in kHz."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    warp_size: int
    max_threads: int
    shared_bytes: int
    registers: int
    l2_bytes: int
    memory_bytes: int
    clock: int
    memory_clock: int
    memory_bus_bits: int
    driver: str


_ATTRIBUTES = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "max_threads": "MAX_THREADS_PER_BLOCK",
    "shared_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "registers": "MAX_REGISTERS_PER_BLOCK",
    "l2_bytes": "L2_CACHE_SIZE",
    "clock": "CLOCK_RATE",
    "memory_clock": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
}


@lru_cache(64)
def properties(device: int = 0) -> Properties:
    """Return what a device is."""
    api = driver()
    handle = checked(api.cuDeviceGet(device))
    name = checked(api.cuDeviceGetName(128, handle)).split(b"\0")[0].decode()
    numbers = {key: _attribute(handle, word) for key, word in _ATTRIBUTES.items()}
    version = int(checked(api.cuDriverGetVersion()))
    return Properties(
        name=name,
        capability=_capability(device),
        memory_bytes=int(checked(api.cuDeviceTotalMem(handle))),
        driver=f"{version // 1000}.{version % 1000 // 10}",
        **numbers,
    )


def _attribute(handle: Any, word: str) -> int:
    api = driver()
    attribute = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{word}")
    code, value = api.cuDeviceGetAttribute(attribute, handle)
    return 0 if int(code) else int(value)


@lru_cache(64)
def _capability(device: int) -> tuple[int, int]:
    handle = checked(driver().cuDeviceGet(device))
    major = _attribute(handle, "COMPUTE_CAPABILITY_MAJOR")
    return major, _attribute(handle, "COMPUTE_CAPABILITY_MINOR")


@lru_cache(64)
def chip(device: int = 0) -> str:
    """Return a device's chip, with its `a` suffix where there is one: "sm_80", "sm_90a"."""
    major, minor = _capability(device)
    if major < 8:
        raise LaunchError(
            f"cuda:{device} is an sm_{major}{minor}, kernels run on sm_80 and newer", code="K508"
        )
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@lru_cache(64)
def _primary(device: int) -> Any:
    """Return the primary context, retained for the life of the process."""
    api = driver()
    return checked(api.cuDevicePrimaryCtxRetain(checked(api.cuDeviceGet(device))))


@contextmanager
def current(device: int) -> Iterator[None]:
    """Make a device's primary context current for the block; a thread without one keeps it."""
    api = driver()
    before = checked(api.cuCtxGetCurrent())
    context = _primary(device)
    if int(before) == int(context):
        yield
        return
    checked(api.cuCtxSetCurrent(context), device=device)
    try:
        yield
    finally:
        if int(before):
            api.cuCtxSetCurrent(before)


def synchronize(device: int = 0) -> None:
    """Wait for everything that runs on a device; raises what went wrong there (K502, K503)."""
    with current(device):
        checked(driver().cuCtxSynchronize(), "a kernel", device)


# -- errors -----------------------------------------------------------------------------------
def error_of(code: int, what: str, device: int) -> KernelError:
    """Return the error for a code of the driver.

    The first sticky error of a device is K502; the context is lost with it, so everything after
    it is K503.
    """
    if code in STICKY:
        if device in _lost:
            return lost_error(device)
        _lost[device] = STICKY[code]
        return LaunchError(
            f"the device reports {STICKY[code]} (code {code}) of {what}, or of one launched before",
            notes=[
                f"the CUDA context is lost (code {code}); restart the kernel to launch again, "
                "compiling still works"
            ],
            hint="run the same launch with kernel.interpret[grid](...): it names the access",
            code="K502",
        )
    if device in _lost:
        return lost_error(device)
    name, text = _describe(code)
    if code == 701:  # CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        return ResourceError(
            f"{what} needs more threads, registers or shared memory than the device has",
            hint="launch with fewer warps or smaller tiles",
            code="K402",
        )
    if code == 720:  # CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
        return ResourceError(
            f"{what} has more programs than cuda:{device} can run at one time, and "
            "launch_cooperative_grid=True asks for that",
            hint="launch fewer programs that take several tiles each, or use fewer warps or "
            "smaller tiles",
            code="K402",
        )
    if code == 2:
        return LaunchError(f"the device has no memory left for {what}", code="K509")
    return LaunchError(f"{what}: the driver answers {name}: {text}", code="K509")


def lost_error(device: int) -> LaunchError:
    """Return the error for using a device whose context is lost."""
    return LaunchError(
        f"cuda:{device} cannot be used any more after {_lost[device]}",
        hint="restart the kernel; compiling, the CPU target and viewing go on without it",
        code="K503",
    )


def _describe(code: int) -> tuple[str, str]:
    api = driver()
    try:
        result = api.CUresult(code)
        name = checked(api.cuGetErrorName(result)).decode()
        return name, checked(api.cuGetErrorString(result)).decode()
    except (ValueError, KernelError):
        return f"error {code}", "not described"


# -- loading and launching --------------------------------------------------------------------
class _Streams(dict[int, Any]):
    """Stream handles by number, made at their first use."""

    def __missing__(self, number: int) -> Any:
        handle = driver().CUstream(number)
        self[number] = handle
        return handle


streams = _Streams()


@dataclass(frozen=True, slots=True)
class Image:
    """Code for a device: a cubin or PTX (`kind`), and which of its functions to load.

    `name` and `target` are the kernel's and its chip, for messages; `shared_bytes` is the dynamic
    shared memory of a launch. Where blocks read again what the first cache holds, `cached_for` is
    how many threads one has, else 0. Of what `is_cached` as little as there is becomes shared
    memory, which leaves room for `few_blocks`.
    """

    code: bytes
    kind: str
    symbol: str
    shared_bytes: int
    name: str
    target: str
    cached_for: int = 0
    is_cached: bool = False


def load(image: Image, device: int) -> tuple[Any, Any]:
    """Return (module, function) on a device; raises LaunchError where it cannot be loaded."""
    check_usable(device)
    api = driver()
    with current(device), relaxed_capture():
        code, module = api.cuModuleLoadData(
            image.code if image.kind == "cubin" else image.code + b"\0"
        )
        if int(code):
            raise _load_error(int(code), image, device)
        function = checked(api.cuModuleGetFunction(module, image.symbol.encode()), image.name)
        _allow_shared(function, image, device)
        if image.cached_for:
            _leave_cache(function, image, device)
        if image.is_cached:
            _share(function, 0, image, device)
    return module, function


def check_usable(device: int) -> None:
    """Raise LaunchError K503 for a device whose context is lost."""
    if device in _lost:
        raise lost_error(device)


@contextmanager
def relaxed_capture() -> Iterator[None]:
    """Allow loading while a stream of this thread is being captured into a graph."""
    api = driver()
    relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked(api.cuThreadExchangeStreamCaptureMode(relaxed))
    try:
        yield
    finally:
        api.cuThreadExchangeStreamCaptureMode(before)


def _load_error(code: int, image: Image, device: int) -> KernelError:
    if code in (209, 218, 222):  # no binary for this chip, bad PTX, PTX too new for the driver
        name, text = _describe(code)
        return LaunchError(
            f"the driver refuses the code of {image.name} for {image.target}: {name}: {text}",
            hint=f"cuda:{device} is an {chip(device)}; its driver supports CUDA "
            f"{properties(device).driver}",
            code="K509",
        )
    return error_of(code, f"loading {image.name}", device)


def _allow_shared(function: Any, image: Image, device: int) -> None:
    size = image.shared_bytes
    if size <= FREE_SHARED_BYTES:
        return
    limit = properties(device).shared_bytes
    if size > limit:
        raise ResourceError(
            f"{image.name} needs {size:,} bytes of shared memory, cuda:{device} allows {limit:,}",
            hint="use fewer stages or smaller tiles",
        ).counted("shared memory", size, limit)
    api = driver()
    kinds = api.CUfunction_attribute
    attribute = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked(api.cuFuncSetCacheConfig(function, api.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED))
    checked(api.cuFuncSetAttribute(function, attribute, size), image.name, device)


def _leave_cache(function: Any, image: Image, device: int) -> None:
    """Have the first cache get the memory of a multiprocessor that its blocks do not take."""
    api, size = driver(), image.shared_bytes
    ask = api.cuOccupancyMaxActiveBlocksPerMultiprocessor
    blocks = int(checked(ask(function, image.cached_for, size), "occupancy", device))
    percent = shared_percent(blocks, size, properties(device).shared_bytes)
    _share(function, percent, image, device)


def _share(function: Any, percent: int, image: Image, device: int) -> None:
    """Prefer a part of a multiprocessor's memory for what its blocks share."""
    kinds = driver().CUfunction_attribute
    attribute = kinds.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    checked(driver().cuFuncSetAttribute(function, attribute, percent), image.name, device)


def few_blocks(shared_bytes: int) -> int:
    """Return how many blocks there is room for where shared memory is as small as it gets."""
    return _LEAST_SHARED_BYTES // (shared_bytes + _BESIDE_SHARED_BYTES)


def memory_bytes(device: int) -> int:
    """Return the bytes of a multiprocessor that its first cache and its blocks share, about."""
    return properties(device).shared_bytes + _BESIDE_SHARED_BYTES


def shared_percent(blocks: int, size: int, most: int) -> int:
    """Return which part of a multiprocessor's shared memory some blocks take, in percent.

    most: what one block may ask for.
    """
    whole = most + _BESIDE_SHARED_BYTES
    return min(100, -(-100 * blocks * (size + _BESIDE_SHARED_BYTES) // whole))


def blocks_at_once(
    function: Any, threads: int, shared_bytes: int, device: int, cluster: int = 1
) -> int:
    """Return how many blocks of a function a device holds at once, at least a cluster's.

    Clusters are placed as wholes, so some multiprocessors may have none.
    """
    api = driver()
    with current(device):
        if cluster > 1:
            return (
                max(1, _clusters_at_once(function, threads, shared_bytes, device, cluster))
                * cluster
            )
        ask = api.cuOccupancyMaxActiveBlocksPerMultiprocessor
        each = int(checked(ask(function, threads, shared_bytes), "occupancy", device))
    return max(1, each * properties(device).multiprocessors)


def _clusters_at_once(
    function: Any, threads: int, shared_bytes: int, device: int, cluster: int
) -> int:
    api = driver()
    config, attribute = api.CUlaunchConfig(), api.CUlaunchAttribute()
    value = api.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = cluster, 1, 1
    attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value = value
    blocks = properties(device).multiprocessors // cluster * cluster
    config.gridDimX, config.gridDimY, config.gridDimZ = max(cluster, blocks), 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_bytes
    config.attrs, config.numAttrs = [attribute], 1
    asked = api.cuOccupancyMaxActiveClusters(function, config)
    return int(checked(asked, "occupancy of clusters", device))


def launch_address(*, with_attributes: bool = False) -> int:
    """Return where what launches lies in memory, 0 if the library cannot be opened by name.

    `cuLaunchKernel`, or `cuLaunchKernelEx`.
    """
    return _address_of(f"cuLaunchKernel{'Ex' if with_attributes else ''}")


def encoder_address(*, walked: bool = False) -> int:
    """Return where what encodes tensor maps lies in memory, 0 where there is none.

    `cuTensorMapEncodeTiled`, or `cuTensorMapEncodeIm2col`.
    """
    return _address_of(f"cuTensorMapEncode{'Im2col' if walked else 'Tiled'}")


@cache
def _address_of(function: str) -> int:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        found = getattr(ctypes.CDLL(name), function)
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(found, ctypes.c_void_p).value or 0
