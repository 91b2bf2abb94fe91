"""The grid of a launch: how many program instances run along each axis."""

from __future__ import annotations

import difflib
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

from workbench.source import LaunchError, OptionError, shown
from workbench.source.budgets import shown_count

Grid = tuple[int, int, int]

#: What CUDA allows along each axis.
GPU_LIMITS = (2**31 - 1, 65535, 65535)
MOST = 2**31 - 1
#: Blocks that take several programs number them in 32 bits.
MOST_NUMBERED = 2**31 - 1


def blocks_for(programs: int, most: int, rounds: int, cluster: int = 1) -> int:
    """Return how many blocks to start for a launch of a kernel whose blocks may stay.

    At most `most`, or one a program where each block would take more than `rounds`; as many as
    whole clusters have.

    >>> blocks_for(561, 132, 32), blocks_for(561, 132, 2), blocks_for(561, 132, 2, cluster=2)
    (132, 561, 562)
    """
    found = programs if programs > rounds * most else min(programs, most)
    return -(-found // cluster) * cluster


#: Programs of a launch are numbered in 64 bits.
MOST_IN_ALL = 2**62


def resolve_grid(grid: Any, meta: Callable[[], Mapping[str, Any]]) -> Grid:
    """Return a grid as three integers; `meta` gives the bound arguments for a callable grid.

    Raises:
        OptionError: anything but 1 to 3 integers >= 0, or a name that `meta` lacks (K111).
    """
    if callable(grid):
        grid = _called(grid, Asked(meta()))
    try:
        sizes = (
            tuple(operator.index(size) for size in itertools.islice(grid, 4))
            if isinstance(grid, Iterable)
            else (operator.index(grid),)
        )
    except TypeError:
        raise _wrong(grid) from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise _wrong(grid)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _called(grid: Callable[..., Any], arguments: Asked) -> Any:
    """Call a grid with the arguments; raises OptionError K111 for one that takes none."""
    try:
        return grid(arguments)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # its own code does that
        raise OptionError(
            f"a grid that is a function takes the dict of the launch's arguments: {error}",
            hint="e.g. kernel[lambda meta: (cdiv(n, meta['BLOCK']),)](...)",
            code="K111",
        ) from None


class _NoArgumentError(OptionError, KeyError):
    """A name is asked for that the launch does not have (a KeyError as in Triton)."""

    code = "K111"


#: What heuristics are given besides a launch's arguments.
_OF_RUN = ("grid", "warmup")


class Asked(dict[str, Any]):
    """What a callable grid gets, or a heuristic (`by`): the launch's arguments by name."""

    def __init__(self, arguments: Mapping[str, Any], by: str = "the grid") -> None:
        super().__init__(arguments)
        self._by = by

    def __missing__(self, name: Any) -> Any:
        close = difflib.get_close_matches(str(name), self, n=1, cutoff=0.5)
        better = f"; did you mean {close[0]}?" if close else ""
        raise _NoArgumentError(
            f"{self._by} asks for {shown(name)}, which is no argument of this launch{better}",
            hint=f"its arguments are {', '.join(n for n in self if n not in _OF_RUN)}",
        )


def check_limits(grid: Grid, name: str, *, gpu: bool) -> None:
    """Raise LaunchError K506 for a grid that is larger than the device can run."""
    for axis, (size, limit) in enumerate(
        zip(grid, GPU_LIMITS if gpu else (MOST,) * 3, strict=True)
    ):
        if size > limit:
            raise LaunchError(
                f"{name}: the grid {shown(grid)} has {shown_count(size)} programs along axis "
                f"{axis}, "
                f"at most {limit:,} can run there",
                hint="put the largest count on axis 0, or let a program do more work",
                code="K506",
            )

    if prod(grid) > MOST_IN_ALL:
        raise LaunchError(
            f"{name}: the grid {grid} has {shown_count(prod(grid))} programs, "
            f"at most {MOST_IN_ALL:,} can run",
            hint="let a program do more work",
            code="K506",
        )


def _wrong(grid: Any) -> OptionError:
    return OptionError(
        f"a grid is 1 to 3 integers ≥ 0 (0: nothing runs), got {shown(grid, 60)}",
        hint="e.g. kernel[(cdiv(n, BLOCK),)](...) or kernel[lambda meta: (...,)](...)",
        code="K111",
    )
