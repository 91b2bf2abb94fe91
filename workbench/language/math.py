"""`tl.math`: the mathematical functions again, and those that only this name has."""

from __future__ import annotations

from typing import TypeVar

from workbench.language.arithmetic import cdiv, clamp
from workbench.language.extra.libdevice import LIBRARY
from workbench.language.functions import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
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
from workbench.language.versions import core_of

# Older libraries import the functions of the device library from here.
globals().update({name: f for name, f in LIBRARY.items() if name not in globals()})

#: Triton's type of a decorated function.
T = TypeVar("T")


__getattr__ = core_of("tl.math")

__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma",
    "log", "log2", "max", "min", "rsqrt", "sigmoid", "sin", "softmax", "sqrt", "sqrt_rn",
    "sum", "umulhi",
]  # fmt: skip
