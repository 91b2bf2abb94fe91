"""How wgmma reads a tile that lies in shared memory: the fields of its descriptor.

One instruction takes a matrix of `count` rows (64 of A; columns of B) by 32 bytes of k. Its
descriptor names where the matrix starts, a swizzle, and two distances. Rows of W = 128, 64 or 32
bytes stand eight by eight; the 16-byte chunks of a row are XORed with bits of the address above
(`families.SWIZZLES`), which undoes itself. What is left is a sum of parts, one per bit of a
coordinate:

    K-major    k inside a row; 8 rows of W bytes; the next 8 rows `stride` bytes on
    MN-major   mn inside a row, 8 rows of k; the next 8 of k `stride` bytes on, the next
               W bytes of mn `leading` bytes on

So a layout fits exactly if its parts are these. PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix
Multiply-Accumulate: Shared Memory Matrix Layout" and "Matrix Descriptor" (sm_90a).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.layouts.f2 import log2
from workbench.layouts.families import SWIZZLES
from workbench.layouts.linear import LinearLayout
from workbench.layouts.tensor_access import xor_free_parts

#: Bytes of k that one instruction multiplies, whatever the type.
K_BYTES = 32
_MODES = {128: 1, 64: 2, 32: 3}


@dataclass(frozen=True, slots=True)
class WarpgroupPlan:
    """Where the matrices of an operand start, and what every descriptor of them says.

    mn[i], k[i]: bytes that bit i of a row (column) or of k moves a start by. `swizzle` is the
    descriptor's code, `leading` and `stride` its distances in bytes.
    """

    k_major: bool
    swizzle: int
    leading: int
    stride: int
    mn: tuple[int, ...]
    k: tuple[int, ...]

    @property
    def atom_bytes(self) -> int:
        """Bytes of eight rows: buffers start at multiples of them."""
        return {1: 1024, 2: 512, 3: 256}[self.swizzle]

    def start(self, mn: int, k: int) -> int:
        """Return the offset in bytes of the matrix that starts at a row (column) and k."""
        return _place(self.mn, mn) + _place(self.k, k)


def _place(parts: Sequence[int], coordinate: int) -> int:
    return sum(part for bit, part in enumerate(parts) if coordinate >> bit & 1)


@lru_cache(1024)
def warpgroup_fits(
    shared: LinearLayout, itemsize: int, k_axis: int, count: int, apart: int = 1
) -> WarpgroupPlan | None:
    """Return how wgmma reads matrices of `count` rows (columns) by 32 bytes of k; None: it cannot.

    shared: the layout of a buffer of two axes whose elements have `itemsize` bytes, packed
    (packing.py). The buffer's address must be a multiple of 1024. `apart`: of the groups of 8 rows
    an instruction takes every so-manieth, one begins with another.
    """
    if shared.rank != 2 or K_BYTES % itemsize:
        return None
    for width in SWIZZLES:
        parts = xor_free_parts(shared, itemsize, width)
        if parts is None:
            continue
        k, mn = parts[k_axis], parts[1 - k_axis]
        inside = 1 << log2(K_BYTES // itemsize)  # of k in one instruction
        if len(k) < log2(inside):
            return None
        if plan := _k_major(k, mn, itemsize, width, inside, count, apart):
            return plan
        if (
            itemsize == 2
            and apart == 1
            and (plan := _mn_major(k, mn, itemsize, width, inside, count))
        ):
            return plan
    return None


def _k_major(
    k: Sequence[int], mn: Sequence[int], itemsize: int, width: int, inside: int, count: int,
    apart: int,
) -> WarpgroupPlan | None:  # fmt: skip
    stride = _distance(mn, 3 + log2(apart), count)
    if stride is None or not _runs(k, log2(inside), itemsize) or not _runs(mn, 3, width):
        return None
    return WarpgroupPlan(True, _MODES[width], 0, stride, tuple(mn), tuple(k))


def _mn_major(
    k: Sequence[int], mn: Sequence[int], itemsize: int, width: int, inside: int, count: int
) -> WarpgroupPlan | None:
    row = log2(width // itemsize)
    stride, leading = _distance(k, 3, inside), _distance(mn, row, count)
    if stride is None or leading is None:
        return None
    if not _runs(mn, min(row, log2(_power(count))), itemsize) or not _runs(k, 3, width):
        return None
    return WarpgroupPlan(False, _MODES[width], leading, stride, tuple(mn), tuple(k))


def _runs(parts: Sequence[int], bits: int, first: int) -> bool:
    """Say whether the first bits step evenly, from `first` bytes on."""
    return len(parts) >= bits and all(parts[bit] == first << bit for bit in range(bits))


def _distance(parts: Sequence[int], bit: int, count: int) -> int | None:
    """Return the even step of the bits from one on that number up to `count`; None: uneven."""
    last = log2(_power(count))
    if last <= bit:
        return 0
    if len(parts) < last or any(parts[b] != parts[bit] << b - bit for b in range(bit, last)):
        return None
    return parts[bit]


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()
