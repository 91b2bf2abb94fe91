"""Many values to one along an axis (README.md, rules 23 to 26)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.ir import Block, Element, Tile, Value, element_of
from workbench.language import arithmetic as maths
from workbench.language import functions
from workbench.language.casts import cast_tensor, widen_bfloat16
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, float32, int32, uint32
from workbench.language.shapes import (
    axis_number,
    broadcast_value,
    insert_axis,
    reshape_tensor,
)
from workbench.language.state import current, wrapping_index
from workbench.language.table import builtin
from workbench.language.values import (
    as_dtype,
    describe,
    emit,
    is_number,
    static,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import Elementwise, ExpandDims, Iota, Reduce, Select, Yield
from workbench.source import KernelTypeError, ShapeError

Combine = Callable[[Sequence[Value]], Sequence[Value]]


def combine_block(elements: Sequence[Element], combine: Combine) -> Block:
    """Return the region that combines left values with right ones, all scalars."""
    names = (
        ["a", "b"]
        if len(elements) == 1
        else [f"{s}{i}" for s in "ab" for i in range(len(elements))]
    )
    arguments = tuple(
        Value(element, name) for element, name in zip([*elements, *elements], names, strict=True)
    )
    builder = current().builder
    with builder.block() as ops:
        builder.insert(Yield(tuple(combine(arguments))))
    return Block(arguments, tuple(ops))


def single(function: str) -> Combine:
    """Return the combine of one elementwise function of two values."""
    return lambda arguments: [emit(Elementwise(function, tuple(arguments)))]


def user_combine(inputs: Sequence[tensor], function: Any, name: str) -> Combine:
    """Return the combine that a device function describes, inlined."""

    def combine(arguments: Sequence[Value]) -> Sequence[Value]:
        # Registers hold i32 here, so counting in `index` would only add conversions.
        with wrapping_index():
            tensors = [wrap(a, x.dtype) for a, x in zip(arguments, [*inputs, *inputs], strict=True)]
            result = current().call(function, tensors)
            results = result if is_tuple(result) else (result,)
            if len(results) != len(inputs):
                raise KernelTypeError(
                    f"the combine function of {name} returns {len(results)} values for "
                    f"{len(inputs)} inputs",
                    hint="it takes all left values, then all right ones, and returns as many",
                )
            return [_same(r, x.dtype, name) for r, x in zip(results, inputs, strict=True)]

    return combine


def _same(result: Any, want: dtype, name: str) -> Value:
    value = to_tensor(result)
    if value.shape or value.dtype != want:
        raise KernelTypeError(
            f"the combine function of {name} returns {describe(value)}, its input is {want}",
            hint=f"return a scalar of type {want}, e.g. with .to({want.spelling})",
        )
    return value.stored()


def block_of(x: Any, name: str) -> tensor:
    """Return an operand that must be a block."""
    value = to_tensor(x)
    if not value.shape:
        raise ShapeError(
            f"{name} needs a block, got {describe(value)}",
            hint="load one through a block of pointers, e.g. tl.load(x + tl.arange(0, BLOCK))",
        )
    if value.dtype.is_ptr():
        raise KernelTypeError(
            f"{name} does not take {describe(value)}", hint="load what it points to, tl.load(x)"
        )
    return value


def _reduce(
    inputs: Sequence[tensor], axis: Any, combine: Combine, keep_dims: Any, name: str
) -> tuple[tensor, ...]:
    """Return one result per input, all of one shape."""
    keep = static(keep_dims, "keep_dims")
    shape = inputs[0].shape
    if axis is None:
        inputs = [reshape_tensor(x, (x.numel,)) for x in inputs]
        along = 0
    else:
        along = axis_number(axis, len(shape), f"the axis of {name}")
    values = tuple(x.stored() for x in inputs)
    region = combine_block([element_of(v.type) for v in values], combine)
    op = current().builder.insert(Reduce(values, axis=along, combine=region))
    results = tuple(wrap(r, x.dtype) for r, x in zip(op.results, inputs, strict=True))
    if not keep:
        return results
    if axis is None:
        return tuple(_all_ones(r, len(shape)) for r in results)
    return tuple(insert_axis(r, along) for r in results)


def _all_ones(value: tensor, rank: int) -> tensor:
    return wrap(broadcast_value(value.value, (1,) * rank), value.dtype)


@builtin
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combine all elements along an axis (None: all of them) with a device function.

    `input` is a block or a tuple of blocks of one shape; the function takes all left scalars,
    then all right ones, and returns one per input. It must be associative and commutative.
    """
    many = is_tuple(input)
    inputs = [block_of(x, "reduce") for x in (input if many else (input,))]
    same_shapes(inputs, "reduce")
    results = _reduce(inputs, axis, user_combine(inputs, combine_fn, "reduce"), keep_dims, "reduce")
    return results if many else results[0]


def same_shapes(inputs: Sequence[tensor], name: str) -> None:
    """Raise ShapeError unless all blocks have one shape."""
    if len({x.shape for x in inputs}) > 1:
        words = ", ".join(describe(x) for x in inputs)
        raise ShapeError(
            f"{name} needs blocks of one shape, got {words}",
            hint="broadcast them first, e.g. with broadcast_to",
        )


def sum_dtype(have: dtype, wanted: Any) -> dtype:
    """Return the dtype that sums accumulate in: small integers widen, floats do not (rule 23)."""
    if wanted is not None:
        return as_dtype(wanted)
    if have.is_int() and have.int_bitwidth < 32:
        return int32 if have.is_int_signed() else uint32
    return have


@builtin
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> tensor:
    """Return the sum along an axis (None: of all elements)."""
    x = block_of(input, "sum")
    x = cast_tensor(x, sum_dtype(x.dtype, static(dtype, "dtype")))
    return _reduce([x], axis, single("add"), keep_dims, "sum")[0]


@builtin
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> tensor:
    """Return the bitwise exclusive or along an axis."""
    x = _integers(input, "xor_sum")
    return _reduce([x], axis, single("xor"), keep_dims, "xor_sum")[0]


@builtin
def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> tensor:
    """Return the bitwise or along an axis."""
    x = _integers(input, "reduce_or")
    return _reduce([x], axis, single("or"), keep_dims, "reduce_or")[0]


def _integers(x: Any, name: str) -> tensor:
    value = block_of(x, name)
    if not value.dtype.is_int():
        raise KernelTypeError(
            f"{name} takes integers, got {describe(value)}",
            hint="cast first, e.g. x.to(tl.int32), or compare: x > 0",
        )
    return value


def _extreme(
    input: Any,
    axis: Any,
    return_indices: Any,
    tie_break_left: Any,
    keep_dims: Any,
    name: str,
) -> Any:
    if isinstance(axis, float) or (isinstance(axis, tensor) and axis.constant is None):
        raise KernelTypeError(
            f"{name} reduces along an axis, got {describe(axis)} as the axis",
            hint=f"of two values, which Triton 2 took here, write tl.{name}imum(a, b)",
        )
    x = widen_bfloat16(block_of(input, name))
    if static(return_indices, "return_indices"):
        return _with_index(x, axis, static(tie_break_left, "tie_break_left"), keep_dims, name)
    if x.dtype.primitive_bitwidth < 32:
        x = cast_tensor(x, float32 if x.dtype.is_floating() else int32)
    return _reduce([x], axis, single(name), keep_dims, name)[0]


def _with_index(
    x: tensor, axis: Any, leftmost: bool, keep_dims: Any, name: str
) -> tuple[tensor, ...]:
    """Return the extreme values and where they stand, as int32."""
    shape = x.shape
    if axis is None:
        x = reshape_tensor(x, (x.numel,))
    along = axis_number(0 if axis is None else axis, len(x.shape), f"the axis of {name}")
    indices = _positions(x.shape, along)
    better = "gt" if name == "max" else "lt"

    def combine(arguments: Sequence[Value]) -> Sequence[Value]:
        value1, index1, value2, index2 = arguments
        take = emit(Elementwise(better, (value1, value2)))
        if leftmost:
            equal = emit(Elementwise("eq", (value1, value2)))
            before = emit(Elementwise("lt", (index1, index2)))
            tie = emit(Elementwise("and", (equal, before)))
            take = emit(Elementwise("or", (take, tie)))
        return emit(Select(take, value1, value2)), emit(Select(take, index1, index2))

    results = _reduce([x, indices], along, combine, False, name)
    if not static(keep_dims, "keep_dims"):
        return results
    if axis is None:
        return tuple(_all_ones(r, len(shape)) for r in results)
    return tuple(insert_axis(r, along) for r in results)


def _positions(shape: tuple[int, ...], axis: int) -> tensor:
    """Return each element's index along an axis, as an int32 block."""
    value = emit(Iota(0, Tile((shape[axis],), int32.element)))
    for i in range(len(shape)):
        if i != axis:
            value = emit(ExpandDims(value, i))
    return wrap(broadcast_value(value, shape), int32)


@builtin
def max(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """Return the largest element along an axis (None: of all), with its index if asked for."""
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, "max")


@builtin
def min(
    input: Any,
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """Return the smallest element along an axis (None: of all), with its index if asked for."""
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, "min")


@builtin
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """Return the index of the largest element along an axis, the smallest one on a tie."""
    return _extreme(input, axis, True, tie_break_left, keep_dims, "max")[1]


@builtin
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:
    """Return the index of the smallest element along an axis, the smallest one on a tie."""
    return _extreme(input, axis, True, tie_break_left, keep_dims, "min")[1]


@builtin
def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> tensor:
    """Return exp(x - max) / sum of it along `dim`, which defaults to 0."""
    value = block_of(x, "softmax")
    along = 0 if dim is None else dim
    shifted = maths.binary("-", value, max(value, along, keep_dims=True))
    powers = functions.exp(shifted)
    total = sum(powers, along, keep_dims=True)
    return functions.fdiv(powers, total, ieee_rounding)


__all__ = ["is_number", "static"]
