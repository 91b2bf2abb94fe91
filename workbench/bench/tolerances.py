"""How far a result may be from its reference: an error model of what was executed.

The reference is the exact result (EXPR on float64 copies) rounded to the output's type. A right
kernel differs from it by

- one step of the output's type, since both round;
- for every type t that it rounds to on the way, n_t times in a row (roundings.py): some multiple
  of u_t m for what each rounding does, where u_t is the unit roundoff and m the size of what was
  rounded, and of sqrt(n_t) u_t |y| since roundings of a long sum add like a random walk (N. Higham,
  T. Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019;
  the constants 8 and 4 are the model's confidence).

m is seen in no output: x - x is 0 and its error is not. It is measured on the reference: how far
EXPR in float32 is from EXPR in float64, and how far EXPR moves when its inputs are turned by a
relative 2^-24, both divided by that. What is added and taken away again, (x + 100) - 100, inputs do
not tell: there EXPR as it is written, in float16 say, shows what that type rounds. (`Conditioning`;
the largest within some 96 neighbours.)

A result may also be wrong on average and nowhere else: +0.01 is less than a step of bf16 at 4, but
the mean of 10^5 elements knows it to 10^-4. So the mean error, as it is and towards the magnitude,
must be within ten of its own standard errors or within what rounding may shift: tensor cores cut
f32 operands to tf32 (towards zero), narrow accumulators lose terms.

Tolerances that the user gives replace the model: both together alone, one beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.bench.roundings import UNIT, Roundings
from workbench.ops.small_floats import SMALL_FLOATS

Floats = np.ndarray[Any, np.dtype[np.float64]]

#: Elements that share one measured size, with those of the blocks on both sides.
BLOCK = 32
#: A rounding to a type whose unit is above this shows in a mean.
_NARROW = 2.0**-20
#: The exponent of the smallest normal number, by type.
_EXPONENTS = {"f64": -1022, "f32": -126, "f16": -14, "bf16": -126} | {
    str(element): 1 - form.bias for element, form in SMALL_FLOATS.items()
}


@dataclass(frozen=True, slots=True)
class Given:
    """|got - want| <= atol + rtol * |want|, as far as the user said so."""

    rtol: float | None = None
    atol: float | None = None

    @property
    def any(self) -> bool:
        """Whether the user said anything."""
        return self.rtol is not None or self.atol is not None

    @property
    def all(self) -> bool:
        """Whether the user said everything."""
        return self.rtol is not None and self.atol is not None

    def bound(self, size: Floats) -> Floats:
        """Return what the user allows at elements of these sizes."""
        absolute = self.atol or 0.0
        return absolute + self.rtol * size if self.rtol else np.full_like(size, absolute)


@dataclass(frozen=True, slots=True)
class Conditioning:
    """How large what is rounded on the way to each element is, one number for each BLOCK of them.

    `sums`: of what is summed up, errors of a float32 evaluation over its unit. `values`: the answer
    to a relative change of the inputs, per unit of change. `written`: errors of the evaluation in
    the narrow type that the arguments have, over its unit. None where that was not measured.
    """

    sums: Floats | None = None
    values: Floats | None = None
    written: Floats | None = None


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of right results, for a stretch of elements.

    `most` is the largest one allowed, `usual` what computing gives before the result is rounded to
    a number of its type, whose neighbours are `step` apart; `rounded` is the size of what was.
    """

    most: Floats
    usual: Floats
    step: Floats
    rounded: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """The errors that a launch may make in one output.

    `dtype` is the output's type, `reference` the unit roundoff of the reference's own errors (0:
    it was exact), `floor` a size below which no rounded value is taken to be.
    """

    dtype: str
    executed: Roundings
    conditioning: Conditioning = Conditioning()
    reference: float = 0.0
    floor: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether nothing may differ: integers, and floats that were only moved."""
        return self.dtype not in UNIT or (not self.executed.any and not self.reference)

    def errors(self, want: Floats, first: int) -> Errors:
        """Return the errors of a stretch of the flattened reference that starts at a BLOCK."""
        size = np.abs(np.where(np.isfinite(want), want, 0.0))
        if self.exact:
            zero = np.zeros_like(size)
            return Errors(zero, zero, zero, zero)
        # What is summed up for one element is about as large as for its neighbours.
        at_least = np.maximum(size, self.floor)
        near = _at(block_maxima(size), 0, at_least)
        values = _at(self.conditioning.values, first, at_least)
        sums = np.maximum(_at(self.conditioning.sums, first, near), values)
        values = values if self.conditioning.values is not None else sums
        written = _at(self.conditioning.written, first, values)
        step = spacing(size, self.dtype) if self.executed.any else np.zeros_like(size)
        usual = self.reference * sums
        most = step + 2 * usual
        for name, count in self.executed.count.items():
            unit = UNIT[name]
            once = sums if unit <= UNIT["f32"] else values
            rounded, added = (sums, near) if count > 1 else (once, size)
            if name in self.executed.computed and unit > UNIT["f32"]:
                rounded = np.maximum(rounded, written)
            most += unit * (8 * rounded + 4 * math.sqrt(count) * added)
            usual += unit * rounded
        for name in self.executed.truncated:
            most += 2 * UNIT[name] * size
        most += UNIT["f32"] * 2 * self.executed.cut_steps * near
        if self.executed.count:  # GPUs take numbers that are too small to be normal as 0
            most += 2.0**-125
        return Errors(most, usual, step, sums)

    def bias(self, means: Means) -> tuple[float, float]:
        """Return the largest right mean error: (as it is, towards the magnitude).

        Rounding to nearest has none but what one rounding shared by many elements gives; what is
        cut is smaller by a share of the magnitude, so as a signed mean by that share of the mean,
        if signs are mixed by nearly nothing.
        """
        executed = self.executed
        shared = 8 * UNIT["f32"] if set(executed.count) - {"f64"} else 8 * UNIT["f64"]
        shared *= means.rounded
        shares = [UNIT[t] * max(1.0, math.sqrt(n) / 4) for t, n in executed.count.items()]
        shares = [share for share in shares if share > _NARROW]
        if "tf32" in executed.count:
            shares += [UNIT["tf32"]] * 2  # one for each operand: both are cut
        shares += [2 * UNIT[t] for t in executed.truncated]
        shares += [self.reference, 2 * UNIT["f32"] * executed.cut_steps]
        magnitude = 1.25 * sum(shares) * means.size
        signed = 1.25 * sum(shares) * (abs(means.want) + means.size / 32)
        return signed + shared, magnitude + shared


@dataclass(slots=True)
class Means:
    """Mean error of an output: as it is and towards the magnitude, with their standard errors.

    `squares` is the mean square error and `expected` what the model makes of it; `want`, `size`
    and `rounded` are the means of the reference, of its magnitude and of the size of what was
    rounded. Elements that are not finite are left out.
    """

    count: int = 0
    error: float = 0.0
    towards: float = 0.0
    squares: float = 0.0
    expected: float = 0.0
    want: float = 0.0
    size: float = 0.0
    rounded: float = 0.0

    def add(self, got: Floats, want: Floats, errors: Errors) -> None:
        """Enter a stretch of elements."""
        use = np.isfinite(got) & np.isfinite(want)
        kept = want[use]
        error = got[use] - kept
        self.count += int(error.size)
        self.error += float(error.sum())
        self.towards += float((error * np.sign(kept)).sum())
        self.squares += float((error * error).sum())
        self.want += float(kept.sum())
        self.size += float(np.abs(kept).sum())
        self.rounded += float(errors.rounded[use].sum())
        # Two numbers this far apart round differently this often, and are then a step apart.
        usual = 2 * errors.usual[use]
        self.expected += float((usual * (usual + errors.step[use])).sum())

    def ended(self) -> Means:
        """Return the means of what was entered as sums."""
        n = max(self.count, 1)
        return Means(
            self.count, self.error / n, self.towards / n, self.squares / n, self.expected / n,
            self.want / n, self.size / n, self.rounded / n,
        )  # fmt: skip

    def deviations(self, mean: float) -> tuple[float, float]:
        """Return how many standard errors a mean error is from 0: (as seen, as expected)."""
        n = max(self.count - 1, 1)
        return tuple(  # type: ignore[return-value]
            abs(mean) / math.sqrt(square / n) if square > 0 else math.inf if mean else 0.0
            for square in (self.squares - mean * mean, self.expected)
        )


def spacing(size: Floats, dtype: str) -> Floats:
    """Return the distance of neighbours in a float type at these magnitudes."""
    _, exponent = np.frexp(size)
    lowest = _EXPONENTS[dtype]
    exponent = np.maximum(np.where(size > 0, exponent - 1, lowest), lowest)
    step: Floats = np.ldexp(2 * UNIT[dtype], exponent)
    return step


def block_maxima(values: Floats) -> Floats:
    """Return the largest finite magnitude of each BLOCK of elements and the blocks beside it."""
    flat = np.abs(values.reshape(-1))
    flat = np.where(np.isfinite(flat), flat, 0.0)
    padded = np.pad(flat, (0, -flat.size % BLOCK))
    most = padded.reshape(-1, BLOCK).max(axis=1) if padded.size else padded
    around = np.pad(most, 1)
    maxima: Floats = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])
    return maxima


def _at(blocks: Floats | None, first: int, at_least: Floats) -> Floats:
    """Return measured sizes of a stretch of elements, at least as large as they are."""
    if blocks is None:
        return at_least
    start, end = first // BLOCK, -(-(first + at_least.size) // BLOCK)
    spread = np.repeat(blocks[start:end], BLOCK)[: at_least.size]
    return np.maximum(spread, at_least)
