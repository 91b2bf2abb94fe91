"""Whether 32 bits hold every index of a launch, as a program that launchers run each time.

`analysis/ranges.py` gives the index arithmetic of a kernel as steps over intervals. Here both ends
of each interval become instructions over the launch's integers and grid, and "it fits" becomes
requirements on them. Most of it folds away: an end that does not depend on the launch is a
constant, and a product is written by its signs where they are known.

Only the *closed* steps are asked for, and those are made of closed steps alone. Each is required to
fit before it is used, so that no instruction meets numbers of more than 32 bits, and its result
fits 64: products directly; what a loop adds up is a change below 2^31 - 2^21 taken at most 2^32
times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from workbench.launch.conditions import Builder, Program, truncated

if TYPE_CHECKING:
    from workbench.analysis.ranges import IndexProgram, Step


@lru_cache(1024)
def width_program(
    program: IndexProgram,
    places: tuple[tuple[str, int, bool], ...],
    known: tuple[tuple[str, int], ...] = (),
) -> Program:
    """Return the requirements for 32-bit indices.

    Args:
        program: the index arithmetic.
        places: (name, place, whether it is negative) of the integers that a launch passes.
        known: (name, value) of the integers that are the same for all launches; of any other
            argument only its bounds are known.
    """
    given = {name: (place, negative) for name, place, negative in places}
    writer = IntervalWriter(program, given, dict(known))
    ends, build = writer.ends(), writer.build
    for step in program.at_least_0:
        low = ends[step][0]
        if low.low < 0:
            build.require(build.between(low.number, 0, writer.limits[1]))
    return build.finish()


def fits_launch(program: Any, *, integers: Mapping[str, int], grid: Any) -> bool:
    """Say whether 32 bits hold every index of a launch, asked of its index program."""
    return program is not None and bool(program.fits(integers, grid))


class Steps(Protocol):
    """Interval arithmetic as plain data: an `IndexProgram`, or the `Hulls` of a kernel."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        ...

    @property
    def closed(self) -> tuple[int, ...]:
        """Those that are asked for."""
        ...


class Bound:
    """One end of an interval: an instruction, and constants that it lies between."""

    __slots__ = ("high", "low", "number")

    def __init__(self, number: int, low: int, high: int) -> None:
        self.number = number
        self.low = low
        self.high = high


#: The two ends of an interval.
Ends = tuple[Bound, Bound]


class IntervalWriter:
    """Writes both ends of each closed step, which fits 32 bits where nothing is required more."""

    def __init__(
        self,
        program: Steps,
        places: Mapping[str, tuple[int, bool]],
        known: Mapping[str, int],
    ) -> None:
        from workbench.analysis.ranges import ROOM32

        self.program = program
        self.places = places
        self.known = known
        self.limits = ROOM32
        self.build = Builder()

    def ends(self) -> dict[int, Ends]:
        """Require of each closed step that it fits, and return its ends."""
        found: dict[int, Ends] = {}
        for number in self.program.closed:
            step = self.program.steps[number]
            low, high = self._ends(step, [found[i] for i in step.inputs])
            found[number] = self._at_least(low), self._at_most(high)
            if low.number == high.number:  # what both ends say of it
                ends = found[number]
                both = Bound(low.number, max(e.low for e in ends), min(e.high for e in ends))
                found[number] = both, both
        return found

    # -- requirements ---------------------------------------------------------------------
    def _at_least(self, bound: Bound) -> Bound:
        limit = self.limits[0]
        if bound.low < limit:
            self._require(bound)
        return Bound(bound.number, max(bound.low, limit), max(bound.high, limit))

    def _at_most(self, bound: Bound) -> Bound:
        limit = self.limits[1]
        if bound.high > limit:
            self._require(bound)
        return Bound(bound.number, min(bound.low, limit), min(bound.high, limit))

    def _require(self, bound: Bound) -> None:
        """Both ends of an interval that fits lie within both limits."""
        self.build.require(self.build.between(bound.number, *self.limits))

    # -- bounds ---------------------------------------------------------------------------
    def _constant(self, value: int) -> Bound:
        return Bound(self.build.constant(value), value, value)

    def _bound(self, name: str, a: Bound, b: Bound, low: int, high: int) -> Bound:
        if a.low == a.high and b.low == b.high:
            a, b = self._constant(a.low), self._constant(b.low)
        number = self.build.apply(name, a.number, b.number)
        value = self.build.value(number)
        return Bound(number, low, high) if value is None else self._constant(value)

    def _add(self, a: Bound, b: Bound) -> Bound:
        for one, other in ((a, b), (b, a)):
            if (one.low, one.high) == (0, 0):
                return other
        return self._bound("add", a, b, a.low + b.low, a.high + b.high)

    def _sub(self, a: Bound, b: Bound) -> Bound:
        if (b.low, b.high) == (0, 0):
            return a
        return self._bound("sub", a, b, a.low - b.high, a.high - b.low)

    def _mul(self, a: Bound, b: Bound) -> Bound:
        for one, other in ((a, b), (b, a)):
            if one.low == one.high and one.low in (0, 1):
                return other if one.low else self._constant(0)
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._bound("mul", a, b, min(corners), max(corners))

    def _min(self, *bounds: Bound) -> Bound:
        return self._extreme("min", lambda a, b: a.high <= b.low, min, bounds)

    def _max(self, *bounds: Bound) -> Bound:
        return self._extreme("max", lambda a, b: a.low >= b.high, max, bounds)

    def _extreme(
        self,
        name: str,
        wins: Callable[[Bound, Bound], bool],
        pick: Callable[[int, int], int],
        bounds: Sequence[Bound],
    ) -> Bound:
        best = bounds[0]
        for bound in bounds[1:]:
            if best.number == bound.number or wins(best, bound):
                continue
            if wins(bound, best):
                best = bound
                continue
            ends = pick(best.low, bound.low), pick(best.high, bound.high)
            best = self._bound(name, best, bound, *ends)
        return best

    def _neg(self, a: Bound) -> Bound:
        return self._sub(self._constant(0), a)

    def _abs(self, a: Bound) -> Bound:
        return self._max(a, self._neg(a))

    def _quotient(self, a: Bound, b: Bound) -> Bound:
        """Divide towards zero, by a positive number."""
        if b.low == b.high == 1:
            return a
        low, high = max(b.low, 1), max(b.high, 1)
        corners = [truncated(x, y) for x in (a.low, a.high) for y in (low, high)]
        return self._bound("quotient", a, b, min(corners), max(corners))

    def _where(self, holds: int, a: Bound, b: Bound) -> Bound:
        """Choose by a condition: a where it is not 0."""
        known = self.build.value(holds)
        if known is not None or a.number == b.number:
            return b if known == 0 else a
        number = self.build.apply("select", holds, a.number, b.number)
        return Bound(number, min(a.low, b.low), max(a.high, b.high))

    def _is_positive(self, a: Bound) -> int:
        """Whether a number that fits 32 bits is greater than 0: an instruction."""
        if a.low > 0 or a.high <= 0:
            return self.build.constant(int(a.low > 0))
        return self.build.between(a.number, 1, 1 << 62)

    def _both(self, a: int, b: int) -> int:
        return self.build.apply("mask", a, b)

    def _corners(self, a: Ends, b: Ends) -> Ends:
        """Return the least and greatest product, by the signs as far as they are known."""
        if a[0].low >= 0 and b[0].low >= 0:
            return self._mul(a[0], b[0]), self._mul(a[1], b[1])
        products = [self._mul(x, y) for x in a for y in b]
        return self._min(*products), self._max(*products)

    # -- steps ----------------------------------------------------------------------------
    def _ends(self, step: Step, inputs: list[Ends]) -> Ends:
        if step.kind in ("argument", "between", "program_id", "num_programs"):
            return self._leaf(step)
        return getattr(self, f"_{step.kind}_ends")(*inputs)

    def _leaf(self, step: Step) -> Ends:
        if step.kind == "between":
            return self._constant(step.data[0]), self._constant(step.data[1])
        if step.kind == "argument":
            return self._argument(*step.data)
        largest = (1 << 31) - 1  # of a grid
        extent = Bound(self.build.extent(step.data[0]), 1, largest)
        if step.kind == "num_programs":
            return extent, extent
        return self._constant(0), self._sub(extent, self._constant(1))

    def _argument(self, name: str, low: int, high: int) -> Ends:
        if name in self.places:
            # A launch may pass any integer, whatever the type's own limits are.
            place, negative = self.places[name]
            limits = (-(1 << 63), -1) if negative else (0, (1 << 64) - 1)
            number = Bound(self.build.argument(place), *limits)
            return number, number
        if name in self.known:
            low = high = self.known[name]
        return self._constant(low), self._constant(high)

    def _add_ends(self, a: Ends, b: Ends) -> Ends:
        return self._add(a[0], b[0]), self._add(a[1], b[1])

    def _sub_ends(self, a: Ends, b: Ends) -> Ends:
        return self._sub(a[0], b[1]), self._sub(a[1], b[0])

    def _mul_ends(self, a: Ends, b: Ends) -> Ends:
        return self._corners(a, b)

    def _neg_ends(self, a: Ends) -> Ends:
        return self._neg(a[1]), self._neg(a[0])

    def _abs_ends(self, a: Ends) -> Ends:
        return self._constant(0), self._max(self._abs(a[0]), self._abs(a[1]))

    def _min_ends(self, a: Ends, b: Ends) -> Ends:
        return self._min(a[0], b[0]), self._min(a[1], b[1])

    def _max_ends(self, a: Ends, b: Ends) -> Ends:
        return self._max(a[0], b[0]), self._max(a[1], b[1])

    def _union_ends(self, *inputs: Ends) -> Ends:
        return self._min(*(low for low, _ in inputs)), self._max(*(high for _, high in inputs))

    def _div_ends(self, a: Ends, b: Ends) -> Ends:
        """Divide towards zero; by what may be 0, anything not farther from 0 than a may come."""
        most = self._max(self._abs(a[0]), self._abs(a[1]))
        minus_a, minus_b = self._neg_ends(a), self._neg_ends(b)
        return self._by_sign(
            b, self._divided(a, b), self._divided(minus_a, minus_b), (self._neg(most), most)
        )

    def _divided(self, a: Ends, b: Ends) -> Ends:
        """Divide by what is positive."""
        one = self._constant(1)
        least, greatest = (self._max(end, one) for end in b)
        low = self._min(self._quotient(a[0], least), self._quotient(a[0], greatest))
        return low, self._max(self._quotient(a[1], least), self._quotient(a[1], greatest))

    def _by_sign(self, b: Ends, positive: Ends, negative: Ends, other: Ends) -> Ends:
        """Choose by whether all of an interval is positive, or negative."""
        above, below = self._is_positive(b[0]), self._is_positive(self._neg(b[1]))
        low, high = (
            self._where(above, p, self._where(below, n, o))
            for p, n, o in zip(positive, negative, other, strict=True)
        )
        return low, high

    def _rem_ends(self, a: Ends, b: Ends) -> Ends:
        zero, one = self._constant(0), self._constant(1)
        most = self._sub(self._max(self._abs(b[0]), self._abs(b[1]), one), one)
        low = self._min(zero, self._max(a[0], self._neg(most)))
        return low, self._max(zero, self._min(a[1], most))

    def _shl_ends(self, a: Ends, b: Ends) -> Ends:
        if b[0].high < 0 or b[1].low > 62:  # whatever a target makes of it
            return self._constant(-(1 << 63)), self._constant((1 << 63) - 1)
        if b[0].low < 0 or b[1].high > 62:
            for end in b:
                self.build.require(self.build.between(end.number, 0, 62))
        # Shifted by 32 nothing but 0 fits, as by anything more.
        farthest = self._constant(32)
        factors = [self._power(self._min(self._max(end, self._constant(0)), farthest)) for end in b]
        return self._corners(a, (factors[0], factors[1]))

    def _power(self, a: Bound) -> Bound:
        number = self.build.apply("power", a.number)
        return Bound(number, 1 << max(a.low, 0), 1 << max(a.high, 0))

    # -- loops: lower, upper, step --------------------------------------------------------
    def _counter_ends(self, lower: Ends, upper: Ends, by: Ends) -> Ends:
        one = self._constant(1)
        up, down = self._is_positive(by[1]), self._is_positive(self._neg(by[0]))
        low = self._where(down, self._min(lower[0], self._add(upper[0], one)), lower[0])
        return low, self._where(up, self._max(lower[1], self._sub(upper[1], one)), lower[1])

    def _past_end_ends(self, lower: Ends, upper: Ends, by: Ends) -> Ends:
        low, high = self._counter_ends(lower, upper, by)
        zero = self._constant(0)
        down, up = self._min(by[0], zero), self._max(by[1], zero)
        least = self._min(low, upper[0], self._add(low, down))
        return least, self._max(high, upper[1], self._add(high, up))

    def _carried_ends(self, init: Ends, change: Ends, lower: Ends, upper: Ends, by: Ends) -> Ends:
        moved = self._corners(change, (self._constant(0), self._trips(lower, upper, by)))
        return self._add(init[0], moved[0]), self._add(init[1], moved[1])

    def _trips(self, lower: Ends, upper: Ends, by: Ends) -> Bound:
        """Return the most rounds a loop can make."""
        zero, one = self._constant(0), self._constant(1)
        up = self._max(self._sub(upper[1], lower[0]), zero)
        down = self._max(self._sub(lower[1], upper[0]), zero)
        both = self._max(up, down)
        distance, _ = self._by_sign(by, (up, up), (down, down), (both, both))
        least = self._neg(by[1])
        slow, _ = self._by_sign(by, (by[0], by[0]), (least, least), (one, one))
        slow = Bound(slow.number, max(slow.low, 1), max(slow.high, 1))
        return self._quotient(self._add(distance, self._sub(slow, one)), slow)
