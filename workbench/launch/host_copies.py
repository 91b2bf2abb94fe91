"""Arrays of a device as arrays of the host, for a launch that runs there, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from workbench.devices import arrays
from workbench.launch.descriptors import TensorDescriptor
from workbench.launch.stand_ins import TensorWrapper
from workbench.source import LaunchError


@contextmanager
def on_host(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give the values of a launch with host arrays in place of CUDA tensors; copy back at the end.

    Whole storages are copied, once each, so strides, gaps and overlaps stay what they are.
    """
    storages: dict[int, tuple[Any, Any]] = {}
    yield {name: _copied(name, value, storages) for name, value in values.items()}
    for device, host in storages.values():
        device.copy_(host)


def _copied(name: str, value: Any, storages: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(value, tuple):
        items = [_copied(name, item, storages) for item in value]
        return getattr(type(value), "_make", tuple)(items)
    if isinstance(value, TensorWrapper):
        return TensorWrapper(_copied(name, value.base, storages), value.dtype)
    if isinstance(value, TensorDescriptor):
        return replace(value, base=_copied(name, value.base, storages))
    if not arrays.is_array(value) or arrays.describe(value).device == arrays.HOST:
        return value
    if not hasattr(value, "untyped_storage"):
        place = arrays.describe(value).device
        raise LaunchError(
            f"{name} lies on cuda:{place}, target interpreter reads host memory",
            hint=f"pass a copy of {name} on the host",
            code="K504",
        )
    import torch

    storage = value.untyped_storage()
    key = storage.data_ptr()
    if key not in storages:
        storages[key] = storage, storage.cpu()
    view = torch.empty(0, dtype=value.dtype)
    return view.set_(storages[key][1], value.storage_offset(), value.size(), value.stride())
