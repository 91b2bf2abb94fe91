"""`tl.math`: the mathematical functions again, and those that only this name has."""

from __future__ import annotations

from typing import Any

from workbench.language.arithmetic import (
    abs,
    binary,
    cdiv,
    ceil,
    clamp,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    float_function,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from workbench.language.reductions import max, min, softmax, sum
from workbench.language.table import builtin
from workbench.language.values import tensor


@builtin
def tanh(x: Any) -> tensor:
    """Return the hyperbolic tangent."""
    return float_function("tanh", x)


@builtin
def pow(x: Any, y: Any) -> Any:
    """Return x to the power of y."""
    return binary("**", x, y)


__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma",
    "log", "log2", "max", "min", "pow", "rsqrt", "sigmoid", "sin", "softmax", "sqrt", "sqrt_rn",
    "sum", "tanh", "umulhi",
]  # fmt: skip
