"""Rectangles of memory: what block pointers and tensor descriptors have in common.

Both stand for a tile-shaped window into an array of up to five axes: a base, and for each axis an
extent, a stride and an offset. An access becomes a tile of pointers and a mask (one conjunction of
`0 <= offset + i < extent` per checked axis), which is what targets work on; that the access is a
whole box stays known as the load's or store's `box` attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.ir import INDEX, Tile, Value
from workbench.language.arithmetic import binary
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, int1, int32, int64, pointer_type
from workbench.language.shapes import broadcast_tensor, broadcast_value, operand
from workbench.language.state import current
from workbench.language.values import (
    Shape,
    check_shape,
    describe,
    emit,
    is_number,
    made,
    static,
    static_int,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import AddPointer, Elementwise, ExpandDims, Iota
from workbench.source import ConstexprError, KernelTypeError, ShapeError

MOST_AXES = 5


class Window(NamedTuple):
    """A base pointer with the extent, stride and first coordinate of each axis."""

    base: tensor
    shape: tuple[tensor, ...]
    strides: tuple[tensor, ...]
    offsets: tuple[tensor, ...]


def pointee(base: tensor) -> dtype:
    """Return the dtype that a base pointer points at."""
    assert isinstance(base.dtype, pointer_type)
    return base.dtype.element_ty


def base_of(base: Any, name: str) -> tensor:
    """Return an operand that must be a scalar pointer."""
    if isinstance(base, tensor) and base.dtype.is_ptr() and not base.shape:
        return base
    raise KernelTypeError(
        f"{name} needs a scalar pointer as its base, got {describe(base)}",
        hint="pass the tensor's parameter, plus a scalar offset if need be",
    )


def integers(values: Any, what: str, rank: int | None = None) -> tuple[tensor, ...]:
    """Return integers given as one sequence, as scalar tensors; raises unless there are `rank`."""
    given = values if is_tuple(values) else (values,)
    if rank is not None and len(given) != rank:
        raise ShapeError(
            f"{what} has {len(given)} entries, the block has {rank} axes",
            hint="give one for each axis, e.g. [i, j]",
        )
    found: list[tensor] = []
    for value in given:
        number = to_tensor(value)
        if number.shape or not number.dtype.is_int() or number.dtype == int1:
            raise KernelTypeError(
                f"{what} needs scalar integers, got {describe(value)}",
                hint="load or compute a scalar, .to(tl.int32)",
            )
        found.append(number)
    return tuple(found)


def block_shape_of(shape: Any, rank: int, name: str) -> Shape:
    """Return a block shape of `rank` axes."""
    given = static(shape, f"the block shape of {name}")
    if not is_tuple(given):
        given = (given,)
    extents = tuple(static_int(extent, f"an extent of {name}") for extent in given)
    if len(extents) != rank:
        raise ShapeError(
            f"{name} got a block shape with {len(extents)} extents for {rank} axes",
            hint="give one for each axis, e.g. block_shape=[BM, BN]",
        )
    check_shape(extents, f"the block shape of {name}")
    return extents


def check_rank(rank: int, name: str) -> None:
    """Raise ShapeError for more axes than a window may have."""
    if not 1 <= rank <= MOST_AXES:
        raise ShapeError(
            f"{name} takes 1 to {MOST_AXES} axes, got {rank}",
            hint="fold axes into one where they lie in one run",
        )


def moved(offsets: Sequence[tensor], by: Sequence[tensor]) -> tuple[tensor, ...]:
    """Return offsets with others added."""
    return tuple(
        one if other.constant == 0 else binary("+", one, other)
        for one, other in zip(offsets, by, strict=True)
    )


# -- addresses and masks ----------------------------------------------------------------------
def pointers(window: Window, block_shape: Shape) -> tensor:
    """Return the address of every element of a block.

    What is the same for all elements is added to the base first: where a loop moves the block,
    only that scalar changes.
    """
    address = window.base
    for offset, stride in zip(window.offsets, window.strides, strict=True):
        address = binary("+", address, binary("*", offset, _wide(stride)))
    where = broadcast_tensor(address, block_shape)
    for axis, stride in enumerate(window.strides):
        step = binary("*", _along(axis, block_shape), stride)
        where = made(
            AddPointer(where.value, operand(step, step.dtype, block_shape, exact=True)),
            where.dtype,
        )
    return where


def _wide(stride: tensor) -> tensor:
    """Return a stride whose product with an offset cannot wrap."""
    if current().exact_index and stride.dtype == int32:
        return stride
    return stride if stride.dtype.int_bitwidth == 64 else cast_tensor(stride, int64)


def _along(axis: int, block_shape: Shape) -> tensor:
    """Return 0, 1, 2, ... along an axis, with extent 1 along the others."""
    element = INDEX if current().exact_index else int32.element
    value = emit(Iota(0, Tile((block_shape[axis],), element)))
    for other in range(len(block_shape)):
        if other != axis:
            value = emit(ExpandDims(value, other))
    return wrap(value, int32)


def inside(window: Window, block_shape: Shape, axes: Sequence[int]) -> Value | None:
    """Return the mask of the elements whose coordinates along `axes` lie in the array."""
    found: Value | None = None
    for axis in axes:
        place = binary("+", _along(axis, block_shape), window.offsets[axis])
        tests = [binary("<", place, window.shape[axis])]
        if not _never_negative(window.offsets[axis]):
            tests.append(binary(">=", place, 0))
        for test in tests:
            mask = broadcast_value(test.value, block_shape)
            found = mask if found is None else emit(Elementwise("and", (found, mask)))
    return found


def _never_negative(offset: tensor) -> bool:
    return offset.constant is not None and offset.constant >= 0


def padding_value(option: Any, element: dtype, name: str) -> float | int:
    """Return what elements outside the array read as: 0, or NaN for floats."""
    word = static(option, "padding_option")
    word = {None: "", "none": ""}.get(word, word)
    if word not in ("", "zero", "nan"):
        raise ConstexprError(
            f"{name} knows no padding_option {word!r}", hint="use 'zero', 'nan' or leave it out"
        )
    if word != "nan":
        return 0
    if not element.is_floating():
        raise KernelTypeError(
            f"{name} cannot pad {element} with NaN", hint="use padding_option='zero'"
        )
    return float("nan")


def number_value(number: float | int, element: dtype, shape: Shape) -> Value:
    """Return a block of one number of a dtype."""
    assert is_number(number)
    return operand(number, element, shape)
