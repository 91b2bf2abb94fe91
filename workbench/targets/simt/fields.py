"""Numbers that lie in fields of bytes, as halves: without a conversion for each of them.

Weights of 4 and 8 bits are made floats where they are multiplied, and chips convert integers slowly
(an H200 sixteen in a cycle, of 128 lanes). But a byte that is put under the byte 0x64 is the half
1024 + byte, and from there the number is one multiply-add away, which is exact:

    code   = word & field                  of four numbers
    halves = code ^ 0x6400 ^ sign          two of them, spread; a signed field becomes biased
    number = halves * 2^(e - s) - constant

`x`, `x & 15`, `x >> 4`, `(x << 4) >> 4` and the like are fields; so is what a constant is added to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from workbench.ir import BF16, F16, Scalar, Value, element_of, shape_of
from workbench.ops import Cast, Constant, Elementwise
from workbench.targets.llvm.emit import Emitter, float_literal
from workbench.targets.simt.lowering import Lowering

#: The upper byte of the half 1024, whose last place is 1.
_HIGH, _FIRST = 0x64, 1024


@dataclass(frozen=True)
class Field:
    """The number (bits start ... start + width - 1 of a byte of root) * 2^scale + added."""

    root: Value
    start: int
    width: int
    signed: bool
    scale: int = 0
    added: int = 0

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest number."""
        low = -(1 << self.width - 1) if self.signed else 0
        high = low + (1 << self.width) - 1
        return (low << self.scale) + self.added, (high << self.scale) + self.added


def field_of(value: Value) -> Field | None:
    """Return what a tile of integers is of the bytes of another; None if it is no field of them."""
    element, made = element_of(value.type), value.op
    if not isinstance(element, Scalar) or not element.is_integer or element.bits == 1:
        return None
    found = None
    if isinstance(made, Cast) and shape_of(value.type):
        found = field_of(made.source)
    elif isinstance(made, Elementwise) and len(made.inputs) == 2:
        found = _computed(made, element)
    if found is not None and _fits(found, element):
        return found
    return Field(value, 0, 8, element.kind == "int") if element.bits == 8 else None


def _fits(field: Field, element: Scalar) -> bool:
    least = -(1 << element.bits - 1) if element.kind == "int" else 0
    low, high = field.range
    return least <= low and high < least + (1 << element.bits)


def _computed(op: Elementwise, element: Scalar) -> Field | None:
    """Return what a function of a field and a constant is."""
    first, second = op.inputs
    constant = second.op
    if not isinstance(constant, Constant):
        return None
    by, field = int(constant.value), field_of(first)
    if field is None:
        return None
    if op.function == "and" and not field.added:
        return _masked(field, by % (1 << element.bits), element)
    if op.function in ("add", "sub"):
        return replace(field, added=field.added + (by if op.function == "add" else -by))
    if field.added or by < 0:
        return None
    if op.function == "shl":
        # What leaves the type at its top is lost; what comes to lie there is its sign.
        top = field.width + field.scale + by
        width = min(field.width, element.bits - field.scale - by)
        signed = field.signed if top < element.bits else element.kind == "int"
        if width <= 0:
            return None
        return replace(field, width=width, signed=signed, scale=field.scale + by)
    if op.function == "shr":
        zeros = min(by, field.scale)
        lost = by - zeros
        if lost >= field.width:
            return None
        return replace(
            field, start=field.start + lost, width=field.width - lost, scale=field.scale - zeros
        )
    return None


def _masked(field: Field, mask: int, element: Scalar) -> Field | None:
    """Return the bits of a field under a mask whose ones are neighbours."""
    mask >>= field.scale
    first = (mask & -mask).bit_length() - 1
    end = mask.bit_length()
    if not 0 <= first < field.width or mask != (1 << end) - (1 << first):
        return None
    if field.signed and end > field.width:
        return None  # copies of the sign
    # A mask that goes on above the field finds zeros there: the highest bit is no sign.
    signed = element.kind == "int" and end + field.scale == element.bits and end <= field.width
    return replace(
        field, start=field.start + first, width=min(end, field.width) - first,
        signed=signed, scale=field.scale + first,
    )  # fmt: skip


def numbers_of_field(low: Lowering, op: Cast) -> list[str | None] | None:
    """Return the registers of a cast of a field to halves or bfloats; None if it is no such cast.

    Bfloats have eight bits: 128 + the field, for fields of up to seven.
    """
    if op.to not in (F16, BF16) or not shape_of(op.result.type):
        return None
    field = field_of(op.source)
    if field is None or low.layout(op.result).registers() < 2:
        return None
    if low.layout(field.root) != low.layout(op.result):
        return None
    if op.to == F16:
        type, high, start = "half", _HIGH, field.start
        factor, constant = _line(field, _FIRST, start)
        if any(_beyond_half(number) for number in (factor, constant)):
            return None
    else:
        type, high, start = "bfloat", 0x43, 0
        factor, constant = _line(field, 128, start)
        if field.width > 7 or any(_beyond_bfloat(number) for number in (factor, constant)):
            return None
    live, found = set(low.live(op.result)), list[str | None]()
    places = low.bytes_of_words([r or "0" for r in low.registers(field.root)])
    for register, (word, place) in enumerate(places):
        if register not in live:
            found.append(None)
            continue
        pair = _widened(low.emit, _code(low.emit, field, word, start), place // 2)
        # A signed field is biased by what its inverted sign is worth.
        sign = 1 << start + field.width - 1 if field.signed else 0
        pair = low.emit.bitwise("xor", "i32", pair, str((high << 8 | sign) * 0x10001))
        number = _number(low.emit, type, pair, factor, constant)
        found.append(low.unpack(number, type)[place % 2])
    return found


def _beyond_half(number: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float16(number)) != number


def _beyond_bfloat(number: float) -> bool:
    return bool(np.float32(number).view(np.uint32) & 0xFFFF)


def _line(field: Field, first: int, start: int) -> tuple[float, float]:
    """Return (factor, constant): (first + code) * factor + constant is the number."""
    factor = 2.0 ** (field.scale - start)
    bias = (1 << field.width - 1) << field.scale if field.signed else 0
    return factor, field.added - bias - first * factor


def _code(emit: Emitter, field: Field, word: str, start: int) -> str:
    """Return a word of four bytes that hold a field alone, from bit `start` on."""
    mask = ((1 << field.width) - 1) << start
    code = emit.shift("lshr", "i32", word, field.start - start)
    return code if mask == 0xFF else emit.bitwise("and", "i32", code, str(_four(mask)))


def _four(byte: int) -> int:
    """Return a word of four such bytes, as LLVM writes an i32."""
    word = byte * 0x01010101
    return word - (1 << 32) if word >> 31 else word


def _widened(emit: Emitter, word: str, half: int) -> str:
    """Return two of a word's bytes as an i32 of two halves."""
    codes = emit.pure(f"bitcast i32 {word} to <4 x i8>")
    order = ", ".join(f"i32 {i}" for i in (2 * half, 4, 2 * half + 1, 4))
    both = emit.pure(
        f"shufflevector <4 x i8> {codes}, <4 x i8> zeroinitializer, <4 x i32> <{order}>"
    )
    return emit.pure(f"bitcast <4 x i8> {both} to i32")


def _number(emit: Emitter, type: str, word: str, factor: float, constant: float) -> str:
    kind = f"<2 x {type}>"

    def both(number: float) -> str:
        literal = float_literal(number, type)
        return f"<{type} {literal}, {type} {literal}>"

    number = emit.pure(f"bitcast i32 {word} to {kind}")
    if factor != 1.0:  # exact, so it does not matter whether the two are made one
        number = emit.pure(f"fmul contract {kind} {number}, {both(factor)}")
    number = emit.pure(f"fadd contract {kind} {number}, {both(constant)}")
    return emit.pure(f"bitcast {kind} {number} to i32")


__all__ = ["Field", "field_of", "numbers_of_field"]
