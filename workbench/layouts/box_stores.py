"""How the fragments that a warp has of a tile become boxes which are copied to global memory.

A copy from shared memory writes a box of rows of 128 bytes (64 or 32 where a warp has no more), as
tensor_access.py has it for those the other way: the last of a tile's rows may be narrower, and
lies as the others do. A warp makes its own boxes, from bytes that are its own, so that no warp
waits for another. Where rows of those would have 32 bytes some warps make boxes together, and wait
for each other: the hardware takes as long for such a row as for one of 128. That is possible
exactly if, of the bits of the coordinates, some are those of a box, and

- lanes differ in these alone, registers in these or in the others, never in both, warps in others,
  but for those of so many that follow each other, which make boxes together;
- lanes, those registers and those warps together have all of a box;
- the elements of a box in a warp are a fragment that stmatrix stores (matrix_access.py), or have
  four bytes each: those go in vectors of what a thread has side by side;
- a box is of the tile as a whole or not at all, but for the narrower one, whichever warp has it,
  and no two warps have it.

The rows of a box are as many as there can be: each copy is a thread's instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from workbench.layouts import f2
from workbench.layouts.families import swizzled
from workbench.layouts.linear import LinearLayout
from workbench.layouts.matrix_access import MatrixInstruction, MatrixPlan, stmatrix_fits
from workbench.layouts.tensor_access import MOST_BOX

#: The rows of a box of which the XOR of chunks is a pattern.
_PATTERN = 8
#: The bytes of the widest vector.
_WIDEST = 16
#: Each group of warps meets at a barrier of its own, of which multiprocessors have 16: roles have
#: those below the other eight.
MOST_MEETINGS = 8
#: The warps that make boxes together, as a power of 2 and the bytes of their rows: a warp by itself
#: if its rows are not the shortest, else two or four.
_WAYS = ((0, 128), (0, 64), (2, 128), (1, 128), (1, 64), (0, 32))


@dataclass(frozen=True, slots=True)
class BoxPiece:
    """One box of a warp: where it begins in the tile in warp 0, and its registers.

    registers[i] is the tile's register for register i of the box's fragment; None: it is beside the
    tile. narrow: whether it is the narrower box at the end of the tile's rows.
    """

    start: tuple[int, ...]
    registers: tuple[int | None, ...]
    narrow: bool = False

    def steps(self, how: MatrixPlan | VectorPlan) -> list[MatrixInstruction]:
        """Return the instructions that store something of the tile."""
        return [
            step
            for step in how.instructions
            if any(self.registers[first] is not None for first in step.registers)
        ]


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """How a warp stores a fragment in vectors: byte address = base ^ lane ^ offset.

    Of each instruction the registers are those of one vector. No warps make a box together.
    """

    lane: tuple[int, ...]
    instructions: tuple[MatrixInstruction, ...]
    warp: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BoxStores:
    """The boxes of each warp: the one at `start` begins at start + warps[i] of the set bits there.

    swizzle: bytes from row to row. box: extents, in the order of the tile's axes; narrower: those
    of the last along the rows, if it has others. how: the way of a box to shared memory. bytes: of
    a box there. together: of how many warps, side by side, each box is.
    """

    swizzle: int
    box: tuple[int, ...]
    how: MatrixPlan | VectorPlan
    pieces: tuple[BoxPiece, ...]
    warps: tuple[tuple[int, ...], ...]
    bytes: int
    together: int = 1
    narrower: tuple[int, ...] | None = None


@lru_cache(1024)
def box_stores_fit(layout: LinearLayout, itemsize: int, inner: int) -> BoxStores | None:
    """Return the boxes that the warps of a layout of two axes have; None if they have none.

    `inner` is the axis whose elements lie side by side in global memory.
    """
    if layout.rank != 2 or itemsize not in (2, 4) or layout.dims[3]:
        return None
    extent, rows = layout.shape[inner], layout.shape[1 - inner]
    for joined, width in _WAYS:
        if joined and (itemsize != 2 or layout.size("warp") >> joined > MOST_MEETINGS):
            continue
        across = width // itemsize
        if extent < across or (extent % across and (joined or extent * itemsize % _WIDEST)):
            continue
        tall = MOST_BOX
        while tall >= _PATTERN:
            if rows % tall == 0:
                box = (tall, across) if inner else (across, tall)
                found = _boxes(layout, box, inner, width, itemsize, joined)
                if found is not None:
                    return found
            tall //= 2
    return None


def _boxes(
    layout: LinearLayout, box: tuple[int, ...], inner: int, width: int, itemsize: int, joined: int
) -> BoxStores | None:
    """Return the boxes of some extents, both powers of two, if 2^joined warps have such."""
    inside = sum(n - 1 << sum(layout.bits[axis + 1 :]) for axis, n in enumerate(box))
    register, lane, warp = layout.dims[:3]
    if not _are_apart(layout, inside, joined):
        return None
    own = [bit for bit, column in enumerate(register) if column & inside]
    others = [bit for bit, column in enumerate(register) if not column & inside]
    places = [*(register[bit] for bit in own), *lane, *warp[:joined]]
    apart = [*(register[bit] for bit in others), *warp[joined:]]
    if f2.rank(places) != len(places) or 1 << len(places) != prod(box):
        return None
    if f2.rank(apart) != len(apart):
        return None

    def within(column: int) -> tuple[int, ...]:
        return tuple(c & n - 1 for c, n in zip(layout.unflatten(column), box, strict=True))

    fragment = LinearLayout(
        {
            "register": [within(register[bit]) for bit in own],
            "lane": [within(c) for c in lane],
            "warp": [within(c) for c in warp[:joined]],
        },
        box,
    )
    shared = swizzled(box, itemsize, (inner, 1 - inner), exchange=False, width=width)
    plans = (stmatrix_fits(shared, fragment, itemsize, turned) for turned in (False, True))
    if itemsize > 2:
        plans = (_in_vectors(shared, fragment, itemsize),)
    how = next((plan for plan in plans if plan is not None), None)
    if how is None:
        return None
    moved = (*((0, 0),) * joined, *(layout.unflatten(column) for column in warp[joined:]))
    left = layout.shape[inner] % box[inner]
    if left and any(by[inner] for by in moved):
        return None  # the narrower box is not of all warps
    pieces = _pieces(layout, own, others, box, inner)
    if pieces is None:
        return None
    narrower = tuple(left if axis == inner else n for axis, n in enumerate(box)) if left else None
    return BoxStores(width, box, how, pieces, moved, prod(box) * itemsize, 1 << joined, narrower)


def _pieces(
    layout: LinearLayout, own: list[int], others: list[int], box: tuple[int, ...], inner: int
) -> tuple[BoxPiece, ...] | None:
    """Return the boxes of the tile that a warp has; None where not all warps have as many.

    `own` are the bits of registers in a box, `others` those that tell boxes apart.
    """
    register, _, warp = layout.dims[:3]
    end = layout.shape[inner]

    def along(place: int) -> int:
        return layout.unflatten(f2.apply(register, place))[inner]

    names = f2.table(1 << bit for bit in own)
    found: list[BoxPiece] = []
    for first in f2.table(1 << bit for bit in others):
        start = layout.unflatten(f2.apply(register, first))
        exists = {_is_inside(layout, start, f2.apply(warp, n)) for n in range(1 << len(warp))}
        if len(exists) > 1:
            return None
        if True in exists:
            places = [first ^ name for name in names]
            held = tuple(place if along(place) < end else None for place in places)
            found.append(BoxPiece(start, held, start[inner] + box[inner] > end))
    return tuple(found)


def _are_apart(layout: LinearLayout, inside: int, joined: int) -> bool:
    """Say whether lanes and the first warps differ inside a box alone, and other warps outside.

    And registers here or there.
    """
    register, lane, warp = layout.dims[:3]
    within = not any(column & ~inside for column in (*lane, *warp[:joined]))
    beside = len(warp) >= joined and not any(column & inside for column in warp[joined:])
    return within and beside and all(column & inside in (0, column) for column in register)


def _in_vectors(shared: LinearLayout, fragment: LinearLayout, itemsize: int) -> VectorPlan | None:
    """Return how vectors store a fragment; None where a thread has no two elements side by side."""
    register, lane = (
        tuple(by * itemsize for by in dim) for dim in shared.offsets(fragment).dims[:2]
    )
    side = 0
    while itemsize << side < _WIDEST and register[side : side + 1] == (itemsize << side,):
        side += 1
    if not side or any(by & (itemsize << side) - 1 for by in (*register[side:], *lane)):
        return None
    offsets = f2.table(register)
    firsts = range(0, len(offsets), 1 << side)
    steps = (MatrixInstruction(offsets[n], tuple(range(n, n + (1 << side)))) for n in firsts)
    return VectorPlan(lane, tuple(steps))


def _is_inside(layout: LinearLayout, start: tuple[int, ...], by: int) -> bool:
    moved = layout.unflatten(by)
    return all(a ^ b < n for a, b, n in zip(start, moved, layout.shape, strict=True))
