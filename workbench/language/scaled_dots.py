"""Products of block-scaled operands (microscaling formats), by way of 16-bit operands.

No target here multiplies scaled 4- and 8-bit operands itself, so both are decoded and scaled in
fp32, rounded once to bf16 (fp16 where one of them is fp16), and multiplied. Decoding is exact;
so is scaling, but for results outside the 16-bit format's range.
"""

from __future__ import annotations

from typing import Any

from workbench.language.arithmetic import arithmetic, binary, where
from workbench.language.casts import bitcast_tensor, cast_tensor
from workbench.language.dots import dot
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
            raise ShapeError(f"dot_scaled needs blocks of 2 or 3 axes, {side} is {describe(block)}")
    along_k = _along_k(lhs_k_pack, formats[0], "lhs"), _along_k(rhs_k_pack, formats[1], "rhs")
    a = _decoded(to_tensor(lhs), formats[0], -1 if along_k[0] else -2, "lhs")
    b = _decoded(to_tensor(rhs), formats[1], -2 if along_k[1] else -1, "rhs")
    a = _scaled(a, lhs_scale, "lhs", exact_nan=exact_nan)
    if _is_given(rhs_scale):
        b = trans(_scaled(trans(b), rhs_scale, "rhs", exact_nan=exact_nan))
    current().remark(f"dot_scaled multiplies in {to}: no instruction takes scaled operands here")
    return dot(cast_tensor(a, to), cast_tensor(b, to), acc, out_dtype=out_dtype)


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


def _decoded(x: tensor, name: str, packed_axis: int, side: str) -> tensor:
    """Return an operand's numbers in fp32 (bf16 and fp16 as they are)."""
    if name == "e2m1":
        if x.dtype != uint8:
            raise KernelTypeError(
                f"dot_scaled takes e2m1 as uint8, two numbers each; {side} is {describe(x)}"
            )
        return _unpacked(x, packed_axis)
    kind, raw = _FORMATS[name]
    if x.dtype not in (kind, raw):
        raise KernelTypeError(
            f"dot_scaled got {side}_format {name!r} for {describe(x)}",
            hint=f"pass {kind.spelling}, or its bits as {raw.spelling}",
        )
    return cast_tensor(bitcast_tensor(x, kind), float32)


def _unpacked(x: tensor, axis: int) -> tensor:
    """Return two fp32 for each byte, the low half first, side by side along an axis.

    The three low bits of a half, put at the bits of fp32 that weigh the same, are the number
    times 2^-126, the subnormal one included.
    """
    rank = len(x.shape)
    wide = cast_tensor(x, uint32)
    halves = join(arithmetic("&", wide, 0xF), arithmetic(">>", wide, 4))
    if axis == -2:
        halves = permute(halves, *range(rank - 1), rank, rank - 1)
    shape = list(x.shape)
    shape[axis] *= 2
    code = reshape_tensor(halves, tuple(shape))
    magnitude = arithmetic("<<", arithmetic("&", code, 7), 22)
    sign = arithmetic("<<", arithmetic("&", code, 8), 28)
    return arithmetic("*", bitcast_tensor(arithmetic("|", magnitude, sign), float32), 2.0**126)


def _scaled(x: tensor, scale: Any, side: str, *, exact_nan: bool) -> tensor:
    """Return [.., rows, K] with each run along K times its scale [.., rows, K / run]."""
    if not _is_given(scale):
        return x
    factors = to_tensor(scale)
    run = _run_length(factors, side)
    _check_scale_shape(x, factors, run, side)
    numbers = _factors(factors, exact_nan=exact_nan)
    wide = broadcast_tensor(insert_axis(numbers, len(x.shape)), (*factors.shape, run))
    return arithmetic("*", cast_tensor(x, float32), reshape_tensor(wide, x.shape))


def _run_length(factors: tensor, side: str) -> int:
    """Return how many numbers along K share a scale: the scale's dtype says so, as in Triton."""
    if factors.dtype == float8e4nv:
        return 16
    if factors.dtype in (uint8, int8):
        return 32
    raise KernelTypeError(
        f"dot_scaled takes scales of uint8 (e8m0) or float8e4nv, {side}_scale is "
        f"{describe(factors)}"
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
    """Return scales as fp32: float8e4nv by value, uint8 as the exponent of a power of two."""
    if scale.dtype == float8e4nv:
        return cast_tensor(scale, float32)
    if scale.dtype == int8:  # the same bits: Triton does not tell them apart
        scale = bitcast_tensor(scale, uint8)
    exponent = cast_tensor(scale, uint32)
    smallest = splat_constant(1 << 22, uint32, ())
    bits = where(binary("==", exponent, 0), smallest, arithmetic("<<", exponent, 23))
    if exact_nan:
        bits = where(binary("==", exponent, 255), 0x7FC00000, bits)
    return bitcast_tensor(bits, float32)
