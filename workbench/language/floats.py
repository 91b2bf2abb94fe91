"""Functions of floats, and the widening that comes before them (README.md, rule 24)."""

from __future__ import annotations

from typing import Any

from workbench.language.casts import cast_tensor
from workbench.language.dtypes import float32, float64
from workbench.language.shapes import common_shape, operand
from workbench.language.state import current
from workbench.language.values import describe, is_number, made, tensor, to_tensor
from workbench.ops import Elementwise
from workbench.source import KernelTypeError


def real(x: tensor, name: str) -> tensor:
    """Return a number or block as fp32 or fp64; `name` is what asks for it."""
    if x.dtype.is_ptr():
        raise KernelTypeError(
            f"'{name}' does not take {describe(x)}", hint="pass a number or a tensor"
        )
    return x if x.dtype in (float32, float64) else cast_tensor(x, float32)


def elementwise(function: str, *inputs: tensor) -> tensor:
    """Return a function of operands of one dtype."""
    shape = common_shape(*inputs, what=function)
    values = tuple(operand(x, x.dtype, shape) for x in inputs)
    return made(Elementwise(function, values), inputs[0].dtype)


def float_function(function: str, x: Any) -> tensor:
    """Return a function of fp32 or fp64; narrower floats are widened, which leaves a remark."""
    value = to_tensor(x)
    if value.dtype not in (float32, float64):
        if not value.dtype.is_floating():
            raise KernelTypeError(
                f"{function} takes floats, got {describe(value)}",
                hint="cast it first, e.g. .to(tl.float32)",
            )
        current().superset(f"{function} of {value.dtype}; it is computed in fp32")
        value = cast_tensor(value, float32)
    return elementwise(function, value)


def _real_beside(value: tensor, to: Any, function: str) -> tensor:
    """Return an operand as a float; beside an fp64 an integer is one, which holds more of it."""
    whole = to == float64 and value.constant is None and value.dtype.is_int()
    return cast_tensor(value, float64) if whole else real(value, function)


def real_functions(function: str, *inputs: Any) -> tensor:
    """Return a function of several fp32 or fp64 operands; whatever is narrower is widened."""
    doubles = [x for x in inputs if not is_number(x) and to_tensor(x).dtype == float64]
    to = float64 if doubles else float32
    values = [_real_beside(to_tensor(x), to, function) for x in inputs]
    narrow = [v for v in map(to_tensor, inputs) if v.constant is None and v.dtype != to]
    if narrow:
        current().superset(f"{function} of {narrow[0].dtype}; it is computed in {to}")
    shape = common_shape(*values, what=function)
    operands = tuple(operand(x if is_number(x) else v, to, shape)
                     for v, x in zip(values, inputs, strict=True))  # fmt: skip
    return made(Elementwise(function, operands), to)
