"""Functions that versions of Triton after 3.6 have."""

from __future__ import annotations

from typing import Any

from workbench.ir import Block
from workbench.language.aggregates import Aggregate
from workbench.language.arithmetic import binary, logical_not
from workbench.language.atomics import atomic_add, atomic_or, atomic_xchg
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import like, unwrap
from workbench.language.debug import device_assert
from workbench.language.dtypes import int1, int32, pointer_type
from workbench.language.reductions import max as reduce_max
from workbench.language.shapes import expand_dims, full, operand, reshape_tensor
from workbench.language.state import current
from workbench.language.table import described
from workbench.language.values import describe, static, tensor
from workbench.language.values import to_tensor as _to_tensor
from workbench.ops import While, Yield
from workbench.source import ConstexprError, KernelTypeError, ShapeError


def squeeze(x: Any, dim: Any) -> tensor:
    """Return a block without an axis of extent 1."""
    value, axis = _to_tensor(x), static(dim, "dim")
    rank = len(value.shape)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise ShapeError(
            f"squeeze along axis {axis!r} of {describe(value)}", hint="name one axis by its number"
        )
    shape = list(value.shape)
    if shape.pop(axis) != 1:
        raise ShapeError(
            f"squeeze along axis {axis} of {describe(value)}: its extent is not 1",
            hint="only axes of extent 1 go away; reduce the others",
        )
    return reshape_tensor(value, tuple(shape))


def unsqueeze(x: Any, dim: Any) -> tensor:
    """Return a block with a new axis of extent 1."""
    return expand_dims(x, dim)


def to_tensor(x: Any) -> tensor:
    """Return a number as a scalar tensor, a tensor as it is."""
    return _to_tensor(unwrap(x))


class WrongFieldError(KernelTypeError, TypeError):
    """A field that an aggregate does not have (a TypeError as in Triton, also outside kernels)."""

    code = "K301"


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """Return an aggregate with some of its fields replaced."""
    if not isinstance(instance, Aggregate):
        raise WrongFieldError(
            f"aggregate_replace expects an aggregate instance, got {describe(instance)}"
        )
    names: Any = getattr(instance, "_fields")  # noqa: B009 - a named tuple's public names
    unknown = [name for name in changes if name not in names]
    if unknown:
        raise WrongFieldError(
            f"{type(instance).__name__} has no field '{unknown[0]}'",
            hint=f"its fields are {', '.join(names)}",
        )
    items = [changes.get(n, v) for n, v in zip(names, instance, strict=True)]
    return like(instance, items)


def expect_zero(x: Any, mask: Any) -> Any:
    """Return x; with debug, assert that it is zero where `mask` holds."""
    if current().debug:
        holds = binary("|", binary("==", x, 0), logical_not(_to_tensor(mask)))
        device_assert(holds, "expect_zero: a value is not zero where the mask holds")
    return x


def _order(sem: Any, default: str, name: str) -> str:
    word = static(sem, "sem") or default
    if word not in (default, "relaxed"):
        raise KernelTypeError(f"{name} knows no sem {word!r}", hint=f"{default} or relaxed")
    return word


def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Return what memory holds, read at once: sem "acquire" (default) or "relaxed"."""
    order = _order(sem, "acquire", "atomic_load")
    kind = _to_tensor(pointer).dtype
    if (
        isinstance(kind, pointer_type) and not kind.element_ty.is_floating()
    ):  # adds nothing: the memory stays as it is, whoever else writes it
        return atomic_or(pointer, 0, mask, order, scope)
    return atomic_add(pointer, -0.0, mask, order, scope)


def atomic_store(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> None:
    """Write memory at once: sem "release" (default) or "relaxed"."""
    atomic_xchg(pointer, val, mask, _order(sem, "release", "atomic_store"), scope)


def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> tensor:
    """Wait until memory holds a value; returns true everywhere.

    Raises for `timeout_ns`: no target here has a clock that every one of its programs can read.
    """
    if static(timeout_ns, "timeout_ns") is not None:
        raise ConstexprError(
            "atomic_poll with timeout_ns is not supported",
            hint="leave timeout_ns out, or count rounds of a loop over tl.atomic_cas",
        )
    builder, order = current().builder, _order(sem, "acquire", "atomic_poll")
    shape = _to_tensor(pointer).shape
    with builder.block() as test_ops:
        differs = binary("!=", atomic_load(pointer, None, order, scope), expected_value)
        go = reduce_max(cast_tensor(differs, int32)) if shape else differs
        builder.insert(Yield((operand(binary("!=", go, 0) if shape else go, int1, ()),)))
    with builder.block() as ops:
        builder.insert(Yield(()))
    builder.insert(While((), Block((), tuple(test_ops)), Block((), tuple(ops))))
    return full(shape, True, int1)


for _function in (squeeze, unsqueeze, to_tensor, expect_zero, atomic_load, atomic_store,
                  atomic_poll, aggregate_replace):  # fmt: skip
    described(_function)

__all__ = [
    "aggregate_replace", "atomic_load", "atomic_poll", "atomic_store", "expect_zero", "squeeze",
    "to_tensor", "unsqueeze",
]  # fmt: skip
