"""Runs a random program in the interpreter and on a target, and says how they differ."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from tests.execution import execute
from tests.passes.programs import GRID, Launch
from workbench.interpreter import run_module
from workbench.ir import Module

WARPS = (1, 2, 4, 8)
STAGES = (1, 2, 3, 4)
#: What a difference says when the device met an illegal access.
DEVICE_LOST = "CUDA error"


def options_for(seed: int, target: str) -> dict[str, int]:
    """Return the compile options that a seed is run with: all pairs come up on a GPU."""
    if not target.startswith("sm_"):
        return {}
    return {"num_warps": WARPS[seed % 4], "num_stages": STAGES[seed // 4 % 4]}


def kind_of(said: str) -> str:
    """Return the sort of a difference: an exception and its first words, or a wrong value."""
    name, colon, rest = said.partition(": ")
    return f"{name} {' '.join(rest.split()[:3])}" if colon else said.partition("[")[0]


def outputs(arguments: list[Any]) -> tuple[Any, Any]:
    """Return what a program wrote."""
    return arguments[3], arguments[4]


def with_options(module: Module, **options: Any) -> Module:
    """Return the module with other compile options."""
    return replace(module, attributes={**module.attributes, **options})


def difference(module: Module, launch: Launch, target: str) -> str:
    """Say how a target's result differs from the interpreter's; empty if it does not.

    An exception of the target counts as a difference; one of the interpreter is raised, since the
    program then is not well defined.
    """
    wanted, got = launch.arguments(), launch.arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run_module(module, GRID, wanted)
        try:
            execute(module, GRID, got, target)
        except Exception as error:
            first = str(error).splitlines()[0] if str(error) else ""
            return f"{type(error).__name__}: {first}"
    for name, a, b in zip(("floats", "integers"), outputs(wanted), outputs(got), strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            place = int(np.flatnonzero(~((a == b) | ((a != a) & (b != b))))[0])
            return f"{name}[{place}] is {b[place]}, the interpreter says {a[place]}"
    return ""
