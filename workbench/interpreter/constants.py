"""Folding: an op over constants is computed by the op's own meaning, never by a second table."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.ir import Array, Op, Value, element_of
from workbench.ops import (
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    Reshape,
    Select,
)
from workbench.ops.numbers import round_to

# Ops that treat all elements alike: equal elements in, equal elements out.
_ALIKE = (Bitcast, Cast, Elementwise, Select)
_MOVES = (Broadcast, ExpandDims, Reshape)


class _ConstantFrame:
    """A frame that knows the values of constants only, each as one number."""

    def __getitem__(self, value: Value) -> Array:
        constant = value.op
        assert isinstance(constant, Constant)
        return _number(constant)

    def get(self, value: Value | None, default: Any) -> Array:
        return np.asarray(default) if value is None else self[value]


def _number(constant: Constant) -> Array:
    value: Any = constant.value
    element: Any = element_of(constant.type)
    exact = np.float64 if isinstance(value, float) else None
    if exact is None and isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        exact = np.uint64
    return round_to(np.asarray(value, exact), element)


def interpret_constant_op(op: Op) -> Array | None:
    """Return the number that every element of the op's result is, as a 0-d array.

    None: the op has an effect, an operand that is no constant, or elements that differ.
    """
    if not isinstance(op, _ALIKE + _MOVES):
        return None
    if not all(isinstance(value.op, Constant) for value in op.operands):
        return None
    frame: Any = _ConstantFrame()
    if isinstance(op, _MOVES):
        return frame[op.source]
    return np.asarray(op.interpret(frame)).reshape(())
