"""Read-modify-write of global memory (README.md, rule 29)."""

from __future__ import annotations

from typing import Any

from workbench.ir import Value
from workbench.language.casts import cast_tensor
from workbench.language.dtypes import bfloat16, float16, int1
from workbench.language.memory import check_fits, element_of, mask_of, pointer_of
from workbench.language.shapes import operand
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import describe, is_number, static, tensor, to_tensor, wrap
from workbench.ops import AtomicCompareExchange, AtomicUpdate
from workbench.ops.atomics import AtomicFunction
from workbench.source import KernelTypeError

_ORDERS = ("acquire", "release", "acq_rel", "relaxed")
_SCOPES = ("gpu", "cta", "sys")


def _word(value: Any, known: tuple[str, ...], default: str, what: str) -> Any:
    word = static(value, what)
    if word is None:
        return default
    if word not in known:
        raise KernelTypeError(
            f"an atomic knows no {what} {word!r}", hint=f"use one of {', '.join(known)}"
        )
    return word


def check_element(address: tensor, function: str, name: str) -> None:
    """Raise KernelTypeError where no atomic of this kind works on the memory."""
    element = element_of(address)
    if address.dtype.is_const():
        raise KernelTypeError(
            f"{name} through {describe(address)}, which points to constant memory",
            hint="leave const out of the parameter's annotation",
        )
    if element in (float16, bfloat16):
        if function != "add":
            raise KernelTypeError(
                f"{name} does not take {element}", hint="only atomic_add does; use fp32 memory"
            )
    elif element.is_ptr() or element.primitive_bitwidth < 32:
        raise KernelTypeError(
            f"{name} does not take {element}", hint="use memory of a 32- or 64-bit type"
        )
    if function in ("and", "or", "xor") and not element.is_int():
        raise KernelTypeError(
            f"{name} takes integers, got {element}",
            hint="for the bits of floats cast the pointer, e.g. p.to(tl.pointer_type(tl.int32))",
        )


def _update(
    function: AtomicFunction,
    pointer: Any,
    value: Any,
    mask: Any,
    sem: Any,
    scope: Any,
    name: str,
) -> tensor:
    address = pointer_of(pointer, name)
    check_element(address, function, name)
    element = element_of(address)
    test = None if mask is None else mask_of(mask)
    shape = address.shape
    for part, word in ((test, "mask"), (value, "value")):
        check_fits(address, part, word, name)
    number = value if is_number(value) else cast_tensor(to_tensor(value), element)
    op = AtomicUpdate(
        address.value,
        operand(number, element, shape),
        None if test is None else operand(test, int1, shape),
        function=function,
        order=_word(sem, _ORDERS, "acq_rel", "sem"),
        scope=_word(scope, _SCOPES, "gpu", "scope"),
    )
    return wrap(current().builder.add(op), element)


@builtin
def atomic_add(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Add to memory at once; returns what was there (0 where masked off)."""
    return _update("add", pointer, val, mask, sem, scope, "atomic_add")


@builtin
def atomic_max(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Keep the larger value in memory; returns what was there."""
    return _update("max", pointer, val, mask, sem, scope, "atomic_max")


@builtin
def atomic_min(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Keep the smaller value in memory; returns what was there."""
    return _update("min", pointer, val, mask, sem, scope, "atomic_min")


@builtin
def atomic_and(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise and into memory; returns what was there."""
    return _update("and", pointer, val, mask, sem, scope, "atomic_and")


@builtin
def atomic_or(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise or into memory; returns what was there."""
    return _update("or", pointer, val, mask, sem, scope, "atomic_or")


@builtin
def atomic_xor(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Bitwise exclusive or into memory; returns what was there."""
    return _update("xor", pointer, val, mask, sem, scope, "atomic_xor")


@builtin
def atomic_xchg(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> tensor:
    """Put a value into memory; returns what was there."""
    return _update("exchange", pointer, val, mask, sem, scope, "atomic_xchg")


@builtin
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Put `val` into memory where it holds `cmp`; returns what was there."""
    address = pointer_of(pointer, "atomic_cas")
    element = element_of(address)
    if element.primitive_bitwidth not in (16, 32, 64) or address.dtype.is_const():
        raise KernelTypeError(
            f"atomic_cas does not take {describe(address)}",
            hint="use memory of 16, 32 or 64 bits an element",
        )
    shape = address.shape
    for part, word in ((cmp, "cmp"), (val, "value")):
        check_fits(address, part, word, "atomic_cas")
    op = AtomicCompareExchange(
        address.value,
        _uncast(cmp, element, shape),
        _uncast(val, element, shape),
        order=_word(sem, _ORDERS, "acq_rel", "sem"),
        scope=_word(scope, _SCOPES, "gpu", "scope"),
    )
    return wrap(current().builder.add(op), element)


def _uncast(value: Any, element: Any, shape: tuple[int, ...]) -> Value:
    """Return an operand that must have the memory's type already; a number takes it."""
    strong = to_tensor(value)
    if strong.constant is None and strong.dtype != element:
        raise KernelTypeError(
            f"atomic_cas on {element} memory got {describe(strong)}",
            hint=f"cast it first, e.g. .to({element.spelling})",
        )
    number = strong.constant if strong.constant is not None and not strong.shape else strong
    return operand(number, element, shape)
