"""Matrix products (README.md, rule 27)."""

from __future__ import annotations

from math import prod
from typing import Any

from workbench.language.casts import cast_tensor
from workbench.language.dtypes import (
    bfloat16,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e5b16,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from workbench.language.shapes import reshape_tensor, splat_constant
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import as_dtype, describe, made, origins, static, tensor, to_tensor
from workbench.ops import Dot
from workbench.ops.dots import Precision
from workbench.source import ConstexprError, KernelTypeError, ShapeError

_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
#: In exact mode the tensor core's short accumulator is added up every so many of K.
_EXACT_LIMIT = 128


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> tensor:
    """Return input @ other (+ acc) for blocks [.., M, K] and [.., K, N].

    `input_precision` says how fp32 operands reach the tensor core: "tf32" (default), "tf32x3",
    "bf16x3", "bf16x6" or "ieee". `allow_tf32` is its old spelling. Without `out_dtype` the result
    has the type of a float16 `acc` (as since Triton 3.8), else float32.
    """
    a, b = (_of_tensor_cores(to_tensor(x)) for x in (input, other))
    precision = _precision(input_precision, allow_tf32)
    _check_shapes(a, b)
    wanted = _wanted(out_dtype, acc)
    result = _result_dtype(a, b, wanted)
    limit = _limit(max_num_imprecise_acc, a, result)
    shape = (*a.shape[:-1], b.shape[-1])
    start = (
        splat_constant(0, result, shape)
        if acc is None
        else _accumulator(acc, result, shape, wanted)
    )
    a, b, start = _three_axes(a), _three_axes(b), _three_axes(start)
    product = made(
        Dot(
            a.stored(),
            b.stored(),
            start.stored(),
            precision=precision if a.dtype == float32 else "tf32",
            imprecise_limit=limit,
        ),
        result,
    )
    return reshape_tensor(product, shape)


def dot_with_factors(a: tensor, b: tensor, acc: Any, factors: tensor) -> tensor:
    """Return a @ b (+ acc) in fp32; runs along K are multiplied by factors [N, K / run]."""
    shape = (*a.shape[:-1], b.shape[-1])
    start = (
        splat_constant(0, float32, shape)
        if acc is None
        else _accumulator(acc, float32, shape, float32)
    )
    return made(Dot(a.stored(), b.stored(), start.stored(), factors.stored()), float32)


def _wanted(out_dtype: Any, acc: Any) -> dtype:
    if static(out_dtype, "out_dtype") is not None:
        return as_dtype(out_dtype)
    return float16 if acc is not None and to_tensor(acc).dtype == float16 else float32


def _of_tensor_cores(x: tensor) -> tensor:
    """Return 8-bit floats that no tensor core of NVIDIA reads as fp16, which holds all of them."""
    return cast_tensor(x, float16) if x.dtype in (float8e4b8, float8e5b16, float8e4b15) else x


def _three_axes(x: tensor) -> tensor:
    """Fold the leading axes of a block with more than 3 into one."""
    if len(x.shape) <= 3:
        return x
    return reshape_tensor(x, (prod(x.shape[:-2]), *x.shape[-2:]))


def _precision(input_precision: Any, allow_tf32: Any) -> Precision:
    name, old = static(input_precision, "input_precision"), static(allow_tf32, "allow_tf32")
    if name is not None and old is not None:
        raise ConstexprError(
            "dot got both input_precision and allow_tf32", hint="keep input_precision alone"
        )
    if name is None:
        return "ieee" if old is not None and not old else "tf32"
    if name not in _PRECISIONS:
        raise ConstexprError(
            f"dot knows no input_precision {name!r}", hint=f"use one of {', '.join(_PRECISIONS)}"
        )
    return name


def _check_shapes(a: tensor, b: tensor) -> None:
    ranks = len(a.shape), len(b.shape)
    if ranks[0] != ranks[1] or ranks[0] < 2:
        raise ShapeError(
            f"dot needs two blocks of 2 or 3 axes, got {describe(a)} and {describe(b)}",
            hint="add an axis where one is missing, e.g. x[:, None]",
        )
    if a.shape[-1] != b.shape[-2]:
        names = a.name or "a", b.name or "b"
        raise ShapeError(
            f"dot needs matching inner sizes: {names[0]} is {a.shape}, {names[1]} is {b.shape}",
            hint="use the same extent for the last axis of the one and the first axis of the other",
            notes=origins(a, b),
        )
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(
            f"dot needs equal leading axes: {a.shape} and {b.shape}",
            hint="give both the same leading extents, e.g. with broadcast_to",
        )


def _result_dtype(a: tensor, b: tensor, wanted: dtype) -> dtype:
    one, two = a.dtype, b.dtype
    if one != two and not (one.is_fp8() and two.is_fp8()):
        raise KernelTypeError(
            f"dot needs operands of one dtype, got {describe(a)} and {describe(b)}",
            hint=f"cast one of them, e.g. .to({(one if one.is_floating() else two).spelling})",
            notes=origins(a, b),
        )
    if one == int8:
        return int32
    if one == uint8 or not one.is_floating():
        raise KernelTypeError(
            f"dot takes floats and int8, got {describe(a)}",
            hint="cast both to tl.int8 where all numbers are from -128 to 127, else to tl.float16 "
            "(exact up to 2048) or tl.float64",
        )
    if wanted == bfloat16:
        raise KernelTypeError(
            "dot cannot give bf16", hint="take out_dtype=tl.float32 and cast the result"
        )
    if one == float64:
        return float64
    if one in (float32, bfloat16):
        return float32
    return float16 if wanted == float16 else float32


def _accumulator(acc: Any, result: dtype, shape: tuple[int, ...], wanted: dtype) -> tensor:
    value = to_tensor(acc)
    if value.shape != shape:
        raise ShapeError(
            f"dot gives a block of shape {shape}, acc is {describe(value)}",
            hint="start it as tl.zeros of that shape",
        )
    if value.dtype != result:
        raise KernelTypeError(
            f"dot accumulates in {result}, acc is {describe(value)}",
            hint=f"make acc with dtype={result.spelling}, or pass out_dtype",
        )
    if wanted != result and result != float64:
        raise KernelTypeError(
            f"dot gives {result} and acc is {result}, but out_dtype is {wanted}",
            hint=f"pass out_dtype={result.spelling}",
        )
    return value


def _limit(given: Any, a: tensor, result: dtype) -> int:
    """Return the largest K that 8-bit floats may be summed over in the short accumulator."""
    limit = static(given, "max_num_imprecise_acc")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ConstexprError(
            f"max_num_imprecise_acc is a number of K from 0 on, got {limit!r}",
            hint="leave it out to add all of K on the tensor core",
        )
    if not (a.dtype.is_fp8() and result == float32):
        return 0
    if limit is not None:
        if limit > a.shape[-1]:
            raise ConstexprError(
                f"max_num_imprecise_acc ({limit}) must be <= K ({a.shape[-1]})",
                hint="take a smaller one, or leave it out",
            )
        return int(limit) or 1  # 0: none of K may stay there, while the op's 0 is no limit
    if current().exact:
        return _EXACT_LIMIT
    current().remark(
        "products of 8-bit floats stay in the tensor core's short accumulator for all of K; "
        "max_num_imprecise_acc or exact=True bounds that"
    )
    return 0
