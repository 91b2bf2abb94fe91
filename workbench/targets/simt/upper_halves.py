"""Integers of bytes whose lower halves are zeros, as the bits of scales are: two in a register.

The exponent of a scale is a byte, and a float of it that byte at bit 23, to which a constant is
added. Nothing of it lies in the lower half, so two are computed as halves of one register:

    bytes  = word & 0x00FF00FF, or a permute of the other two
    halves = min(bytes * 2^7 + constants, bounds)        of each half by itself
    floats = halves << 16, halves & 0xFFFF0000
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import F32, Scalar, Value, element_of, shape_of
from workbench.ops import Bitcast, Cast, Constant, Elementwise
from workbench.targets.simt.lowering import Lowering

_HALF = 16
_BYTES = 0x00FF00FF


@dataclass(frozen=True, slots=True)
class Halves:
    """What the upper halves of integers of 32 bits are; their lower halves are zeros.

    Attributes:
        root: the tile of bytes of which they are computed.
        shift: by how much a byte lies higher in the upper half.
        added: what is added to that.
        most: what they are at most, None: no number bounds them.
        range: no result is larger.
    """

    root: Value
    shift: int
    added: int
    most: int | None
    range: int


def halves_of(value: Value) -> Halves | None:
    """Return of which bytes a tile is made so that only upper halves are no zeros, else None."""
    op, element = value.op, element_of(value.type)
    if not isinstance(op, Elementwise) or not isinstance(element, Scalar):
        return None
    if (element.kind, element.bits) != ("uint", 32) or len(op.inputs) != 2:
        return None
    first, second = op.inputs
    if not isinstance(second.op, Constant):
        return None
    by = int(second.op.value)
    if op.function == "shl":
        return _shifted(first, by)
    found = halves_of(first)
    if found is None or by < 0 or by % (1 << _HALF):
        return None
    by >>= _HALF
    if op.function == "add" and found.most is None and found.range + by < 1 << _HALF:
        return Halves(found.root, found.shift, found.added + by, None, found.range + by)
    if op.function == "min":
        most = by if found.most is None else min(by, found.most)
        return Halves(found.root, found.shift, found.added, most, min(found.range, most))
    return None


def _shifted(value: Value, by: int) -> Halves | None:
    made = value.op
    if not isinstance(made, Cast) or not _is_byte(made.source) or not _HALF <= by <= 24:
        return None
    by -= _HALF
    return Halves(made.source, by, 0, None, 0xFF << by)


def _is_byte(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and (element.kind, element.bits) == ("uint", 8)


def floats_of_halves(low: Lowering, op: Bitcast) -> bool:
    """Have a tile of floats computed by two where its bits are such; says whether it is."""
    if op.to != F32 or not shape_of(op.result.type) or not low.chip.bounds_halves:
        return False
    halves = halves_of(op.source)
    if halves is None or low.layout(halves.root) != low.layout(op.result):
        return False
    emit = low.emit

    def register(r: int) -> str:
        word, place = low.packing.byte_of_word(low.register(halves.root, r))
        both = _computed(low, halves, word, place % 2)
        if place < 2:
            bits = emit.shift("shl", "i32", both, _HALF)
        else:
            bits = emit.bitwise("and", "i32", both, str(-(1 << _HALF)))
        return emit.pure(f"bitcast i32 {bits} to float")

    low.set_lazy(op.result, register)
    return True


def _computed(low: Lowering, halves: Halves, word: str, first: int) -> str:
    """Return what is computed of a word's bytes `first` and `first` + 2, each in a half."""
    emit = low.emit
    if first:
        bytes_ = emit.pure(f"bitcast i32 {word} to <4 x i8>")
        order = "i32 1, i32 4, i32 3, i32 4"
        moved = emit.pure(
            f"shufflevector <4 x i8> {bytes_}, <4 x i8> zeroinitializer, <4 x i32> <{order}>"
        )
        pair = emit.pure(f"bitcast <4 x i8> {moved} to i32")
    else:
        pair = emit.bitwise("and", "i32", word, str(_BYTES))
    if halves.shift:  # a multiplication: other units do that than what is left
        pair = emit.mul("i32", pair, low.chip.held(emit, 1 << halves.shift))
    if halves.added:
        pair = emit.add("i32", pair, str(halves.added * 0x10001))
    if halves.most is None:
        return pair
    name = "llvm.umin.v2i16"
    emit.declare(name, f"declare <2 x i16> @{name}(<2 x i16>, <2 x i16>)")
    most = f"<i16 {halves.most}, i16 {halves.most}>"
    found = emit.pure(f"bitcast i32 {pair} to <2 x i16>")
    found = emit.pure(f"call <2 x i16> @{name}(<2 x i16> {found}, <2 x i16> {most})")
    return emit.pure(f"bitcast <2 x i16> {found} to i32")


__all__ = ["Halves", "floats_of_halves", "halves_of"]
