"""What an access costs in shared and global memory, exactly, before it runs.

Shared memory has banks of words, on NVIDIA chips 32 of 4 bytes. A request (one
instruction of one warp) with u bytes per lane is served in *phases* of
consecutive lanes, as many as ask for one word of each bank: 32 lanes for
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
from dataclasses import dataclass

from workbench.layouts import f2


@dataclass(frozen=True, slots=True)
class Banks:
    """The banks of shared memory: how many, and the bytes of a word; powers of two."""

    count: int = 32
    word_bytes: int = 4

    @property
    def row_bytes(self) -> int:
        """The bytes of one word of every bank, which a phase moves at most."""
        return self.count * self.word_bytes

    def phase_bits(self, size: int) -> int:
        """Return log2 of the lanes that one phase serves, `size` bytes per lane.

        >>> [Banks().phase_bits(size) for size in (1, 4, 8, 16)]
        [5, 5, 4, 3]
        """
        return f2.log2(self.row_bytes // max(size, self.word_bytes))


BANKS = Banks()
"""What NVIDIA chips have."""

SECTOR_BYTES = 32


def wavefronts(addresses: Sequence[int | None], size: int, banks: Banks = BANKS) -> int:
    """Return the wavefronts of one shared request: byte address per lane, None if masked off.

    >>> wavefronts([4 * lane for lane in range(32)], 4)
    1
    >>> wavefronts([128 * lane for lane in range(32)], 4)
    32
    """
    lanes, total = 1 << banks.phase_bits(size), 0
    for first in range(0, len(addresses), lanes):
        wanted: dict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + lanes]:
            if address is not None:
                last = (address + size - 1) // banks.word_bytes
                for word in range(address // banks.word_bytes, last + 1):
                    wanted[word % banks.count].add(word)
        total += max(map(len, wanted.values()), default=0)
    return total


def phases(size: int, lanes: int = 32, banks: Banks = BANKS) -> int:
    """Return the phases of one shared request, its least number of wavefronts."""
    return max(1, lanes >> banks.phase_bits(size))


def linear_wavefronts(lane_offsets: Sequence[int], size: int, banks: Banks = BANKS) -> int:
    """Return the same in closed form; lane_offsets are the byte offsets of the lane bits.

    >>> linear_wavefronts([4, 8, 16, 32, 64], 4), linear_wavefronts([128, 256, 512, 0, 0], 16)
    (1, 32)
    """
    words = [offset // banks.word_bytes for offset in lane_offsets[: banks.phase_bits(size)]]
    words += f2.units(max(0, f2.log2(size) - f2.log2(banks.word_bytes)))
    conflicts = f2.rank(words) - f2.rank(word % banks.count for word in words)
    return phases(size, 1 << len(lane_offsets), banks) << conflicts


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


def linear_sectors(
    bases: Iterable[tuple[int, int]], itemsize: int, sector_bytes: int = SECTOR_BYTES
) -> int:
    """Return the sectors of a request in closed form.

    bases are (outer coordinate, inner coordinate in elements) of the lane bits
    and of the vector's bits; inner is the contiguous axis. Exact if the base
    address and the outer strides are multiples of a sector and rows do not
    overlap.
    """
    return 1 << f2.rank(outer << 32 | inner * itemsize // sector_bytes for outer, inner in bases)
