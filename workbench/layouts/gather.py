"""From where each place of a destination layout can take its element, as near as possible.

The gather map Q sends a destination place to a source place that holds the same
element: src(Q(d)) = dst(d). The source may hold copies, so Q is a choice, and
the nearest copy is the cheap one. Q is linear, so it is chosen for one
destination bit at a time: first among the places of the same thread, then of
the same warp, of the same block, of the cluster. The worst of the bits is the
*level* of the conversion; no other choice has a lower one.

    level 0   other registers of the same thread
    level 1   other lanes of the same warp
    level 2   other warps of the same block
    level 3   other blocks of the cluster

(A generic solver that sets "all free bits to zero" would make every warp read
warp 0, and turn level 1 into level 2.)
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from workbench.layouts import f2
from workbench.layouts.linear import LinearLayout


@dataclass(frozen=True, slots=True)
class Gather:
    """The level of a conversion, and per destination dimension the flat source place of each bit.

    A flat place has the register bits of the source lowest, then its lane,
    warp and cta bits.
    """

    level: int
    places: tuple[tuple[int, ...], ...]

    def source(self, *place: int) -> int:
        """Return the flat source place for a destination (register, lane, warp, cta)."""
        found = 0
        for columns, index in zip(self.places, place, strict=False):
            found ^= f2.apply(columns, index)
        return found


@lru_cache(2048)
def classify(source: LinearLayout, target: LinearLayout) -> Gather:
    """Return the nearest gather map from `source` to `target`.

    Raises ValueError if the shapes differ or `source` does not hold some element.

    >>> row = LinearLayout({"register": [(1,)], "lane": [(2,), (4,)]}, (8,))
    >>> column = LinearLayout({"register": [(2,)], "lane": [(1,), (4,)]}, (8,))
    >>> classify(row, row).level, classify(row, column).level
    (0, 1)
    """
    if source.shape != target.shape:
        raise ValueError(
            f"cannot convert a layout of {source.shape} to one of {target.shape}; "
            "expected the same shape"
        )
    columns = source.columns
    firsts = list(accumulate(map(len, source.dims), initial=0))
    solvers = [f2.echelon(columns[: firsts[level + 1]])[0] for level in range(4)]
    level, places = 0, list[tuple[int, ...]]()
    for number, bases in enumerate(target.dims):
        found: list[int] = []
        for bit, wanted in enumerate(bases):
            nearest = _nearest(columns, firsts, solvers, (number, bit), wanted)
            if nearest is None:
                raise ValueError(f"{source} does not hold every element of {target}")
            level = max(level, nearest[0])
            found.append(nearest[1])
        places.append(tuple(found))
    return Gather(level, tuple(places))


def _nearest(
    columns: tuple[int, ...],
    firsts: list[int],
    solvers: list[f2.Pivots],
    bit: tuple[int, int],
    wanted: int,
) -> tuple[int, int] | None:
    # Level and source place of one destination bit (dimension, bit of it).
    number, position = bit
    for level, solver in enumerate(solvers):
        own, rest = 0, wanted
        if number > level:  # this coordinate of the place must stay what it is
            if firsts[number] + position >= firsts[number + 1]:
                continue  # the source has fewer warps or blocks
            own = 1 << firsts[number] + position
            rest ^= columns[firsts[number] + position]
        if (place := f2.solve(solver, rest)) is not None:
            return level, place ^ own
    return None
