"""Subscripts of blocks: new axes, and (beyond Triton) slices and elements."""

from __future__ import annotations

from typing import Any, cast

from workbench.ir import shape_of
from workbench.language.arithmetic import binary
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import int1
from workbench.language.shapes import arange, broadcast_tensor, insert_axis
from workbench.language.sorts import picked
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import Shape, describe, emit, static, tensor, to_tensor, wrap
from workbench.ops import Reshape
from workbench.source import KernelTypeError, ShapeError

_COST = "; elements move between threads, on a GPU through shared memory"


@builtin
def item(self: Any) -> tensor:
    """Return the one element of a block as a scalar."""
    value = to_tensor(self)
    if not value.shape:
        return value
    if value.numel != 1:
        raise ShapeError(
            f"item needs a block of one element, got {describe(value)}",
            hint="reduce it first, e.g. tl.sum(x), or take an element: x[0]",
        )
    return wrap(emit(Reshape(value.value, ())), value.dtype)


def subscript(value: tensor, key: Any, text: str) -> tensor:
    """Return `value[key]`: None adds an axis, ':' keeps one; slices and integers pick elements."""
    keys = list(key) if is_tuple(key) else [key]
    if keys.count(Ellipsis) > 1:
        raise ShapeError(
            f"[{text}] has more than one '...'",
            hint="write one, and : or an index for each other axis",
        )
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if used > len(value.shape):
        keys = _without_surplus(value, keys, used, text)
    if Ellipsis in keys:
        place = keys.index(Ellipsis)
        keys[place : place + 1] = [slice(None)] * (len(value.shape) - used)
    result = value
    dropped: list[int] = []
    for axis, part in enumerate(keys):
        if part is None:
            result = insert_axis(result, axis)
        elif isinstance(part, slice):
            result = _sliced(result, cast("slice[Any, Any, Any]", part), axis, text)
        else:
            result = _element(result, part, axis, text)
            dropped.append(axis)
    return _without(result, dropped)


def _without_surplus(value: tensor, keys: list[Any], used: int, text: str) -> list[Any]:
    """Return the keys without the last ':' that have no axis; Triton takes those for granted."""
    keys = list(keys)
    for place in range(len(keys) - 1, -1, -1):
        if used > len(value.shape) and keys[place] == slice(None):
            del keys[place]
            used -= 1
    if used > len(value.shape):
        hint = "None adds an axis, e.g. x[:, None]"
        if value.dtype.is_ptr():
            hint = f"what a pointer points to is loaded, e.g. tl.load(x + {text})"
        raise ShapeError(
            f"unsupported tensor index: [{text}] has more axes than {describe(value)}", hint=hint
        )
    current().remark(f"[{text}] has a ':' for an axis that {describe(value)} does not have")
    return keys


def _sliced(value: tensor, part: slice[Any, Any, Any], axis: int, text: str) -> tensor:
    """Return some of the rows along an axis; bounds are known at compile time."""
    extent = value.shape[axis]
    bounds = [
        None if x is None else static(x, "a bound of a slice")
        for x in (part.start, part.stop, part.step)
    ]
    if not all(x is None or isinstance(x, int) for x in bounds):
        raise KernelTypeError(
            f"[{text}]: the bounds of a slice are integers", hint="write numbers, or constexprs"
        )
    if bounds[2] == 0:
        raise ShapeError(
            f"[{text}]: the step of a slice cannot be 0", hint="step by 1 or more, or back"
        )
    rows = range(extent)[slice(*bounds)]
    if len(rows) == extent and rows.step == 1:
        return value
    if not rows:
        raise ShapeError(
            f"[{text}] of {describe(value)} is empty",
            hint="the end must be past the start, both within the axis",
        )
    current().superset(f"a slice of a block{_COST}")
    places = (
        binary("*", arange(0, len(rows)), rows.step) if rows.step != 1 else arange(0, len(rows))
    )
    return picked(value, binary("+", places, rows.start), axis)


def _element(value: tensor, index: Any, axis: int, text: str) -> tensor:
    """Return one row along an axis; the axis stays, with extent 1."""
    extent = value.shape[axis]
    place = to_tensor(index)
    if place.shape or not place.dtype.is_int() or place.dtype == int1:
        raise KernelTypeError(
            f"[{text}]: an index is an integer, got {describe(place)}",
            hint="pick several elements at once with tl.gather",
        )
    if place.constant is not None:
        number = int(place.constant)
        if not -extent <= number < extent:
            raise ShapeError(
                f"[{text}]: {number} is outside axis {axis} of {describe(value)}",
                hint="count from 0, or back from -1",
            )
        place = to_tensor(number % extent)
    current().superset(f"an element of a block{_COST}")
    if extent == 1:
        return value
    return picked(value, broadcast_tensor(place, (1,)), axis)


def _without(value: tensor, axes: list[int]) -> tensor:
    """Return a block without axes of extent 1; a scalar if none is left."""
    if not axes:
        return value
    shape: Shape = tuple(n for d, n in enumerate(value.shape) if d not in axes)
    reshaped = emit(Reshape(value.value, shape))
    assert shape_of(reshaped.type) == shape
    return wrap(reshaped, value.dtype)
