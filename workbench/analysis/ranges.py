"""Intervals of exact integers: what fits 32 bits, at compile time and at launch.

`index_program` writes the index arithmetic of a module out as plain data, a list of steps over
intervals. Evaluated with the numbers of a launch (arguments, grid) it tells whether every exact
integer that depends on nothing loaded fits 32 bits: the fact `narrow_index`, which selects the
32-bit twin of the kernel. Intervals forget relations but their bounds are sound.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ir import INDEX, Block, Module, Op, Pointer, Scalar, Value, element_of
from workbench.ops import (
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    If,
    Iota,
    Map,
    NumPrograms,
    ProgramId,
    Promise,
    Reduce,
    Reshape,
    Scan,
    Select,
    Splat,
    Transpose,
    While,
)
from workbench.ops.numbers import truncated_quotient

Interval = tuple[int, int]
#: Addresses stay this far from the 32-bit limits, so that a constant offset may be split off.
MARGIN = 1 << 21
#: Loops have at least so many stages where rounds ahead are counted: nobody may have named them
#: yet. A slot to spare, the round that follows and one more come to them.
_FEWEST_STAGES, _ROUNDS_BESIDE = 4, 3
#: Exact integers are numbers that fit 64 bits, so that bounds beyond this are never met.
_FARTHEST = 1 << 128
FULL32: Interval = (-(1 << 31), (1 << 31) - 1)
#: What fits 32 bits with room for a constant that is split off.
ROOM32: Interval = (FULL32[0] + MARGIN, FULL32[1] - MARGIN)
FULL64: Interval = (-(1 << 63), (1 << 63) - 1)
#: The data of steps that have some, by kind.
_FORMS: dict[str, tuple[type, ...]] = {
    "argument": (str, int, int), "between": (int, int), "program_id": (int,),
    "num_programs": (int,),
}  # fmt: skip
_MOVES = (Splat, Broadcast, ExpandDims, Reshape, Transpose, Promise)


@dataclass(frozen=True, slots=True)
class Step:
    """One interval computed from earlier ones: kind, numbers of the inputs, and plain data."""

    kind: str
    inputs: tuple[int, ...]
    data: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexProgram:
    """Steps in order; `closed` are the steps whose intervals must fit 32 bits.

    `at_least_0` are those that must not be negative: arguments that are divided, or that others
    are divided by, where quotients count up if they are not.
    """

    steps: tuple[Step, ...]
    closed: tuple[int, ...]
    at_least_0: tuple[int, ...] = ()

    def intervals(self, values: Mapping[str, int], grid: Sequence[int]) -> list[Interval]:
        """Return every step's interval for the integer arguments and grid of a launch."""
        found: list[Interval] = []
        extents: list[int] = [*grid, 1, 1, 1]
        for step in self.steps:
            if step.kind == "argument":
                name, low, high = step.data
                value = values.get(name)
                found.append((low, high) if value is None else (int(value), int(value)))
            elif step.kind == "program_id":
                axis: int = step.data[0]
                found.append((0, max(0, extents[axis] - 1)))
            elif step.kind == "num_programs":
                axis: int = step.data[0]
                found.append((extents[axis], extents[axis]))
            else:
                found.append(_interval(step, [found[i] for i in step.inputs]))
        return found

    def fits(self, values: Mapping[str, int], grid: Sequence[int]) -> bool:
        """Say whether all closed exact integers fit 32 bits in this launch, with their signs."""
        found = self.intervals(values, grid)
        low, high = ROOM32
        if any(found[i][0] < 0 for i in self.at_least_0):
            return False
        return all(low <= found[i][0] and found[i][1] <= high for i in self.closed)

    def to_data(self) -> dict[str, Any]:
        """Return the program as plain data, for JSON."""
        return {
            "steps": steps_to_data(self.steps),
            "closed": [*self.closed],
            "at_least_0": [*self.at_least_0],
        }


def steps_to_data(steps: Iterable[Step]) -> list[Any]:
    """Return steps as plain data, for JSON."""
    return [[step.kind, [*step.inputs], [*step.data]] for step in steps]


def steps_from_data(stored: Iterable[Any], kinds: Container[str] = ()) -> tuple[Step, ...]:
    """Return the steps in plain data, of more `kinds` too; raises ValueError for what is none."""
    steps: list[Step] = []
    for number, (kind, inputs, data) in enumerate(stored):
        step = Step(kind, tuple(inputs), tuple(data))
        form = _FORMS.get(kind, ())
        if kind not in _RULES and kind not in _FORMS and kind not in kinds:
            raise ValueError(f"an index program has no step {kind!r}")
        if not all(type(i) is int and 0 <= i < number for i in step.inputs):
            raise ValueError(f"step {number} ({kind}) has inputs {list(step.inputs)}")
        if tuple(map(type, step.data)) != form:
            raise ValueError(f"step {number} ({kind}) has data {list(step.data)}")
        steps.append(step)
    return tuple(steps)


def from_data(stored: Mapping[str, Any]) -> IndexProgram:
    """Return the program in plain data; raises ValueError for data that is none."""
    steps = steps_from_data(stored["steps"])
    closed, at_least_0 = tuple(stored["closed"]), tuple(stored["at_least_0"])
    if not all(type(i) is int and 0 <= i < len(steps) for i in closed):
        raise ValueError(f"an index program of {len(steps)} steps closes {list(closed)}")
    if not all(type(i) is int and i in closed for i in at_least_0):
        raise ValueError(f"an index program asks for the signs of {list(at_least_0)}")
    return IndexProgram(steps, closed, at_least_0)


def index_program(module: Module) -> IndexProgram:
    """Return the index arithmetic of a module as plain data."""
    writer = _Writer(module, opened=())
    counting = tuple(sorted(writer.counting()))
    return IndexProgram(tuple(writer.steps), tuple(sorted(writer.closed)), counting)


def counting_arguments(module: Module) -> frozenset[str]:
    """Return the arguments that a module's index program requires not to be negative."""
    writer = _Writer(module, opened=())
    return frozenset(writer.steps[number].data[0] for number in writer.counting())


def value_intervals(module: Module, narrow: bool) -> dict[Value, Interval]:
    """Return the interval of every exact integer as far as it is known at compile time.

    With `narrow` (the launch fact) every closed value is known to fit 32 bits, the margin kept.
    """
    return known_intervals(module, narrow)[0]


def known_intervals(
    module: Module, narrow: bool
) -> tuple[dict[Value, Interval], dict[Value, Interval]]:
    """Return what `value_intervals` does, and by loop counter what it may be past the loop's end.

    The second is of the rounds that follow the last one, as many as copies may be started ahead.
    """
    writer = _Writer(module, opened=())
    counting = writer.counting() if narrow else ()
    found: list[Interval] = []
    for number, step in enumerate(writer.steps):
        interval = known_interval(step, [found[i] for i in step.inputs])
        if narrow and number in writer.closed:
            interval = (max(interval[0], ROOM32[0]), min(interval[1], ROOM32[1]))
        if number in counting:
            interval = (max(interval[0], 0), interval[1])
        found.append(interval)
    known, past = (
        {value: found[number] for value, number in numbers.items()}
        for numbers in (writer.numbers, writer.past)
    )
    return known, past


def known_interval(step: Step, inputs: list[Interval]) -> Interval:
    """Return what is known of a step at compile time, given its inputs' intervals."""
    highest = (1 << 31) - 1
    if step.kind == "argument":
        return step.data[1], step.data[2]
    if step.kind == "program_id":
        return 0, highest - 1
    if step.kind == "num_programs":
        return 1, highest
    return _interval(step, inputs)


class _Writer:
    def __init__(self, module: Module, opened: tuple[Value, ...]) -> None:
        self.steps: list[Step] = []
        self.closed: set[int] = set()
        self.numbers: dict[Value, int] = {}
        #: By loop counter: what it would be in the rounds behind the last one.
        self.past: dict[Value, int] = {}
        self.stages: int = module.attributes.get("num_stages") or 1
        for parameter in module.parameters:
            element = element_of(parameter.value.type)
            if isinstance(element, Scalar) and element.is_integer:
                # An exact integer argument arrives as an i32.
                signed = element == INDEX or (element.bits <= 32 and element.kind == "int")
                full = FULL32 if signed else FULL64
                low = full[0] if parameter.low is None else parameter.low
                high = full[1] if parameter.high is None else parameter.high
                self.define(
                    parameter.value, Step("argument", (), (parameter.name, low, high)), True
                )
        self.block(module.body)

    def define(self, value: Value, step: Step, closed: bool) -> int:
        number = len(self.steps)
        self.steps.append(step)
        self.numbers[value] = number
        if closed:
            self.closed.add(number)
        return number

    def number(self, value: Value) -> int:
        known = self.numbers.get(value)
        if known is None:
            element = element_of(value.type)
            full = FULL64
            if isinstance(element, Scalar) and element.is_integer and element.kind != "index":
                bits = element.bits
                full = (0, (1 << bits) - 1) if element.kind in ("uint", "bool") else (
                    -(1 << (bits - 1)), (1 << (bits - 1)) - 1)  # fmt: skip
            known = self.define(value, Step("between", (), full), False)
        return known

    def total(self, changes: Sequence[tuple[Value, int]]) -> int:
        """Return the number of the sum of the changes, signs applied."""
        # A constant may stand in the body, which has not been walked yet.
        for value, _ in changes:
            if isinstance(value.op, Constant) and value not in self.numbers:
                self.simple(value.op)
        closed = self.is_closed([value for value, _ in changes])
        zero = Value(INDEX)
        total = self.define(zero, Step("between", (), (0, 0)), closed)
        for value, sign in changes:
            kind = "add" if sign > 0 else "sub"
            total = self.define(Value(INDEX), Step(kind, (total, self.number(value))), closed)
        return total

    def counting(self) -> frozenset[int]:
        """Return the arguments but for whose signs something that is divided counts up from 0.

        Division truncates toward zero: where that is known, quotients have runs that begin at
        multiples of their length. A sum that may be negative all the same asks for nothing.
        """
        divided = [
            number for step in self.steps if step.kind in ("div", "rem") for number in step.inputs
        ]
        if not any(number in self.closed for number in divided):
            return frozenset()
        full, counted = list[Interval](), list[Interval]()
        #: Of each step the arguments that it is made of and that may be negative.
        signed: list[frozenset[int]] = []
        for number, step in enumerate(self.steps):
            full.append(known_interval(step, [full[i] for i in step.inputs]))
            low, high = known_interval(step, [counted[i] for i in step.inputs])
            own = step.kind == "argument" and low < 0 <= high
            counted.append((0 if own else low, high))
            made = frozenset[int]().union(*(signed[i] for i in step.inputs))
            signed.append(made | {number} if own and number in self.closed else made)
        found = [
            signed[n] for n in divided
            if n in self.closed and full[n][0] < 0 <= counted[n][0]
        ]  # fmt: skip
        return frozenset[int]().union(*found)

    def is_closed(self, values: Sequence[Value]) -> bool:
        return all(self.number(v) in self.closed for v in values)

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Op) -> None:
        if isinstance(op, For):
            self.loop(op)
        elif isinstance(op, If):
            self.branches(op)
        elif isinstance(op, While):
            for region in op.regions:
                self.block(region)
        elif isinstance(op, Reduce | Scan | Map):
            return
        elif op.results and self.counts(op.results[0]):
            self.simple(op)

    def counts(self, value: Value) -> bool:
        element = element_of(value.type) if hasattr(value.type, "element") or isinstance(
            value.type, Scalar | Pointer) else None  # fmt: skip
        return isinstance(element, Scalar) and element.is_integer

    def simple(self, op: Op) -> None:
        result = op.results[0]
        exact = element_of(result.type) == INDEX
        if isinstance(op, Constant):
            self.define(result, Step("between", (), (int(op.value), int(op.value))), True)
        elif isinstance(op, Iota):
            last = op.start + op.type.shape[0] - 1
            self.define(result, Step("between", (), (op.start, last)), True)
        elif isinstance(op, ProgramId):
            self.define(result, Step("program_id", (), (op.axis,)), True)
        elif isinstance(op, NumPrograms):
            self.define(result, Step("num_programs", (), (op.axis,)), True)
        elif isinstance(op, _MOVES):
            self.numbers[result] = self.number(op.operands[0])
        elif isinstance(op, Cast) and exact and self.counts(op.source):
            self.numbers[result] = self.number(op.source)
        elif isinstance(op, Elementwise) and (field := self.field(op)) is not None:
            self.define(result, Step("between", (), field), self.is_closed(op.inputs))
        elif isinstance(op, Elementwise) and exact and op.function in _RULES:
            inputs = tuple(self.number(v) for v in op.inputs)
            self.define(result, Step(op.function, inputs), self.is_closed(op.inputs))
        elif isinstance(op, Select) and exact:
            both = (op.then, op.otherwise)
            inputs = tuple(self.number(v) for v in both)
            self.define(result, Step("union", inputs), self.is_closed(both))
        else:
            self.number(result)

    def field(self, op: Elementwise) -> Interval | None:
        """Return what bits that a constant cuts out may be, whatever they are cut out of."""
        known: list[Interval | None] = []
        for value in op.inputs:
            step = self.steps[self.number(value)]
            known.append((step.data[0], step.data[1]) if step.kind == "between" else None)
        if op.function == "and":
            most = [one[1] for one in known if one is not None and one[0] >= 0]
            return (0, min(most)) if most else None
        whole, by = known[0], known[-1]
        if op.function != "shr" or whole is None or by is None or by[0] != by[1]:
            return None
        inside = 0 <= by[0] < element_of(op.result.type).bits
        return (whole[0] >> by[0], whole[1] >> by[0]) if inside else None

    def branches(self, op: If) -> None:
        for region in op.regions:
            self.block(region)
        for result, *both in zip(op.results, op.then.yields, op.otherwise.yields, strict=True):
            if element_of(result.type) == INDEX:
                inputs = tuple(self.number(v) for v in both)
                self.define(result, Step("union", inputs), self.is_closed(both))

    def loop(self, op: For) -> None:
        counter, *carried = op.body.arguments
        bounds = (op.lower, op.upper, op.step)
        closed = self.is_closed(bounds)
        inputs = tuple(self.number(v) for v in bounds)
        if self.counts(counter):
            self.define(counter, Step("counter", inputs), closed)
        # The counter also takes values past the end: one before the loop stops, and those of the
        # rounds that are started ahead.
        rounds = max(_FEWEST_STAGES, self.stages, op.stages or 1) + _ROUNDS_BESIDE
        count = self.define(Value(INDEX), Step("between", (), (rounds, rounds)), closed)
        ahead = self.define(Value(INDEX), Step("mul", (inputs[2], count)), closed)
        past = Step("past_end", (*inputs[:2], ahead))
        self.past[counter] = self.define(Value(counter.type), past, closed)
        for argument, init, after in zip(carried, op.inits, op.body.yields, strict=True):
            if element_of(argument.type) != INDEX:
                continue
            changes = _changes(argument, after, op.body)
            if changes is not None:
                total = self.total(changes)
                numbers = (self.number(init), total)
                self.define(
                    argument,
                    Step("carried", (*numbers, *inputs)),
                    closed and all(n in self.closed for n in numbers),
                )
        self.block(op.body)
        for argument, result in zip(carried, op.results, strict=True):
            if argument in self.numbers:
                self.numbers[result] = self.numbers[argument]


def _changes(argument: Value, after: Value, body: Block) -> list[tuple[Value, int]] | None:
    """Return (d, sign) for each d computed outside that a round adds to the argument, else None."""
    inside = set(body.arguments) | {r for inner in body.ops for r in inner.results}
    found: list[tuple[Value, int]] = []
    while after is not argument:
        op = after.op
        if not isinstance(op, Elementwise) or op.function not in ("add", "sub"):
            return None
        before, change = op.inputs
        if op.function == "add" and (before not in inside or isinstance(before.op, Constant)):
            before, change = change, before
        if change in inside and not isinstance(change.op, Constant):
            return None
        found.append((change, 1 if op.function == "add" else -1))
        after = before
    return found


def _interval(step: Step, inputs: list[Interval]) -> Interval:
    """Return a step's interval; far outside of what a machine holds all bounds are alike.

    Else a chain of squares would double the digits of its bounds at every step.
    """
    low, high = _RULES[step.kind](step, inputs)
    return max(-_FARTHEST, min(low, _FARTHEST)), max(-_FARTHEST, min(high, _FARTHEST))


def _corners(a: Interval, b: Interval) -> Interval:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _quotient(step: Step, inputs: list[Interval]) -> Interval:
    a, b = inputs
    if b[0] <= 0 <= b[1]:
        most = max(abs(a[0]), abs(a[1]))
        return -most, most
    found = [truncated_quotient(x, y) for x in a for y in b]
    return min(*found, 0 if a[0] <= 0 <= a[1] else found[0]), max(
        *found, 0 if a[0] <= 0 <= a[1] else found[0]
    )


def _remainder(step: Step, inputs: list[Interval]) -> Interval:
    a, b = inputs
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(a[0], -most) if a[0] < 0 else 0, min(a[1], most) if a[1] > 0 else 0


def most_trips(lower: Interval, upper: Interval, step: Interval) -> int:
    """Return the most rounds a loop can make."""
    slow = min((abs(s) for s in step if s), default=1)
    if step[0] <= 0 <= step[1]:
        slow = 1
    distance = max(upper[1] - lower[0], lower[1] - upper[0], 0)
    if step[0] > 0:
        distance = max(upper[1] - lower[0], 0)
    elif step[1] < 0:
        distance = max(lower[1] - upper[0], 0)
    return -(-distance // slow)


def _counter(step: Step, inputs: list[Interval]) -> Interval:
    lower, upper, by = inputs
    low, high = lower
    if by[1] > 0:
        high = max(high, upper[1] - 1)
    if by[0] < 0:
        low = min(low, upper[0] + 1)
    return low, high


def _past_end(step: Step, inputs: list[Interval]) -> Interval:
    _, upper, by = inputs
    low, high = _counter(step, inputs)
    return min(low, upper[0], low + min(by[0], 0)), max(high, upper[1], high + max(by[1], 0))


def _carried(step: Step, inputs: list[Interval]) -> Interval:
    init, change, lower, upper, by = inputs
    moved = _corners(change, (0, most_trips(lower, upper, by)))
    return init[0] + moved[0], init[1] + moved[1]


def _shift_left(step: Step, inputs: list[Interval]) -> Interval:
    a, b = inputs
    if b[0] < 0 or b[1] > 62:
        return FULL64
    return _corners(a, (1 << b[0], 1 << b[1]))


_RULES: dict[str, Callable[[Step, list[Interval]], Interval]] = {
    "between": lambda step, i: (step.data[0], step.data[1]),
    "add": lambda step, i: (i[0][0] + i[1][0], i[0][1] + i[1][1]),
    "sub": lambda step, i: (i[0][0] - i[1][1], i[0][1] - i[1][0]),
    "mul": lambda step, i: _corners(*i),
    "neg": lambda step, i: (-i[0][1], -i[0][0]),
    "abs": lambda step, i: (0, max(abs(i[0][0]), abs(i[0][1]))),
    "div": _quotient,
    "rem": _remainder,
    "min": lambda step, i: (min(i[0][0], i[1][0]), min(i[0][1], i[1][1])),
    "max": lambda step, i: (max(i[0][0], i[1][0]), max(i[0][1], i[1][1])),
    "shl": _shift_left,
    "union": lambda step, i: (min(x[0] for x in i), max(x[1] for x in i)),
    "counter": _counter,
    "past_end": _past_end,
    "carried": _carried,
}
