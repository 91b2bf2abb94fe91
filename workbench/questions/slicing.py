"""What one element was made of: the backward slice of a program, element by element.

Ops say which elements of their operands decide one of theirs (`Op.element_from`); loads and stores
add masks and addresses. Of what sums many elements up, those are followed that say most: the
largest, the first that is NaN, the last. Steps are given line by line, the nearest to the wrong
element first.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Op, Scalar, Value, element_of, shape_of
from workbench.ops import Cast, Constant, Dot, Elementwise, Load, Reduce, Scan
from workbench.ops.control import For
from workbench.questions.choosing import live_addresses
from workbench.questions.running import Bench, Event, Run
from workbench.source import Span
from workbench.source.spans import line_of

MOST_STEPS = 4000
#: How much farther away addresses are than values: an element that is there is rarely misplaced.
ASIDE = 3

Place = tuple[int, ...]


@dataclass(slots=True)
class Step:
    """One execution of an op that took part: its element, and what is worth saying of it."""

    event: Event
    place: Place
    value: Any
    distance: int
    remark: str = ""


@dataclass(slots=True)
class Line:
    """The steps of one source line, the nearest first."""

    span: Span
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def text(self) -> str:
        """The source text."""
        return line_of(self.span).strip()

    @property
    def remarks(self) -> list[str]:
        """What is worth saying, each thing once; where loads read comes last."""
        said = dict.fromkeys(step.remark for step in self.steps if step.remark)
        return sorted(said, key=lambda remark: remark.startswith("reads "))


def slice_of(bench: Bench, run: Run, address: int) -> list[Step]:
    """Return the steps that the element at an address was made in, the nearest first."""
    return _Slicer(bench, run).steps(address)


def by_line(steps: list[Step]) -> list[Line]:
    """Return the lines of a slice in the order of their nearest steps."""
    lines: dict[tuple[str, int], Line] = {}
    for step in steps:
        span = step.event.op.span
        if span is None:
            continue
        for place in (span, *span.calls[-1:]):
            key = (place.file, place.line)
            lines.setdefault(key, Line(place)).steps.append(step)
    return list(lines.values())


class _Slicer:
    def __init__(self, bench: Bench, run: Run) -> None:
        self.bench, self.run = bench, run
        self.found: list[Step] = []
        self.seen: set[tuple[int, int, Place]] = set()
        self.todo: list[tuple[int, int, int, int, Place]] = []  # far, turn, event, result, place

    def steps(self, address: int) -> list[Step]:
        store = self._store_to(address, len(self.run.events))
        if store is None:
            return []
        event, lane = store
        value = event.op.operands[1]
        shape = shape_of(value.type)
        place = tuple(map(int, np.unravel_index(lane, shape))) if shape else ()
        self.found.append(Step(event, place, _at(event.inputs[1], place), ASIDE))
        self._follow_operands(event, [(1, place)], 1)
        others = [(n, place) for n in range(len(event.inputs)) if n != 1]
        self._follow_operands(event, others, 1 + ASIDE)
        self._go_on()
        self._loops()
        return self.found

    def _go_on(self) -> None:
        while self.todo and len(self.found) < MOST_STEPS:
            far, _, number, result, place = heapq.heappop(self.todo)
            self._visit(number, result, place, far)

    def _store_to(self, address: int, before: int) -> tuple[Event, int] | None:
        for event in reversed(self.run.events[:before]):
            if event.op.writes_memory:
                values = dict(zip(event.op.operands, event.inputs, strict=True))
                lanes = np.flatnonzero(live_addresses(event.op, values) == address)
                if lanes.size:
                    return event, int(lanes[-1])
        return None

    def _follow_operands(self, event: Event, among: list[tuple[int, Place]], far: int) -> None:
        for number, place in among:
            source = event.sources[number]
            if source < 0:
                continue
            shape = np.shape(event.inputs[number])
            place = place if len(place) == len(shape) else tuple(0 for _ in shape)
            result = self._result(source, event.inputs[number])
            key = (source, result, place)
            if key not in self.seen:
                self.seen.add(key)
                heapq.heappush(self.todo, (far, len(self.seen), *key))

    def _result(self, source: int, array: Any) -> int:
        results = self.run.events[source].results
        return next((n for n, held in enumerate(results) if held is array), 0)

    def _visit(self, number: int, result: int, place: Place, far: int) -> None:
        event = self.run.events[number]
        value = _at(event.results[result], place)
        step = Step(event, place, value, far)
        self.found.append(step)
        op = event.op
        if isinstance(op, Load):
            step.remark = self._load(event, place)
            self._follow_operands(event, [(n, place) for n in range(1, len(event.inputs))], far + 2)
            self._follow_operands(event, [(0, place)], far + ASIDE)
            earlier = self._written(event, place)
            if earlier is not None:
                store, lane = earlier
                shape = np.shape(store.inputs[1])
                there = tuple(map(int, np.unravel_index(lane, shape))) if shape else ()
                self.found.append(Step(store, there, _at(store.inputs[1], there), far + 1))
                self._follow_operands(store, [(n, there) for n in (1, 0)], far + 2)
            return
        step.remark = _odd(event, value, place)
        self._follow_operands(event, list(self._needed(event, result, place)), far + 1)

    def _needed(self, event: Event, result: int, place: Place) -> Iterator[tuple[int, Place]]:
        op = event.op
        known = op.element_from(place) if len(op.results) == 1 else None
        if known is not None:
            for value, where in known:
                yield _number(op, value), where
            return
        if isinstance(op, Dot):
            yield from _dot(event, place)
        elif isinstance(op, Reduce | Scan):
            yield from _along(event, op.axis, place, isinstance(op, Reduce))
        else:
            for number, array in enumerate(event.inputs):
                shape = np.shape(array)
                yield number, place if shape == np.shape(event.results[result]) else _largest(array)

    def _load(self, event: Event, place: Place) -> str:
        op = event.op
        assert isinstance(op, Load)
        address = int(_at(event.inputs[0], place))
        where = self._shown(address)
        if op.mask is not None and not bool(_at(event.inputs[1], place)):
            other = _at(event.inputs[2], place) if op.other is not None else 0
            return f"masked off at {where}: gives {other:.6g}"
        return f"reads {where}"

    def _shown(self, address: int) -> str:
        for name in self.bench.arguments:
            span = self.bench.extent(name)
            if span is not None and span[0] <= address < span[1]:
                return f"{name}[{(address - span[0]) // span[2]}]"
        return "an address outside of every argument"

    def _written(self, event: Event, place: Place) -> tuple[Event, int] | None:
        op = event.op
        if isinstance(op, Load) and op.mask is not None and not bool(_at(event.inputs[1], place)):
            return None
        return self._store_to(int(_at(event.inputs[0], place)), event.number)

    def _loops(self) -> None:
        """Add what decides how often the loops ran that steps are in."""
        inside = {step.event.op for step in self.found}
        for event in self.run.events:
            op = event.op
            if isinstance(op, For) and any(inner in inside for inner in op.body.ops):
                far = 1 + min(s.distance for s in self.found if s.event.op in set(op.body.ops))
                rounds = f"{int(event.inputs[0])} to {int(event.inputs[1])}"
                self.found.append(Step(event, (), None, far, f"counts from {rounds}"))
                self._follow_operands(event, [(n, ()) for n in range(3)], far + 1)
        self._go_on()
        self.found.sort(key=lambda step: step.distance)


def _number(op: Op, value: Value) -> int:
    return op.operands.index(value)


def _at(array: Any, place: Place) -> Any:
    held = np.asarray(array)
    if not held.shape:
        return held[()]
    return held[place] if len(place) == held.ndim else held.ravel()[0]


def _largest(array: Any) -> Place:
    held = np.asarray(array)
    if not held.shape:
        return ()
    sizes = np.abs(held.astype(np.float64))
    flat = int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes)))
    return tuple(map(int, np.unravel_index(flat, held.shape)))


def _dot(event: Event, place: Place) -> Iterator[tuple[int, Place]]:
    *batch, i, j = place
    a, b = (np.asarray(event.inputs[n], np.float64) for n in (0, 1))
    op = event.op
    assert isinstance(op, Dot)
    with np.errstate(all="ignore"):
        products = np.abs(a[(*batch, i)] * b[(*batch, slice(None), j)])
        if op.factors is not None:
            factors = np.asarray(event.inputs[3], np.float64)[j]
            products = np.abs(products * np.repeat(factors, op.run))
    for k in _telling(products):
        yield 0, (*batch, i, k)
        yield 1, (*batch, k, j)
        if op.factors is not None:
            yield 3, (j, k // op.run)
    yield 2, place


def _along(event: Event, axis: int, place: Place, gone: bool) -> Iterator[tuple[int, Place]]:
    for number, array in enumerate(event.inputs):
        where = list(place)
        if gone:
            where.insert(axis, 0)
        row = np.moveaxis(np.asarray(array), axis, 0)[(slice(None), *np.delete(where, axis))]
        for k in _telling(np.abs(np.asarray(row, np.float64))):
            where[axis] = k
            yield number, tuple(where)


def _telling(sizes: np.ndarray[Any, Any]) -> list[int]:
    """Return which of many elements say most: the largest or NaN, the first and the last."""
    largest = int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes)))
    return list(dict.fromkeys((largest, 0, len(sizes) - 1)))


def _odd(event: Event, value: Any, place: Place) -> str:
    """Say what is remarkable of a value, "" if nothing is."""
    if whole := _not_whole(event, value, place):
        return whole
    if np.asarray(value).dtype.kind != "f" or np.isfinite(value) or isinstance(event.op, Constant):
        return ""
    given = [
        _at(array, place) for array in event.inputs if np.shape(array) == np.shape(event.results[0])
    ]
    if any(np.asarray(g).dtype.kind == "f" and not np.isfinite(g) for g in given):
        return ""
    return f"the first {'NaN' if np.isnan(value) else 'infinity'} on this way"


#: What integers are computed by that may not fit: the sign between them, and exactly.
_EXACT = {"add": ("+", operator.add), "sub": ("-", operator.sub), "mul": ("*", operator.mul)}


def _not_whole(event: Event, value: Any, place: Place) -> str:
    """Say of an integer what is gone: what its type has no room for, or a fraction."""
    op = event.op
    element = element_of(op.results[0].type) if op.results else None
    if not isinstance(element, Scalar) or element.kind != "int":
        return ""
    given = [_at(array, place) for array in event.inputs]
    if isinstance(op, Elementwise) and op.function in _EXACT:
        sign, exactly = _EXACT[op.function]
        a, b = map(int, given)
        if exactly(a, b) != int(value):
            return f"{a} {sign} {b} is {exactly(a, b)}, which {element} does not hold"
    if isinstance(op, Cast) and np.isfinite(given[0]) and given[0] != value:
        fits = abs(float(given[0]) - int(value)) < 1
        gone = "without its fraction" if fits else f"which {element} does not hold"
        return f"made of {given[0]:.6g}, {gone}"
    return ""
