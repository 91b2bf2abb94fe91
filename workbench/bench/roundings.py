"""How often a kernel rounds, and to which types: what its rounding errors follow from.

Counted in tile IR, as the front end made it: each op says how many roundings a result goes through
(`Op.roundings`: the length of the sum, for a dot or a reduction), times the trips of the loops
around it that carry a value of that type (a sum goes on there), times the programs for atomics. A
rounding whose result is only stored is the output's own and is not counted here, nor is what is
computed of constants alone. A number that its type cannot hold, such as 0.1, is rounded once before
anything is computed with it, be it written in the kernel or an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from workbench.bench.work import ScalarFrame, UnknownValueError
from workbench.ir import Block, Module, Op, Scalar, Value, element_of
from workbench.ops import Cast, Constant, Dot, For
from workbench.ops.numbers import round_to
from workbench.ops.small_floats import SMALL_FLOATS

#: Largest relative error of one rounding (half the distance of neighbours at 1), by type. Splitting
#: f32 operands in parts of a narrower type leaves the bits that no part holds; 8-bit products are
#: summed in a short accumulator (13 bits seen on an H200).
UNIT = {
    "f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11,
    "tf32x3": 2.0**-21, "bf16x3": 2.0**-16, "bf16x6": 2.0**-22, "sums of 8-bit products": 2.0**-13,
    **{str(element): 2.0 ** -(form.mantissa + 1) for element, form in SMALL_FLOATS.items()},
}  # fmt: skip

#: Rounds of a loop that nobody knows beforehand.
UNKNOWN_TRIPS = 1024
#: Bits of a float that one operand of the tensor cores can hold.
_NARROW = 8
#: Products that a tensor core adds before it cuts the sum to f32 (towards zero; at least so many).
_SUMMED = 8


@dataclass(slots=True)
class Roundings:
    """What a launch rounds.

    `count` says for each type how many roundings in a row a value may go through; `any` whether
    anything is computed at all (a copy is exact); `truncated` names types that values are cut to;
    `cut_steps` is how often in a row a tensor core cuts its sum; `computed` names types that values
    are computed in, not only cast to.
    """

    count: dict[str, int] = field(default_factory=dict[str, int])
    cut_steps: int = 0
    any: bool = False
    truncated: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()

    def add(self, name: str, count: int) -> None:
        """Enter more roundings to one type."""
        self.count[name] = self.count.get(name, 0) + count


def roundings(
    module: Module, grid: Sequence[int], scalars: Mapping[str, Any], target: str
) -> Roundings:
    """Return what a launch rounds on a target; `scalars` holds scalar arguments by name."""
    return _Counter(module, grid, scalars, target).found


class _Counter:
    def __init__(
        self, module: Module, grid: Sequence[int], scalars: Mapping[str, Any], target: str
    ) -> None:
        self.frame = ScalarFrame(module, grid, scalars)
        self.programs = max(prod(grid), 1)
        self.target = target
        self.found = Roundings()
        self.users: dict[Value, list[Op]] = {}
        for op in module.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
        self.only_stored: dict[Op, bool] = {}
        #: Types of numbers that these types cannot hold.
        self.numbers: set[str] = set()
        self._block(module.body, {})
        for parameter in module.parameters:
            if parameter.name in scalars:
                self._number(parameter.value, scalars[parameter.name])
        for name in self.numbers:  # beside other roundings there is room for this one
            self.found.count.setdefault(name, 1)

    def _number(self, value: Value, number: Any) -> None:
        """Count the rounding of a number that is not one of its type, if anything is made of it."""
        name = _float_of(value)
        if name is None or not isinstance(number, int | float):
            return
        held = float(round_to(np.float64(number), element_of(value.type)))
        if held != number and any(op.roundings() for op in self._uses(value)):
            self.numbers.add(name)

    def _uses(self, value: Value) -> Iterator[Op]:
        """Yield the ops that a value goes into, whatever it is moved by on the way."""
        work, seen = [value], set[Value]()
        while work:
            for op in self.users.get(work.pop(), ()):
                yield op
                moved = () if op.roundings() or op.regions else op.results
                work += [one for one in moved if one not in seen]
                seen.update(moved)

    def _block(self, block: Block, trips: Mapping[str, int]) -> None:
        """Count a block's roundings; `trips` are those of the loops around, by type carried."""
        for op in block.ops:
            if op.decided_by():
                inside = self._inside(op, trips) if op.repeats else trips
                for region in op.regions:
                    self._block(region, inside)
            elif op.roundings():
                self._op(op, trips)
            elif isinstance(op, Constant):
                self._number(op.result, op.value)

    def _inside(self, loop: Op, trips: Mapping[str, int]) -> dict[str, int]:
        try:
            count = self.frame.trips(loop) if isinstance(loop, For) else UNKNOWN_TRIPS
        except UnknownValueError:
            count = UNKNOWN_TRIPS
        carried = {_float_of(value) for value in loop.results} - {None}
        return {**trips, **{str(name): trips.get(str(name), 1) * count for name in carried}}

    def _op(self, op: Op, trips: Mapping[str, int]) -> None:
        types = {name for value in op.results if (name := _float_of(value)) is not None}
        for name in types:
            self.found.any = True
            count = op.roundings() * trips.get(name, 1)
            if op.writes_memory:
                count *= self.programs
            if count > 1 or not (self._only_stored(op) or all(map(self._known, op.operands))):
                self.found.add(name, count)
        if not isinstance(op, Cast):
            self.found.computed |= types
        elif op.rounding == "rtz":
            self.found.truncated |= types
        if isinstance(op, Dot) and types and self.target != "cpu":
            self._operands(op, trips)

    def _operands(self, dot: Dot, trips: Mapping[str, int]) -> None:
        """Enter what a tensor core does to the operands, and to sums of 8-bit products."""
        operand = element_of(dot.a.type)
        if not isinstance(operand, Scalar):
            return
        if not operand.is_float:
            return
        if self.target != "interpreter":
            steps = -(-dot.roundings() // _SUMMED) * trips.get("f32", 1)
            self.found.cut_steps = max(self.found.cut_steps, steps)
        if str(operand) == "f32" and dot.precision in UNIT:
            self.found.add(dot.precision, 1)
        if operand.bits <= _NARROW and self.target != "interpreter":
            self.found.add("sums of 8-bit products", dot.roundings() * trips.get("f32", 1))

    def _known(self, value: Value) -> bool:
        """Whether a value is the same in every launch: what is computed of it has no error."""
        op = value.op
        if op is None or op.regions or not op.pure:
            return False
        return all(map(self._known, op.operands))

    def _only_stored(self, op: Op) -> bool:
        known = self.only_stored.get(op)
        if known is None:
            self.only_stored[op] = False  # what goes round in a circle is used
            users = [user for value in op.results for user in self.users.get(value, ())]
            types = {_float_of(value) for value in op.results}
            known = self.only_stored[op] = all(
                not user.roundings()
                and not user.ends_block
                and (
                    user.writes_memory
                    or (types == {_float_of(v) for v in user.results} and self._only_stored(user))
                )
                for user in users
            )
        return known


def _float_of(value: Value) -> str | None:
    element = element_of(value.type)
    return str(element) if isinstance(element, Scalar) and element.is_float else None
