"""Running results along an axis (README.md, rules 23 and 26)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ir import element_of
from workbench.language.casts import cast_tensor, widen_bfloat16
from workbench.language.constexprs import is_tuple
from workbench.language.reductions import (
    Combine,
    block_of,
    combine_block,
    same_shapes,
    single,
    sum_dtype,
    user_combine,
)
from workbench.language.shapes import axis_number
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import (
    static,
    tensor,
    wrap,
)
from workbench.ops import Scan


def _scan(
    inputs: Sequence[tensor], axis: Any, combine: Combine, reverse: Any, name: str
) -> tuple[tensor, ...]:
    along = axis_number(axis, len(inputs[0].shape), f"the axis of {name}")
    values = tuple(x.stored() for x in inputs)
    region = combine_block([element_of(v.type) for v in values], combine)
    backward = bool(static(reverse, "reverse"))
    op = current().builder.insert(Scan(values, axis=along, reverse=backward, combine=region))
    return tuple(wrap(r, x.dtype) for r, x in zip(op.results, inputs, strict=True))


@builtin
def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Return running results of a device function along an axis, each element included.

    The function takes all left scalars, then all right ones; it must be associative.
    """
    many = is_tuple(input)
    inputs = [block_of(x, "associative_scan") for x in (input if many else (input,))]
    same_shapes(inputs, "associative_scan")
    combine = user_combine(inputs, combine_fn, "associative_scan")
    results = _scan(inputs, axis, combine, reverse, "associative_scan")
    return results if many else results[0]


@builtin
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:
    """Return running sums along an axis."""
    x = widen_bfloat16(block_of(input, "cumsum"))
    x = cast_tensor(x, sum_dtype(x.dtype, static(dtype, "dtype")))
    return _scan([x], axis, single("add"), reverse, "cumsum")[0]


@builtin
def cumprod(input: Any, axis: Any = 0, reverse: Any = False) -> tensor:
    """Return running products along an axis."""
    x = widen_bfloat16(block_of(input, "cumprod"))
    return _scan([x], axis, single("mul"), reverse, "cumprod")[0]
