"""Which dtype an operation on two operands computes in (README.md, rules 3 to 6)."""

from __future__ import annotations

from typing import Any

from workbench.language.dtypes import bfloat16, dtype, float16, float32, float64
from workbench.language.values import describe, is_number, strong_dtype, tensor
from workbench.source import KernelTypeError


def common_dtype(a: Any, b: Any, symbol: str, *, division: bool = False) -> dtype:
    """Return the dtype of `a symbol b`, where at most one of the two is weak (rule 3)."""
    weak_a, weak_b = is_number(a), is_number(b)
    if weak_a and weak_b:
        return promote(strong_dtype(a), strong_dtype(b), symbol, division=division)
    if weak_a or weak_b:
        number, other = (a, b) if weak_a else (b, a)
        return _weak(number, other, symbol, division)
    return promote(a.dtype, b.dtype, symbol, division=division)


def _weak(number: Any, other: tensor, symbol: str, division: bool) -> dtype:
    rank = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
    if rank > other.dtype.kind_rank():
        return promote(strong_dtype(number), other.dtype, symbol, division=division)
    if division and other.dtype in (float16, bfloat16):
        return float32
    if isinstance(number, int) and other.dtype.is_int():
        check_fits(number, other, symbol)
    return other.dtype


def check_fits(number: int, other: tensor, symbol: str) -> None:
    """Raise KernelTypeError where an integer literal does not fit the tensor it meets."""
    low, high = other.dtype.int_limits()
    if low <= number <= high:
        return
    if number < 0 and other.dtype.is_int_unsigned():
        hint = f"cast the tensor to a signed type first, e.g. .to(tl.int{other.dtype.int_bitwidth})"
    else:
        hint = "cast the tensor to a wider type first, e.g. .to(tl.int64)"
    raise KernelTypeError(
        f"{number} does not fit {other.dtype} ({low} to {high}), the type of "
        f"{describe(other)} in '{symbol}': it is out of range",
        hint=hint,
    )


def promote(a: dtype, b: dtype, symbol: str = "", *, division: bool = False) -> dtype:
    """Return the common dtype of two strong operands (rules 5 and 6)."""
    if a.is_ptr() or b.is_ptr():
        raise KernelTypeError(
            f"'{symbol}' does not take pointers: {a} and {b}",
            hint="pointers take + and - with integers; load the values first",
        )
    if float64 in (a, b):
        return float64
    if float32 in (a, b):
        return float32
    if float16 in (a, b):
        return float32 if division else float16
    if bfloat16 in (a, b):
        return bfloat16 if a == b and not division else float32
    if a.is_floating() or b.is_floating():
        return _promote_fp8(a, b, symbol)
    return _promote_integers(a, b, symbol, division)


def _promote_fp8(a: dtype, b: dtype, symbol: str) -> dtype:
    if not (a.is_floating() and b.is_floating()):
        raise KernelTypeError(
            f"'{symbol}' of {a} and {b} has no common type",
            hint="cast the 8-bit float first, e.g. .to(tl.float32)",
        )
    return a if a == b else float16


def _promote_integers(a: dtype, b: dtype, symbol: str, division: bool) -> dtype:
    signed_a, signed_b = a.is_int_signed(), b.is_int_signed()
    if division and signed_a != signed_b:
        raise KernelTypeError(
            f"Cannot use '{symbol}' on {a} and {b} because they have different "
            "signedness: one is signed, the other is not",
            hint="cast one of them so that both are signed or both unsigned",
        )
    bits_a, bits_b = a.int_bitwidth, b.int_bitwidth
    if signed_a == signed_b:
        return a if bits_a > bits_b else b
    if signed_a:
        return b if bits_b >= bits_a else a
    return a if bits_a >= bits_b else b
