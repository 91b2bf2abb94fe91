"""Whether all accesses of a launch lie in the storages of its arguments, as a program.

`analysis/hulls.py` gives the offsets of a kernel's accesses as steps over intervals. Both ends of
each become instructions over the launch's integers and grid, as in `index_width.py`, and "it lies
inside" becomes requirements on them, on the arrays' addresses and on where their storages lie.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.launch.conditions import Builder, Program, joined
from workbench.launch.index_width import Ends, IntervalWriter

if TYPE_CHECKING:
    from workbench.analysis.hulls import Asked, Hulls
    from workbench.launch.abi import Loadable

#: More than any difference of addresses.
_FAR = 1 << 62


@lru_cache(1024)
def hull_program(
    hulls: Hulls,
    places: tuple[tuple[str, int, bool], ...],
    arrays: tuple[tuple[str, int, int], ...],
    known: tuple[tuple[str, int], ...] = (),
) -> Program:
    """Return what the launch must fulfil for no access to leave its storage.

    Args:
        hulls: those of all accesses.
        places: (name, place, whether it is negative) of the integers that a launch passes.
        arrays: (name, place of its address, place of the storage's start, after which comes its
            end).
        known: (name, value) of the integers that are the same for all launches.
    """
    given = {name: (place, negative) for name, place, negative in places}
    writer = HullWriter(hulls, given, dict(known))
    ends, build = writer.ends(), writer.build
    for step in hulls.positive:
        build.require(build.between(ends[step][0].number, 1, _FAR))
    where = {name: rest for name, *rest in arrays}
    for hull in hulls.hulls:
        if hull.root not in where:
            build.require(build.constant(0))
            break
        address, storage = (build.argument(place) for place in where[hull.root])
        past = build.argument(where[hull.root][1] + 1)
        size = build.constant(hull.size)
        first, last = (build.apply("mul", end.number, size) for end in ends[hull.step])
        low = build.apply("sub", build.apply("add", address, first), storage)
        reach = build.apply("add", build.apply("add", last, size), address)
        high = build.apply("sub", past, reach)
        build.require(build.between(low, 0, _FAR))
        build.require(build.between(high, 0, _FAR))
    return build.finish()


@lru_cache(1024)
def asked_program(
    asked: Asked,
    places: tuple[tuple[str, int, bool], ...],
    known: tuple[tuple[str, int], ...] = (),
) -> Program:
    """Return the requirements on a launch for code that was proven for such launches alone.

    `places` and `known` are as for hulls.
    """
    given = {name: (place, negative) for name, place, negative in places}
    writer = HullWriter(asked, given, dict(known))
    ends, build = writer.ends(), writer.build
    for step in asked.at_least_0:
        build.require(build.between(ends[step][0].number, 0, _FAR))
    return build.finish()


def asked_of(kernel: Loadable) -> Asked | None:
    """Return what a kernel's code asks of its launches; None for most."""
    stored = kernel.launch.extra.get("asked")
    if stored is None:
        return None
    from workbench.analysis.hulls import asked_from_data

    return asked_from_data(stored)


def asked_of_values(kernel: Loadable) -> Program | None:
    """Return what a kernel's code asks of a launch, over the values that the code receives.

    The integers must not be negative, then: that is part of a launch's key, which is not known.
    """
    asked = asked_of(kernel)
    if asked is None:
        return None
    words = enumerate(kernel.launch.parameters)
    places = tuple((name, n, False) for n, (name, word) in words if word[0] in "iu")
    program = asked_program(asked, places)
    build = Builder()
    for place in program.arguments:
        build.require(build.between(build.argument(place), 0, _FAR))
    return joined(build.finish(), program)


class HullWriter(IntervalWriter):
    """Writes what hulls have besides: bounds, and how many rounds a loop has."""

    def _below_ends(self, a: Ends, limit: Ends) -> Ends:
        return a[0], self._min(a[1], self._sub(limit[1], self._constant(1)))

    def _above_ends(self, a: Ends, limit: Ends) -> Ends:
        return self._max(a[0], self._add(limit[0], self._constant(1))), a[1]

    def _trip_ends(self, lower: Ends, upper: Ends, by: Ends) -> Ends:
        zero = self._constant(0)
        last = self._sub(self._trips(lower, upper, by), self._constant(1))
        return zero, self._max(last, zero)

    def _trips_ends(self, lower: Ends, upper: Ends, by: Ends) -> Ends:
        return self._constant(0), self._trips(lower, upper, by)
