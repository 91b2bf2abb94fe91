"""Global memory: loads and stores through pointers (README.md, rules 18 to 20)."""

from __future__ import annotations

from typing import Any

from workbench.ir import Value
from workbench.language.block_pointers import BlockPointer, load_block, store_block
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype, int1, pointer_type
from workbench.language.shapes import broadcast_tensor, common_shape, merge_shapes, operand
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import describe, is_number, static, tensor, to_tensor, wrap
from workbench.ops import Load, Store
from workbench.source import KernelTypeError, ShapeError

_LOAD_CACHES = {"": "", ".ca": "ca", ".cg": "cg", ".cv": "cv"}
_STORE_CACHES = {"": "", ".wb": "wb", ".cg": "cg", ".cs": "cs", ".wt": "wt"}
_EVICTIONS = {"": "", "evict_first": "evict_first", "evict_last": "evict_last"}


@builtin
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> tensor:
    """Return what the pointers point at; masked-off elements give `other`, or 0.

    A pointer whose mask is off is never followed. Through a block pointer a whole block is read;
    along the axes of `boundary_check`, what lies outside the array reads as 0 or NaN.
    """
    options: dict[str, Any] = {
        "cache": _option(cache_modifier, _LOAD_CACHES, "cache_modifier", "load"),
        "eviction": _option(eviction_policy, _EVICTIONS, "eviction_policy", "load"),
        "volatile": bool(static(volatile, "volatile")),
    }
    if isinstance(pointer, BlockPointer):
        _no_mask(mask, other, "load")
        return load_block(pointer, boundary_check, padding_option, **options)
    address = pointer_of(pointer, "load")
    _no_block_options(boundary_check, padding_option)
    if mask is None and other is not None:
        raise KernelTypeError(
            "load got 'other' without a mask", hint="give mask=..., or leave other out"
        )
    test = None if mask is None else mask_of(mask)
    shape = address.shape
    if test is not None and test.shape:
        _scalar_takes_scalars(address, test, "mask", "load")
        shape = common_shape(address, test, what="pointer and mask of load")
    if isinstance(other, tensor) and other.shape:
        _scalar_takes_scalars(address, other, "other", "load")
        shape = common_shape(
            broadcast_tensor(address, shape), other, what="pointer and other of load"
        )
    element = element_of(address)
    fill = None if other is None else _converted(other, element, shape)
    op = Load(
        broadcast_tensor(address, shape).value,
        None if test is None else operand(test, int1, shape),
        fill,
        **options,
    )
    return wrap(current().builder.add(op), element)


@builtin
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Write a value, cast to the element type, through each pointer whose mask is on."""
    options: dict[str, Any] = {
        "cache": _option(cache_modifier, _STORE_CACHES, "cache_modifier", "store"),
        "eviction": _option(eviction_policy, _EVICTIONS, "eviction_policy", "store"),
    }
    if isinstance(pointer, BlockPointer):
        _no_mask(mask, None, "store")
        store_block(pointer, value, boundary_check, **options)
        return
    address = pointer_of(pointer, "store")
    _no_block_options(boundary_check, "")
    if address.dtype.is_const():
        raise KernelTypeError(
            f"Cannot store to a constant pointer: {describe(address)}, "
            "which points to constant memory",
            hint="drop tl.const (or the 'k' of '*k...') from the parameter's annotation",
        )
    element, shape = element_of(address), address.shape
    test = None if mask is None else mask_of(mask)
    for part, word in ((test, "mask"), (value, "value")):
        check_fits(address, part, word, "store")
    op = Store(
        address.value,
        _converted(value, element, shape),
        None if test is None else operand(test, int1, shape),
        **options,
    )
    current().builder.insert(op)


def _converted(value: Any, element: dtype, shape: tuple[int, ...]) -> Value:
    """Return a value in the memory's element type and shape."""
    if is_number(value) and not element.is_ptr():
        return operand(value, element, shape)
    return operand(cast_tensor(to_tensor(value), element), element, shape)


def element_of(address: tensor) -> dtype:
    """Return the dtype that pointers point at."""
    assert isinstance(address.dtype, pointer_type)
    return address.dtype.element_ty


def pointer_of(pointer: Any, name: str) -> tensor:
    """Return an operand that must be pointers."""
    if isinstance(pointer, tensor) and pointer.dtype.is_ptr():
        return pointer
    hint = "pass the tensor itself to the kernel, and add offsets to its parameter"
    if hasattr(pointer, "block_shape"):
        hint = f"write d.{name}([i, j]) through a tensor descriptor: it checks bounds itself"
    elif is_tuple(pointer):
        hint = f"{name} one of its items; a comma at the end makes a tuple of one: p = (x + i,)"
    raise KernelTypeError(f"{name} needs a pointer, got {describe(pointer)}", hint=hint)


def mask_of(mask: Any) -> tensor:
    """Return an operand that must be conditions."""
    test = to_tensor(mask)
    if test.dtype != int1:
        raise KernelTypeError(
            f"a mask needs conditions (int1), got {describe(test)}",
            hint="compare first, e.g. offsets < n",
        )
    return test


def check_fits(address: tensor, part: Any, word: str, name: str) -> None:
    """Refuse what would widen the pointers: the same memory would be written several times."""
    if not isinstance(part, tensor) or not part.shape:
        return
    _scalar_takes_scalars(address, part, word, name)
    if merge_shapes(part.shape, address.shape) != address.shape:
        raise ShapeError(
            f"{name} through {describe(address)} got a {word} of shape {part.shape}",
            hint="value and mask are widened to the pointers' shape, pointers never are",
        )


def _scalar_takes_scalars(address: tensor, part: tensor, word: str, name: str) -> None:
    if not address.shape:
        raise ShapeError(
            f"{name} through a scalar pointer got a {word} of shape {part.shape}",
            hint=f"add a block of offsets to the pointer, or give a scalar {word}",
        )


def _no_mask(mask: Any, other: Any, name: str) -> None:
    if mask is not None or other is not None:
        raise KernelTypeError(
            f"{name} through a block pointer takes no mask",
            hint="use boundary_check=(0, 1) and padding_option",
        )


def _no_block_options(boundary_check: Any, padding_option: Any) -> None:
    if static(boundary_check, "boundary_check") or static(padding_option, "padding_option"):
        raise KernelTypeError(
            "boundary_check and padding_option are for block pointers",
            hint="use mask= and other= with ordinary pointers",
        )


def _option(word: Any, known: dict[str, str], name: str, function: str) -> str:
    text = static(word, name)
    text = "" if text is None else text
    if text not in known:
        choices = ", ".join(repr(k) for k in known if k)
        raise KernelTypeError(f"{function} knows no {name} {text!r}", hint=f"use one of {choices}")
    return known[text]
