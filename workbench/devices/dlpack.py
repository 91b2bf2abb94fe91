"""DLPack capsules read by hand: arrays of any library, in any dtype, without torch or NumPy.

A capsule named "dltensor" holds a DLManagedTensor, one named "dltensor_versioned" a
DLManagedTensorVersioned (DLPack 1.0); both hold a DLTensor. The capsule stays unconsumed: it is
kept alive while its memory is used, and frees it itself.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY

#: (type code, bits) -> the compiler's element type
_TYPES = {
    **{(0, bits): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16", (6, 8): "i1", (10, 8): "f8e4m3", (12, 8): "f8e5m2",
    (11, 8): "f8e4b8", (13, 8): "f8e5b16",
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True)
class DLArray:
    """What a capsule says of its array; `strides` are in elements."""

    address: int
    type: str | None
    dtype: str
    device_type: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    capsule: Any
    itemsize: int

    # What the interpreter asks of an array.
    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self.address

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        return self.strides

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.itemsize


def read(value: Any, stream: int = 0) -> DLArray:
    """Return what an array with `__dlpack__` is; on CUDA, `stream` waits until it is ready."""
    kind, _ = value.__dlpack_device__()
    # DLPack's number for CUDA's default stream is 1.
    capsule = _capsule(value, {"stream": stream or 1} if kind == CUDA else {})
    name = _name(capsule)
    if name == b"dltensor_versioned":
        whole: Any = ctypes.cast(_pointer(capsule, name), ctypes.POINTER(_Versioned)).contents
        writable = not whole.flags & _READ_ONLY
    elif name == b"dltensor":
        whole = ctypes.cast(_pointer(capsule, name), ctypes.POINTER(_Managed)).contents
        writable = True
    else:
        raise TypeError(f"a {type(value).__name__} gives a capsule named {name!r}")
    found = whole.tensor
    shape = tuple(found.shape[axis] for axis in range(found.ndim))
    strides = tuple(found.strides[axis] for axis in range(found.ndim)) if found.strides else ()
    return DLArray(
        (found.data or 0) + found.byte_offset,
        _TYPES.get((found.code, found.bits)) if found.lanes == 1 else None,
        f"DLPack type {found.code} of {found.bits} bits",
        found.device_type,
        found.device_id,
        shape,
        strides or _contiguous(shape),
        writable,
        capsule,
        found.bits * found.lanes // 8,
    )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _capsule(value: Any, options: dict[str, Any]) -> Any:
    try:
        return value.__dlpack__(max_version=(1, 0), **options)
    except TypeError:  # made before there were versions
        return value.__dlpack__(**options)


def _name(capsule: Any) -> bytes:
    ask = ctypes.pythonapi.PyCapsule_GetName
    ask.restype, ask.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return ask(capsule) or b""


def _pointer(capsule: Any, name: bytes) -> int:
    ask = ctypes.pythonapi.PyCapsule_GetPointer
    ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ask(capsule, name)
