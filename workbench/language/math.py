"""`tl.math`: the mathematical functions again, and those that only this name has."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from workbench.language.arithmetic import (
    abs,
    cdiv,
    ceil,
    clamp,
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
from workbench.language.extra.libdevice import LIBRARY
from workbench.language.reductions import max, min, softmax, sum
from workbench.language.versions import versioned

# Older libraries import the functions of the device library from here.
globals().update({name: f for name, f in LIBRARY.items() if name not in globals()})

#: Triton's type of a decorated function.
T = TypeVar("T")


def __getattr__(name: str) -> Any:
    """Return `core`, which needs this module."""
    if name == "core":
        return importlib.import_module("workbench.language.core")
    return _others(name)


_others = versioned("tl.math", {})


__all__ = [
    "abs", "cdiv", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma",
    "log", "log2", "max", "min", "rsqrt", "sigmoid", "sin", "softmax", "sqrt", "sqrt_rn",
    "sum", "umulhi",
]  # fmt: skip
