"""What a round of a loop computes if the extremes that it carries stay what they are.

A loop that goes on with the largest (smallest) of all that it has seen finds a new one ever more
rarely: of n rounds over numbers in any order about log n. What follows from an extreme that stays
is found by trying: elements of unknown values get a few random numbers, an extreme the same before
and behind the round, and what is computed of them is computed. Sums and products of numbers that
are equal for a few random ones are equal for nearly all, and whoever asks here asks what pays; what
is right is asked of the numbers themselves where the code runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.ir import Array, Block, Op, Place, Value, element_of, shape_of
from workbench.ops.numbers import value_dtype

#: How many random numbers stand for an unknown element.
_SAMPLES = 8
#: Ops behind an element that are looked at; what is further away is unknown.
_MOST_OPS = 64


class Steady:
    """The rounds of a loop in which its extremes stay."""

    def __init__(self, loop: Op) -> None:
        #: What an extreme is carried as, by the values that it becomes.
        self._kept: dict[Value, Value] = {}
        self._known: dict[tuple[Value, Place], Array] = {}
        self._random = np.random.default_rng(0)
        self._left = 0
        for body in loop.regions:
            for carried, next_one in _carried(loop, body):
                for value in _becomes(next_one, carried, set(), _MOST_OPS):
                    self._kept[value] = carried

    def is_one(self, value: Value) -> bool:
        """Say whether an element is 1 in such rounds, asked of the first one of a tile."""
        if not self._kept:
            return False
        self._left = _MOST_OPS
        return bool(np.all(self._of(value, tuple(0 for _ in shape_of(value.type))) == 1))

    def _of(self, value: Value, place: Place) -> Array:
        """Return what an element is for each of the random numbers."""
        value = self._kept.get(value, value)
        key = value, place
        if key not in self._known:
            computed = self._computed(value.op, place)
            self._known[key] = self._unknown(value) if computed is None else computed
        return self._known[key]

    def _computed(self, op: Op | None, place: Place) -> Array | None:
        """Return what an op gives, None if not its operands' elements alone decide that."""
        read = op.element_from(place) if op is not None and op.pure else None
        if op is None or read is None or self._left == 0:
            return None
        self._left -= 1
        given = [self._of(value, where) for value, where in read]
        if op.pointwise:
            return op.interpret(_Given(zip(op.operands, given, strict=True)))  # type: ignore[return-value, arg-type]
        if given:
            return given[0] if op.moves else None
        made = op.element(place, ())
        number = made.interpret(_Given()) if isinstance(made, Op) else None  # type: ignore[arg-type]
        return None if number is None else np.full(_SAMPLES, number)

    def _unknown(self, value: Value) -> Array:
        dtype = np.dtype(value_dtype(element_of(value.type)))
        if dtype.kind == "b":
            return self._random.random(_SAMPLES) < 0.5
        return (self._random.standard_normal(_SAMPLES) * 8).astype(dtype)


class _Given(dict[Value, Array]):
    """The values of operands, as a frame gives them to ops that compute and do nothing else."""


def _carried(loop: Op, body: Block) -> Iterator[tuple[Value, Value]]:
    """Yield each argument of a loop's body with what it is in the next round."""
    arguments, inside = set(body.arguments), set(body.yields)
    for given, received in loop.flows():
        if received in arguments and given in inside and given is not received:
            yield received, given


def _becomes(value: Value, carried: Value, seen: set[Value], most: int) -> list[Value]:
    """Return the values on the way from a carried one to one that is chosen of it and others.

    Empty where it is none, or longer than `most`: an op that rounds nothing and has several
    operands of its result's type gives one of them. `seen`: values from which there is no way.
    """
    op = value.op
    if value is carried or op is None or value in seen or most == 0:
        return []
    seen.add(value)
    if not (op.pointwise or op.moves) or op.roundings():
        return []
    same = [v for v in op.operands if element_of(v.type) == element_of(value.type)]
    if len(same) < 2 and not op.moves:
        return []
    if carried in same:
        return [value]
    for inner in same:
        if way := _becomes(inner, carried, seen, most - 1):
            return [value, *way]
    return []
