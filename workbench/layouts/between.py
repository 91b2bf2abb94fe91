"""The layout in which a tile passes from one place in shared memory to another.

A thread reads vectors along the one order of elements and writes vectors along the other, so its
registers hold a block: what lies side by side in either. Its lanes are chosen so that the phases
of both requests find all banks: a lane is a direction of the tile that moves the bank on both
sides, where no direction of memory alone does so, the sum of two.

    from  k rows of n          registers  n0 n1 k0 k1        four vectors of four each way
    to    n rows of k          lanes      n2, k2, n3 ^ k3, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from workbench.layouts import f2
from workbench.layouts.linear import Flat, LinearLayout
from workbench.layouts.predict import BANKS, SECTOR_BYTES, Banks, linear_wavefronts

#: Bytes of the widest access of a thread.
WIDEST_BYTES = 16
#: Rows of one instruction of wgmma, which bits of a lane, a register and a warp count.
_ROWS = 64
#: How many pairs of vectors are compared, the widest first.
_TRIED = 6


def between_buffers(
    source: LinearLayout,
    target: LinearLayout,
    itemsize: int,
    lanes: int,
    warps: int,
    banks: Banks = BANKS,
) -> LinearLayout | None:
    """Return a layout that reads `source` and writes `target` in wide vectors, by all banks.

    Both are offset layouts of one tile; the numbers are powers of two, `itemsize` in bytes. None
    where there are fewer than two elements for each thread.
    """
    return _between(source, target, itemsize, (f2.log2(lanes), f2.log2(warps)), banks)


@lru_cache(maxsize=256)
def _between(
    source: LinearLayout,
    target: LinearLayout,
    itemsize: int,
    threads: tuple[int, int],
    banks: Banks,
) -> LinearLayout | None:
    count = source.tile_bits - sum(threads)
    if count < 1:
        return None
    sides = tuple(_Side(one.flat("offset"), itemsize, banks) for one in (source, target))
    widest = range(f2.log2(max(1, WIDEST_BYTES // itemsize)) + 1)
    pairs = [
        (a, b) for a in widest for b in widest
        if f2.rank([*sides[0].along[:a], *sides[1].along[:b]]) <= count
    ]  # fmt: skip
    pairs.sort(key=lambda p: 2.0 ** -p[0] + 2.0 ** -p[1])
    found: list[tuple[float, LinearLayout]] = []
    for pair in pairs[:_TRIED]:
        for side, vector in zip(sides, pair, strict=True):
            side.vector = vector
        dims = _dims(sides, source.tile_bits, threads)
        if dims is not None:
            cost = sum(side.cost(dims) for side in sides)
            found.append((cost, LinearLayout.from_flat(dims, source.shape, "turning")))
    return min(found, key=lambda one: one[0])[1] if found else None


def from_memory(
    target: LinearLayout,
    inner: int,
    width: int,
    itemsize: int,
    lanes: int,
    warps: int,
    banks: Banks = BANKS,
) -> LinearLayout | None:
    """Return a layout in which memory is read along one axis, and `target` written along another.

    target: the offset layout of a buffer; `inner`: the axis along which neighbours lie side by side
    in memory, `width` of them (a power of two) in one access. Lanes go along that axis as far as
    the phases of a store still reach all banks, so that requests to memory are of whole lines. None
    where there are fewer than two elements for each thread.
    """
    return _from_memory(target, inner, width, itemsize, (f2.log2(lanes), f2.log2(warps)), banks)


@lru_cache(maxsize=256)
def _from_memory(
    target: LinearLayout,
    inner: int,
    width: int,
    itemsize: int,
    threads: tuple[int, int],
    banks: Banks,
) -> LinearLayout | None:
    count = target.tile_bits - sum(threads)
    if count < 1:
        return None
    axes = [inner, *(axis for axis in range(target.rank) if axis != inner)]
    below = [sum(target.bits[axis + 1 :]) for axis in range(target.rank)]
    along = [1 << below[axis] + bit for axis in axes for bit in range(target.bits[axis])]
    side = _Side(target.flat("offset"), itemsize, banks)
    found: list[tuple[float, LinearLayout]] = []
    for vector in range(min(f2.log2(width), target.bits[inner]) + 1):
        for side.vector in range(f2.log2(max(1, WIDEST_BYTES // itemsize)) + 1):
            registers = f2.extend((), [*along[:vector], *side.along[: side.vector]])
            dims = (
                _turned_dims(side, along, registers, threads) if len(registers) <= count else None
            )
            if dims is not None:
                run = _run(along[vector : target.bits[inner]], dims[1])
                bytes_ = itemsize << vector + run
                sectors = (1 << threads[0] - run) * -(-bytes_ // SECTOR_BYTES)
                loads = 1 << len(dims[0]) - vector
                lines = max(1.0, sectors * SECTOR_BYTES / banks.row_bytes)
                cost = side.cost(dims) + loads * (lines + 0.25)
                found.append((cost, LinearLayout.from_flat(dims, target.shape, "turning")))
    return min(found, key=lambda one: one[0])[1] if found else None


@lru_cache(maxsize=256)
def row_order(
    shared: LinearLayout, itemsize: int, kw: int, k_axis: int, groups: int, banks: Banks = BANKS
) -> tuple[int, ...]:
    """Return in which order wgmma is to multiply rows that it takes from registers (`wgmma_a`).

    shared: the offset layout of a buffer, `kw` elements of which fill a register, from which
    `groups` (a power of two) of four warps read fragments; rows lie along the other axis than k.
    An instruction multiplies its 64 rows in any order. So the two that a thread has for one k are
    neighbours where these lie side by side, and are read at once (more would be those of other
    instructions, whose registers lie apart), and lanes have such as reach all banks beside those of
    k. Empty where there is no choice: an instruction has rows beyond the tile.
    """
    m_axis = 1 - k_axis
    if shared.shape[m_axis] % (_ROWS * groups):
        return ()
    below = [sum(shared.bits[axis + 1 :]) for axis in range(2)]
    rows = [1 << below[m_axis] + bit for bit in range(shared.bits[m_axis])]
    side = _Side(shared.flat("offset"), itemsize, banks)
    side.vector = int(side.offset(rows[0]) == 1)
    inside = f2.log2(_ROWS)
    free = list(range(side.vector, inside))
    first = f2.log2(kw)
    reached = [side.bank(1 << below[k_axis] + bit) for bit in (first, first + 1)]
    lanes: list[int] = []
    for place in range(3):  # lanes behind the two bits of k
        new = [bit for bit in free if f2.extend(reached, [side.bank(rows[bit])])]
        lanes.append((new or free)[0] if 2 + place < side.phase_bits else free[0])
        reached.append(side.bank(rows[lanes[-1]]))
        free.remove(lanes[-1])
    return (*lanes, *range(side.vector), *free, *range(inside, len(rows)))


def _turned_dims(
    side: _Side, along: Sequence[int], registers: list[int], threads: tuple[int, int]
) -> Flat | None:
    """Return directions of registers, lanes and warps; `along`: those of memory from 1 on."""
    free = [u for u in along if not side.offset(u) & (1 << side.vector) - 1]
    lanes: list[int] = []
    for bit in range(threads[0]):
        open_ = [u for u in free if f2.extend([*registers, *lanes], [u])]
        if not open_:
            return None
        reached = [side.bank(lane) for lane in lanes]
        new = [u for u in open_ if bit >= side.phase_bits or f2.extend(reached, [side.bank(u)])]
        lanes.append((new or open_)[0])
    # A thread's further vectors lie in few rows: each row has an address of its own.
    room = len(along) - sum(threads) - len(registers)
    more = f2.extend([*registers, *lanes], along)[:room]
    warps = f2.extend([*registers, *more, *lanes], free)
    if len(warps) < threads[1]:
        return None
    return (*registers, *more), tuple(lanes), tuple(warps), ()


def _run(along: Sequence[int], lanes: Sequence[int]) -> int:
    """Return along how many of the first directions of memory lanes go one after the other."""
    return next((n for n, direction in enumerate(along) if direction not in lanes), len(along))


class _Side:
    """One buffer: its directions from the smallest offset on, and where a direction leads."""

    def __init__(self, along: Sequence[int], itemsize: int, banks: Banks) -> None:
        self.along = along
        self.offsets = f2.inverse(along)
        self.itemsize, self.banks = itemsize, banks
        self.vector = 0

    def offset(self, direction: int) -> int:
        return f2.apply(self.offsets, direction)

    def bank(self, direction: int) -> int:
        """Return the vector of a row of banks that a direction moves to."""
        row = f2.log2(self.banks.row_bytes // self.itemsize)
        return (self.offset(direction) & (1 << row) - 1) >> self.vector

    @property
    def phase_bits(self) -> int:
        return self.banks.phase_bits(self.itemsize << self.vector)

    def cost(self, dims: Flat) -> float:
        """Return what the requests of a warp take: phases of all banks, some for each request."""
        registers, lanes, *_ = dims
        offsets = [self.offset(lane) * self.itemsize for lane in lanes]
        each = linear_wavefronts(offsets, self.itemsize << self.vector, self.banks)
        return (each + 0.25) * (1 << len(registers) - self.vector)


def _dims(sides: Sequence[_Side], n: int, threads: tuple[int, int]) -> Flat | None:
    """Return directions of registers, lanes and warps for the vectors that both sides have."""
    vectors = [direction for side in sides for direction in side.along[: side.vector]]
    registers = f2.extend((), vectors)
    aligned = _aligned(sides, n)
    lanes = _lanes(sides, registers, aligned, threads[0])
    if lanes is None:
        return None
    rest = f2.extend([*registers, *lanes], aligned)
    if len(rest) < threads[1]:
        return None
    warps = rest[: threads[1]]
    more = f2.extend([*registers, *lanes, *warps], f2.units(n))
    return (*registers, *more), tuple(lanes), tuple(warps), ()


def _aligned(sides: Sequence[_Side], n: int) -> list[int]:
    """Return a basis of the directions that stay at the beginning of vectors on both sides."""
    columns: list[int] = []
    for unit in f2.units(n):
        first, second = (side.offset(unit) & (1 << side.vector) - 1 for side in sides)
        columns.append(first | second << sides[0].vector)
    return f2.kernel(columns)


def _lanes(
    sides: Sequence[_Side], registers: list[int], aligned: list[int], count: int
) -> list[int] | None:
    """Return the directions of lanes, those of one phase first; None if there are too few."""
    pool = [*aligned, *(a ^ b for a, b in combinations(aligned, 2))]
    chosen: list[int] = []
    for bit in range(count):
        phased = [side for side in sides if bit < side.phase_bits]
        reached = [(side, [side.bank(v) for v in chosen]) for side in phased]

        def conflicts(vector: int, reached: list[tuple[_Side, list[int]]] = reached) -> int:
            return sum(not f2.extend(before, [side.bank(vector)]) for side, before in reached)

        open_ = [vector for vector in pool if f2.extend([*registers, *chosen], [vector])]
        if not open_:
            return None
        chosen.append(min(open_, key=conflicts))
    return chosen
