"""Compare a result with its reference, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.bench.arrays import to_numpy
from workbench.bench.tolerances import Tolerance

KEPT = 5  # mismatches that are named


@dataclass(frozen=True, slots=True)
class Difference:
    """One element that differs."""

    index: tuple[int, ...]
    got: float
    want: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing one output with its reference found.

    `nans` counts NaNs that the reference does not have; they are wrong elements too.
    """

    name: str
    wrong: int
    total: int
    largest_absolute: float
    largest_relative: float
    nans: int
    first: tuple[Difference, ...]
    tolerance: Tolerance

    @property
    def ok(self) -> bool:
        """Whether every element is within the tolerance."""
        return self.wrong == 0

    @property
    def allowed(self) -> float:
        """The error allowed at the first wrong element, or atol."""
        want = self.first[0].want if self.first else 0.0
        relative = self.tolerance.rtol * abs(want) if math.isfinite(want) else 0.0
        return self.tolerance.atol + relative


def compare(name: str, got: Any, want: Any, allowed: Tolerance) -> Comparison:
    """Compare arrays of equal shape (`want` may also be a scalar, which is broadcast).

    NaN equals NaN, and an infinity equals only itself. Raises ValueError where the shapes differ.
    """
    result, reference = to_numpy(got), to_numpy(want)
    if reference.shape != result.shape:
        if reference.size != 1 and reference.shape != result.shape:
            raise ValueError(f"{name} has shape {result.shape}, the reference {reference.shape}")
        reference = np.broadcast_to(reference, result.shape)
    wrong, error = _errors(result, reference, allowed)
    finite = error[np.isfinite(error)]
    bad = np.flatnonzero(wrong)
    return Comparison(
        name=name,
        wrong=int(bad.size),
        total=int(result.size),
        largest_absolute=_largest(error, finite, bool(bad.size)),
        largest_relative=_largest_relative(error, reference),
        nans=int(np.count_nonzero(_is_nan(result) & ~_is_nan(reference))),
        first=tuple(_difference(result, reference, int(flat)) for flat in bad[:KEPT]),
        tolerance=allowed,
    )


def _is_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.zeros(values.shape, dtype=bool)


def _errors(
    result: np.ndarray, reference: np.ndarray, allowed: Tolerance
) -> tuple[np.ndarray, np.ndarray]:
    """Return (which elements are wrong, absolute errors); infinities that agree have error 0."""
    if result.dtype.kind != "f" and reference.dtype.kind != "f":
        # int64 differences may overflow, so exact types are compared first, then measured in f64.
        different = result != reference
        error = np.abs(result.astype(np.float64) - reference.astype(np.float64))
        bound = allowed.atol + allowed.rtol * np.abs(reference.astype(np.float64))
        return different & (error > bound) if allowed != Tolerance(0, 0) else different, error
    result, reference = result.astype(np.float64), reference.astype(np.float64)
    same = (result == reference) | (np.isnan(result) & np.isnan(reference))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(result - reference))
        bound = allowed.atol + allowed.rtol * np.abs(reference)
        within = same | ((error <= bound) & np.isfinite(reference))
    return ~within, error


def _largest(error: np.ndarray, finite: np.ndarray, any_wrong: bool) -> float:
    if error.size == 0:
        return 0.0
    if finite.size != error.size and any_wrong:
        return math.nan if np.isnan(error).any() else math.inf
    return float(finite.max()) if finite.size else 0.0


def _largest_relative(error: np.ndarray, reference: np.ndarray) -> float:
    size = np.abs(reference.astype(np.float64))
    usable = (size > 0) & np.isfinite(size) & np.isfinite(error)
    return float((error[usable] / size[usable]).max()) if usable.any() else 0.0


def _difference(result: np.ndarray, reference: np.ndarray, flat: int) -> Difference:
    index = tuple(int(i) for i in np.unravel_index(flat, result.shape)) if result.shape else ()
    return Difference(index, float(result[index]), float(reference[index]))
