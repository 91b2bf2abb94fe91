"""The bytes of a padded tile that exist, side by side.

A shared layout maps offsets to coordinates bit by bit, so a tile of 96 x 192 elements takes the
offsets of 128 x 256. Memory is given to those alone that exist. The highest bits of an axis, where
they are neighbours among the bits of an offset, are a digit that counts up to D - 1 if the axis
ends there, and what lies above it begins D steps on, not at the next power of two:

    offset   [ panel | row | inside ]            4 panels of 128 rows of W bytes
    place    (panel * 96 + row) * W + inside     3 panels of 96 rows

Places add up: place(a | b) = place(a) + place(b) where a & b = 0. Offsets of what does not exist
have places as well, which may be those of something else: nobody may write there, and what is read
there is anything. They end at `reach`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from workbench.layouts.linear import LinearLayout

#: What lies above a digit begins at a multiple of these bytes, as the widest accesses need.
_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Field:
    """Bits of an offset, from `start` up to `end`: each step of theirs takes `unit` places."""

    start: int
    end: int
    unit: int

    @property
    def mask(self) -> int:
        """The field's bits."""
        return (1 << self.end) - (1 << self.start)


@dataclass(frozen=True, slots=True)
class Packing:
    """Where offsets lie in memory; see the top of this file.

    size: places of a tile. reach: one more than the last place of any offset.
    """

    fields: tuple[Field, ...]
    size: int
    reach: int

    def place(self, offset: int) -> int:
        """Return where an offset lies."""
        return sum(((offset & f.mask) >> f.start) * f.unit for f in self.fields)

    def scaled(self, itemsize: int) -> Packing:
        """Return the same with offsets and places in bytes, for elements of a power of two."""
        if itemsize == 1:
            return self
        more = itemsize.bit_length() - 1
        fields = [Field(f.start + more, f.end + more, f.unit * itemsize) for f in self.fields]
        fields[0] = Field(0, fields[0].end, 1)
        return Packing(tuple(fields), self.size * itemsize, self.reach * itemsize)


@lru_cache(1024)
def packing(shared: LinearLayout, itemsize: int) -> Packing:
    """Return the packing of a shared layout, in elements."""
    count = len(shared.flat("offset"))
    digits = {first: (length, steps) for first, length, steps in _digits(shared)}
    fields, start, unit = list[Field](), 0, 1  # the field that begins at `start`
    size, bit, least = 1, 0, max(1, _ALIGNMENT // itemsize)
    while bit < count:
        length, steps = digits.get(bit, (1, 2))
        above = min(size << length, -(-size * steps // least) * least)
        bit += length
        if above < size << length and bit < count:
            fields.append(Field(start, bit, unit))
            start, unit = bit, above
        size = above
    fields.append(Field(start, count, unit))
    whole = Packing(tuple(fields), size, 0)
    return Packing(whole.fields, size, whole.place((1 << count) - 1) + 1)


def _digits(shared: LinearLayout) -> list[tuple[int, int, int]]:
    """Return (first bit, bits, steps) of offsets that count the end of a padded axis."""
    columns = shared.flat("offset")
    found: list[tuple[int, int, int]] = []
    for axis, extent in enumerate(shared.shape):
        if extent == shared.padded[axis]:
            continue
        below, bits = sum(shared.bits[axis + 1 :]), shared.bits[axis]
        run: list[int] = []
        for bit in reversed(range(bits)):
            having = [place for place, c in enumerate(columns) if c >> below + bit & 1]
            if len(having) != 1 or (run and having[0] != run[-1] - 1):
                break
            run.append(having[0])
        if run:
            found.append((run[-1], len(run), -(-extent // (1 << bits - len(run)))))
    return found
