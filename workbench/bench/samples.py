"""A launch as an export repeats it: its numbers, and what its arrays are without what they hold.

Of integers, which may be places in other arrays, the values stand in the export as far as they are
few; of more, and of floats, others are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from workbench.bench.arrays import dtype_of, is_array, is_float, shape_of, to_numpy
from workbench.bench.subject import Subject
from workbench.interpreter import storage_of
from workbench.runtime.c_launcher import MOST_WRITTEN, Sample, SampleArray


def sample_of(subject: Subject) -> Sample:
    """Return a launch for a launcher's `main`; what it cannot repeat is left out."""
    scalars: dict[str, int | float] = {}
    arrays: dict[str, SampleArray] = {}
    seen: dict[int, str] = {}
    for path, value in flat(subject.arguments):
        if not is_array(value):
            if isinstance(value, Integral):  # whatever class: NumPy's, an enumeration's
                scalars[path] = int(value)
            elif isinstance(value, Real):
                scalars[path] = float(value)
            continue
        known = dtype_of(value)
        address = address_of(value)
        like = seen.setdefault(address, path) if address is not None else path
        values, low, high = held_by(value)
        reach = sum(
            (n - 1) * step for n, step in zip(shape_of(value), steps_of(value), strict=True)
        )
        count = 0 if 0 in shape_of(value) else reach + 1
        dense = values if count == np.prod(shape_of(value), dtype=np.int64) else None
        arrays[path] = SampleArray(
            count, itemsize_of(value), tuple(dense) if dense and not is_float(known) else (),
            low, high, "" if like == path else like,
        )  # fmt: skip
    grid = (*subject.grid, 1, 1)[:3]
    return Sample(cast("tuple[int, int, int]", grid), scalars, arrays)


def flat(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield run-time arguments by path, members of tuples and descriptors one by one."""
    for name, value in arguments.items():
        if isinstance(value, tuple):
            items = enumerate(cast("tuple[Any, ...]", value))
            yield from flat({f"{name}.{n}": item for n, item in items})
        elif all(hasattr(value, word) for word in ("base", "shape", "strides", "block_shape")):
            parts = (value.base, tuple(value.shape), tuple(value.strides))
            yield from flat({f"{name}.{n}": part for n, part in enumerate(parts)})
        else:
            yield name, value


def held_by(array: Any) -> tuple[list[int] | None, int, int]:
    """Return what an array of integers holds in the order of memory, if it is little; its ends."""
    if is_float(dtype_of(array)) or 0 in shape_of(array):
        return None, 0, 0
    numbers = to_numpy(array)
    ends = int(numbers.min()), int(numbers.max())
    if numbers.size > MOST_WRITTEN:
        return None, *ends
    order = np.argsort([-step for step in steps_of(array)], kind="stable")
    return [int(n) for n in numbers.transpose(order).reshape(-1)], *ends


def steps_of(array: Any) -> tuple[int, ...]:
    """Return the strides in elements."""
    if isinstance(array, np.ndarray):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(int(step) for step in array.stride())


def itemsize_of(array: Any) -> int:
    """Return the bytes of an element."""
    return int(array.itemsize if isinstance(array, np.ndarray) else array.element_size())


def address_of(array: Any) -> int | None:
    """Return where an array's first element lies; None for one of nothing."""
    if storage_of(array) is None:
        return None
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr())
