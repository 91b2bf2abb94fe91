"""Tensor descriptors (README.md, rule 22): arrays that are always accessed in bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.language.arithmetic import binary
from workbench.language.atomics import check_element
from workbench.language.blocks import (
    Window,
    base_of,
    block_shape_of,
    check_rank,
    inside,
    integers,
    number_value,
    padding_value,
    pointee,
    pointers,
)
from workbench.language.casts import cast_tensor
from workbench.language.dtypes import dtype, int1, pointer_type
from workbench.language.shapes import arange, broadcast_tensor, insert_axis, operand
from workbench.language.state import current
from workbench.language.table import Signature, builtin
from workbench.language.values import Shape, describe, tensor, to_tensor, wrap
from workbench.ops import AtomicUpdate, Load, Store
from workbench.ops.atomics import AtomicFunction
from workbench.source import KernelTypeError, ShapeError


@dataclass(frozen=True, slots=True)
class tensor_descriptor_type:
    """The type of a descriptor: the block it moves, its dtype, and how outside elements read."""

    block_shape: Shape
    dtype: dtype
    padding: str = "zero"

    @property
    def nbytes(self) -> int:
        """Bytes of one block."""
        count = self.dtype.itemsize
        for extent in self.block_shape:
            count *= extent
        return count

    def __str__(self) -> str:
        return f"tensor_descriptor<{list(self.block_shape)}, {self.dtype}>"


class tensor_descriptor(NamedTuple):
    """An array with bounds, from which blocks are loaded and to which they are stored."""

    base: tensor
    shape: tuple[tensor, ...]
    strides: tuple[tensor, ...]
    type: tensor_descriptor_type

    @property
    def block_shape(self) -> Shape:
        """The shape of the blocks that are loaded and stored."""
        return self.type.block_shape

    @property
    def dtype(self) -> dtype:
        """The dtype of the array's elements."""
        return self.type.dtype

    def load(self, offsets: Any) -> tensor:
        """Return the block at `offsets`; what lies outside the array reads as 0 (or NaN)."""
        return load_tensor_descriptor(self, offsets)

    def store(self, offsets: Any, value: Any) -> None:
        """Write a block at `offsets`; what lies outside the array is dropped."""
        store_tensor_descriptor(self, offsets, value)

    def gather(self, x_offsets: Any, y_offset: Any) -> tensor:
        """Return rows `x_offsets` of the block of columns that starts at `y_offset`."""
        where, mask = _rows(self, x_offsets, y_offset, "gather")
        other = _padding(self, where.shape)
        op = Load(where.value, operand(mask, int1, where.shape), other)
        return wrap(current().builder.add(op), self.dtype)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Write rows `x_offsets` of the block of columns that starts at `y_offset`."""
        _check_writable(self, "scatter")
        where, mask = _rows(self, x_offsets, y_offset, "scatter")
        given = _whole_block(self, value, where.shape, "scatter")
        op = Store(where.value, given.stored(), operand(mask, int1, where.shape))
        current().builder.insert(op)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add a block to the array at once, element by element; what lies outside is dropped."""
        _reduce(self, "add", offsets, value)

    def atomic_min(self, offsets: Any, value: Any) -> None:
        """Keep the smaller elements in the array."""
        _reduce(self, "min", offsets, value)

    def atomic_max(self, offsets: Any, value: Any) -> None:
        """Keep the larger elements in the array."""
        _reduce(self, "max", offsets, value)

    def atomic_and(self, offsets: Any, value: Any) -> None:
        """Bitwise and into the array."""
        _reduce(self, "and", offsets, value)

    def atomic_or(self, offsets: Any, value: Any) -> None:
        """Bitwise or into the array."""
        _reduce(self, "or", offsets, value)

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        """Bitwise exclusive or into the array."""
        _reduce(self, "xor", offsets, value)

    def __repr__(self) -> str:
        return f"a {self.type}"


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> tensor_descriptor:
    """Return a descriptor of an array of `shape` and `strides`, accessed in blocks.

    Any strides, extents and alignment are accepted; bounds are checked along every axis.
    """
    start = base_of(base, "make_tensor_descriptor")
    extents = integers(shape, "the shape of make_tensor_descriptor")
    rank = len(extents)
    check_rank(rank, "make_tensor_descriptor")
    steps = integers(strides, "the strides of make_tensor_descriptor", rank)
    block = block_shape_of(block_shape, rank, "make_tensor_descriptor")
    element = pointee(start)
    fill = padding_value(padding_option, element, "make_tensor_descriptor")
    _remark_on_portability(steps, block, element)
    kind = tensor_descriptor_type(block, element, "zero" if fill == 0 else "nan")
    return tensor_descriptor(start, extents, steps, kind)


def _remark_on_portability(steps: tuple[tensor, ...], block: Shape, element: dtype) -> None:
    if steps[-1].constant != 1:
        current().superset("a descriptor whose last stride is not the constant 1")
    if block[-1] * element.itemsize < 16:
        current().superset(
            f"a descriptor whose last axis moves {block[-1]} {element}, under 16 bytes"
        )


@builtin
def load_tensor_descriptor(desc: Any, offsets: Any) -> tensor:
    """Return the block of a descriptor at `offsets`."""
    found = _descriptor(desc, "load_tensor_descriptor")
    window = _window(found, offsets, "load")
    shape = found.block_shape
    mask = inside(window, shape, range(len(shape)))
    op = Load(pointers(window, shape).value, mask, _padding(found, shape), box=True)
    return wrap(current().builder.add(op), found.dtype)


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Write a block, cast to the array's dtype, at `offsets` of a descriptor."""
    found = _descriptor(desc, "store_tensor_descriptor")
    _check_writable(found, "store")
    window = _window(found, offsets, "store")
    shape = found.block_shape
    given = _whole_block(found, value, shape, "store")
    mask = inside(window, shape, range(len(shape)))
    op = Store(pointers(window, shape).value, given.stored(), mask, box=True)
    current().builder.insert(op)


def _reduce(desc: tensor_descriptor, function: AtomicFunction, offsets: Any, value: Any) -> None:
    """Combine a block with what the array holds, as bulk reductions do: relaxed, no result.

    PTX ISA 9.0, cp.reduce.async.bulk.tensor: each element is one relaxed atomic of scope gpu.
    """
    name = f"atomic_{function}"
    window = _window(desc, offsets, name)
    shape = desc.block_shape
    where = wrap(pointers(window, shape).value, desc.base.dtype)
    check_element(where, function, name)
    given = _whole_block(desc, value, shape, name)
    mask = inside(window, shape, range(len(shape)))
    update = AtomicUpdate(
        where.value, given.stored(), mask, function=function, order="relaxed", scope="gpu"
    )
    current().builder.insert(update)


def _descriptor(desc: Any, name: str) -> tensor_descriptor:
    if isinstance(desc, tensor_descriptor):
        return desc
    raise KernelTypeError(
        f"{name} needs a tensor descriptor, got {describe(desc)}",
        hint="make one with tl.make_tensor_descriptor, or pass a TensorDescriptor to the kernel",
    )


def _whole_block(desc: tensor_descriptor, value: Any, shape: Shape, name: str) -> tensor:
    """Return a value as a block to be written; but for a scalar it must have the block's shape."""
    given = to_tensor(value)
    if given.shape and given.shape != shape:
        raise ShapeError(
            f"{name} of a block of shape {shape} got {describe(given)}",
            hint="a descriptor writes whole blocks; widen the value with tl.broadcast_to",
        )
    return broadcast_tensor(cast_tensor(given, desc.dtype), shape)


def _check_writable(desc: tensor_descriptor, name: str) -> None:
    assert isinstance(desc.base.dtype, pointer_type)
    if desc.base.dtype.is_const():
        raise KernelTypeError(
            f"{name} through {desc!r} into constant memory",
            hint="leave const out of the parameter's annotation",
        )


def _window(desc: tensor_descriptor, offsets: Any, name: str) -> Window:
    given = integers(offsets, f"the offsets of {name}", len(desc.block_shape))
    return Window(desc.base, desc.shape, desc.strides, given)


def _padding(desc: tensor_descriptor, shape: Shape) -> Any:
    fill = padding_value(desc.type.padding, desc.dtype, "load")
    return None if fill == 0 else number_value(fill, desc.dtype, shape)


def _rows(desc: tensor_descriptor, rows: Any, column: Any, name: str) -> tuple[tensor, tensor]:
    """Return addresses and mask of chosen rows of a block of columns."""
    if len(desc.block_shape) != 2 or desc.block_shape[0] != 1:
        raise ShapeError(
            f"{name} needs a descriptor with blocks of one row, got {desc!r}",
            hint="give it block_shape=[1, columns]",
        )
    index = to_tensor(rows)
    if len(index.shape) != 1 or not index.dtype.is_int():
        raise ShapeError(
            f"{name} needs a 1-dimensional block of row numbers, got {describe(rows)}",
            hint="load them as a block, or flatten one with tl.ravel",
        )
    (first,) = integers(column, f"the column of {name}", 1)
    down = insert_axis(index, 1)
    across = insert_axis(binary("+", arange(0, desc.block_shape[1]), first), 0)
    where = binary("+", desc.base, binary("*", down, desc.strides[0]))
    where = binary("+", where, binary("*", across, desc.strides[1]))
    mask = _between(down, desc.shape[0])
    mask = binary("&", mask, _between(across, desc.shape[1]))
    return where, broadcast_tensor(mask, where.shape)


def _between(place: tensor, extent: tensor) -> tensor:
    return binary("&", binary(">=", place, 0), binary("<", place, extent))


_REDUCTIONS: tuple[AtomicFunction, ...] = ("add", "min", "max", "and", "or", "xor")


def _add_signatures() -> None:
    """Have calls of methods checked like calls of functions."""
    rows = {
        "load": ("self", "offsets"), "store": ("self", "offsets", "value"),
        "gather": ("self", "x_offsets", "y_offset"),
        "scatter": ("self", "value", "x_offsets", "y_offset"),
        **{f"atomic_{word}": ("self", "offsets", "value") for word in _REDUCTIONS},
    }  # fmt: skip
    for name, parameters in rows.items():
        function = tensor_descriptor.__dict__[name]
        setattr(function, "__signature_row__", Signature(name, parameters, len(parameters), False))  # noqa: B010


_add_signatures()

__all__ = [
    "load_tensor_descriptor", "make_tensor_descriptor", "store_tensor_descriptor",
    "tensor_descriptor", "tensor_descriptor_type",
]  # fmt: skip
