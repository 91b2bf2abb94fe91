"""Arrays of either kind, torch tensors and NumPy arrays, seen alike; torch is never imported here.

Values are compared in NumPy: floats as f64 (bf16 and fp8 have no NumPy type, and every type that
kernels take fits f64 exactly), integers and booleans as they are.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np

from workbench.interpreter import storage_of

#: torch's and NumPy's dtype names -> the compiler's
DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4b8", "float8_e5m2fnuz": "f8e5b16", "bool": "i1", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def is_array(value: object) -> bool:
    """Whether the value is a torch tensor or a NumPy array."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def is_tensor(value: object) -> bool:
    """Whether the value is a torch tensor (never, if torch has not been imported)."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dtype_of(array: Any) -> str:
    """Return the array's element type in the compiler's spelling, e.g. "bf16"."""
    name = str(array.dtype).removeprefix("torch.")
    return DTYPES.get(name, name)


def is_float(dtype: str) -> bool:
    """Whether a type of the compiler's spelling is a floating-point one."""
    return dtype.startswith(("f", "bf", "tf"))


def bytes_of(array: Any) -> int:
    """Return the bytes of the array's elements."""
    itemsize = array.itemsize if isinstance(array, np.ndarray) else array.element_size()
    return int(itemsize) * int(np.prod(tuple(array.shape), dtype=np.int64))


def on_gpu(value: object) -> bool:
    """Whether the value is a tensor in a CUDA device's memory."""
    return is_tensor(value) and bool(value.is_cuda)  # type: ignore[attr-defined]


def clone(value: Any) -> Any:
    """Return a copy of an array with the same shape and strides; anything else as it is."""
    if is_tensor(value):
        copy = value.new_empty_strided(value.size(), value.stride())
        return copy.copy_(value)
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    return value


def to_numpy(array: Any) -> np.ndarray:
    """Return the values on the host: floats as f64, all else in its own type."""
    if is_tensor(array):
        array = array.detach()
        array = array.double() if array.is_floating_point() else array
        return array.cpu().numpy()
    array = np.asarray(array)
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape as plain integers."""
    return tuple(int(extent) for extent in array.shape)


def to_host(value: Any) -> Any:
    """Return an array in the host's memory with the same strides; anything else as it is."""
    if not on_gpu(value):
        return value
    copy = value.new_empty_strided(value.size(), value.stride(), device="cpu")
    return copy.copy_(value)


def offset_of(array: Any, index: tuple[int, ...]) -> int:
    """Return how many elements an index lies behind the array's first one, in memory."""
    if isinstance(array, np.ndarray):
        strides = tuple(stride // array.itemsize for stride in array.strides)
    else:
        strides = tuple(array.stride())
    return sum(i * stride for i, stride in zip(index, strides, strict=True))


def host_copies(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of arrays in the host's memory, with all of the storages they are views of.

    Shapes and strides stay, and what shares memory goes on sharing it; anything but an array is
    given as it is.
    """
    copies: dict[str, Any] = dict(values)
    for group in _groups(values):
        _copy_together(values, group, copies, host=True)
    return copies


def copies_of(values: Mapping[str, Any], written: Set[str]) -> dict[str, Any]:
    """Return arrays where they lie, copies of those that are written or share memory with one.

    Shapes and strides stay, and what shares memory goes on sharing it.
    """
    copies: dict[str, Any] = dict(values)
    for group in _groups(values):
        if written & {*group}:
            if len(group) > 1:
                _copy_together(values, group, copies, host=False)
            else:
                copies[group[0]] = clone(values[group[0]])
    return copies


def _groups(values: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the names of arrays, those together that share memory."""
    extents: list[tuple[int, int, str]] = []
    for name, value in values.items():
        held = storage_of(value) if is_array(value) else None
        if held is not None:
            extents.append((held.start, held.end, name))
    group: list[str] = []
    reach = 0
    for low, high, name in sorted(extents):
        if group and low >= reach:
            yield group
            group, reach = [], 0
        group.append(name)
        reach = max(reach, high)
    if group:
        yield group


def storage_bytes(values: Iterable[Any]) -> int:
    """Return the bytes of the storages of arrays, each counted once."""
    held = {storage_of(value) for value in values if is_array(value)}
    return sum(storage.end - storage.start for storage in held if storage is not None)


def _copy_together(
    values: Mapping[str, Any], names: list[str], copies: dict[str, Any], *, host: bool
) -> None:
    """Copy arrays that share memory, with all of it; to the `host`, or where they lie."""
    storages: dict[int, Any] = {}
    for name in names:
        value = values[name]
        if is_tensor(value):
            storage = value.untyped_storage()
            kept = storages.setdefault(storage.data_ptr(), None)
            if kept is None:
                kept = storages[storage.data_ptr()] = (
                    storage.clone().cpu() if host else storage.clone()
                )
            copies[name] = (
                value.detach()
                .new_empty(0, device="cpu" if host else value.device)
                .set_(kept, value.storage_offset(), value.size(), value.stride())
            )
    arrays = [name for name in names if not is_tensor(values[name])]
    if not arrays:
        return
    held_by = [storage_of(values[name]) for name in arrays]
    low = min(found.start for found in held_by if found is not None)
    high = max(found.end for found in held_by if found is not None)
    source: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
    held = np.frombuffer(source, np.uint8).copy()
    for name in arrays:
        array = values[name]
        offset = array.ctypes.data - low
        copies[name] = np.ndarray(array.shape, array.dtype, held.data, offset, array.strides)
