"""A choice by its sign between a number and a multiple of it is the larger or smaller of the two.

A leaky ReLU takes x where it is not below 0 and 0.01 x elsewhere: the larger of both, wherever x
is. Rounding keeps order, so of a factor from 0 to 1 the multiple lies between 0 and x, of a larger
one beyond x. Where x is NaN the multiple is, too, and where x is 0 it is the same 0.
"""

from __future__ import annotations

from math import inf

from workbench.ir import Builder, Module, Op, Value, element_of, rebuild
from workbench.ops import Elementwise, Select
from workbench.ops.numbers import round_to
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of

#: Comparisons with 0, by whether they hold of what is above it.
_ABOVE = {"gt": True, "ge": True, "lt": False, "le": False}
_TURNED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}


def select_extremes(module: Module, remarks: Remarks) -> Module:
    """Write a choice between x and c x by the sign of x as the larger or the smaller of them.

    Before:
        %none = tile.constant {value = 0, type = f32} : f32
        %part = tile.constant {value = 0.01, type = f32} : f32
        %1 = tile.ge [%x, %none] : i1
        %2 = tile.mul [%x, %part] : f32
        %3 = tile.select %1, %x, %2 : f32
    After:
        %part = tile.constant {value = 0.01, type = f32} : f32
        %2 = tile.mul [%x, %part] : f32
        %3 = tile.max [%x, %2] : f32

    On a GPU a comparison, a choice and an extreme take as long each.
    Needs: a factor that is known, and above 0 and finite in its type. Keeps: every value.
    """
    del remarks

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if not isinstance(op, Select):
            return None
        found = _compared(op.condition)
        if found is None:
            return None
        value, above = found
        for multiple, plain in ((op.otherwise, op.then), (op.then, op.otherwise)):
            factor = _factor(multiple, value) if plain is value else None
            if factor is None:
                continue
            # Above 0 the larger one is x, if the factor is no more than 1.
            larger = ((op.then is plain) == above) == (factor <= 1)
            return Elementwise("max" if larger else "min", (value, multiple))
        return None

    return rebuild(module, rewrite)


def _compared(condition: Value) -> tuple[Value, bool] | None:
    """Return the float whose sign a condition tells, and whether it holds of what is above 0."""
    made = condition.op
    if not isinstance(made, Elementwise) or made.function not in _ABOVE:
        return None
    (value, other), function = made.inputs, made.function
    if constant_of(value) is not None:
        value, other, function = other, value, _TURNED[function]
    if not element_of(value.type).is_float or constant_of(other) != 0:
        return None
    return value, _ABOVE[function]


def _factor(multiple: Value, value: Value) -> float | None:
    """Return the known factor above 0 by which a value is multiplied, None if it is none."""
    made = multiple.op
    if not isinstance(made, Elementwise) or made.function != "mul":
        return None
    for one, other in (made.inputs, made.inputs[::-1]):
        number = constant_of(other)
        if one is value and number is not None:
            factor = float(round_to(number, element_of(value.type)))
            return factor if 0 < factor < inf else None
    return None


__all__ = ["select_extremes"]
