"""Named layouts: coalesced blocks, tensor-core fragments, swizzled shared tiles.

Each function returns plain bases; nothing later asks which family a layout came
from, only what its bases allow.

The fragments of mma.sync and wgmma are one pattern. With kw the elements of k
in a 32-bit register (1 for tf32, 2 for 16-bit, 4 for 8-bit types):

    registers   k up to kw, then rows from 8, then k from 4 * kw
    lanes       k from kw to 4 * kw, then rows 1, 2, 4

A is (m, k), B is the same pattern on (n, k), C and D on (m, n) with kw = 2 for
every type. The register index is the index of the PTX fragment (a_i, b_i, c_i,
low to high); a 32-bit register packs neighbours. PTX ISA 9.0, mma.sync (sm_80)
and wgmma.mma_async (sm_90a), "Matrix fragments".

A tile is covered by repeating the fragment: first by registers (so that the
part of one warp is one block), then by warps. A basis that leaves the tile
becomes a zero basis: the hardware then computes copies of the same elements.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from workbench.layouts.coordinates import Coordinates, axis_bits
from workbench.layouts.f2 import log2
from workbench.layouts.linear import LinearLayout
from workbench.layouts.matrix_access import MatrixPlan, ldmatrix_fits, stmatrix_fits

__all__ = [
    "MatrixPlan",
    "blocked",
    "fragment",
    "ldmatrix_fits",
    "mma_a",
    "mma_b",
    "mma_c",
    "split_warps",
    "stmatrix_fits",
    "swizzle_width",
    "swizzled",
    "vector_width",
    "wgmma_a",
    "wgmma_d",
]

Step = tuple[int, int]
"""(axis, bit): one doubling along an axis."""


@lru_cache(4096)
def blocked(
    shape: Coordinates,
    vector: int,
    axis_order: Coordinates,
    warps: int,
    lanes: int = 32,
    apart: tuple[int, ...] = (),
) -> LinearLayout:
    """Return the layout that walks the tile with vectors, then lanes, then warps.

    A thread holds `vector` neighbours along axis_order[0] (the fastest axis);
    lanes go on along that axis and then along the next, warps go on after the
    lanes, further registers after the warps. Bits that the tile does not have
    become zero bases: copies. vector, warps and lanes (of a warp) are powers of two.
    `apart`: the columns of the warps, single bits, where they are given: the walk leaves them out.

    >>> print(blocked((4, 8), 1, (1, 0), 4))
    linear<4x8, lane=[(0,1),(0,2),(0,4),(1,0),(2,0)], warp=[(0,0),(0,0)]>
    """
    if sorted(axis_order) != list(range(len(shape))):
        raise ValueError(f"axis order is {axis_order}; expected each axis of {shape} once")
    _power_of_two(vector, "vector")
    _power_of_two(warps, "warps")
    _power_of_two(lanes, "lanes")
    bits = axis_bits(shape)
    walk: list[int] = []
    for axis in axis_order:
        below = sum(bits[axis + 1 :])
        walk.extend(1 << below + bit for bit in range(bits[axis]) if 1 << below + bit not in apart)
    head = min(log2(vector), bits[axis_order[0]]) if shape else 0
    lane_end = head + log2(lanes)
    warp_end = lane_end + (0 if apart else log2(warps))
    absent = [0] * warp_end
    lane = (walk[head:lane_end] + absent)[: log2(lanes)]
    warp = [*apart] or (walk[lane_end:warp_end] + absent)[: log2(warps)]
    register = walk[:head] + walk[warp_end:]
    return LinearLayout.from_flat((tuple(register), tuple(lane), tuple(warp), ()), shape, "blocked")


def vector_width(
    itemsize: int,
    *,
    alignment: int,
    contiguity: int,
    mask_constancy: int,
    extent: int,
    elements_per_thread: int,
) -> int:
    """Return how many elements a lane should move at once along the fastest axis.

    The largest power of two for which one access is at most 16 bytes, is
    aligned (alignment: bytes that divide base, row strides and tile offset),
    stays in a run of consecutive addresses (contiguity) and of equal mask
    (mask_constancy), both in elements, fits the padded extent, and leaves work
    for every lane: all lanes are busy before vectors widen.

    >>> facts = {"contiguity": 1024, "mask_constancy": 16, "extent": 1024}
    >>> vector_width(4, alignment=16, elements_per_thread=8, **facts)
    4
    """
    return min(
        max(1, 16 // itemsize),
        max(1, (alignment & -alignment) // itemsize),
        contiguity & -contiguity,
        mask_constancy & -mask_constancy,
        1 << (extent - 1).bit_length(),
        1 << log2(max(1, elements_per_thread)),
    )


def _power_of_two(number: int, what: str) -> None:
    if number < 1 or number & number - 1:
        raise ValueError(f"{what} is {number}; expected a power of two")


# ---------------------------------------------------------------------- tensor cores


def fragment(rows: int, columns: int, kw: int) -> LinearLayout:
    """Return the fragment of one warp: mma.sync A (m, k), B as (n, k), C with kw = 2.

    >>> print(fragment(16, 8, 2))
    linear<16x8, register=[(0,1),(8,0)], lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]>
    """
    across, down = _steps(1, 0, log2(kw)), _steps(0, 3, log2(rows))
    register = [*across, *down, *_steps(1, log2(4 * kw), log2(columns))]
    lane = [*_steps(1, log2(kw), log2(4 * kw)), *_steps(0, 0, 3)]
    return _from_steps((rows, columns), register, lane, (), "mma")


def _steps(axis: int, first: int, last: int) -> list[Step]:
    return [(axis, bit) for bit in range(first, last)]


def _from_steps(
    shape: Coordinates,
    register: Iterable[Step | None],
    lane: Iterable[Step | None],
    warp: Iterable[Step | None],
    kind: str,
) -> LinearLayout:
    bits = axis_bits(shape)

    def flat(step: Step | None) -> int:
        # None, or a doubling that leaves the tile, is a copy.
        if step is None or step[1] >= bits[step[0]]:
            return 0
        return 1 << sum(bits[step[0] + 1 :]) + step[1]

    dims = (tuple(map(flat, register)), tuple(map(flat, lane)), tuple(map(flat, warp)), ())
    return LinearLayout.from_flat(dims, shape, kind)


def _repeat(shape: Coordinates, axis: int, first: int, warps: int = 1) -> list[Step]:
    # The register repetitions along an axis after `first` bits of fragment, with room left
    # for the warps that walk the same axis.
    return _steps(axis, first, axis_bits(shape)[axis] - log2(warps))


def _warp_steps(shape: Coordinates, axis: int, first: int, warps: int) -> list[Step]:
    start = max(first, axis_bits(shape)[axis] - log2(warps))
    return _steps(axis, start, start + log2(warps))


def _tile_axes(shape: Coordinates) -> tuple[int, int, list[Step]]:
    # (row axis, column axis, steps of the batch axes before them)
    if len(shape) < 2:
        raise ValueError(f"dot tile has shape {shape}; expected at least two axes")
    bits = axis_bits(shape)
    batch = [step for axis in range(len(shape) - 3, -1, -1) for step in _steps(axis, 0, bits[axis])]
    return len(shape) - 2, len(shape) - 1, batch


def _batches(batch: list[Step], warps: Sequence[int]) -> tuple[list[Step], list[Step | None]]:
    # (steps of the batch axes by registers, by warps): a warp has batches that lie side by side.
    taken = log2(warps[2]) if len(warps) > 2 else 0
    inside = len(batch) - min(taken, len(batch))
    return batch[:inside], [*batch[inside:], *[None] * (taken - len(batch) + inside)]


@lru_cache(1024)
def mma_c(shape: Coordinates, warps: tuple[int, ...]) -> LinearLayout:
    """Return the accumulator (and result) layout of mma.sync m16n8 over a [.., M, N] tile.

    Registers: the 4 of a fragment, then fragments along N, along M, batches.
    warps = (along M, along N, along batches, 1 if not given); a warp owns one
    contiguous block, and the warp index counts along M first. sm_80: mma.sync.

    >>> print(mma_c((32, 16), (2, 1)))
    linear<32x16, register=[(0,1),(8,0),(0,8)], lane=[(0,2),(0,4),(1,0),(2,0),(4,0)], warp=[(16,0)]>
    """
    m, n, batch = _tile_axes(shape)
    register = [(n, 0), (m, 3), *_repeat(shape, n, 3, warps[1]), *_repeat(shape, m, 4, warps[0])]
    lane = [*_steps(n, 1, 3), *_steps(m, 0, 3)]
    held, apart = _batches(batch, warps)
    warp = [*_warp_steps(shape, m, 4, warps[0]), *_warp_steps(shape, n, 3, warps[1]), *apart]
    return _from_steps(shape, register + held, lane, warp, "mma")


def _fragment_k(extent: int, kw: int) -> tuple[list[Step], int]:
    # Register steps (axis to be filled in) of k within one instruction, and their end.
    _power_of_two(kw, "elements of k per register")
    end = min(axis_bits((extent,))[0], log2(8 * kw))
    if end < log2(4 * kw):
        raise ValueError(f"dot has K = {extent}; expected at least {4 * kw} for this element type")
    return _steps(0, log2(4 * kw), end), end


def _in_runs(
    axis: int, bits: int, kw: int, end: int, run: int, apart: int
) -> tuple[list[Step], list[Step]]:
    # The steps of k by registers in their order, and by lanes: a thread has `run` neighbours.
    first = max(log2(kw), log2(run))
    if first + 2 > bits and run > kw:
        raise ValueError(f"{run} neighbours for each of four lanes; K has {1 << bits} elements")
    lanes = _steps(axis, first, first + 2)
    steps = [step for step in _steps(axis, 0, max(bits, end)) if step not in lanes]
    if apart:
        steps.insert(0, steps.pop(log2(apart)))
    return steps, lanes


@lru_cache(1024)
def mma_a(
    shape: Coordinates, kw: int, warps: tuple[int, ...], run: int = 0, apart: int = 0
) -> LinearLayout:
    """Return the layout of the left operand of mma.sync over a [.., M, K] tile.

    kw is the elements of k per 32-bit register. Registers: one fragment (k = 8
    kw, or 4 kw if K is that small), then fragments along M, then steps along
    K, batches: the registers of one step of K are neighbours. Warps along N
    read the same elements.

    `run`: the neighbours along K that a thread has, more than kw. The product is a sum over K, so
    both operands may go through it in another order, the same one: fragments take what a thread
    has, and memory is read in wider pieces. `apart`: how far two elements of a register lie from
    each other in such a run (0: they are neighbours).

    >>> print(mma_a((16, 32), 2, (1, 2)).flat("register"), mma_a((16, 32), 2, (1, 2)).flat("warp"))
    (1, 256, 8, 16) (0,)
    """
    m, k, batch = _tile_axes(shape)
    inner, end = _fragment_k(shape[k], kw)
    steps, lanes = _in_runs(k, axis_bits(shape)[k], kw, end, run, apart)
    word, half = log2(kw), log2(kw) + len(inner)
    held, others = _batches(batch, warps)
    register = [*steps[:word], (m, 3), *steps[word:half]]
    register += [*_repeat(shape, m, 4, warps[0]), *steps[half:], *held]
    lane = [*lanes, *_steps(m, 0, 3)]
    warp = [*_warp_steps(shape, m, 4, warps[0]), *[None] * log2(warps[1]), *others]
    return _from_steps(shape, register, lane, warp, "mma")


@lru_cache(1024)
def mma_b(
    shape: Coordinates, kw: int, warps: tuple[int, ...], run: int = 0, apart: int = 0
) -> LinearLayout:
    """Return the layout of the right operand of mma.sync over a [.., K, N] tile.

    As mma_a, with n in the place of m: one fragment, fragments along N, steps
    along K, batches. Warps along M read the same elements.

    >>> print(mma_b((16, 16), 2, (2, 1)))
    linear<16x16, register=[(1,0),(8,0),(0,8)], lane=[(2,0),(4,0),(0,1),(0,2),(0,4)], warp=[(0,0)]>
    """
    k, n, batch = _tile_axes(shape)
    inner, end = _fragment_k(shape[k], kw)
    steps, lanes = _in_runs(k, axis_bits(shape)[k], kw, end, run, apart)
    half = log2(kw) + len(inner)
    held, others = _batches(batch, warps)
    register = [*steps[:half], *_repeat(shape, n, 3, warps[1]), *steps[half:], *held]
    lane = [*lanes, *_steps(n, 0, 3)]
    warp = [*[None] * log2(warps[0]), *_warp_steps(shape, n, 3, warps[1]), *others]
    return _from_steps(shape, register, lane, warp, "mma")


@lru_cache(1024)
def wgmma_d(
    shape: Coordinates, warps: int, across: int = 1, rows: Coordinates = (),
    in_turns: bool = False,
) -> LinearLayout:  # fmt: skip
    """Return the accumulator layout of wgmma.mma_async m64nN over an [M, N] tile.

    Four warps hold 64 rows (the hardware fixes warp % 4), further warpgroups the next 64, but for
    a power of two of them (`across`) that share rows and divide the columns. Registers: all of a
    warpgroup's columns, then M. N that is no power of two: registers 0 .. N/2 - 1 are live and
    are PTX's d_0 ... sm_90a.

    `rows[i]`: which bit of a row of the tile bit i of a row of the instructions stands for, where
    they multiply rows in another order than the tile has them. `in_turns`: warpgroups take the
    columns eight by eight in turns, which divides any multiple of 8 * `across` evenly.

    >>> wgmma_d((64, 32), 8, 2).flat("warp")
    (512, 1024, 16)
    >>> wgmma_d((64, 48), 8, 2, in_turns=True).flat("warp")
    (1024, 2048, 8)
    """
    m, n, batch = _tile_axes(shape)
    first = 3 + log2(across) if in_turns else 3
    columns = _steps(n, 3, first) if in_turns else _warp_steps(shape, n, 3, across)
    repeated = _repeat(shape, n, first, 1 if in_turns else across)
    register = [(n, 0), (m, 3), *repeated]
    lane = [*_steps(n, 1, 3), *_steps(m, 0, 3)]
    return _warpgroups(shape, register, lane, batch, warps, columns, rows)


@lru_cache(1024)
def wgmma_a(
    shape: Coordinates, kw: int, warps: int, across: int = 1, rows: Coordinates = ()
) -> LinearLayout:
    """Return the register layout of the left operand of wgmma over an [M, K] tile. sm_90a.

    Warpgroups that divide the columns of the product (`across`) read the same rows. `rows`: as
    for the sums.
    """
    m, k, batch = _tile_axes(shape)
    inner, end = _fragment_k(shape[k], kw)
    register = [*_steps(k, 0, log2(kw)), (m, 3), *((k, bit) for _, bit in inner)]
    lane = [*_steps(k, log2(kw), log2(4 * kw)), *_steps(m, 0, 3)]
    register += _repeat(shape, k, end)
    return _warpgroups(shape, register, lane, batch, warps, [None] * log2(across), rows)


def _warpgroups(
    shape: Coordinates,
    register: list[Step],
    lane: list[Step],
    batch: list[Step],
    warps: int,
    columns: Sequence[Step | None],
    rows: Coordinates,
) -> LinearLayout:
    """Return a layout whose warps walk rows, four of them 64, and then `columns`."""
    _power_of_two(warps, "warps")
    if warps < 4 << len(columns):
        expected = f"a multiple of 4 for each of {1 << len(columns)} parts of the columns"
        raise ValueError(f"wgmma has {warps} warps; expected {expected}")
    m, end = len(shape) - 2, 4 + log2(warps) - len(columns)
    register = register + _repeat(shape, m, end) + batch
    warp = [*_steps(m, 4, end), *columns]
    order = {(m, bit): (m, row) for bit, row in enumerate(rows)}

    def moved(steps: Iterable[Step | None]) -> list[Step | None]:
        return [order.get(step, step) if step else None for step in steps]

    return _from_steps(shape, moved(register), moved(lane), moved(warp), "wgmma")


@lru_cache(1024)
def split_warps(shape: Coordinates, warps: int) -> tuple[int, ...]:
    """Return (along M, along N) for mma.sync over an [M, N] tile, of more axes (.., batches) too.

    Minimises what a warp reads per step of K, its rows plus its columns; no
    warp repeats another's work while that can be helped. Ties go to M, whose
    fragments are loaded once and used for all of N. Batches share nothing, so
    warps take different ones first.

    >>> split_warps((64, 64), 4), split_warps((2, 64, 64), 4)
    ((2, 2), (2, 1, 2))
    """
    _power_of_two(warps, "warps")
    m, n = shape[-2:]
    if len(shape) > 2:
        apart = min(warps, 1 << sum(axis_bits(shape)[:-2]))
        return (*split_warps(shape[-2:], warps // apart), apart)

    def cost(along_m: int) -> tuple[int, int, int]:
        along_n = warps // along_m
        rows, columns = max(16, m // along_m), max(8, n // along_n)
        return rows * columns, rows + columns, -along_m

    chosen = min((1 << bit for bit in range(log2(warps) + 1)), key=cost)
    return chosen, warps // chosen


# ---------------------------------------------------------------------- shared memory

SWIZZLES = {128: (7, 0), 64: (3, 1), 32: (1, 2)}
"""Row bytes W -> (mask, shift): chunk c of row r lies at chunk c ^ (r >> shift & mask).

The TMA modes 128B, 64B, 32B. CUDA 13.0 cuda.h, CUtensorMapSwizzle.
"""


def swizzle_width(extent: int, itemsize: int) -> int:
    """Return the bytes of a row of the swizzle atom: 128, 64, 32, or 16 and less (no swizzle).

    The widest one of those that leave the least of a row empty: 64 for 96 elements of 2 bytes.
    """
    row, whole = extent * itemsize, (1 << (extent - 1).bit_length()) * itemsize
    if whole <= 32:
        return whole
    return min((w for w in SWIZZLES if w <= whole), key=lambda w: (-(-row // w) * w, -w))


@lru_cache(1024)
def swizzled(
    shape: Coordinates,
    itemsize: int,
    order: Coordinates | None = None,
    *,
    exchange: bool = True,
    width: int = 0,
    turned: bool = False,
    spread: bool = False,
) -> LinearLayout:
    """Return a shared layout without bank conflicts for rows and for 8x8 matrices.

    order[0] is the contiguous axis (default: the last), order[1] the rows. The
    contiguous axis is cut into columns of W = 128, 64, 32 or fewer bytes; each
    column holds all its rows one after the other, and the 16-byte chunks of a
    row are XORed with its row number. That is what TMA writes and wgmma reads.
    Of several columns of less than 128 bytes (96 elements of 2 bytes: three of 64)
    neighbours exchange neighbouring rows, so that neighbouring chunks of a row
    lie in other banks. TMA and wgmma know nothing of that: without `exchange` they do not.
    16-byte accesses along a row, ldmatrix and ldmatrix.trans take one wavefront
    per phase. The base address must be a multiple of 8 * W bytes. `width` is a W that
    leaves more of a row empty than need be (0: the one that `swizzle_width` says).
    `turned` XORs the bits of the row number in the opposite order: accesses to 2 rows of 4 chunks
    or 4 rows of 2 take one wavefront per phase, too. `spread` XORs the number of a column into the
    chunks, so that lanes which are a column apart find other banks: those that have 32 neighbours
    of 2 bytes, two rows of four. TMA and wgmma know nothing of either.

    >>> print(swizzled((4, 64), 2))
    linear<4x64, offset=[(0,1),(0,2),(0,4),(0,8),(0,16),(0,32),(1,8),(2,16)]>
    """
    order = tuple(range(len(shape) - 1, -1, -1)) if order is None else tuple(order)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"axis order is {order}; expected each axis of {shape} once")
    if not shape:
        return LinearLayout.from_flat(((),), shape, "shared")
    bits = axis_bits(shape)
    below = [sum(bits[axis + 1 :]) for axis in range(len(shape))]
    contiguous = order[0]
    width = width or swizzle_width(shape[contiguous], itemsize)
    inside = min(bits[contiguous], log2(max(1, width // itemsize)))
    mask, shift = SWIZZLES.get(width, (0, 0))
    chunk = log2(max(1, 16 // itemsize))
    columns = [1 << below[contiguous] + bit for bit in range(bits[contiguous])]
    offsets = columns[:inside]
    for axis in order[1:2]:
        for bit in range(bits[axis]):
            moved = (1 << bit) >> shift & mask
            if turned and moved:
                moved = (mask + 1 >> 1) // moved
            moved <<= chunk
            offsets.append(1 << below[axis] + bit | moved << below[contiguous])
    for axis in order[1:2]:
        apart = log2(128 // width) if exchange and width < 128 else 0
        count = min(apart, bits[axis], len(columns) - inside)
        for bit in range(count):
            columns[inside + bit] |= 1 << below[axis] + bit
    for number, column in enumerate(columns[inside:]):
        moved = (mask + 1 >> 2 + number) * spread << chunk
        offsets.append(column | moved << below[contiguous])
    for axis in order[2:]:
        offsets += [1 << below[axis] + bit for bit in range(bits[axis])]
    return LinearLayout.from_flat((tuple(offsets),), shape, "shared")
