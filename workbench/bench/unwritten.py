"""Find the elements of outputs that a kernel leaves as they were.

A check that compares values cannot see them where they were right before the launch, as they are
when a cell runs again. So the kernel is launched a second time, on copies: what it only writes
holds the complement of the first result, bit by bit, and what still does so afterwards was not
written. The arrays of the user are not touched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workbench.bench.arrays import bytes_of, clone, is_array, is_tensor
from workbench.bench.subject import Subject
from workbench.devices.printed import has_prints
from workbench.interpreter import describe_argument
from workbench.ir import Pointer, element_of
from workbench.ops import Load

#: Outputs larger than this together are not copied for the second launch.
MOST_BYTES = 1 << 30


def unwritten(
    subject: Subject, before: Mapping[str, Any], synchronize: Callable[[], object]
) -> dict[str, np.ndarray]:
    """Return for outputs that a kernel only writes where it did not: true means left as it was.

    `before` holds copies of what the kernel writes from before the first launch. Outputs that are
    also read or updated are not looked at; the result is empty where a second launch would show,
    or could not be trusted.
    """
    names = [name for name in subject.outputs if subject.roles.get(name) == "out"]
    names = [name for name in names if bytes_of(subject.arguments[name])]
    if subject.relaunch is None or not names or not _repeatable(subject):
        return {}
    values = {
        name: clone(before[name]) if name in subject.outputs else value
        for name, value in subject.arguments.items()
    }
    for name in names:
        values[name] = clone(subject.arguments[name])
        _flip(values[name])
    subject.relaunch(values)
    synchronize()
    return {name: _still_flipped(values[name], subject.arguments[name]) for name in names}


def _repeatable(subject: Subject) -> bool:
    """Whether the kernel can run again, on copies of what it writes, and nobody notices."""
    arguments = subject.arguments.values()
    return (
        subject.target != "interpreter"
        and not has_prints(subject.module)
        and all(is_array(v) or v is None or isinstance(v, int | float | str) for v in arguments)
        and sum(bytes_of(subject.arguments[name]) for name in subject.outputs) <= MOST_BYTES
        and not any(
            isinstance(op, Load) and isinstance(element_of(op.result.type), Pointer)
            for op in subject.module.walk()
        )
        and not _overlap(subject)
    )


def _overlap(subject: Subject) -> bool:
    """Whether an output shares memory with another argument, or with itself."""
    extents: list[tuple[int, int]] = []
    for name, value in subject.arguments.items():
        if not is_array(value):
            continue
        described = describe_argument(value)
        assert described is not None
        _, low, high, itemsize, _ = described
        extents.append((low, high))
        count = bytes_of(value) // max(1, itemsize)
        if name in subject.outputs and high - low < count * itemsize:
            return True
    extents.sort()
    return any(a[1] > b[0] for a, b in itertools.pairwise(extents))


def _bits(array: Any) -> Any:
    """Return an array's elements as integers of their width, in the same memory."""
    if is_tensor(array):
        import torch

        widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return array.detach().view(widths[array.element_size()])
    return array.view(f"u{array.itemsize}")


def _flip(array: Any) -> None:
    """Put the complement into every element; of truth values into the bit that counts."""
    bits = _bits(array)
    if str(array.dtype).endswith("bool"):
        bits ^= 1
    else:
        bits[...] = ~bits


def _still_flipped(after: Any, result: Any) -> np.ndarray:
    flipped = clone(result)
    _flip(flipped)
    same = _bits(after) == _bits(flipped)
    return same.cpu().numpy() if is_tensor(same) else np.asarray(same)


def described(name: str, left: np.ndarray) -> str:
    """Say which elements of an output were left as they were."""
    first = tuple(int(i) for i in np.argwhere(left)[0])
    where = f"[{', '.join(map(str, first))}]" if first else ""
    return (
        f"{int(left.sum()):,} of {left.size:,} elements of {name} were not written, the first is "
        f"{name}{where}: what they hold was right before the launch"
    )


__all__ = ["described", "unwritten"]
