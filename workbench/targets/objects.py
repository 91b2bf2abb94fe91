"""Reads what object files and cubins say of themselves; both are ELF."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_EXECUTABLE = 0x4  # SHF_EXECINSTR of the ELF specification


def code_bytes(image: bytes) -> int | None:
    """Return the bytes of machine code in a 64-bit little-endian ELF image, None for other files.

    The file's own length says little: symbols, line tables and constants are most of it.
    """
    sections = _sections(image)
    return None if sections is None else sum(size for _, size in sections)


def code_sections(image: bytes) -> Iterator[bytes]:
    """Yield the machine code of a 64-bit little-endian ELF image, section by section."""
    for place, size in _sections(image) or ():
        yield image[place : place + size]


def _sections(image: bytes) -> list[tuple[int, int]] | None:
    """Return (place, bytes) of each section that holds code, None for other files."""
    if image[:6] != b"\x7fELF\x02\x01" or len(image) < 64:
        return None
    start = struct.unpack_from("<Q", image, 0x28)[0]
    size, count = struct.unpack_from("<HH", image, 0x3A)
    found: list[tuple[int, int]] = []
    for number in range(count):
        place = start + number * size
        if place + 64 > len(image):
            return None
        flags = struct.unpack_from("<Q", image, place + 8)[0]
        if flags & _EXECUTABLE:
            found.append(struct.unpack_from("<QQ", image, place + 0x18))
    return found
