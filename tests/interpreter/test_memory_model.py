"""The race finder against its definition: happens-before written out as sets of accesses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.meaning import cases
from workbench.interpreter import Machine
from workbench.interpreter.races import Races
from workbench.ir import parse_module

KINDS = ("load", "store", "relaxed", "acquire", "release", "acq_rel", "cta")


def _ops(pointer: str, value: str, type: str) -> str:
    lines = [f"  %{type}load = tile.load %{pointer} : {type}", f"  tile.store %{pointer}, %{value}"]
    lines += [_atomic(pointer, value, type, kind) for kind in KINDS[2:]]
    return "\n".join(lines)


def _atomic(pointer: str, value: str, type: str, kind: str) -> str:
    order, scope = ("acq_rel", "cta") if kind == "cta" else (kind, "gpu")
    attributes = f'order = "{order}", scope = "{scope}"'
    return f"  %{type}{kind} = tile.atomic %{pointer}, %{value} {{{attributes}}} : {type}"


MODULE = parse_module(
    "kernel @all(%p: ptr<i32>, %q: ptr<i64>, %v: i32, %w: i64) {\n"
    + _ops("p", "v", "i32")
    + "\n"
    + _ops("q", "w", "i64")
    + "\n  tile.return\n}\n"
)
OPS = dict(
    zip([(kind, wide) for wide in (False, True) for kind in KINDS], MODULE.body.ops, strict=False)
)


@dataclass
class Event:
    """One access: by whom, how, to which words; `before` are the accesses it comes after."""

    program: int
    kind: str
    words: frozenset[int]
    before: set[int] = field(default_factory=set)

    @property
    def writes(self) -> bool:
        return self.kind != "load"

    @property
    def strong(self) -> bool:
        return self.kind not in ("load", "store", "cta")


@st.composite
def traces(draw):
    """Draw accesses of three programs to two words, some to both at once."""
    one = st.tuples(st.integers(0, 2), st.sampled_from(KINDS), st.sampled_from((0, 1, 2)))
    return [
        Event(program, kind, frozenset((0, 1) if place == 2 else (place,)))
        for program, kind, place in draw(st.lists(one, max_size=14))
    ]


def first_race(events: list[Event]) -> int | None:
    """Return the first access that an earlier one races with, by the definition."""
    known: dict[int, set[int]] = {}
    released: dict[int, set[int]] = {0: set(), 1: set()}
    for number, event in enumerate(events):
        mine = known.setdefault(event.program, set())
        unordered = set(mine)
        if event.kind in ("acquire", "acq_rel"):
            for word in event.words:
                mine |= released[word]
        for earlier in range(number):
            other = events[earlier]
            # An atomic does not order its own access against writes; it does against reads.
            ordered = unordered if other.writes else mine
            conflict = (
                other.program != event.program
                and other.words & event.words
                and (other.writes or event.writes)
                and not (other.strong and event.strong)
            )
            if conflict and earlier not in ordered:
                return number
        mine.add(number)
        for word in event.words:
            if event.kind in ("store", "cta"):
                released[word] = set()
            elif event.kind in ("release", "acq_rel"):
                released[word] = released[word] | mine
    return None


def first_found(events: list[Event]) -> int | None:
    """Return the first access at which the race finder tells of one."""
    memory = np.zeros(2, np.int32)
    machine = Machine(MODULE, (3,), [memory, memory.view(np.int64), 0, 0])
    races = Races(machine)
    allocation = machine.global_memory.allocations[0]
    for number, event in enumerate(events):
        wide = len(event.words) == 2
        op, size = OPS[event.kind, wide], 8 if wide else 4
        address = np.asarray([allocation.start + 4 * min(event.words)])
        changed = np.zeros(1, bool)
        found = []
        if event.kind != "store":
            found += races.read(op, event.program, allocation, address, size)
        if event.kind != "load":
            found += races.write(op, event.program, allocation, address, size, changed)
        if found:
            return number
    return None


@cases(400)
@given(traces())
def test_the_first_race_is_found_where_the_definition_has_it(events: list[Event]):
    assert first_found(events) == first_race(events)
