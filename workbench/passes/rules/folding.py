"""Operations on numbers that are known are their results: ops are run by their own meaning."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.ir import Array, Builder, Frame, Op, Value, element_of
from workbench.ops import Cast, Constant, Elementwise
from workbench.passes.rules.known import constant_of
from workbench.passes.rules.rule import Rule


class _Held:
    """The part of a frame that functions of numbers need: what each operand is."""

    def __init__(self, numbers: dict[Value, Any]) -> None:
        self._numbers = numbers

    def __getitem__(self, value: Value) -> Array:
        constant = Constant(self._numbers[value], element_of(value.type))
        return constant.interpret(cast("Frame", self))


def _fold(op: Op, builder: Builder) -> Constant | None:
    numbers: dict[Value, Any] = {}
    for value in op.operands:
        number = constant_of(value)
        if number is None:
            return None
        numbers[value] = number
    result = op.interpret(cast("Frame", _Held(numbers)))
    return Constant(np.asarray(result).reshape(-1)[0].item(), op.result.type)


FOLD = Rule("fold", "2 + 3 = 5", "", Elementwise, _fold)
FOLD_CAST = Rule("fold-cast", "cast(300, i8) = 44", "", Cast, _fold)
