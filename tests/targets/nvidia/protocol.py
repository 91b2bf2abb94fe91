"""The protocol of a kernel's roles, checked over every interleaving.

What a role does with barriers, slots and products follows from numbers alone, so `record` runs each
role by itself, waits left aside, and writes down its steps: a straight program. `explore` then goes
through all states that a producer and so many groups of consumers can be in, breadth first. Each
box lands, and each product ends, whenever it likes. A slot holds, box by box, the number of the
fill that is in it; a consumer's n-th product over a buffer must read its n-th fill, of one with a
single slot the fill that was waited for last. So must its n-th read of a buffer to registers.

What it finds: waits that nobody ends, slots overwritten while they are read, products over what has
not landed or is gone, barriers that get more arrivals than a phase has, copies under way at the
end. What it does not know: which warps of a consumer arrive, and memory beside the rings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.interpreter.machine import Machine
from workbench.interpreter.program import ProgramFrame
from workbench.ir import Array, Block, Module, Op, Shared, Value
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Expect,
    ScaleProducts,
    TensorCopy,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.simt.ops import SharedLoad

LIMIT = 300_000
#: A ring of barriers or of buffers (a number), and one of its places.
Place = tuple[int, int]


@dataclass
class Protocol:
    """Steps of a producer and of one consumer, and how often barriers are arrived at per phase."""

    producer: list[tuple[Any, ...]] = field(default_factory=list)
    consumer: list[tuple[Any, ...]] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)
    groups: int = 1


class _Recorder(ProgramFrame):
    """Runs one program, each role by itself; nobody waits."""

    def __init__(self, machine: Machine, protocol: Protocol) -> None:
        super().__init__(machine, (0, 0, 0))
        self.protocol = protocol
        self.steps: list[Any] = []
        self.rings: dict[Value, int] = {}
        #: The barriers that count a buffer's copies, and how often barriers were waited at.
        self.full: dict[Value, Value] = {}
        self.waits: dict[Value, int] = {}

    def part(self, op: Op, regions: Any) -> None:
        del op
        for steps, region in zip(
            (self.protocol.producer, self.protocol.consumer), regions.values(), strict=True
        ):
            self.steps, self.waits = steps, {}
            self.run(region, ())

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        self.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            results = self.note(op)
            if not isinstance(results, tuple):
                results = (results,) * len(op.results)
            for value, array in zip(op.results, results, strict=True):
                self.values[value] = np.asarray(array)
        return tuple(self.values[value] for value in block.ops[-1].operands)

    def note(self, op: Op) -> Any:
        """Write down a step; run what is none."""
        if isinstance(op, Barriers):
            self.protocol.arrivals[self.ring(op.result)] = op.arrivals
            return op.interpret(self)  # type: ignore[arg-type]
        if isinstance(op, Arrive | Expect | TensorCopy):
            if self.get(op.when, True):
                self.steps.append(self.step(op))
            return None
        if isinstance(op, Await):
            self.waits[op.barriers] = self.waits.get(op.barriers, 0) + 1
            self.steps.append(("wait", self.place(op.barriers, op.turn), int(self[op.parity]) & 1))
            return None
        if isinstance(op, SharedLoad) and op.buffer in self.full and op.slot is not None:
            self.steps.append(("read", ((self.place(op.buffer, op.slot), self.fill(op.buffer)),)))
        if isinstance(op, WarpgroupDot):
            pairs = ((op.a, op.slot_a), (op.b, op.slot_b))
            reads = tuple(
                (self.place(v, slot), self.fill(v))
                for v, slot in pairs
                if isinstance(v.type, Shared) and slot
            )
            self.steps += [("product", reads), ("products", op.in_flight)]
            return self[op.accumulator]
        if isinstance(op, WaitProducts | ScaleProducts):
            self.steps.append(("products", op.pending))
            return self[op.accumulator]
        return op.interpret(self)  # type: ignore[arg-type]

    def step(self, op: Arrive | Expect | TensorCopy) -> tuple[Any, ...]:
        where = self.place(op.barriers, op.turn)
        if isinstance(op, Arrive):
            return ("arrive", where, op.warps or 1)
        if isinstance(op, Expect):
            return ("expect", where, op.bytes)
        assert op.slot is not None
        self.full[op.buffer] = op.barriers
        return ("copy", where, self.place(op.buffer, op.slot), op.bytes)

    def fill(self, buffer: Value) -> int | None:
        """Return which fill of a buffer with one slot a product reads; None of a ring."""
        assert isinstance(buffer.type, Shared)
        return self.waits.get(self.full[buffer], 0) - 1 if buffer.type.slots == 1 else None

    def ring(self, value: Value) -> int:
        return self.rings.setdefault(value, len(self.rings))

    def place(self, value: Value, turn: Value) -> Place:
        return self.ring(value), int(self[turn])


def record(
    module: Module, arguments: Sequence[Any], groups: int, grid: Sequence[int] = (1,)
) -> Protocol:
    """Return the protocol of a kernel whose consumers are so many groups of warps.

    A block that stays takes the whole grid.
    """
    protocol = Protocol(groups=groups)
    machine = Machine(module, grid, arguments)
    machine.blocks = 1
    with np.errstate(all="ignore"):
        _Recorder(machine, protocol).run(module.body, ())
    return protocol


class WrongError(Exception):
    """What an interleaving does that must not be."""


@dataclass(frozen=True)
class _State:
    at: tuple[int, ...]
    #: Of each barrier: parity of its phase, arrivals that are missing, bytes that are missing.
    barriers: tuple[tuple[int, int, int], ...]
    #: Of each slot: the fill that it holds; -1 before the first, None while a copy is under way.
    slots: tuple[int | None, ...]
    #: Copies under way: slot, fill, barrier, bytes.
    copies: frozenset[tuple[int, int, int, int]]
    #: Of each consumer the products under way: (slot, fill) of each operand.
    products: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]


class _Explorer:
    def __init__(self, protocol: Protocol) -> None:
        self.arrivals: list[int] = []
        self.barriers: dict[Place, int] = {}
        self.slots: dict[Place, int] = {}
        self.groups = protocol.groups
        self.arrivals_of = protocol.arrivals
        producer = self._numbered(protocol.producer)
        self.roles = [producer] + [self._numbered(protocol.consumer)] * protocol.groups

    def _numbered(self, steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return steps with barriers and slots as numbers, copies and products with their fills."""
        found: list[tuple[Any, ...]] = []
        fills: dict[int, int] = {}

        def fill(ring: int) -> int:
            fills[ring] = fills.get(ring, -1) + 1
            return fills[ring]

        for kind, *rest in steps:
            if kind in ("product", "read"):
                found.append((kind, tuple(
                    (self._slot(place), fill(place[0]) if known is None else known)
                    for place, known in rest[0]
                )))  # fmt: skip
            elif kind == "products":
                found.append((kind, rest[0]))
            elif kind == "copy":
                where, slot, size = rest
                found.append((kind, self._barrier(where), self._slot(slot), fill(slot[0]), size))
            else:
                found.append((kind, self._barrier(rest[0]), rest[1]))
        return found

    def _barrier(self, place: Place) -> int:
        if place not in self.barriers:
            self.barriers[place] = len(self.arrivals)
            self.arrivals.append(self.arrivals_of[place[0]])
        return self.barriers[place]

    def _slot(self, place: Place) -> int:
        return self.slots.setdefault(place, len(self.slots))

    def explore(self) -> tuple[str, int]:
        start = _State(
            (0,) * len(self.roles), tuple((0, count, 0) for count in self.arrivals),
            (-1,) * len(self.slots), frozenset(), ((),) * self.groups,
        )  # fmt: skip
        seen, queue = {start}, deque([start])
        while queue:
            state = queue.popleft()
            stuck = True
            try:
                for after in self.successors(state):
                    stuck = False
                    if after not in seen:
                        seen.add(after)
                        queue.append(after)
            except WrongError as wrong:
                return str(wrong), len(seen)
            if stuck and any(
                at < len(steps) for at, steps in zip(state.at, self.roles, strict=True)
            ):
                return "deadlock", len(seen)
            if self.ended(state) and state.copies:
                return "a copy is under way at the end", len(seen)
            if len(seen) > LIMIT:
                return "too many states", len(seen)
        return "ok", len(seen)

    def ended(self, state: _State) -> bool:
        return all(at == len(steps) for at, steps in zip(state.at, self.roles, strict=True))

    def successors(self, state: _State) -> Iterator[_State]:
        for role, steps in enumerate(self.roles):
            if state.at[role] < len(steps):
                after = self.step(state, role, steps[state.at[role]])
                if after is not None:
                    yield after
        for copy in state.copies:
            slot, fill, barrier, size = copy
            yield _State(
                state.at, self.counted(state, barrier, 0, -size), _put(state.slots, slot, fill),
                state.copies - {copy}, state.products,
            )  # fmt: skip
        for group, queue in enumerate(state.products):
            if queue:
                self.check(state, queue[0], "a slot changes under a product")
                left = _put(state.products, group, queue[1:])
                yield _State(state.at, state.barriers, state.slots, state.copies, left)

    def step(self, state: _State, role: int, step: tuple[Any, ...]) -> _State | None:
        """Return the state after a role's step; None if it has to wait."""
        kind, *rest = step
        barriers, slots, copies = state.barriers, state.slots, state.copies
        products = state.products
        if kind == "wait":
            if barriers[rest[0]][0] == rest[1]:
                return None
        elif kind == "expect":
            barriers = self.counted(state, rest[0], 1, rest[1])
        elif kind == "arrive":
            # Each group of consumers makes its share of the arrivals.
            times = rest[1] // self.groups if role and rest[1] > 1 else rest[1]
            barriers = self.counted(state, rest[0], times, 0)
        elif kind == "copy":
            barrier, slot, fill, size = rest
            if any(slot == other for queue in products for reads in queue for other, _ in reads):
                raise WrongError("a copy overwrites a slot while a product reads it")
            if slots[slot] is None:
                raise WrongError("a slot is filled again before its copy has landed")
            slots, copies = _put(slots, slot, None), copies | {(slot, fill, barrier, size)}
        elif kind in ("product", "read"):
            self.check(state, rest[0], f"a {kind} of a slot that does not hold its fill")
            begun = (rest[0],) if kind == "product" else ()
            products = _put(products, role - 1, (*products[role - 1], *begun))
        elif len(products[role - 1]) > rest[0]:
            return None
        return _State(_put(state.at, role, state.at[role] + 1), barriers, slots, copies, products)

    def check(self, state: _State, reads: Sequence[tuple[int, int]], what: str) -> None:
        for slot, fill in reads:
            if state.slots[slot] != fill:
                raise WrongError(f"{what}: {state.slots[slot]}, not {fill}")

    def counted(
        self, state: _State, number: int, arrived: int, size: int
    ) -> tuple[tuple[int, int, int], ...]:
        phase, missing, bytes_ = state.barriers[number]
        missing, bytes_ = missing - arrived, bytes_ + size
        if missing < 0:
            raise WrongError("a phase gets more arrivals than it has")
        now = (phase, missing, bytes_)
        if not missing and not bytes_:
            now = (phase ^ 1, self.arrivals[number], 0)
        return _put(state.barriers, number, now)


def _put(held: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*held[:place], value, *held[place + 1 :])


def explore(protocol: Protocol) -> tuple[str, int]:
    """Return ("ok" or what goes wrong in some interleaving, the states that were looked at)."""
    return _Explorer(protocol).explore()
