"""How each scalar type is held in NumPy arrays, rounded, and laid out as bits in memory.

NumPy has no bf16 and no 8-bit floats: their values live in float32 arrays that hold only
representable numbers. `round_to` makes them so; `encode` and `decode` give the bits in memory.
Rounding is to nearest, ties to even, and happens once; `toward_zero` rounds the other way. What a
float becomes as an integer is said by `to_integer` alone: NumPy leaves it to the machine and warns.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from workbench.ir import BF16, F16, F32, F64, I1, INDEX, Array, Element, Scalar
from workbench.ops.small_floats import (
    SMALL_FLOATS,
    codes,
    codes_toward_zero,
    held_codes,
    table,
)

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


#: An integer of Python's, exact, or an array of integers.
Integer = TypeVar("Integer", int, Array)


def truncated_quotient(a: Integer, b: Integer) -> Integer:
    """Return a / b rounded toward zero, as C and PTX divide; `b` is nowhere 0."""
    floor: Any = a // b
    return floor + ((floor < 0) & (floor * b != a))


def truncated_remainder(a: Integer, b: Integer) -> Integer:
    """Return what truncated division leaves: it has the sign of `a`; `b` is nowhere 0."""
    return a - truncated_quotient(a, b) * b


def value_dtype(element: Element) -> Any:
    """Return the NumPy dtype in which values of a type are held while they are computed with."""
    if not isinstance(element, Scalar) or element is INDEX:
        return np.int64
    if element.kind == "bool":
        return np.bool_
    if element.kind == "float":
        return {F16: np.float16, F64: np.float64}.get(element, np.float32)
    return (_SIGNED if element.kind == "int" else _UNSIGNED)[element.bits]


def memory_dtype(element: Element) -> Any:
    """Return the NumPy dtype of the bits of one element in memory."""
    if element == BF16 or element in SMALL_FLOATS:
        return _UNSIGNED[element.bits]
    return np.uint8 if element == I1 else value_dtype(element)


def round_to(values: Array | float, element: Element) -> Array:
    """Return `values` as the nearest values of a type; integers are truncated to its width."""
    with np.errstate(all="ignore"):
        if element == BF16:
            return _widen_bf16(_bf16_bits(values))
        if element in SMALL_FLOATS:
            return table(element)[codes(values, element)]
        values = np.asarray(values)
        if values.dtype.kind == "f" and isinstance(element, Scalar) and element.is_integer:
            return to_integer(values, element)
        return values.astype(value_dtype(element))


def to_integer(values: Array | float, element: Scalar) -> Array:
    """Return floats as integers: truncated, saturated to the type's range, 0 for NaN.

    PTX ISA 9.0, cvt.rzi; for i1 it is `!= 0`, which a NaN is. Never warns, whatever the values.
    """
    with np.errstate(all="ignore"):
        wide = np.asarray(values, np.float64)
        if element.kind == "bool":
            return wide != 0
        low, high = (int(limit) for limit in limits(element))
        whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
        # The highest integer of 64 bits is no float64: what it rounds to lies outside.
        above, below = whole >= float(high), whole < float(low)
        dtype = value_dtype(element)
        inside = np.where(above | below, 0.0, whole).astype(dtype)
        return np.where(above, dtype(high), np.where(below, dtype(low), inside))


def toward_zero(values: Array, element: Scalar) -> Array:
    """Return floats as the values of a narrower float next to them on the side of zero.

    An infinity stays one where the type has it in conversions (f32, f16, bf16); 8-bit floats
    saturate.
    """
    with np.errstate(all="ignore"):
        if element in SMALL_FLOATS:
            return table(element)[codes_toward_zero(values, element)]
        near = round_to(values, element)
        away = np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64))
        bits = bits_of(near, element)
        inward = from_bits(bits - away.astype(bits.dtype), element).reshape(near.shape)
        return np.where(away, inward, near)


def round_tf32(values: Array) -> Array:
    """Return float32 values rounded to the 10 bits of mantissa that tf32 has, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    bits = bits + 0xFFF + ((bits >> np.uint64(13)) & np.uint64(1))
    rounded = (bits & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


def cut_to_tf32(values: Array) -> Array:
    """Return float32 values without what lies below the 10 bits of mantissa that tf32 has."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), bits.view(np.float32), values).astype(np.float32)


def encode(values: Array, element: Element) -> Array:
    """Return the bits that values of a type have in memory."""
    with np.errstate(all="ignore"):
        if element == BF16:
            return _bf16_bits(values)
        if element in SMALL_FLOATS:
            return held_codes(values, element)
    if element == I1:
        return np.asarray(values, np.uint8)
    return np.asarray(values, value_dtype(element))


def decode(bits: Array, element: Element) -> Array:
    """Return the values that bits in memory stand for."""
    if element == BF16:
        return _widen_bf16(bits)
    if element in SMALL_FLOATS:
        return table(element)[bits]
    if element == I1:
        return bits != 0
    return bits


def bits_of(values: Array, element: Element) -> Array:
    """Return values of a type as unsigned integers of its width."""
    if element.kind == "bool":
        return np.asarray(values, np.uint8)
    held = np.ascontiguousarray(encode(values, element)).view(_UNSIGNED[element.bits])
    return held.reshape(np.shape(values))


def from_bits(bits: Array, element: Element) -> Array:
    """Return the values of a type that unsigned integers of its width stand for."""
    held = np.ascontiguousarray(bits).view(memory_dtype(element))
    return decode(held.reshape(np.shape(bits)), element)


def _single(values: Array | float) -> Array:
    """Return values as float32 that round to narrower floats as they themselves do.

    float64 is rounded to odd: truncated, the last bit set where that lost something. To nearest
    twice could make a tie of what was none (S. Boldo, G. Melquiond, Emulation of FMA, 2008).
    """
    wide = np.asarray(values)
    near = wide.astype(np.float32)
    if wide.dtype != np.float64:
        return near
    bits = near.view(np.uint32) - (np.abs(near.astype(np.float64)) > np.abs(wide))
    exact = bits.astype(np.uint32).view(np.float32).astype(np.float64) == wide
    return (bits | ~exact).astype(np.uint32).view(np.float32)


def _bf16_bits(values: Array | float) -> Array:
    single = np.ascontiguousarray(_single(values))
    bits = single.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> np.uint64(16)
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16).reshape(np.shape(values))


def _widen_bf16(bits: Array) -> Array:
    wide = np.ascontiguousarray(np.asarray(bits, np.uint16)).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).reshape(np.shape(bits))


def limits(element: Scalar) -> tuple[float, float]:
    """Return the smallest and largest value of a type (infinities for floats that have them)."""
    if element.kind == "float":
        form = SMALL_FLOATS.get(element)
        if form is not None and form.infinity is None:
            return -form.top, form.top
        return float("-inf"), float("inf")
    if element.kind == "bool":
        return 0, 1
    if element.kind == "uint":
        return 0, (1 << element.bits) - 1
    return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1


def infinity_bits(element: Element) -> int:
    """Return the largest bit pattern of a positive float that is no NaN."""
    form = SMALL_FLOATS.get(element) if isinstance(element, Scalar) else None
    if form is not None:
        return form.infinity or (form.largest if form.nan == 0x7F else 0x7F)
    bits: dict[Element, int] = {F64: 0x7FF << 52, F32: 0xFF << 23, F16: 0x7C00, BF16: 0x7F80}
    return bits[element]


def loses_infinities(element: Scalar) -> bool:
    """Say whether a type has infinities that rounding to it makes its largest number of."""
    form = SMALL_FLOATS.get(element)
    return form is not None and form.infinity is not None


def compute_element(element: Scalar) -> Scalar:
    """Return the type in which arithmetic on a type is carried out before it is rounded."""
    return F32 if element == BF16 or element in SMALL_FLOATS else element
