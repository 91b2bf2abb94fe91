"""Floats of 16 bits that are put together of fields, two of them in a register.

Codes of small floats are bits of bytes, or of words, and become floats where they are put at the
bits that weigh the same, a sign apart from the rest:

    bits  = (code << 9) & 0x0E00 | (code << 12) & 0x8000
    float = bits, times 2^14

Two such codes that lie 16 bits apart in a word take what one of them takes. Others are brought
there first by a permute, and a shift where one of them lies higher in its byte than the other.

Where all of it is put into the upper byte of a half, the four bytes of a word are put together at
once, and permutes bring two of them above zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.ir import BF16, F16, Scalar, Value, element_of, shape_of
from workbench.ops import Bitcast, Cast, Constant, Elementwise
from workbench.targets.llvm.emit import Emitter
from workbench.targets.simt.fields import Field, field_of, four_of, shifts_of, spread
from workbench.targets.simt.lowering import Lowering, llvm_type

_WIDTH = 16


@dataclass(frozen=True)
class Bits:
    """An integer of 16 bits that has fields of one element at bits of it, and constant ones."""

    #: Each at the bits from its `scale` on, none of which another has.
    fields: tuple[Field, ...]
    ones: int = 0

    @property
    def root(self) -> Value:
        """The tile whose elements have the fields."""
        return self.fields[0].root

    @property
    def ends(self) -> tuple[int, int]:
        """Between which bits of an element (of 32: from where it is shifted to) the fields lie."""
        first = min(field.start for field in self.fields)
        return first, max(field.start + field.width for field in self.fields)

    @property
    def taken(self) -> int:
        """The bits that may be ones."""
        return self.ones | sum(map(_mask, self.fields))

    @property
    def by_bytes(self) -> bool:
        """Whether four are put together at once: of several fields, with zeros for a low byte."""
        return len(self.fields) > 1 and not self.taken & 0xFF


def _mask(field: Field) -> int:
    return ((1 << field.width) - 1) << field.scale


def bits_of(value: Value) -> Bits | None:
    """Return of which fields a tile of integers of 16 bits is put together; None if of none."""
    op = value.op
    if not _is_integer(value) or not shape_of(value.type):
        return None
    if isinstance(op, Elementwise) and op.function in ("or", "xor", "add") and len(op.inputs) == 2:
        return _together(*op.inputs)
    if isinstance(op, Cast) and _is_integer(op.source) and (found := bits_of(op.source)):
        return found if found.taken >> _kept(value) == 0 else None
    field = field_of(value)
    if field is None or field.signed or field.added or field.root is value:
        return None
    return Bits((field,))


def _kept(value: Value) -> int:
    """Return how many low bits of an integer a wider one has, too, with zeros above them."""
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    return _WIDTH if element.bits >= _WIDTH else element.bits - (element.kind == "int")


def _is_integer(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and element.is_integer


def _together(first: Value, second: Value) -> Bits | None:
    found = bits_of(first)
    if found is None:
        return None
    if isinstance(second.op, Constant):
        ones = int(second.op.value)
        return None if ones < 0 or found.taken & ones else replace(found, ones=found.ones | ones)
    more = bits_of(second)
    if more is None or found.taken & more.taken or found.root is not more.root:
        return None
    if any(field.shifts is not found.fields[0].shifts for field in more.fields):
        return None
    return Bits((*found.fields, *more.fields), found.ones | more.ones)


def floats_of_bits(low: Lowering, op: Bitcast) -> list[str | None] | None:
    """Return the registers of floats whose bits are fields, made in pairs; None if they are not."""
    bits = _known(low, op.result)
    if bits is None:
        return None
    live = set(low.live(op.result))
    found: list[str | None] = [None] * low.layout(op.result).registers()
    for first in sorted({register & ~1 for register in live}):
        pair = [register if register in live else register ^ 1 for register in (first, first + 1)]
        places = [_place_of(low, bits, register) for register in pair]
        found[first : first + 2] = _side_by_side(low, (bits, bits), places, llvm_type(op.to))
    return found


def neighbours_of_bits(
    low: Lowering, values: Sequence[Value], registers: Sequence[int]
) -> dict[int, list[str]] | None:
    """Return some registers of two tiles of such floats, made side by side in a word."""
    first, second = (_known(low, value) for value in values)
    to = element_of(values[0].type)
    if first is None or second is None or not _alike(first, second):
        return None
    both, type = (first, second), llvm_type(to)
    return {
        register: _side_by_side(low, both, [_place_of(low, one, register) for one in both], type)
        for register in registers
    }


def _known(low: Lowering, value: Value) -> Bits | None:
    made = value.op
    if not isinstance(made, Bitcast) or made.to not in (F16, BF16) or not shape_of(value.type):
        return None
    found = bits_of(made.source)
    if found is None or low.layout(value).registers() < 2:
        return None
    if low.layout(found.root) != low.layout(value):
        return None
    lifted = _lifted(low, found)
    if lifted is None:
        return None
    first, end = found.ends
    one_byte = all((first + by) // 8 == (end - 1 + by) // 8 for by in lifted)
    return found if one_byte else None


def _alike(first: Bits, second: Bits) -> bool:
    """Say whether two have fields at the same bits, which lie alike in an element."""
    by = second.ends[0] - first.ends[0]
    moved = tuple(replace(field, root=second.root, start=field.start + by, shifts=None)
                  for field in first.fields)  # fmt: skip
    return first.ones == second.ones and moved == tuple(
        replace(field, shifts=None) for field in second.fields
    )


def _lifted(low: Lowering, bits: Bits) -> tuple[int, ...] | None:
    """Return by how much registers' fields may lie higher; None if that is not known."""
    field = bits.fields[0]
    if field.shifts is None:
        return (0,)
    shifts = shifts_of(field, low.layout(bits.root))
    return None if shifts is None else shifts.by_register


def _has_whole_words(low: Lowering, bits: Bits) -> bool:
    """Say whether a thread has bytes by fours: fewer take less if put together two by two."""
    field, layout = bits.fields[0], low.layout(bits.root)
    if field.shifts is None:
        own = layout.bases["register"]
        return element_of(bits.root.type).bits == 8 and any(
            all(
                tuple(step * (other == axis) for other in range(layout.rank)) in own
                for step in (1, 2)
            )
            for axis in range(layout.rank)
        )
    shifts = shifts_of(field, layout)
    assert shifts is not None
    return len({shift // 8 for shift in shifts.by_register}) == 4


def _place_of(low: Lowering, bits: Bits, register: int) -> tuple[str, int]:
    """Return a word and the bit of it from which an element's fields are counted."""
    root, field = low.register(bits.root, register), bits.fields[0]
    if element_of(bits.root.type).bits == 8:
        word, place = low.packing.byte_of_word(root)
        return word, 8 * place
    if field.shifts is None:
        return root, 0
    shifts = shifts_of(field, low.layout(bits.root))
    assert shifts is not None
    if shifts.by_thread:
        by = low.register(field.shifts, 0)
        if shifts.by_register[0]:
            by = low.emit.add("i32", by, str(-shifts.by_register[0]))
        root = low.emit.pure(f"lshr i32 {root}, {by}")
    return root, shifts.by_register[register]


def _side_by_side(
    low: Lowering, both: tuple[Bits, Bits], places: Sequence[tuple[str, int]], type: str
) -> list[str]:
    """Return two floats, made in one word of two words and the bits where their fields begin."""
    emit = low.emit
    words = [word for word, _ in places]
    starts = [at + bits.ends[0] for (_, at), bits in zip(places, both, strict=True)]
    back = 1
    if words[0] == words[1] and abs(starts[0] - starts[1]) == _WIDTH:
        word, start = words[0], min(starts)
        back = 1 if starts[0] < starts[1] else -1
    elif both[0].by_bytes and all(_has_whole_words(low, bits) for bits in both):
        made = [_upper_bytes(low, both[0], w, s % 8) for w, s in zip(words, starts, strict=True)]
        return low.packing.unpack(_above_zeros(low, made, [s // 8 for s in starts]), type)
    else:
        # Fields lie alike in both bytes, as high as they do in the one that has them higher.
        high = max(start % 8 for start in starts)
        moved = [
            emit.shift("shl", "i32", word, high - start % 8)
            for word, start in zip(words, starts, strict=True)
        ]
        word = spread(emit, [(w, start // 8) for w, start in zip(moved, starts, strict=True)])
        start = max(high, high + 8, key=lambda first: _stay(both[0], first))
    return low.packing.unpack(_spread_bits(low, both[0], word, start), type)[::back]


def _stay(bits: Bits, start: int) -> int:
    """Return how many fields lie where they are wanted if the first bit of all is that one."""
    return sum(f.scale == start + f.start - bits.ends[0] for f in bits.fields)


def _spread_bits(low: Lowering, bits: Bits, word: str, start: int) -> str:
    """Return two integers of 16 bits whose fields lie in the halves of a word, from a bit on."""
    emit, found = low.emit, None
    for field in bits.fields:
        by = field.scale - (start + field.start - bits.ends[0])
        moved = emit.shift("shl" if by > 0 else "lshr", "i32", word, abs(by))
        mask = low.chip.held(emit, _both(_mask(field)))
        part = emit.bitwise("and", "i32", moved, mask)
        found = part if found is None else emit.bitwise("or", "i32", found, part)
    assert found is not None
    return emit.bitwise("or", "i32", found, str(_both(bits.ones))) if bits.ones else found


def _upper_bytes(low: Lowering, bits: Bits, word: str, start: int) -> str:
    """Return the upper bytes of four integers whose fields lie in a word's bytes, from a bit on.

    A word is moved as a whole: what comes from a byte beside it no mask leaves.
    """
    emit, found = low.emit, None
    for field in bits.fields:
        by = field.scale - 8 - (start + field.start - bits.ends[0])
        moved = emit.shift("shl" if by > 0 else "lshr", "i32", word, abs(by))
        mask = low.chip.held(emit, four_of(_mask(field) >> 8))
        part = emit.bitwise("and", "i32", moved, mask)
        found = part if found is None else emit.bitwise("or", "i32", found, part)
    assert found is not None
    return emit.bitwise("or", "i32", found, str(four_of(bits.ones >> 8))) if bits.ones else found


def _above_zeros(low: Lowering, words: Sequence[str], places: Sequence[int]) -> str:
    """Return a word that has a byte of one word and one of another as its second and its fourth.

    Bytes at one place are brought beside each other first, with those behind them.
    """
    emit, (first, second) = low.emit, places
    if words[0] != words[1] and first == second:
        pair, place = first & ~1, 2 * (first & 1)
        order = (pair, 4 + pair, pair + 1, 5 + pair)
        beside = _permuted(emit, words[0], words[1], order)
        return _permuted(emit, beside, "0", (4, place, 4, place + 1))
    if words[0] == words[1]:
        return _permuted(emit, words[0], "0", (4, first, 4, second))
    both = _permuted(emit, words[0], words[1], (first, first, 4 + second, 4 + second))
    return emit.bitwise("and", "i32", both, str(_both(0xFF00)))


def _permuted(emit: Emitter, first: str, second: str, order: Sequence[int]) -> str:
    """Return a word of four of the bytes of two words."""
    bytes_ = (emit.pure(f"bitcast i32 {word} to <4 x i8>") for word in (first, second))
    a, b = bytes_
    places = ", ".join(f"i32 {i}" for i in order)
    both = emit.pure(f"shufflevector <4 x i8> {a}, <4 x i8> {b}, <4 x i32> <{places}>")
    return emit.pure(f"bitcast <4 x i8> {both} to i32")


def _both(half: int) -> int:
    """Return a word with the same in both halves, as LLVM writes an i32."""
    word = half * 0x10001
    return word - (1 << 32) if word >> 31 else word


__all__ = ["Bits", "bits_of", "floats_of_bits", "neighbours_of_bits"]
