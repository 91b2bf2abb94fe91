"""Integers of 8 and 16 bits: computed in 32 bits and cut by an instruction of their own.

Narrow registers live in wider ones, and what wraps leaves something in the upper half that not
everybody reads alike. So nothing is left to read in two ways: whatever may leave the range of a
narrow type is computed in 32 bits, where it cannot wrap or wraps in the upper half only, and the
result is cut (`Hardware.cut`).
"""

from __future__ import annotations

from workbench.ir import I32, U32, Scalar
from workbench.targets.llvm.emit import Emitter, is_integer
from workbench.targets.simt.hardware import Hardware

#: The width at which narrow integers are computed.
WIDE = "i32"

#: Functions whose results are made of the operands' bits: nothing can leave the range.
CLOSED = frozenset(("and", "or", "xor", "min", "max", "minimum", "maximum"))

#: Functions whose low result bits depend on the operands' low bits only: any extension will do, and
#: zeros above cost least (a load brings them).
_LOW_BITS = frozenset(("add", "sub", "mul", "neg", "shl"))

#: Functions that count or move the bits of the word, so that zeros must stand above them.
_BITS = frozenset(("popcount", "leading_zeros", "reverse_bits"))


def is_narrow(element: Scalar) -> bool:
    """Say whether a type is an integer of less than a whole register."""
    return element.is_integer and element.bits in (8, 16)


def wide_element(element: Scalar) -> Scalar:
    """Return the 32-bit integer in which a narrow one is computed."""
    return I32 if element.kind == "int" else U32


def widened(emit: Emitter, function: str, element: Scalar, inputs: list[str]) -> list[str]:
    """Return the operands of a function of narrow integers in 32 bits."""
    low_bits, signed = function in _LOW_BITS, element.kind == "int"
    signs = [signed and not low_bits and function not in _BITS] * len(inputs)
    if function in ("shl", "shr"):
        signs[1] = False
    found: list[str] = []
    for value, sign in zip(inputs, signs, strict=True):
        if low_bits and is_integer(value):
            found.append(value)  # x * -1 is a negation, x * 65535 is not seen to be one
        else:
            extend = emit.sext if sign else emit.zext
            found.append(extend(value, f"i{element.bits}", WIDE))
    return found


def narrowed(emit: Emitter, chip: Hardware, value: str, from_type: str, to_type: str) -> str:
    """Return the low 8 or 16 bits of an integer of 32 or 64 bits."""
    if is_integer(value):
        return emit.trunc(value, from_type, to_type)
    return chip.cut(emit, emit.trunc(value, from_type, WIDE), to_type)
