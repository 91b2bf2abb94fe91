"""What is often behind a check that fails, where the arguments alone show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from workbench.bench.arrays import is_array, offset_of, shape_of, to_numpy
from workbench.bench.compare import Comparison
from workbench.bench.subject import Subject


def likely_causes(
    subject: Subject, failed: Comparison, before: Mapping[str, Any], *, is_stored: bool
) -> Iterator[str]:
    """Yield what to look at.

    `before` are the arguments as they were before the launch; `is_stored`: a program is known to
    have stored the first wrong element.
    """
    held = to_numpy(before[failed.name])
    if is_stored and all(_is_added(first, float(held[first.index])) for first in failed.first):
        first, shown = failed.first[0], subject.spelled(failed.name)
        index = f"[{', '.join(map(str, first.index))}]" if first.index else ""
        yield (
            f"{shown}{index} held {float(held[first.index]):.6g} before the launch, which adds to "
            "it: begin with zeros, or let the reference add, too"
        )
    given = {value for value in (*subject.scalars.values(), *subject.constants.values())
             if isinstance(value, int)}  # fmt: skip
    for name, array in before.items():
        strides = _odd_strides(array) if is_array(array) else ()
        if strides and given.isdisjoint(strides):
            shown = subject.spelled(name)
            yield (
                f"{shown} is not contiguous, {tuple(_strides(array))} elements apart along its "
                f"axes, and the kernel is given none of it: pass {shown}.contiguous(), or strides"
            )


def _is_added(first: Any, held: float) -> bool:
    """Say whether an element is off by what was there before."""
    off = abs(first.got - first.want - held)
    return isfinite(held) and abs(held) > 2 * first.allowed and off <= 2 * first.allowed


def _strides(array: Any) -> Iterator[int]:
    """Yield the elements between neighbours along each axis."""
    for axis in range(len(shape_of(array))):
        index = [0] * len(shape_of(array))
        index[axis] = 1
        yield offset_of(array, tuple(index))


def _odd_strides(array: Any) -> frozenset[int]:
    """Return the strides of an array but 1, if it does not lie as its shape says; else none."""
    expected, lies = 1, True
    for extent, stride in zip(reversed(shape_of(array)), reversed([*_strides(array)]), strict=True):
        lies &= extent <= 1 or stride == expected
        expected *= extent
    found = frozenset(
        stride
        for extent, stride in zip(shape_of(array), _strides(array), strict=True)
        if extent > 1 and stride != 1
    )
    return frozenset() if lies else found


__all__ = ["likely_causes"]
