"""Shapes: constant blocks, broadcasting, and everything that moves elements without computing."""

from __future__ import annotations

from typing import Any

from workbench.ir import INDEX, Element, Scalar, Tile, Value, element_of, shape_of
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, int32
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import (
    Shape,
    as_dtype,
    check_shape,
    constant_value,
    describe,
    emit,
    is_number,
    made,
    origins,
    splat_constant,
    static,
    static_int,
    static_shape,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import (
    Broadcast,
    Cast,
    Concatenate,
    ExpandDims,
    Iota,
    Join,
    Reshape,
    Splat,
    Split,
    Transpose,
)
from workbench.source import ConstexprError, KernelTypeError, ShapeError


# -- broadcasting ---------------------------------------------------------------------------
def common_shape(*operands: Any, what: str = "operands") -> Shape:
    """Return the shape that all operands broadcast to, aligned at the last axis."""
    shape: Shape = ()
    for operand in operands:
        other = operand.shape if isinstance(operand, tensor) else ()
        if other == shape or not other:
            continue
        if not shape:
            shape = other
            continue
        merged = merge_shapes(shape, other)
        if merged is None:
            raise _mismatch(operands, what)
        shape = merged
    return shape


def merge_shapes(a: Shape, b: Shape) -> Shape | None:
    """Return the common shape of two, None if there is none."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(max(x, y) for x, y in zip(a, b, strict=True))


def _mismatch(operands: tuple[Any, ...], what: str) -> ShapeError:
    blocks = [x for x in operands if isinstance(x, tensor) and x.shape]
    words = " and ".join(f"'{x.name}' {x.shape}" if x.name else str(x.shape) for x in blocks)
    ranks = {len(x.shape) for x in blocks}
    hint = (
        "give both the same extent, or 1 where one is to be repeated"
        if len(ranks) == 1
        else "add axes of extent 1 where they are missing, e.g. x[:, None]"
    )
    message = f"the shapes of {what} do not broadcast: {words}"
    return ShapeError(message, hint=hint, notes=origins(*blocks))


def broadcast_value(value: Value, shape: Shape) -> Value:
    """Return an IR value widened to `shape` (which it is known to fit)."""
    have = shape_of(value.type)
    if have == shape:
        return value
    check_shape(shape)
    if not have:
        return emit(Splat(value, shape))
    for _ in range(len(shape) - len(have)):
        value = emit(ExpandDims(value, 0))
    return value if shape_of(value.type) == shape else emit(Broadcast(value, shape))


def operand(value: Any, dtype: dtype, shape: Shape, *, exact: bool = False) -> Value:
    """Return a number or tensor as an IR value of a dtype and shape; `exact`: int32 as index."""
    counted = exact and dtype == int32 and current().exact_index
    element: Element = INDEX if counted else dtype.element
    if is_number(value):
        return constant_value(value, element, shape)
    if value.constant is not None and not value.shape:
        return constant_value(value.constant, element, shape)
    return broadcast_value(as_element(value, dtype, element), shape)


def as_element(value: tensor, dtype: dtype, element: Element) -> Value:
    """Return a tensor's IR value in an element type of `dtype`."""
    if value.dtype == dtype:
        return value.exact() if element is INDEX else value.stored()
    source = value.stored()
    if element_of(source.type) == element:
        return source
    if not isinstance(element, Scalar):
        raise KernelTypeError(
            f"{describe(value)} is not a {dtype}", hint="cast it first with .to(...)"
        )
    return emit(Cast(source, element))


def broadcast_tensor(value: tensor, shape: Shape) -> tensor:
    """Return a tensor widened to `shape` (which it is known to fit)."""
    if value.shape == shape:
        return value
    if value.constant is not None and not value.shape:
        return splat_constant(value.constant, value.dtype, shape)
    return wrap(broadcast_value(value.value, shape), value.dtype)


# -- making blocks --------------------------------------------------------------------------
@builtin
def arange(start: Any, end: Any) -> tensor:
    """Return the int32 block start, start + 1, ..., end - 1."""
    first, last = static_int(start, "the start of arange"), static_int(end, "the end of arange")
    if last <= first:
        raise ShapeError(
            f"arange({first}, {last}) is empty", hint="the end must be greater than the start"
        )
    low, high = int32.int_limits()
    if first < low or last > high + 1:
        raise ConstexprError(
            f"arange({first}, {last}) does not fit int32",
            hint="start from 0 and add a tl.int64 number",
        )
    shape = (last - first,)
    check_shape(shape, "arange's shape")
    element = INDEX if current().exact_index else int32.element
    return made(Iota(first, Tile(shape, element)), int32)


@builtin
def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """Return a block of one value; the shape () gives a scalar."""
    extents, to = static_shape(shape), as_dtype(dtype)
    number = to_tensor(value)
    if number.shape:
        raise ShapeError(
            f"full needs a scalar value, got {describe(number)}",
            hint="reduce it first, or use tl.broadcast_to",
        )
    if number.constant is not None:
        return splat_constant(number.constant, to, extents)
    return broadcast_tensor(cast_tensor(number, to), extents)


@builtin
def zeros(shape: Any, dtype: Any) -> tensor:
    """Return a block of zeros."""
    return full(shape, 0, dtype)


@builtin
def zeros_like(input: Any) -> tensor:
    """Return a block of zeros with the shape and dtype of another."""
    like = to_tensor(input)
    return splat_constant(0, like.dtype, like.shape)


# -- axes -----------------------------------------------------------------------------------
def axis_number(axis: Any, rank: int, what: str = "axis") -> int:
    """Return a compile-time axis, counted from 0; raises ShapeError outside the rank."""
    number = static_int(axis, what)
    if not -rank <= number < rank:
        raise ShapeError(
            f"invalid axis {number}: {what} {number} is outside a block with {rank} axes",
            hint=f"axes are {', '.join(map(str, range(rank)))}, or counted back from -1"
            if rank > 1
            else "its one axis is 0"
            if rank
            else "a scalar has no axis",
        )
    return number % rank


def sizes(words: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return extents or axes given one by one or as one sequence."""
    if len(words) == 1 and is_tuple(words[0]):
        return words[0]
    return words


@builtin
def broadcast_to(input: Any, *shape: Any) -> tensor:
    """Return a block repeated along its axes of extent 1; a scalar takes any shape."""
    value, extents = to_tensor(input), static_shape(sizes(shape))
    if not value.shape:
        return broadcast_tensor(value, extents)
    fits = len(value.shape) == len(extents) and merge_shapes(value.shape, extents) == extents
    if not fits:
        raise ShapeError(
            f"{describe(value)} does not broadcast to {extents}",
            hint="the ranks must be equal, and extents differ only where the block has 1",
        )
    return broadcast_tensor(value, extents)


@builtin
def broadcast(input: Any, other: Any) -> tuple[tensor, tensor]:
    """Return both blocks with their common shape."""
    a, b = to_tensor(input), to_tensor(other)
    shape = common_shape(a, b)
    return broadcast_tensor(a, shape), broadcast_tensor(b, shape)


@builtin
def expand_dims(input: Any, axis: Any) -> tensor:
    """Return a block with axes of extent 1 inserted; `axis` counts in the result."""
    value = to_tensor(input)
    axes = axis if is_tuple(axis) else (axis,)
    rank = len(value.shape) + len(axes)
    numbers = sorted(axis_number(a, rank) for a in axes)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(
            f"expand_dims names an axis twice: duplicate axes, normalized axes = {numbers}",
            hint="name every axis once; they count in the result",
        )
    for number in numbers:
        value = insert_axis(value, number)
    return value


def insert_axis(value: tensor, axis: int) -> tensor:
    """Return a block with one more axis of extent 1; a scalar becomes a block of one element."""
    if not value.shape:
        return broadcast_tensor(value, (1,))
    return wrap(emit(ExpandDims(value.value, axis)), value.dtype)


def reshape_tensor(value: tensor, shape: Shape) -> tensor:
    """Return the elements in row-major order under another shape."""
    if value.shape == shape:
        return value
    if not value.shape:
        return broadcast_tensor(value, shape)
    return wrap(emit(Reshape(value.value, shape)), value.dtype)


@builtin
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> tensor:
    """Return the elements in row-major order under another shape; `()` gives a scalar."""
    value, extents = to_tensor(input), static_shape(sizes(shape))
    count = 1
    for extent in extents:
        count *= extent
    if count != value.numel:
        raise ShapeError(
            f"reshape of {describe(value)}, {value.numel} elements, to {extents}, {count} elements",
            hint="both shapes need the same number of elements",
        )
    return reshape_tensor(value, extents)


@builtin
def view(input: Any, *shape: Any) -> tensor:
    """Return the elements under another shape (here in row-major order, as reshape)."""
    return reshape(input, *shape)


@builtin
def ravel(x: Any, can_reorder: Any = False) -> tensor:
    """Return the elements as a block with one axis."""
    value = to_tensor(x)
    return reshape_tensor(value, (value.numel,))


@builtin
def trans(input: Any, *dims: Any) -> tensor:
    """Return a block with its axes in another order; without `dims` the last two swap."""
    value = to_tensor(input)
    order = sizes(dims)
    if not order:
        rank = len(value.shape)
        if rank < 2:
            raise ShapeError(
                f"trans needs at least 2 axes, got {describe(value)}",
                hint="add an axis first: x[None, :] is a row, x[:, None] a column",
            )
        order = (*range(rank - 2), rank - 1, rank - 2)
    return permute(value, *order)


@builtin
def permute(input: Any, *dims: Any) -> tensor:
    """Return a block whose axis i is axis dims[i] of the input."""
    value = to_tensor(input)
    rank = len(value.shape)
    order = tuple(axis_number(d, rank, "dimension") for d in sizes(dims))
    if sorted(order) != list(range(rank)):
        raise ShapeError(
            f"{order} is not an order of the {rank} axes of {describe(value)}",
            hint=f"name every axis once, e.g. {tuple(reversed(range(rank)))}",
        )
    return wrap(emit(Transpose(value.value, order)), value.dtype)


@builtin
def join(a: Any, b: Any) -> tensor:
    """Return both blocks stacked on a new last axis of extent 2."""
    first, second = broadcast(a, b)
    if first.dtype != second.dtype:
        raise KernelTypeError(
            f"join of {describe(first)} and {describe(second)}: the dtypes differ",
            hint="cast one of them with .to(...)",
        )
    if not first.shape:
        first, second = insert_axis(first, 0), insert_axis(second, 0)
        joined = emit(Join(first.stored(), second.stored()))
        return wrap(emit(Reshape(joined, (2,))), first.dtype)
    return wrap(emit(Join(first.stored(), second.stored())), first.dtype)


@builtin
def split(a: Any) -> tuple[tensor, tensor]:
    """Return the two halves of a block whose last axis has extent 2."""
    value = to_tensor(a)
    if value.shape[-1:] != (2,):
        raise ShapeError(
            f"split needs a last axis of extent 2, got {describe(value)}",
            hint="e.g. tl.split(tl.reshape(x, (n // 2, 2))) for elements in turn",
        )
    source = value.stored()
    if len(value.shape) == 1:  # blocks have rows, so that layouts hold for the halves too
        source = emit(Reshape(source, (1, 2)))
    first, second = current().builder.insert(Split(source)).results
    if len(value.shape) == 1:
        first, second = emit(Reshape(first, ())), emit(Reshape(second, ()))
    return wrap(first, value.dtype), wrap(second, value.dtype)


@builtin
def interleave(a: Any, b: Any) -> tensor:
    """Return the elements of both blocks in turn, along the last axis."""
    joined = join(a, b)
    if len(joined.shape) == 1:
        return joined
    return reshape_tensor(joined, (*joined.shape[:-2], 2 * joined.shape[-2]))


@builtin
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> tensor:
    """Return two blocks one after the other along an axis (never reordered here).

    `dim`, and blocks of several axes, are Triton's since 3.9.
    """
    a, b = to_tensor(input), to_tensor(other)
    rank = len(a.shape)
    if rank > 1 and a.shape == b.shape and a.dtype == b.dtype:
        axis = axis_number(dim, rank)
        # A new last axis says which of both; it goes in front of theirs, and both become one.
        order = [*range(axis), rank, *range(axis, rank)]
        shape = (*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :])
        return reshape_tensor(permute(join(a, b), *order), shape)
    axis_number(dim, 1)
    if not static(can_reorder, "can_reorder"):
        current().superset("tl.cat without can_reorder=True")
    if len(a.shape) != 1 or len(b.shape) != 1 or a.dtype != b.dtype:
        raise ShapeError(
            "cat needs two blocks of one dtype and shape, or of one axis each, "
            f"got {describe(a)} and {describe(b)}",
            hint="cast one of them, or join blocks of the same shape with tl.join",
        )
    return wrap(emit(Concatenate(a.stored(), b.stored())), a.dtype)
