"""What is known of a value from the op that computes it: a number, or equal elements."""

from __future__ import annotations

from typing import Any

from workbench.ir import Builder, Value, element_of, shape_of
from workbench.ops import Constant, Splat


def constant_of(value: Value) -> Any:
    """Return the number a value is known to hold in all its elements, or None."""
    op = value.op
    if isinstance(op, Splat):
        op = op.source.op
    return op.value if isinstance(op, Constant) else None


def scalar_of(value: Value, builder: Builder) -> Value | None:
    """Return a scalar equal to every element of a uniform tile, or None if it is not uniform."""
    if not shape_of(value.type):
        return value
    op = value.op
    if isinstance(op, Splat):
        return op.source
    if isinstance(op, Constant):
        return builder.add(Constant(op.value, element_of(op.type)))
    return None
