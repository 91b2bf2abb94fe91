"""Compare a result with its reference, element by element and on average."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.bench.arrays import to_numpy
from workbench.bench.roundings import UNIT
from workbench.bench.tolerances import BLOCK, Floats, Given, Means, Model
from workbench.ir import SCALARS
from workbench.ops.numbers import round_to

KEPT = 5  # mismatches that are named
#: Elements that are looked at together: what is in between needs no memory of the whole.
_STRETCH = 2**15 * BLOCK
#: Standard errors from 0 that a right kernel's mean error stays below, with the errors as they
#: were seen and as the model has them, and the fewest elements whose mean says something.
SEEN, EXPECTED, FEWEST = 10.0, 30.0, 16
NOTHING = Given()


@dataclass(frozen=True, slots=True)
class Difference:
    """One element that differs, and by how much it might."""

    index: tuple[int, ...]
    got: float
    want: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Shift:
    """A mean error that rounding does not explain.

    `relative` says that it is one towards the magnitude, as a share of it; `allowed` is the
    largest mean error of a right kernel and `deviations` how many standard errors it is off.
    """

    mean: float
    allowed: float
    deviations: float
    relative: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing one output with its reference found.

    `nans` counts NaNs that the reference does not have; they are wrong elements too. `usual` is
    the error that a right kernel would have at its worst element, None where the user's
    tolerances alone counted.
    """

    name: str
    wrong: int
    total: int
    largest_absolute: float
    largest_relative: float
    nans: int
    first: tuple[Difference, ...]
    usual: float | None = None
    shift: Shift | None = None

    @property
    def ok(self) -> bool:
        """Whether every element is within its tolerance, and the mean too."""
        return self.wrong == 0 and self.shift is None

    @property
    def allowed(self) -> float:
        """The error allowed at the first wrong element, 0 if there is none."""
        return self.first[0].allowed if self.first else 0.0


def compare(name: str, got: Any, want: Any, model: Model, given: Given = NOTHING) -> Comparison:
    """Compare arrays of equal shape (`want` may also be a scalar, which is broadcast).

    The reference is rounded to the output's type first. NaN equals NaN, and an infinity equals
    only itself. Raises ValueError where the shapes differ.
    """
    result, reference = to_numpy(got), to_numpy(want)
    if reference.shape != result.shape:
        if reference.size != 1:
            raise ValueError(f"{name} has shape {result.shape}, the reference {reference.shape}")
        reference = np.broadcast_to(reference, result.shape)
    return _Comparing(name, result, reference, model, given).comparison()


class _Comparing:
    def __init__(
        self, name: str, result: np.ndarray, reference: np.ndarray, model: Model, given: Given
    ) -> None:
        self.name = name
        self.result, self.reference = result, reference
        self.model, self.given = model, given
        self.floats = result.dtype.kind == "f" or reference.dtype.kind == "f"
        self.bad: list[tuple[int, float]] = []
        self.wrong = self.nans = 0
        self.largest = self.relative = self.usual = 0.0
        self.unbounded = False
        self.means = Means()

    def comparison(self) -> Comparison:
        for first, got, want in self._stretches():
            (self._floats if self.floats else self._integers)(first, got, want)
        shift = None if self.given.any or not self.floats else self._shift()
        largest = self.largest
        if self.unbounded and self.wrong:
            largest = math.nan if self.nans else math.inf
        return Comparison(
            name=self.name,
            wrong=self.wrong,
            total=int(self.result.size),
            largest_absolute=largest,
            largest_relative=self.relative,
            nans=self.nans,
            first=tuple(self._difference(flat, allowed) for flat, allowed in self.bad),
            usual=None if self.given.all else self.usual,
            shift=shift,
        )

    def _stretches(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        got, want = self.result.reshape(-1), self.reference.reshape(-1)
        for first in range(0, got.size, _STRETCH):
            yield first, got[first : first + _STRETCH], want[first : first + _STRETCH]

    def _integers(self, first: int, got: np.ndarray, want: np.ndarray) -> None:
        # int64 differences may overflow, so exact types are compared first, then measured in f64.
        size = np.abs(want.astype(np.float64))
        error = np.abs(got.astype(np.float64) - want.astype(np.float64))
        allowed = self.given.bound(size)
        self._enter(first, (got != want) & ((error > allowed) | (allowed == 0)), error, allowed)
        self._measure(error, size)

    def _floats(self, first: int, got: np.ndarray, want: np.ndarray) -> None:
        got, want = got.astype(np.float64), want.astype(np.float64)
        if self.model.dtype in UNIT and not self.given.all:
            want = round_to(want, SCALARS[self.model.dtype]).astype(np.float64)
        errors = self.model.errors(want, first)
        allowed = self.given.bound(np.abs(want)) + (0.0 if self.given.all else errors.most)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(got - want))
            within = same | ((error <= allowed) & np.isfinite(want))
        self._enter(first, ~within, error, allowed)
        self.nans += int(np.count_nonzero(np.isnan(got) & ~np.isnan(want)))
        self._measure(error, np.abs(want))
        if got.size:
            self.usual = max(self.usual, float((errors.usual + errors.step / 2).max()))
        self.means.add(got, want, errors)

    def _enter(self, first: int, wrong: np.ndarray, error: Floats, allowed: Floats) -> None:
        bad = np.flatnonzero(wrong)
        self.wrong += int(bad.size)
        allowed = np.broadcast_to(allowed, error.shape)
        for place in bad[: KEPT - len(self.bad)]:
            self.bad.append((first + int(place), float(allowed[place])))

    def _measure(self, error: Floats, size: Floats) -> None:
        finite = np.isfinite(error)
        self.unbounded |= not finite.all()
        if finite.any():
            self.largest = max(self.largest, float(error[finite].max()))
        usable = finite & (size > 0) & np.isfinite(size)
        if usable.any():
            self.relative = max(self.relative, float((error[usable] / size[usable]).max()))

    def _shift(self) -> Shift | None:
        """Return the mean error if there are too many standard errors of it."""
        means = self.means.ended()
        if means.count < FEWEST or self.model.exact:
            return None
        signed, magnitude = self.model.bias(means)
        for mean, most, relative in (
            (means.error, signed, False),
            (means.towards, magnitude, True),
        ):
            seen, expected = means.deviations(mean)
            if abs(mean) > most and (seen > SEEN or expected > EXPECTED):
                share = means.size if relative and means.size else 1.0
                return Shift(mean / share, most / share, max(seen, expected), relative)
        return None

    def _difference(self, flat: int, allowed: float) -> Difference:
        shape = self.result.shape
        index = tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()
        return Difference(index, float(self.result[index]), float(self.reference[index]), allowed)
