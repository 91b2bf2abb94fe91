"""What a launch needs to know of an array, whoever made it; torch is never imported here.

Torch tensors are met by duck typing (`data_ptr`, `dtype`, `device`), NumPy arrays by their class,
everything else by `__cuda_array_interface__` or, on the host, DLPack.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.devices.streams import HOST
from workbench.source import KernelError, shown
from workbench.source.elements import TYPE_NAMES

#: How values say that they are arrays.
_WAYS = ("data_ptr", "__array_interface__", "__cuda_array_interface__", "__dlpack__")


class NotAnArray(TypeError):  # noqa: N818 - a question's answer, never shown
    """The value is no array that a kernel could take."""


@dataclass(frozen=True, slots=True)
class Array:
    """Where an array lies and what its elements are.

    `type` is None where the element type is none that kernels have (`dtype` is its own name);
    `device` is the CUDA ordinal, HOST for host memory, None for neither (`place` says what).
    `owner` keeps memory alive that was made on the way here.
    """

    address: int
    type: str | None
    dtype: str
    device: int | None
    place: str
    writable: bool = True
    owner: Any = None


def is_array(value: Any) -> bool:
    """Say whether a value is an array of some kind."""
    return hasattr(value, "data_ptr") or _is_numpy(value) or _speaks(value)


#: Whether the CPU answers for CUDA (`as_triton(cuda="cpu")`): what says so lies on the host.
pretended = False


def describe(value: Any) -> Array:
    """Return what a launch needs to know; raises NotAnArray, also where the value's own code fails.

    An interface that says what cannot be (no address, a shape that is none) is no array either.
    """
    try:
        found = _described(value)
        address: Any = found.address
        if isinstance(address, bool) or not isinstance(address, int):
            raise NotAnArray(f"its address is {shown(address)}")
        if not 0 <= address < 1 << 64:
            raise NotAnArray(f"its address is {shown(address)}, beyond 64 bits")
    except (NotAnArray, KernelError):
        raise
    except Exception as error:
        way = next((name for name in _WAYS if _has(value, name)), "description")
        said = f"{type(error).__name__}: {shown(str(error))}"
        raise NotAnArray(f"its {way} cannot be read ({said})") from error
    return found


def _has(value: Any, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:
        return True


def _described(value: Any) -> Array:
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _tensor(value)
    if _is_numpy(value):
        return _numpy(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value)
    raise NotAnArray(f"a {type(value).__name__} is no array")


def _speaks(value: Any) -> bool:
    return hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__")


def _is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _tensor(value: Any) -> Array:
    dtype = getattr(value.dtype, "name", None) or str(value.dtype).removeprefix("torch.")
    device = getattr(value, "device", None)
    kind = getattr(device, "type", "cuda" if device is None else str(device).partition(":")[0])
    ordinal: int | None = None
    if kind == "cuda":
        index = getattr(device, "index", 0)
        ordinal = HOST if pretended else index or 0
    elif kind == "cpu":
        ordinal = HOST
    if getattr(value, "is_nested", False):
        raise NotAnArray("it is nested, several tensors in one")
    if hasattr(value, "is_neg") and value.is_neg():
        raise NotAnArray("its memory holds its numbers with the other sign (x.is_neg())")
    return Array(value.data_ptr(), TYPE_NAMES.get(dtype), dtype, ordinal, str(device or kind))


def _numpy(value: Any) -> Array:
    if type(value).__name__ == "MaskedArray":
        raise NotAnArray("it is masked, which its memory does not say")
    interface = value.__array_interface__
    name = value.dtype.name if value.dtype.isnative else str(value.dtype)
    address, read_only = interface["data"]
    return Array(address, TYPE_NAMES.get(name), name, HOST, "cpu", not read_only)


#: typestr of an array interface -> the compiler's type
_TYPESTR = {
    "b1": "i1", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16",
    "u4": "u32", "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64",
}  # fmt: skip


def _cuda(value: Any) -> Array:
    interface = value.__cuda_array_interface__
    address, read_only = interface["data"]
    name = interface["typestr"]
    shape = [operator.index(extent) for extent in interface["shape"]]
    if min(shape, default=0) < 0 or prod(shape) >= 1 << 63:
        raise NotAnArray(f"its shape is {shown(tuple(shape))}")
    if not address and prod(shape):
        raise NotAnArray(f"its address is {shown(address)}, its shape {tuple(shape)}")
    native = name[0] in "|=<" if sys.byteorder == "little" else name[0] in "|=>"
    device = getattr(value, "device", None)
    ordinal = getattr(device, "id", getattr(device, "index", 0)) or 0
    found = _TYPESTR.get(name[1:]) if native else None
    return Array(address or 0, found, name, ordinal, f"cuda:{ordinal}", not read_only)


def _dlpack(value: Any) -> Array:
    from workbench.devices import dlpack

    kind, ordinal = value.__dlpack_device__()
    if kind in (dlpack.CPU, dlpack.CUDA_HOST):
        device, place, stream = HOST, "cpu", 0
    elif kind in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        device, place, stream = int(ordinal), f"cuda:{ordinal}", _stream(int(ordinal))
    else:
        return Array(0, None, type(value).__name__, None, f"device kind {kind}")
    found = dlpack.read(value, stream)
    return Array(found.address, found.type, found.dtype, device, place, found.writable, found)


def _stream(device: int) -> int:
    from workbench.devices.streams import current_stream

    return current_stream(device)
