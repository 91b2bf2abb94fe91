"""What an access costs in shared and global memory, exactly, before it runs.

Shared memory has 32 banks of 4-byte words. A request (one instruction of one
warp) with u bytes per lane is served in *phases* of consecutive lanes: 32 for
u <= 4, 16 for u = 8, 8 for u = 16; ldmatrix and stmatrix have one phase for
each 8x8 matrix, with 16 bytes from each of 8 lanes. A phase takes as many
*wavefronts* as one bank has distinct words in it; lanes that meet in one word
never conflict. Conflicts = wavefronts - phases, as ncu counts them
(l1tex__data_bank_conflicts_pipe_lsu_mem_shared).

Global memory moves 32-byte sectors; a request costs as many as it touches.

Each quantity comes twice: by enumerating lanes, for any access, and in closed
form, for a linear access with all lanes on. A rank is the closed form: 2^rank
distinct words over 2^rank' distinct banks, the same in each phase.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from workbench.layouts import f2

PHASE_BITS = {1: 5, 2: 5, 4: 5, 8: 4, 16: 3}
"""Bytes per lane -> log2 of the lanes that one phase serves."""

SECTOR_BYTES = 32


def wavefronts(addresses: Sequence[int | None], size: int) -> int:
    """Return the wavefronts of one shared request: byte address per lane, None if masked off.

    >>> wavefronts([4 * lane for lane in range(32)], 4)
    1
    >>> wavefronts([128 * lane for lane in range(32)], 4)
    32
    """
    lanes, total = 1 << PHASE_BITS[size], 0
    for first in range(0, len(addresses), lanes):
        banks: dict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + lanes]:
            if address is not None:
                for word in range(address >> 2, (address + size - 1 >> 2) + 1):
                    banks[word & 31].add(word)
        total += max(map(len, banks.values()), default=0)
    return total


def phases(size: int) -> int:
    """Return the phases of one shared request, its least number of wavefronts."""
    return 32 >> PHASE_BITS[size]


def linear_wavefronts(lane_offsets: Sequence[int], size: int) -> int:
    """Return the same in closed form; lane_offsets are the byte offsets of the lane bits.

    >>> linear_wavefronts([4, 8, 16, 32, 64], 4), linear_wavefronts([128, 256, 512, 0, 0], 16)
    (1, 32)
    """
    words = [offset >> 2 for offset in lane_offsets[: PHASE_BITS[size]]]
    words += f2.units(max(0, f2.log2(size) - 2))
    return phases(size) << f2.rank(words) - f2.rank(word & 31 for word in words)


def sectors(addresses: Iterable[int | None], size: int) -> int:
    """Return the 32-byte sectors that one global request touches, `size` bytes per lane.

    >>> sectors([4 * lane for lane in range(32)], 4), sectors([64 * lane for lane in range(32)], 4)
    (4, 32)
    """
    return len(
        {
            sector
            for address in addresses
            if address is not None
            for sector in range(address // SECTOR_BYTES, (address + size - 1) // SECTOR_BYTES + 1)
        }
    )


def linear_sectors(bases: Iterable[tuple[int, int]], itemsize: int) -> int:
    """Return the sectors of a request in closed form.

    bases are (outer coordinate, inner coordinate in elements) of the lane bits
    and of the vector's bits; inner is the contiguous axis. Exact if the base
    address and the outer strides are multiples of 32 bytes and rows do not
    overlap.
    """
    return 1 << f2.rank(outer << 32 | inner * itemsize // SECTOR_BYTES for outer, inner in bases)


def run_sectors(start: int, size: int) -> int:
    """Return the sectors of a contiguous run of `size` bytes from address `start`."""
    return (start % SECTOR_BYTES + size + SECTOR_BYTES - 1) // SECTOR_BYTES
