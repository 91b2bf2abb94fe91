"""How far a result may be from its reference: by the least precise type that took part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.bench.arrays import is_float

#: type -> (rtol, atol); integers are exact
TABLE: dict[str, tuple[float, float]] = {
    "f64": (1e-12, 1e-12),
    "f32": (1e-5, 1e-6),
    "tf32": (1e-2, 1e-3),
    "f16": (1e-2, 1e-3),
    "bf16": (2e-2, 1e-2),
    "f8e4m3": (1e-1, 5e-2),
    "f8e5m2": (1e-1, 5e-2),
    "f8e4b8": (1e-1, 5e-2),
    "f8e5b16": (1e-1, 5e-2),
    "f8e4b15": (1e-1, 5e-2),
}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|got - want| <= atol + rtol * |want|."""

    rtol: float
    atol: float


def tolerance(
    dtypes: Iterable[str],
    dot_length: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Tolerance:
    """Return the tolerance for a result that these types went into.

    `dot_length` is the number of products summed up by a dot, which scales atol by its square
    root: rounding errors of independent products add like a random walk. Given values win.
    """
    known = [TABLE[dtype] for dtype in dtypes if is_float(dtype) and dtype in TABLE]
    relative, absolute = max(known, default=(0.0, 0.0))
    if dot_length is not None and known:
        absolute *= math.sqrt(max(dot_length, 1))
    return Tolerance(
        relative if rtol is None else rtol,
        absolute if atol is None else atol,
    )
