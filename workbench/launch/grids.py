"""The grid of a launch: how many program instances run along each axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from workbench.source import LaunchError, OptionError

Grid = tuple[int, int, int]

#: What CUDA allows along each axis.
GPU_LIMITS = (2**31 - 1, 65535, 65535)
MOST = 2**31 - 1


def resolve_grid(grid: Any, meta: Callable[[], Mapping[str, Any]]) -> Grid:
    """Return a grid as three integers; `meta` gives the bound arguments for a callable grid.

    Raises:
        OptionError: anything but 1 to 3 integers >= 0 (K111).
    """
    if callable(grid):
        grid = grid(dict(meta()))
    try:
        sizes = (
            tuple(operator.index(size) for size in grid)
            if hasattr(grid, "__iter__")
            else (operator.index(grid),)
        )
    except TypeError:
        raise _wrong(grid) from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise _wrong(grid)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def check_limits(grid: Grid, name: str, *, gpu: bool) -> None:
    """Raise LaunchError K506 for a grid that is larger than the device can run."""
    for axis, (size, limit) in enumerate(
        zip(grid, GPU_LIMITS if gpu else (MOST,) * 3, strict=True)
    ):
        if size > limit:
            raise LaunchError(
                f"{name}: the grid {grid} has {size:,} programs along axis {axis}, "
                f"at most {limit:,} can run there",
                hint="put the largest count on axis 0, or let a program do more work",
                code="K506",
            )


def _wrong(grid: Any) -> OptionError:
    shown = repr(grid)
    return OptionError(
        f"a grid is 1 to 3 integers ≥ 0 (0: nothing runs), got {shown[:60]}",
        hint="e.g. kernel[(cdiv(n, BLOCK),)](...) or kernel[lambda meta: (...,)](...)",
        code="K111",
    )
