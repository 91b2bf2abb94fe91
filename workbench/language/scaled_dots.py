"""Products of block-scaled operands (microscaling formats), by way of 16-bit operands.

No target here multiplies scaled 4- and 8-bit operands itself, so both are decoded and scaled,
rounded once to bf16 (fp16 where one of them is fp16), and multiplied. Decoding is exact; so is
scaling, but for results outside the 16-bit format's range.

That gives what fp32 would. 4-bit floats never are any: their bits, put where those of the 16-bit
format weigh the same, are the number times a power of two, subnormal ones included, and what is
left is multiplied in that format; so are e4m3 and its scale in fp16. That has not all powers of
two, so a scale is two factors there, of which the first rounds nothing but what the second makes
zero.

Of few rows the sums of a run of 4-bit floats are fewer than its numbers: scales multiply these, in
fp32. No number is rounded then; scales up to 2^113 are exact, larger ones infinite or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from workbench.language.arithmetic import arithmetic, binary, minimum, where
from workbench.language.casts import bitcast_tensor, cast_tensor
from workbench.language.dots import dot, dot_with_factors
from workbench.language.dtypes import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int8,
    uint8,
    uint16,
    uint32,
)
from workbench.language.shapes import (
    broadcast_tensor,
    insert_axis,
    join,
    permute,
    reshape_tensor,
    splat_constant,
    trans,
)
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import describe, origins, static, tensor, to_tensor
from workbench.source import ConstexprError, KernelTypeError, ShapeError

#: Up to so many rows the sums of runs along K are fewer than the numbers by a half.
_FEW_ROWS = 16
_FORMATS: dict[str, tuple[dtype, dtype]] = {
    "e4m3": (float8e4nv, uint8), "e5m2": (float8e5, uint8), "bf16": (bfloat16, uint16),
    "fp16": (float16, uint16),
}  # fmt: skip


@builtin
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = float32,
) -> tensor:
    """Return the product of operands whose runs along K share a scale (+ acc).

    Formats are "e2m1" (two per uint8, the low half first, along K unless `*_k_pack` is False),
    "e4m3", "e5m2", "bf16" and "fp16". Scales are powers of two in uint8 (e8m0), one for 32
    numbers, of shape [.., M, K/32] and [.., N, K/32], or float8e4nv, one for 16, of shape
    [.., M, K/16] and [.., N, K/16]; None stands for 1. Raises ShapeError for any other shape.
    """
    formats = [_format(f, side) for f, side in ((lhs_format, "lhs"), (rhs_format, "rhs"))]
    to = float16 if "fp16" in formats else bfloat16
    exact_nan = not static(fast_math, "fast_math")
    for value, side in ((lhs, "lhs"), (rhs, "rhs")):
        block = to_tensor(value)
        if len(block.shape) < 2:
            raise ShapeError(
                f"dot_scaled needs blocks of 2 or 3 axes, {side} is {describe(block)}",
                hint="add an axis where one is missing, e.g. x[:, None]",
            )
    along_k = _along_k(lhs_k_pack, formats[0], "lhs"), _along_k(rhs_k_pack, formats[1], "rhs")
    a = _decoded(to_tensor(lhs), formats[0], -1 if along_k[0] else -2, "lhs", to)
    b = _decoded(to_tensor(rhs), formats[1], -2 if along_k[1] else -1, "rhs", to)
    current().remark(f"dot_scaled multiplies in {to}: no instruction takes scaled operands here")
    if not _is_given(lhs_scale) and _scales_sums(a, b, rhs_scale, out_dtype):
        return _with_scaled_sums(a, b, rhs_scale, acc)
    a = _scaled(a, lhs_scale, "lhs", exact_nan=exact_nan)
    if _is_given(rhs_scale):
        turned = replace(b, value=trans(b.value))
        scaled = _scaled(turned, rhs_scale, "rhs", exact_nan=exact_nan)
        b = replace(scaled, value=trans(scaled.value))
    first, second = (cast_tensor(_multiplied(one), to) for one in (a, b))
    return dot(first, second, acc, out_dtype=out_dtype)


def _scales_sums(a: _Decoded, b: _Decoded, scale: Any, out_dtype: Any) -> bool:
    """Say whether sums of runs along K are multiplied by scales, which are fewer than numbers.

    Numbers that are what they are, not divided, take less: their scales are no sum of exponents.
    """
    rows, extent = a.value.shape[-2:]
    return (
        _is_given(scale)
        and to_tensor(scale).dtype in (uint8, int8)
        and len(b.value.shape) == 2
        and rows <= _FEW_ROWS
        and extent & (extent - 1) == 0
        and b.value.dtype == float16
        and b.divided > 0
        and static(out_dtype, "out_dtype") == float32
    )


def _with_scaled_sums(a: _Decoded, b: _Decoded, scale: Any, acc: Any) -> tensor:
    """Return the product of numbers as they are decoded; scales multiply sums in fp32."""
    factors = to_tensor(scale)
    turned = trans(b.value)
    run = _run_length(factors, "rhs")
    _check_scale_shape(turned, factors, run, "rhs")
    numbers = _sum_factors(factors, b.divided)
    first = cast_tensor(_multiplied(a), float16)
    return dot_with_factors(first, b.value, acc, numbers)


def _sum_factors(scale: tensor, divided: int) -> tensor:
    """Return scales times what numbers are divided by, in fp32; what leaves its range is NaN."""
    exponent = cast_tensor(_exponents(scale), uint32)
    bits = arithmetic("+", arithmetic("<<", exponent, 23), divided << 23)
    return bitcast_tensor(minimum(bits, 0x7FC00000), float32)


def _format(word: Any, side: str) -> str:
    name = static(word, f"{side}_format")
    if name != "e2m1" and name not in _FORMATS:
        raise ConstexprError(
            f"dot_scaled knows no {side}_format {name!r}",
            hint="use 'e2m1', 'e4m3', 'e5m2', 'bf16' or 'fp16'",
        )
    return name


def _along_k(pack: Any, name: str, side: str) -> bool:
    """Say whether an operand's bytes have neighbours along K; only e2m1 has any."""
    found = bool(static(pack, f"{side}_k_pack"))
    if not found and name != "e2m1":
        raise ConstexprError(
            f"dot_scaled got {side}_k_pack=False for {side}_format {name!r}: only e2m1 has two "
            "numbers in a byte, which may be packed along another axis than K",
            hint=f"leave {side}_k_pack out",
        )
    return found


def _is_given(scale: Any) -> bool:
    return scale is not None and getattr(scale, "value", scale) is not None


@dataclass(frozen=True)
class _Decoded:
    """Numbers of an operand, divided by a power of two; in fp32, or in what is multiplied."""

    value: tensor
    divided: int = 0


def _decoded(x: tensor, name: str, packed_axis: int, side: str, to: dtype) -> _Decoded:
    """Return an operand's numbers (bf16 and fp16 as they are)."""
    if name == "e2m1":
        if x.dtype != uint8:
            raise KernelTypeError(
                f"dot_scaled takes e2m1 as uint8, two numbers each; {side} is {describe(x)}",
                hint="load it as tl.uint8, the first number in the low half",
            )
        return _unpacked(x, packed_axis, to)
    kind, raw = _FORMATS[name]
    if x.dtype not in (kind, raw):
        raise KernelTypeError(
            f"dot_scaled got {side}_format {name!r} for {describe(x)}",
            hint=f"pass {kind.spelling}, or its bits as {raw.spelling}",
        )
    held = float16 if name == "e4m3" and to == float16 else float32
    return _Decoded(cast_tensor(bitcast_tensor(x, kind), held))


def _unpacked(x: tensor, axis: int, to: dtype) -> _Decoded:
    """Return two numbers for each byte, the low half first, side by side along an axis.

    A code is a sign and three bits, the last one the mantissa.
    """
    rank, wide = len(x.shape), cast_tensor(x, uint16)
    mantissa, bias = (10, 15) if to == float16 else (7, 127)
    place = mantissa - 1

    def number(start: int) -> tensor:
        size = arithmetic("&", arithmetic("<<", wide, place - start), 7 << place)
        sign = arithmetic("&", arithmetic("<<", wide, 12 - start), 1 << 15)
        return bitcast_tensor(arithmetic("|", size, sign), to)

    halves = join(number(0), number(4))
    if axis == -2:
        halves = permute(halves, *range(rank - 1), rank, rank - 1)
    shape = list(x.shape)
    shape[axis] *= 2
    return _Decoded(reshape_tensor(halves, tuple(shape)), bias - 1)


def _multiplied(x: _Decoded) -> tensor:
    return arithmetic("*", x.value, 2.0**x.divided) if x.divided else x.value


def _scaled(x: _Decoded, scale: Any, side: str, *, exact_nan: bool) -> _Decoded:
    """Return [.., rows, K] with each run along K times its scale [.., rows, K / run]."""
    if not _is_given(scale):
        return x
    factors, shape, kind = to_tensor(scale), x.value.shape, x.value.dtype
    run = _run_length(factors, side)
    _check_scale_shape(x.value, factors, run, side)
    if kind == float16 and factors.dtype != float8e4nv:
        value, numbers = x.value, _half_factors(factors, x, exact_nan=exact_nan)
    else:
        value = cast_tensor(_multiplied(x), kind)
        numbers = (cast_tensor(_factors(factors, exact_nan=exact_nan), kind),)
    for number in numbers:
        wide = broadcast_tensor(insert_axis(number, len(shape)), (*factors.shape, run))
        value = arithmetic("*", value, reshape_tensor(wide, shape))
    return _Decoded(value)


def _run_length(factors: tensor, side: str) -> int:
    """Return how many numbers along K share a scale: the scale's dtype says so, as in Triton."""
    if factors.dtype == float8e4nv:
        return 16
    if factors.dtype in (uint8, int8):
        return 32
    raise KernelTypeError(
        f"dot_scaled takes scales of uint8 (e8m0) or float8e4nv, {side}_scale is "
        f"{describe(factors)}",
        hint="cast it first; e8m0 scales are exponents + 127 as tl.uint8",
    )


def _check_scale_shape(x: tensor, factors: tensor, run: int, side: str) -> None:
    rows, extent = x.shape[-2:]
    name = "M" if side == "lhs" else "N"
    word = f"{name} = {rows}, K = {extent} and a scale of {factors.dtype} for every {run} of K"
    if extent % run:
        raise ShapeError(
            f"dot_scaled: K is no multiple of {run}, {side}_scale is {describe(factors)} ({word})",
            hint=f"pad {side} along K, or pass {side}_scale=None",
        )
    wanted = (*x.shape[:-1], extent // run)
    if factors.shape != wanted:
        raise ShapeError(
            f"dot_scaled: {side}_scale is {describe(factors)}, expected shape {wanted} for {word}",
            hint=f"a scale tensor is [.., {name}, K/{run}]; rhs_scale has N first, not K",
            notes=origins(x, factors),
        )


def _factors(scale: tensor, *, exact_nan: bool) -> tensor:
    """Return scales as floats: float8e4nv itself, uint8 as the exponent of a power of two."""
    if scale.dtype == float8e4nv:
        return scale
    exponent = cast_tensor(_exponents(scale), uint32)
    smallest = splat_constant(1 << 22, uint32, ())
    bits = where(binary("==", exponent, 0), smallest, arithmetic("<<", exponent, 23))
    if exact_nan:
        bits = where(binary("==", exponent, 255), 0x7FC00000, bits)
    return bitcast_tensor(bits, float32)


def _half_factors(scale: tensor, x: _Decoded, *, exact_nan: bool) -> tuple[tensor, tensor]:
    """Return two factors in fp16 whose product is a scale times what numbers are divided by.

    Or makes as much of them: infinity of all but zeros, which may take 65504 * 65504 (no factor is
    infinite, which would make NaN of zeros), and zero.
    """
    exponent = cast_tensor(_exponents(scale), uint32)
    known = exponent
    if x.divided:  # 0.5 * 2^17 is infinite, which 2^15 * 65504 would not make it
        known = where(binary("==", exponent, 127 + 17), 127 + 18, exponent)
    both = arithmetic("+", known, x.divided + 127)  # the sum of fp32's exponents
    first = arithmetic(">>", both, 1)
    second = arithmetic("-", both, first)
    powers = (bitcast_tensor(arithmetic("<<", b, 23), float32) for b in (first, second))
    first, second = (minimum(power, 65504.0) for power in powers)
    second = where(binary("==", exponent, 255), float("nan" if exact_nan else "inf"), second)
    return cast_tensor(first, float16), cast_tensor(second, float16)


def _exponents(scale: tensor) -> tensor:
    """Return scales of powers of two as uint8: Triton does not tell int8 apart."""
    return bitcast_tensor(scale, uint8) if scale.dtype == int8 else scale
