"""When ldmatrix and stmatrix move a fragment, and which addresses they are given.

ldmatrix loads 8x8 matrices of 16-bit elements, 8 rows of 16 bytes each, one,
two or four at a time; stmatrix is the same map with the arrow reversed. Lane a
gives the address of row a % 8 of matrix a // 8. Matrix j arrives in 32-bit
register j:

    plain   lane l holds bytes 4 (l % 4) .. + 3 of row l // 4
    .trans  lane l holds elements (row 2 (l % 4) + {0, 1}, column l // 4)

Let P be the byte offset, in shared memory, of what a place of the fragment
holds; it is linear. The instruction fits exactly if the bits that walk the 16
bytes of a row are these, and every other basis is a multiple of 16 (the low
four bits of an address belong to the row alone):

              walk the 16 bytes                       walk the rows
    plain     register (inside 32 bits), lanes 0, 1   lanes 2, 3, 4
    .trans    lanes 2, 3, 4 -> 2, 4, 8                register 0 (the pair), lanes 0, 1

The two further register bits that the instruction covers select the matrix,
so address lane a starts at the image of the row bits for a % 8 and of those
for a // 8. PTX ISA 9.0, ldmatrix (sm_75), stmatrix (sm_90).
"""

from dataclasses import dataclass
from functools import lru_cache

from workbench.layouts.f2 import log2, table
from workbench.layouts.linear import LinearLayout

#: Which bytes of two words prmt takes for the two of `byte_pairs_fit`, in lanes t of 0 and 1, and
#: in those that have their second rows in the first matrix.
BYTE_PAIRS = ((0x6420, 0x2064), (0x7531, 0x3175))


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """One ldmatrix or stmatrix: XOR `offset` into the address, move these registers.

    registers[j] is the first fragment register of the 32-bit word that belongs
    to matrix j; the word packs 4 / itemsize neighbouring registers.
    """

    offset: int
    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """How to move a whole fragment: byte address = base ^ lane ^ warp ^ offset.

    lane[i] and warp[i] are byte offsets, added by XOR where bit i of the index
    is set; so the base must be aligned to the buffer's swizzle, or the offset
    be computed first and then added. count is the x1, x2, x4 of each instruction.
    """

    trans: bool
    count: int
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    instructions: tuple[MatrixInstruction, ...]


@lru_cache(1024)
def ldmatrix_fits(
    shared: LinearLayout, fragment: LinearLayout, itemsize: int, trans: bool = False
) -> MatrixPlan | None:
    """Return how ldmatrix loads `fragment` from `shared`; None if it cannot.

    Exact in both directions: None means that no choice of addresses works with
    the fragment's register order. Dead registers are not loaded on purpose.
    """
    places = shared.offsets(fragment)
    register, lane, warp, cta = (tuple(b * itemsize for b in dim) for dim in places.dims)
    packed = log2(4 // itemsize) if itemsize in (1, 2, 4) else 0
    if itemsize > 4 or cta or len(register) < packed or len(lane) != 5:
        return None
    if trans:
        fits = itemsize == 2 and lane[2:] == (2, 4, 8)
        rows, others = (*register[:1], *lane[:2]), (*register, *lane[:2], *warp)
    else:
        inside = tuple(itemsize << bit for bit in range(packed))
        fits = register[:packed] == inside and lane[:2] == (4, 8)
        rows, others = lane[2:], (*register[packed:], *lane[2:], *warp)
    if not fits or any(offset & 15 for offset in others):
        return None
    matrices = register[packed : packed + 2]
    step = packed + len(matrices)
    live = set(fragment.live_registers())
    instructions: list[MatrixInstruction] = []
    offsets = table(register)
    for first in range(0, len(offsets), 1 << step):
        words = range(first, first + (1 << step), 1 << packed)
        if any(word + part in live for word in words for part in range(1 << packed)):
            instructions.append(MatrixInstruction(offsets[first], tuple(words)))
    addresses = (*rows, *matrices, 0, 0)[:5]
    return MatrixPlan(trans, 1 << len(matrices), addresses, warp, tuple(instructions))


@lru_cache(1024)
def apart_fits(
    shared: LinearLayout, fragment: LinearLayout, itemsize: int
) -> tuple[MatrixPlan, tuple[int, ...]] | None:
    """Return how ldmatrix loads a fragment of which a word's elements are no neighbours.

    The plan's registers are those of the fragment in another order: with them, of each of their
    bits, which bit of the fragment's it is. None where neighbours make words, or nothing fits.
    """
    if itemsize not in (1, 2):
        return None
    register = shared.offsets(fragment).flat("register")
    inside = [1 << bit for bit in range(log2(4 // itemsize))]
    if any(register.count(offset) != 1 for offset in inside):
        return None
    first = [register.index(offset) for offset in inside]
    order = (*first, *(bit for bit in range(len(register)) if bit not in first))
    if order == tuple(range(len(register))):
        return None
    held = fragment.bases["register"]
    bases = {**fragment.bases, "register": [held[bit] for bit in order]}
    moved = LinearLayout(bases, fragment.shape, fragment.kind)
    plan = ldmatrix_fits(shared, moved, itemsize)
    return None if plan is None else (plan, order)


@lru_cache(1024)
def byte_pairs_fit(shared: LinearLayout, fragment: LinearLayout) -> MatrixPlan | None:
    """Return how ldmatrix.trans loads a fragment of bytes whose words go across the rows it reads.

    A word of the fragment has four rows of one column, an element of ldmatrix two columns of one
    row. So two words of neighbouring columns come out of two matrices, whose rows are shared out so
    that none of the eight lies in another's banks:

        matrix h     rows 4 t + 2 s and the next one for lanes t, where s = h ^ t / 2
        words        bytes 0 and 2 of both matrices, the one with s = 0 first; bytes 1 and 3

    Of `MatrixPlan` each instruction has words by twos, in the order of their matrices.
    """
    places = shared.offsets(fragment)
    register, lane, warp, cta = places.dims
    if cta or len(register) < 3 or len(lane) != 5:
        return None
    others = (*register[:2], *register[3:], *lane[:2], *warp)
    if register[2] != 1 or lane[2:] != (2, 4, 8) or any(offset & 15 for offset in others):
        return None
    rows = register[0], lane[0], lane[1] ^ register[1]
    matrices = register[1:2] + register[3:4]
    step = 2 + len(matrices)
    live, offsets = set(fragment.live_registers()), table(register)
    instructions: list[MatrixInstruction] = []
    for first in range(0, len(offsets), 1 << step):
        words = range(first, first + (1 << step), 4)
        if any(word + part in live for word in words for part in range(4)):
            instructions.append(MatrixInstruction(offsets[first], tuple(words)))
    addresses = (*rows, *matrices, 0, 0)[:5]
    return MatrixPlan(True, 1 << len(matrices), addresses, warp, tuple(instructions))


def stmatrix_fits(
    shared: LinearLayout, fragment: LinearLayout, itemsize: int, trans: bool = False
) -> MatrixPlan | None:
    """Return how stmatrix stores `fragment` to `shared`; the same test, the arrow reversed.

    A fragment with copies is stored several times with the same bytes.
    """
    return ldmatrix_fits(shared, fragment, itemsize, trans)
