"""How copies of boxes of a tensor fill a tile in shared memory.

One copy writes rows of W = 128, 64 or 32 bytes one after the other, the 16-byte chunks of each
XORed with bits of its address (`families.SWIZZLES`). A tile whose rows are longer is several copies
side by side. So a layout fits exactly if it is made of such columns. CUDA 13.0 cuda.h,
CUtensorMapSwizzle; PTX ISA 9.0, "Tensors", swizzling modes (sm_90).

The hardware asks for the rows of a box one by one, some two cycles for each, however short they
are (measured on an H200). So a tile of 144 columns of 2 bytes is better copied as two boxes of 64
columns and one of 16 than as nine of 16. The rows of the last one are W bytes apart as well, the
rest of each is left alone (CUDA C++ Programming Guide, "TMA Swizzle": shared memory has room for
the whole width). It brings more than the tile has only where that ends amid 16 bytes (`over`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from workbench.layouts.f2 import log2
from workbench.layouts.families import SWIZZLES
from workbench.layouts.linear import LinearLayout
from workbench.layouts.packing import packing

#: The most elements of a box along one axis, and the bytes of which its rows are multiples.
MOST_BOX, _GRAIN = 256, 16
#: The bytes of which the address of a box is a multiple where no chunks are exchanged.
_LINE = 128


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """Which boxes fill a tile of two axes, or of one, and where each begins.

    swizzle: bytes from one row of a box to the next. box: its extents, in the order of the tile's
    axes. pieces: where each box begins in the tile, and its offset in bytes in the buffer.
    narrower: the extents of the boxes in `rest`, each the last of its rows; None: there are none.
    The last of a row may bring elements that lie beyond the tile.
    """

    swizzle: int
    box: tuple[int, ...]
    pieces: tuple[tuple[tuple[int, ...], int], ...]
    narrower: tuple[int, ...] | None = None
    rest: tuple[tuple[tuple[int, ...], int], ...] = ()

    @property
    def elements(self) -> int:
        """How many elements all boxes bring."""
        return len(self.pieces) * prod(self.box) + len(self.rest) * prod(self.narrower or ())


@lru_cache(1024)
def tensor_fits(
    shared: LinearLayout, itemsize: int, inner: int, *, over: bool = False, most: int | None = None
) -> TensorPlan | None:
    """Return how copies fill a buffer of a layout; None: they cannot.

    shared: the layout of a buffer of two axes, or of one, whose elements have `itemsize` bytes,
    packed (packing.py); `inner` is the axis whose elements lie side by side in the tensor. The
    buffer's address must be a multiple of 1024. `over`: whether boxes may bring what lies beyond
    the tile along that axis, up to the end of its last 16 bytes. `most`: the rows of a box are no
    more, and divide these.
    """
    if shared.rank == 1:
        return _row_fits(shared, itemsize)
    if shared.rank != 2:
        return None
    extent, rows = shared.shape[inner], shared.shape[1 - inner]
    grain = max(1, _GRAIN // itemsize)
    for width in SWIZZLES:
        across = width // itemsize
        last = -(-(extent % across) // grain) * grain
        beyond = -extent % grain if last else 0
        if (beyond and not over) or (rows > 8 and rows % 8):
            continue
        parts = xor_free_parts(shared, itemsize, width)
        if parts is None:
            continue
        columns, down = parts[inner], parts[1 - inner]
        inside = log2(across)
        runs = len(columns) >= inside and all(
            columns[bit] == itemsize << bit for bit in range(inside)
        )
        if not runs or any(part != width << bit for bit, part in enumerate(down)):
            continue
        found = _plan(extent, rows, across, last, width, columns, inner, most or rows)
        have = packing(shared, itemsize).size * itemsize
        if found is not None and beyond:
            (_, place), tall = [*found.pieces, *found.rest][-1], found.box[1 - inner]
            if place + tall * width > have:
                continue
        return found
    return None


def _row_fits(shared: LinearLayout, itemsize: int) -> TensorPlan | None:
    """Return the box that fills a row that lies as memory has it, no chunks exchanged."""
    (extent,) = shared.shape
    plain = shared.flat("offset") == tuple(1 << bit for bit in range(shared.bits[0]))
    if not plain or extent > MOST_BOX or extent != shared.padded[0]:
        return None
    return TensorPlan(0, (extent,), (((0,), 0),)) if extent * itemsize % _LINE == 0 else None


def _plan(
    extent: int, rows: int, across: int, last: int, width: int, columns: tuple[int, ...],
    inner: int, most: int,
) -> TensorPlan | None:  # fmt: skip
    heights = range(min(most, MOST_BOX), 0, -1)
    tall = next((n for n in heights if most % n == 0 and _whole(n, rows)), 0)
    if not tall:
        return None
    found: list[list[tuple[tuple[int, int], int]]] = []
    for start in range(0, extent, across):
        place = sum(part for bit, part in enumerate(columns) if start >> bit & 1)
        if place % (8 * width):
            return None  # the XOR is one of address bits: eight rows start at 0 there
        places = range(0, rows, tall)
        found.append([((n, start) if inner else (start, n), place + n * width) for n in places])
    wide = last if last and len(found) == 1 else across
    rest = found.pop() if last not in (0, wide, across) else []
    boxes = [(tall, n) if inner else (n, tall) for n in (wide, last)]
    pieces = tuple(piece for column in found for piece in column)
    return TensorPlan(width, boxes[0], pieces, boxes[1] if rest else None, tuple(rest))


def _whole(tall: int, rows: int) -> bool:
    """Whether boxes of so many rows begin where the pattern of eight rows does."""
    return tall == rows or tall % 8 == 0


@lru_cache(1024)
def xor_free_parts(
    shared: LinearLayout, itemsize: int, width: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return what each bit of the coordinates adds to an address before chunks are XORed.

    For each axis of a layout of two. None if they do not add up, or if another swizzle than that of
    rows of `width` bytes is there.
    """
    mask, shift = SWIZZLES[width]
    chunk, above = 4, log2(width)
    bytes_ = log2(itemsize)
    packed = packing(shared, itemsize).scaled(itemsize)
    if any(field.unit % (8 * width) for field in packed.fields[1:]):
        return None  # the XOR is one of address bits: whatever is eight rows high starts at 0 there
    inverse, found, seen = shared.invert(), list[int](), 0
    for offset in inverse:
        place = offset << bytes_
        place ^= (place >> above >> shift & mask) << chunk
        if place.bit_count() != 1 or place & seen:
            return None
        seen |= place
        found.append(packed.place(place))
    columns = shared.bits[1]
    return tuple(found[columns:]), tuple(found[:columns])
