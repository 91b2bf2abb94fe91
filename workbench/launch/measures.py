"""What launchers look at in each argument: the one table that keys are made from.

    integer   one        whether it is 1, which is compiled into the code
              negative   whether it is: what 32-bit indices require is simpler for known signs
              alignment  the greatest power of two up to 16 that divides it; of small integers,
                         which are steps and counts and no rows, only whether 16 does
              width      whether 32 bits hold it, whether 64 do (two words)
    array     aligned    whether 16 divides its address

Of an integer nothing else may be part of a key: a launch with a number that was never seen costs
what one with a known number does. From each row come the words of the careful path
(`measure_integer`), the text of launchers in Python, and the code of native ones.

    >>> measure_integer(-36), measure_integer(1 << 40)
    ((False, 4, True, True, True), (False, 16, False, True, False))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.launch.conditions import Builder, Program, python_expressions

#: Accesses are at most this wide, in bytes: what is divisible by more is divisible by this.
WIDEST_ACCESS = 16

#: Integers smaller than this are not told apart by less than 16: no row that is so short gains by
#: wider accesses what another compilation costs.
SHORTEST_ROW = 32


@dataclass(frozen=True, slots=True)
class Measure:
    """One fact of an argument: a program over argument 0 with one result of at most `bits` bits."""

    name: str
    program: Program
    bits: int = 1

    def of(self, value: int) -> int:
        """Return what is measured of a value."""
        found = self.program.evaluate((value,), ())
        assert found is not None
        return found[0]


def _one() -> Measure:
    build = Builder()
    return Measure("one", build.finish(build.equal(build.argument(0), 1)))


def _alignment() -> Measure:
    build = Builder()
    joined = build.apply("join", build.argument(0), build.constant(WIDEST_ACCESS))
    # The lowest bit of a number is what it has in common with its negative.
    lowest = build.apply("mask", joined, build.apply("sub", build.constant(0), joined))
    whole = build.equal(build.mask(build.argument(0), WIDEST_ACCESS - 1), 0)
    either = build.apply("select", whole, build.constant(WIDEST_ACCESS), build.constant(1))
    small = build.between(build.argument(0), 1 - SHORTEST_ROW, SHORTEST_ROW - 1)
    found = build.apply("select", small, either, lowest)
    return Measure("alignment", build.finish(found), WIDEST_ACCESS.bit_length())


def _holds(bits: int) -> Measure:
    build, limit = Builder(), 1 << (bits - 1)
    fits = build.between(build.argument(0), -limit, limit - 1)
    return Measure(f"{bits} bits", build.finish(fits))


def _negative() -> Measure:
    build = Builder()
    return Measure("negative", build.finish(build.between(build.argument(0), -(1 << 63), -1)))


def _aligned() -> Measure:
    build = Builder()
    rest = build.mask(build.argument(0), WIDEST_ACCESS - 1)
    return Measure("aligned", build.finish(build.equal(rest, 0)))


INTEGER = (_one(), _alignment(), _holds(32), _holds(64), _negative())
ARRAY = (_aligned(),)

#: A slot's kind -> what is measured of it.
MEASURES: dict[str, tuple[Measure, ...]] = {"i": INTEGER, "t": ARRAY}


def python_words(kind: str, name: str) -> list[str]:
    """Return the measures as Python expressions over a name."""
    return [text for m in MEASURES[kind] for text in python_expressions(m.program, [name])]


def _function(kind: str) -> Callable[[int], tuple[int, ...]]:
    return eval(f"lambda n: ({', '.join(python_words(kind, 'n'))},)")


#: Measure an integer or an address: a word for each row, by the text that launchers have.
measure_integer, measure_address = _function("i"), _function("t")
