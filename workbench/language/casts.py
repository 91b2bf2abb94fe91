"""Changes of dtype (README.md, rule 28)."""

from __future__ import annotations

from typing import Any

from workbench.language.dtypes import bfloat16, dtype, float32, int1, int64, number_type
from workbench.language.table import builtin
from workbench.language.values import (
    as_dtype,
    constant_value,
    describe,
    emit,
    fit_number,
    static,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import Bitcast, Cast, Elementwise
from workbench.ops.numbers import round_to
from workbench.source import KernelTypeError


@builtin
def cast(
    input: Any,
    dtype: Any,
    fp_downcast_rounding: Any = None,
    bitcast: Any = False,
) -> tensor:
    """Return a value in another dtype.

    `fp_downcast_rounding` is "rtne" or "rtz", for floats to narrower floats only (where the dtype
    stays, nothing is rounded); `bitcast` keeps the bits, for dtypes of one width.
    """
    value, to = to_tensor(input), as_dtype(dtype)
    rounding = static(fp_downcast_rounding, "fp_downcast_rounding")
    if rounding is not None:
        _check_rounding(rounding, value, to)
    if static(bitcast, "bitcast"):
        return bitcast_tensor(value, to)
    return cast_tensor(value, to, rounding or "rtne")


def _check_rounding(rounding: Any, value: tensor, to: dtype) -> None:
    if rounding not in ("rtne", "rtz"):
        raise KernelTypeError(
            f"fp_downcast_rounding is 'rtne' or 'rtz', got {rounding!r}",
            hint="leave it out for the nearest number",
        )
    narrows = (
        value.dtype.is_floating()
        and to.is_floating()
        and to.primitive_bitwidth < value.dtype.primitive_bitwidth
    )
    if not narrows and value.dtype != to:
        raise KernelTypeError(
            f"fp_downcast_rounding is for floats to narrower floats, not {value.dtype} to {to}",
            hint="leave fp_downcast_rounding out",
        )


def cast_tensor(value: tensor, to: dtype, rounding: Any = "rtne") -> tensor:
    """Return a tensor in another dtype; the same tensor where nothing changes."""
    if value.dtype == to:
        return value
    if value.dtype.is_ptr() or to.is_ptr():
        return _cast_pointer(value, to)
    if value.constant is not None and not value.shape and not to.is_floating():
        number = value.constant
        if value.dtype.is_floating():  # as written: the dtype may hold another one
            number = round_to(number, value.dtype.element).item()
        return tensor(None, to, (), fit_number(number, to.element), value.name)
    return wrap(emit(Cast(value.stored(), number_type(to), rounding=rounding)), to)


def _cast_pointer(value: tensor, to: dtype) -> tensor:
    """A pointer and an integer meet as 64 bits, pointers as they are; int1 says "not null"."""
    if value.dtype.is_ptr() and to.is_ptr():
        return wrap(emit(Bitcast(value.stored(), to.element)), to)
    if to == int1:
        zero = constant_value(0, int64.element, value.shape)
        address = emit(Bitcast(value.stored(), int64.element))
        return wrap(emit(Elementwise("ne", (address, zero))), int1)
    other = to if value.dtype.is_ptr() else value.dtype
    if other.is_int() and other.primitive_bitwidth == 64:
        return wrap(emit(Bitcast(value.stored(), to.element)), to)
    raise KernelTypeError(
        f"{describe(value)} cannot become {to}: pointers and integers meet as int64 only",
        hint="cast through tl.int64"
        if other.is_int()
        else "what a pointer points to is loaded, tl.load(x); the number that a tensor holds is "
        "passed as x.item()",
    )


def bitcast_tensor(value: tensor, to: dtype) -> tensor:
    """Return the same bits as another dtype of the same width."""
    if value.dtype == to:
        return value
    have, want = value.dtype.primitive_bitwidth, to.primitive_bitwidth
    if have != want:
        raise KernelTypeError(
            f"bitcast from {value.dtype} ({have} bits) to {to} ({want} bits)",
            hint="the widths must be equal; cast to a type of the same width first",
        )
    return wrap(emit(Bitcast(value.stored(), to.element)), to)


def widen_bfloat16(value: tensor) -> tensor:
    """Return bf16 as fp32, anything else as it is."""
    return cast_tensor(value, float32) if value.dtype == bfloat16 else value


def to(self: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> tensor:
    """Return this tensor in another dtype; see `tl.cast`."""
    return cast(self, dtype, fp_downcast_rounding, bitcast)
