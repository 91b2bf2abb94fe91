"""What a module does, as bytes that can be compared: the interpreter is the oracle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.interpreter import run_module
from workbench.ir import Module

if TYPE_CHECKING:
    from hypothesis import settings

#: WORKBENCH_TEST_SCALE=20 runs the counts of a nightly job.
SCALE = float(os.environ.get("WORKBENCH_TEST_SCALE", "1"))


def cases(count: int, **options: Any) -> settings:
    """Return Hypothesis settings for so many examples."""
    from hypothesis import HealthCheck, settings

    return settings(
        max_examples=max(1, int(count * SCALE)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **options,
    )


def meaning(module: Module, grid: Sequence[int], arguments: Sequence[Any]) -> list[bytes]:
    """Return what all arrays hold after a run; every NaN counts as the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run_module(module, grid, arguments)
    found = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            held = argument.copy()
            if held.dtype.kind == "f":
                held[np.isnan(held)] = np.nan
            found.append(held.tobytes())
    return found


def first_difference(before: list[bytes], after: list[bytes]) -> str:
    """Say where two meanings differ, in words; empty if they do not."""
    for number, (a, b) in enumerate(zip(before, after, strict=True)):
        if a != b:
            differs = np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8)
            first = int(np.flatnonzero(differs)[0]) // 8 * 8
            words = [
                f"f32 {np.frombuffer(held, np.float32, 2, first)}, "
                f"i64 {np.frombuffer(held, np.int64, 1, first)[0]}"
                for held in (a, b)
            ]
            return f"array {number}, byte {first}: {words[0]} became {words[1]}"
    return ""
