"""Holes: places of a layout beyond a tile's real extents, where these are no powers of two."""

from __future__ import annotations

from workbench.layouts import f2
from workbench.layouts.coordinates import Coordinates, axis_bits, unflatten


def live_registers(dims: tuple[tuple[int, ...], ...], shape: Coordinates) -> tuple[int, ...]:
    """Return the registers that hold an element of the tile in some thread, ascending.

    `dims`: flat bases (linear.py) by input dimension, registers' first; `shape`: real extents.
    """
    register, *rest = dims
    bits = axis_bits(shape)
    if all(extent == 1 << width for extent, width in zip(shape, bits, strict=True)):
        return tuple(range(1 << len(register)))
    others = f2.basis(flat for dim in rest for flat in dim)
    axes = [[unflatten(flat, bits)[axis] for flat in others] for axis in range(len(shape))]
    if sum(f2.rank(axis) for axis in axes) == len(others):
        # The threads reach every combination of what they reach per axis, so
        # each coordinate can take its own smallest value.
        reach = [f2.reduced_echelon(axis) for axis in axes]

        def is_live(flat: int) -> bool:
            return all(
                f2.reduce_modulo(pivots, coordinate) < extent
                for pivots, coordinate, extent in zip(
                    reach, unflatten(flat, bits), shape, strict=True
                )
            )
    else:
        threads = f2.table(others)

        def is_live(flat: int) -> bool:
            return any(
                all(
                    coordinate < extent
                    for coordinate, extent in zip(
                        unflatten(flat ^ thread, bits), shape, strict=True
                    )
                )
                for thread in threads
            )

    return tuple(index for index, flat in enumerate(f2.table(register)) if is_live(flat))
