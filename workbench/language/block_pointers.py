"""Block pointers (README.md, rule 21): windows into arrays, moved and accessed as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.language.blocks import (
    Window,
    base_of,
    block_shape_of,
    check_rank,
    inside,
    integers,
    moved,
    number_value,
    padding_value,
    pointee,
    pointers,
)
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import block_type, pointer_type
from workbench.language.shapes import axis_number, broadcast_tensor, merge_shapes
from workbench.language.state import current
from workbench.language.table import Signature, builtin
from workbench.language.values import (
    Shape,
    describe,
    is_number,
    static,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import Load, Store
from workbench.source import KernelTypeError, ShapeError


@dataclass(frozen=True, slots=True)
class BlockForm:
    """What a block pointer is at compile time; `order` names the axes, fastest in memory first."""

    shape: Shape
    order: tuple[int, ...] = field(compare=False)


class BlockPointer(NamedTuple):
    """A block pointer: the array it points into, where it stands, and the block's shape."""

    base: tensor
    extents: tuple[tensor, ...]
    strides: tuple[tensor, ...]
    offsets: tuple[tensor, ...]
    form: BlockForm

    @property
    def window(self) -> Window:
        """The part of the array that it points at."""
        return Window(self.base, self.extents, self.strides, self.offsets)

    @property
    def dtype(self) -> pointer_type:
        """The type of a pointer to a block of elements."""
        return pointer_type(block_type(pointee(self.base), self.form.shape))

    @property
    def type(self) -> pointer_type:
        """The type of a pointer to a block of elements."""
        return self.dtype

    @property
    def shape(self) -> Shape:
        """The shape is that of a scalar: one pointer."""
        return ()

    def advance(self, offsets: Any) -> BlockPointer:
        """Return the pointer moved by whole elements; see `tl.advance`."""
        return advance(self, offsets)

    def __repr__(self) -> str:
        return f"a block pointer of shape {self.form.shape} into {pointee(self.base)} memory"


@builtin
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    """Return a pointer to a block of an array: at `offsets` in an array of `shape`, `strides`.

    Bounds are checked only along the axes that a load or store names in `boundary_check`.
    """
    start = base_of(base, "make_block_ptr")
    extents = integers(shape, "the shape of make_block_ptr")
    rank = len(extents)
    check_rank(rank, "make_block_ptr")
    axes = static(order, "the order of make_block_ptr")
    axes = axes if is_tuple(axes) else (axes,)
    if len(axes) != rank or any(axis not in axes for axis in range(rank)):
        raise ShapeError(
            f"{tuple(axes)} is not an order of {rank} axes",
            hint="name every axis once, the one with stride 1 first, e.g. order=(1, 0)",
        )
    return BlockPointer(
        start,
        extents,
        integers(strides, "the strides of make_block_ptr", rank),
        integers(offsets, "the offsets of make_block_ptr", rank),
        BlockForm(block_shape_of(block_shape, rank, "make_block_ptr"), tuple(axes)),
    )


@builtin
def advance(base: Any, offsets: Any) -> BlockPointer:
    """Return a block pointer moved by whole elements along each axis."""
    if not isinstance(base, BlockPointer):
        raise KernelTypeError(
            f"advance needs a block pointer, got {describe(base)}",
            hint="add offsets to an ordinary pointer with '+'",
        )
    by = integers(offsets, "the offsets of advance", len(base.extents))
    return base._replace(offsets=moved(base.offsets, by))


def _checked_axes(pointer: BlockPointer, boundary_check: Any, name: str) -> list[int]:
    given = static(boundary_check, "boundary_check")
    given = given if is_tuple(given) else () if given is None else (given,)
    rank = len(pointer.extents)
    axes = [axis_number(axis, rank, f"boundary_check of {name}:") for axis in given]
    if len(set(axes)) != len(axes):
        raise ShapeError(
            f"boundary_check of {name} names an axis twice: {tuple(given)}",
            hint="name every axis once, e.g. boundary_check=(0, 1)",
        )
    return sorted(axes)


def load_block(
    pointer: BlockPointer, boundary_check: Any, padding_option: Any, **options: Any
) -> tensor:
    """Return the block that a block pointer points at."""
    element, shape = pointee(pointer.base), pointer.form.shape
    axes = _checked_axes(pointer, boundary_check, "load")
    fill = padding_value(padding_option, element, "load")
    mask = inside(pointer.window, shape, axes)
    other = None if mask is None or fill == 0 else number_value(fill, element, shape)
    where = pointers(pointer.window, shape).value
    return wrap(current().builder.add(Load(where, mask, other, box=True, **options)), element)


def store_block(pointer: BlockPointer, value: Any, boundary_check: Any, **options: Any) -> None:
    """Write a block through a block pointer; its dtype must be the memory's."""
    element, shape = pointee(pointer.base), pointer.form.shape
    if pointer.base.dtype.is_const():
        raise KernelTypeError(
            "store through a block pointer to constant memory",
            hint="leave const out of the parameter's annotation",
        )
    given = cast_tensor(to_tensor(value), element) if is_number(value) else to_tensor(value)
    if given.dtype != element:
        raise KernelTypeError(
            f"store through {pointer!r} got {describe(given)}",
            hint=f"cast it first, e.g. .to({element.spelling})",
        )
    data = _block_of_shape(given, shape, "store")
    mask = inside(pointer.window, shape, _checked_axes(pointer, boundary_check, "store"))
    where = pointers(pointer.window, shape).value
    current().builder.insert(Store(where, data.stored(), mask, box=True, **options))


def _block_of_shape(value: tensor, shape: Shape, name: str) -> tensor:
    """Return a value widened to the shape of the block it is written to: a scalar, or its rank."""
    same_rank = not value.shape or len(value.shape) == len(shape)
    if not same_rank or merge_shapes(value.shape, shape) != shape:
        raise ShapeError(
            f"{name} of a block of shape {shape} got {describe(value)}",
            hint="give a block of that shape; add an axis where one is missing, e.g. x[:, None]",
        )
    return broadcast_tensor(value, shape)


setattr(  # noqa: B010 - calls of the method are checked like calls of the function
    BlockPointer.advance, "__signature_row__", Signature("advance", ("self", "offsets"), 2, False)
)
