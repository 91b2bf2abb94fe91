"""Which program instance runs, and promises about values."""

from __future__ import annotations

from typing import Any

from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import int1, int32, number_type
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import (
    describe,
    emit,
    made,
    static,
    static_int,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import Assume, Barrier, Cast, NumPrograms, ProgramId, Promise
from workbench.source import ConstexprError, KernelTypeError


def _grid_axis(axis: Any, name: str) -> int:
    number = static_int(axis, f"the axis of {name}")
    if number not in (0, 1, 2):
        raise ConstexprError(
            f"{name} axis must be 0, 1, or 2 but got {number}",
            hint="a grid has three axes; the index along one is tl.program_id(0)",
        )
    return number


def _counted(op: Any) -> tensor:
    value = emit(op)
    if not current().exact_index:
        value = emit(Cast(value, number_type(int32)))
    return wrap(value, int32)


@builtin
def program_id(axis: Any) -> tensor:
    """Return the index of this program instance along a grid axis, as int32."""
    return _counted(ProgramId(_grid_axis(axis, "program_id")))


@builtin
def num_programs(axis: Any) -> tensor:
    """Return how many program instances there are along a grid axis, as int32."""
    return _counted(NumPrograms(_grid_axis(axis, "num_programs")))


def _per_axis(values: Any, x: tensor, name: str) -> tuple[int, ...]:
    given = static(values, f"the values of {name}")
    numbers = given if is_tuple(given) else (given,)
    if not all(isinstance(n, int) and n > 0 for n in numbers):
        raise ConstexprError(
            f"{name} needs positive integers, got {given!r}",
            hint="write e.g. tl.multiple_of(x, 16)",
        )
    wanted = max(1, len(x.shape))
    if len(numbers) != wanted:
        raise ConstexprError(
            f"{name} needs one value per axis: {describe(x)} has {wanted}, got {len(numbers)}",
            hint="write one number for each axis, e.g. (1, 16) for two",
        )
    return numbers


@builtin
def multiple_of(input: Any, values: Any) -> tensor:
    """Return x, promising that the first of each run along an axis is a multiple."""
    x = to_tensor(input)
    return made(Promise(x.value, divisible=_per_axis(values, x, "multiple_of")), x.dtype)


@builtin
def max_contiguous(input: Any, values: Any) -> tensor:
    """Return x, promising runs of consecutive numbers along each axis."""
    x = to_tensor(input)
    return made(Promise(x.value, contiguous=_per_axis(values, x, "max_contiguous")), x.dtype)


@builtin
def max_constancy(input: Any, values: Any) -> tensor:
    """Return x, promising runs of equal numbers along each axis."""
    x = to_tensor(input)
    return made(Promise(x.value, constant=_per_axis(values, x, "max_constancy")), x.dtype)


@builtin
def assume(cond: Any) -> None:
    """Promise that a condition holds."""
    if not isinstance(cond, tensor):
        if not cond:
            raise ConstexprError(
                "this assumption is false at compile time",
                hint="assume what holds for these constexprs, or leave it out",
            )
        return
    if cond.dtype != int1 or cond.shape:
        raise KernelTypeError(
            f"assume needs a scalar condition, got {describe(cond)}",
            hint="compare scalars, e.g. tl.assume(n > 0); of blocks, tl.multiple_of and "
            "tl.max_contiguous say something",
        )
    current().builder.insert(Assume(cond.value))


@builtin
def debug_barrier() -> None:
    """Let all threads of the program instance wait for each other; orders memory accesses."""
    current().builder.insert(Barrier())
