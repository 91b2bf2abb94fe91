"""`tl.extra.cuda.utils`: questions to the chip, and conversions of the float8e4b15 of software."""

from __future__ import annotations

from typing import Any

from workbench.language.casts import cast_tensor
from workbench.language.dtypes import float8e4b15, float16, float32
from workbench.language.extra.cuda.questions import globaltimer, num_threads, num_warps, smid
from workbench.language.table import described
from workbench.language.values import as_dtype, describe, tensor, to_tensor
from workbench.language.versions import core_of
from workbench.source import KernelTypeError


def convert_fp8e4b15_to_float16(arg: Any) -> tensor:
    """Return a float8e4b15 as fp16, which holds all its values."""
    return cast_tensor(_of(arg, float8e4b15), float16)


def convert_float16_to_fp8e4b15(arg: Any, has_minx2: Any = True) -> tensor:
    """Return an fp16 as float8e4b15, rounded to nearest even; at most 1.75 in size."""
    return cast_tensor(_of(arg, float16), float8e4b15)


def convert_custom_float8(
    arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, has_minx2: Any = True
) -> tensor:
    """Return float8e4b15 as a wider float, or fp16 and fp32 as float8e4b15."""
    value, to = to_tensor(arg), as_dtype(dst_ty)
    if value.dtype != float8e4b15 and (to != float8e4b15 or value.dtype not in (float16, float32)):
        raise KernelTypeError(f"convert_custom_float8 of {describe(value)} to {to}",
                              hint="cast it, e.g. .to(tl.float8e4b15)")  # fmt: skip
    return cast_tensor(value, to)


def convert_custom_float8_sm80(arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> tensor:
    """Return float8e4b15 as a wider float, or fp16 and fp32 as float8e4b15."""
    return convert_custom_float8(arg, dst_ty, fp_downcast_rounding)


def convert_custom_float8_sm70(arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> tensor:
    """Return float8e4b15 as a wider float, or fp16 and fp32 as float8e4b15."""
    return convert_custom_float8(arg, dst_ty, fp_downcast_rounding)


def _of(x: Any, kind: Any) -> tensor:
    value = to_tensor(x)
    if value.dtype != kind:
        raise KernelTypeError(
            f"this conversion takes {kind}, got {describe(value)}",
            hint="cast it first with .to(...)",
        )
    return value


for _function in (
    convert_fp8e4b15_to_float16, convert_float16_to_fp8e4b15, convert_custom_float8,
    convert_custom_float8_sm80, convert_custom_float8_sm70,
):  # fmt: skip
    described(_function)

__all__ = [
    "convert_custom_float8", "convert_custom_float8_sm70", "convert_custom_float8_sm80",
    "convert_float16_to_fp8e4b15", "convert_fp8e4b15_to_float16", "globaltimer",
    "num_threads", "num_warps", "smid",
]  # fmt: skip

__getattr__ = core_of("tl.extra.cuda.utils")
