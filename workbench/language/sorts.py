"""Elements in order, picked by index, reversed, counted."""

from __future__ import annotations

from typing import Any

from workbench.language.arithmetic import arithmetic, binary, where
from workbench.language.casts import bitcast_tensor, cast_tensor
from workbench.language.dtypes import DTYPES, dtype, float16, int1, int8, int32, number_type
from workbench.language.memory import mask_of
from workbench.language.reductions import block_of
from workbench.language.shapes import arange, axis_number, broadcast_tensor, insert_axis, operand
from workbench.language.table import builtin
from workbench.language.values import (
    check_shape,
    describe,
    made,
    static,
    static_int,
    tensor,
    to_tensor,
)
from workbench.ops import Gather, Histogram, Merge, Sort
from workbench.ops.numbers import infinity_bits
from workbench.ops.small_floats import SMALL_FLOATS
from workbench.source import KernelTypeError, ShapeError


def _last_axis(x: tensor, dim: Any, name: str) -> None:
    last = len(x.shape) - 1
    if dim is not None and axis_number(dim, len(x.shape), f"the axis of {name}") != last:
        raise ShapeError(
            f"{name} works along the last axis ({last}), got {static(dim, 'dim')}",
            hint="move the axis to the end with tl.trans or tl.permute",
        )


# -- order ------------------------------------------------------------------------------------
def _keys(x: tensor) -> tensor:
    """Return integers that order as the elements do; NaN counts as the largest number.

    A float's bits, read as a signed integer, order its values but for the negative ones, whose
    other bits are flipped for that. 8-bit floats whose NaN is what -0 would be go by fp16.
    """
    if _has_one_zero(x.dtype):
        x = cast_tensor(x, float16)
    if x.dtype == int1:
        return cast_tensor(x, int8)
    if x.dtype.is_int():
        return x
    bits = bitcast_tensor(x, _integer_of(x.dtype))
    highest = infinity_bits(x.dtype.element)
    most = bits.dtype.get_int_max_value()
    if highest < most:
        nan = binary(">", arithmetic("&", bits, most), highest)
        bits = where(nan, highest + 1, bits)
    return _flipped(bits)


def _has_one_zero(kind: dtype) -> bool:
    return kind.is_fp8() and not SMALL_FLOATS[number_type(kind)].signed


def _flipped(bits: tensor) -> tensor:
    sign = arithmetic(">>", bits, bits.dtype.int_bitwidth - 1)
    return arithmetic("^", bits, arithmetic("&", sign, bits.dtype.get_int_max_value()))


def _integer_of(kind: dtype) -> dtype:
    return DTYPES[f"int{kind.primitive_bitwidth}"]


def _from_keys(keys: tensor, kind: dtype) -> tensor:
    """Return the elements that keys stand for."""
    if kind == int1:
        return cast_tensor(keys, int1)
    if kind.is_int():
        return keys
    if _has_one_zero(kind):
        return cast_tensor(bitcast_tensor(_flipped(keys), float16), kind)
    return bitcast_tensor(_flipped(keys), kind)


@builtin
def sort(x: Any, dim: Any = None, descending: Any = 0) -> tensor:
    """Return a block with each row (the last axis) in order; NaN counts as the largest number."""
    value = block_of(x, "sort")
    _last_axis(value, dim, "sort")
    falls = bool(static(descending, "descending"))
    keys = _keys(value)
    return _from_keys(made(Sort(keys.stored(), descending=falls), keys.dtype), value.dtype)


@builtin
def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> tensor:
    """Return the `k` largest elements of each row (the last axis), the largest first.

    Without `descending` (Triton 3.8): the smallest, the smallest first.
    """
    value = block_of(x, "topk")
    _last_axis(value, dim, "topk")
    count, extent = static_int(k, "k"), value.shape[-1]
    if count < 1 or count > extent or count & (count - 1):
        raise ShapeError(
            f"topk of rows of {extent} elements keeps a power of two up to that, got k = {count}",
            hint="take the next power of two and use the first k elements",
        )
    keys = _keys(value)
    op = Sort(keys.stored(), descending=bool(static(descending, "descending")), keep=count)
    return _from_keys(made(op, keys.dtype), value.dtype)


@builtin
def bitonic_merge(x: Any, dim: Any = None, descending: Any = 0) -> tensor:
    """Return bitonic rows (the last axis: rising, then falling) in order."""
    value = block_of(x, "bitonic_merge")
    _last_axis(value, dim, "bitonic_merge")
    falls = bool(static(descending, "descending"))
    keys = _keys(value)
    return _from_keys(made(Merge(keys.stored(), descending=falls), keys.dtype), value.dtype)


# -- picking ----------------------------------------------------------------------------------
@builtin
def gather(src: Any, index: Any, axis: Any) -> tensor:
    """Return the elements of `src` at the places `index` along an axis."""
    source, places = block_of(src, "gather"), to_tensor(index)
    if not places.shape or not places.dtype.is_int() or places.dtype == int1:
        raise KernelTypeError(
            f"gather needs a block of integers as index, got {describe(index)}",
            hint="it is gather(src, index, axis); cast places with .to(tl.int32)",
        )
    along = axis_number(axis, len(source.shape), "the axis of gather")
    same = len(places.shape) == len(source.shape) and all(
        a == b or d == along
        for d, (a, b) in enumerate(zip(source.shape, places.shape, strict=True))
    )
    if not same:
        raise ShapeError(
            f"gather along axis {along} of {describe(source)} by an index of shape {places.shape}",
            hint="the shapes must agree along all other axes",
        )
    return gathered(source, places, along)


def gathered(source: tensor, places: tensor, axis: int) -> tensor:
    """Return elements picked along an axis."""
    return made(Gather(source.stored(), places.value, axis=axis), source.dtype)


@builtin
def flip(x: Any, dim: Any = None) -> tensor:
    """Return a block with an axis (the last one) reversed."""
    value = block_of(x, "flip")
    axis = len(value.shape) - 1 if dim is None else axis_number(dim, len(value.shape), "dim")
    last = value.shape[axis] - 1
    return picked(value, binary("-", last, arange(0, last + 1)), axis)


def picked(value: tensor, places: tensor, axis: int) -> tensor:
    """Return a block whose rows along an axis are those at the 1-dimensional `places`."""
    for other in range(len(value.shape)):
        if other != axis:
            places = insert_axis(places, other)
    shape = tuple(places.shape[d] if d == axis else extent for d, extent in enumerate(value.shape))
    return gathered(value, broadcast_tensor(places, shape), axis)


# -- counting ---------------------------------------------------------------------------------
@builtin
def histogram(input: Any, num_bins: Any, mask: Any = None) -> tensor:
    """Return how often each of 0 ... num_bins - 1 occurs where the mask is on, as int32."""
    value = block_of(input, "histogram")
    if not value.dtype.is_int() or value.dtype == int1 or len(value.shape) != 1:
        raise KernelTypeError(
            f"histogram counts a 1-dimensional block of integers, got {describe(value)}",
            hint="cast it with .to(tl.int32), flatten it with tl.ravel",
        )
    bins = static_int(num_bins, "num_bins")
    check_shape((bins,), "the bins of histogram")
    test = None if mask is None else operand(mask_of(mask), int1, value.shape)
    return made(Histogram(value.stored(), test, bins=bins), int32)
