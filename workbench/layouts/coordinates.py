"""Coordinates of padded tiles as one integer, and when a reshape keeps that integer.

The *flat* form of a coordinate tuple is the concatenation of its padded
coordinates, row-major: the last coordinate has the lowest bits.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from workbench.layouts import f2

Coordinates = tuple[int, ...]


@lru_cache(4096)
def axis_bits(shape: Coordinates) -> Coordinates:
    """Return log2 of the padded extent of each axis."""
    return tuple(f2.extent_bits(extent) for extent in shape)


def flatten(coordinates: Sequence[int], bits: Coordinates) -> int:
    """Return the flat form of coordinates of so many bits each."""
    flat = 0
    for coordinate, width in zip(coordinates, bits, strict=True):
        flat = flat << width | coordinate
    return flat


def unflatten(flat: int, bits: Coordinates) -> Coordinates:
    """Return the coordinates that `flatten` put together."""
    coordinates: list[int] = []
    for width in reversed(bits):
        coordinates.append(flat & (1 << width) - 1)
        flat >>= width
    return tuple(reversed(coordinates))


def fits(coordinates: Sequence[int], bits: Coordinates) -> bool:
    """Return whether there is one coordinate per axis, each within its bits."""
    return len(coordinates) == len(bits) and all(
        0 <= c < 1 << width for c, width in zip(coordinates, bits, strict=True)
    )


def reshape_is_linear(old: Coordinates, new: Coordinates) -> bool:
    """Return whether reshaping keeps every flat coordinate, padding included.

    It does if, in every smallest group of axes that map onto each other, all
    but the leading axis of either shape are powers of two: (96)->(3,32) and
    (12,4)->(48) do, (6)->(2,3) and (8,3)->(4,6) do not.
    """
    if math.prod(old) != math.prod(new):
        return False
    before = [extent for extent in old if extent > 1]
    after = [extent for extent in new if extent > 1]
    while before:
        left, right = [before.pop(0)], [after.pop(0)]
        while (p := math.prod(left)) != (q := math.prod(right)):
            if p < q:
                left.append(before.pop(0))
            else:
                right.append(after.pop(0))
        if any(extent & extent - 1 for extent in left[1:] + right[1:]):
            return False
    return True
