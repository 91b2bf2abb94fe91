"""What an instruction tells the scheduler, read from its bits; and how many registers are live.

From sm_70 on an instruction has 128 bits, of which 21 are for the scheduler (bits 105 to 125, as
the assemblers CuAssembler and TuringAs document them):

    bits  105-108  stall     cycles until the next instruction of this warp may issue
          109      yield     0: the scheduler should prefer another warp now
          110-112  write     the barrier that is set until the result is written; 7: none
          113-115  read      the barrier that is set until the operands are read; 7: none
          116-121  wait      the barriers, one bit each, that must be clear before it issues
          122-125  reuse     operands, one bit each, that are kept for the next instruction
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_BYTES = 16
_ROW = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/")
_LIVE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/.*?//\s*\|\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Control:
    """What one instruction tells the scheduler.

    Attributes:
        stall: cycles until the warp's next instruction.
        yields: another warp should come first.
        write: the barrier (0 to 5) that its result clears; None: it sets none.
        read: the barrier that reading its operands clears; None: it sets none.
        wait: the barriers that it waits for.
        reuse: the operands that are kept for the next instruction.
    """

    stall: int
    yields: bool
    write: int | None
    read: int | None
    wait: tuple[int, ...]
    reuse: tuple[int, ...]

    def __str__(self) -> str:
        """Return it as `wait:read:write:yield:stall`, as assemblers write it."""
        wait = "".join(str(n) if n in self.wait else "-" for n in range(6))
        read, write = ("-" if n is None else str(n) for n in (self.read, self.write))
        return f"{wait}:{read}:{write}:{'Y' if self.yields else '-'}:{self.stall:02}"


def control_of(instruction: bytes) -> Control:
    """Return what the 16 bytes of an instruction tell the scheduler.

    >>> str(control_of(bytes.fromhex("1979000000002800" "0021000000006e0e00")[:16]))
    '------:-:1:-:07'
    """
    bits = int.from_bytes(instruction, "little") >> 105
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write=None if write == 7 else write,
        read=None if read == 7 else read,
        wait=tuple(n for n in range(6) if bits >> 11 + n & 1),
        reuse=tuple(n for n in range(4) if bits >> 17 + n & 1),
    )


def section(image: bytes, name: str) -> bytes:
    """Return a section of a 64-bit little-endian ELF image by name, b"" where there is none."""
    if image[:6] != b"\x7fELF\x02\x01" or len(image) < 64:
        return b""
    start = struct.unpack_from("<Q", image, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    if start + size * count > len(image) or names >= count:
        return b""
    texts = struct.unpack_from("<Q", image, start + names * size + 0x18)[0]
    wanted = name.encode() + b"\0"
    for number in range(count):
        place = start + number * size
        own = texts + struct.unpack_from("<I", image, place)[0]
        if image[own : own + len(wanted)] == wanted:
            offset, length = struct.unpack_from("<QQ", image, place + 0x18)
            return image[offset : offset + length]
    return b""


def controls(cubin: bytes, symbol: str) -> list[Control]:
    """Return what each instruction of a kernel tells the scheduler, in order of addresses."""
    code = section(cubin, f".text.{symbol}")
    starts = range(0, len(code) - len(code) % _BYTES, _BYTES)
    return [control_of(code[start : start + _BYTES]) for start in starts]


def address_of_row(row: str) -> int | None:
    """Return the address of an instruction's row in a listing; None for other rows."""
    found = _ROW.match(row)
    return int(found.group(1), 16) if found else None


def live_by_address(listing: str) -> Mapping[int, int]:
    """Return the live general registers of each instruction, of what nvdisasm -plr prints."""
    found = (_LIVE.match(row) for row in listing.splitlines())
    return {int(match.group(1), 16): int(match.group(2)) for match in found if match}
