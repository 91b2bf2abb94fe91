"""The protocol of a kernel's roles, checked over every interleaving.

What a role does with barriers, slots and products follows from numbers alone, so `record` runs each
role by itself, waits left aside, and writes down its steps: a straight program. `explore` then goes
through all states that a producer and so many groups of consumers can be in, breadth first. Each
box lands, and each product ends, whenever it likes. A slot holds, box by box, the number of the
fill that is in it; a consumer's n-th product over a buffer must read its n-th fill, of one with a
single slot the fill that was waited for last. So must its n-th read of a buffer to registers.

What it finds: waits that nobody ends, slots overwritten while they are read, products over what has
not landed or is gone, barriers that get more arrivals than a phase has, copies under way at the
end, arrivals at blocks that have ended. What it does not know: which warps of a consumer arrive,
and memory beside the rings.

Blocks of a cluster are recorded each by itself, too, and explored together: slots lie in as many
parts as there are blocks, and an arrival or a copy may reach another's barriers and slots. What
they copy together has to be one box for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np

from workbench.interpreter.machine import Machine
from workbench.interpreter.program import ProgramFrame
from workbench.ir import Array, Block, Module, Op, Shared, Value
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    AwaitTurn,
    Barriers,
    Draw,
    Drawn,
    Expect,
    PassTurn,
    ScaleProducts,
    TensorCopy,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.simt.ops import SharedLoad

LIMIT = 300_000
MIXED = "blocks copy parts of different boxes into one slot"
#: A ring of barriers or of buffers (a number), and one of its places.
Place = tuple[int, int]
#: In the place of a ring: the barriers of groups that take turns, each arrived at by one group.
_TURNS = -1


@dataclass
class Protocol:
    """Steps of a producer and of one consumer, and how often barriers are arrived at per phase."""

    producer: list[tuple[Any, ...]] = field(default_factory=list)
    consumer: list[tuple[Any, ...]] = field(default_factory=list)
    arrivals: dict[int, int] = field(default_factory=dict)
    groups: int = 1
    #: The blocks of its cluster.
    blocks: int = 1


class _Recorder(ProgramFrame):
    """Runs one program, each role by itself; nobody waits."""

    def __init__(self, machine: Machine, protocol: Protocol, block: int) -> None:
        super().__init__(machine, (0, 0, 0))
        self.number = self.block = block
        self.protocol = protocol
        self.noted: list[Any] = []
        self.rings: dict[Value, int] = {}
        #: The barriers that count a buffer's copies, and how often barriers were waited at.
        self.full: dict[Value, Value] = {}
        self.waits: dict[Value, int] = {}
        #: The programs that have been drawn, of which each role has read so many.
        self.drawn: list[int] = []
        self.known = 0

    def part(self, op: Op, regions: Any) -> None:
        del op
        for steps, region in zip(
            (self.protocol.producer, self.protocol.consumer), regions.values(), strict=True
        ):
            self.noted, self.waits, self.known = steps, {}, 0
            self.run(region, ())

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        self.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, AwaitTurn | PassTurn):
                self.noted.append(("turn", isinstance(op, AwaitTurn), getattr(op, "first", False)))
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
                self.noted.append(self.step(op))
            return None
        if isinstance(op, Await):
            self.waits[op.barriers] = self.waits.get(op.barriers, 0) + 1
            self.noted.append(("wait", self.place(op.barriers, op.turn), int(self[op.parity]) & 1))
            return None
        if isinstance(op, Draw):
            self.drawn.append(self.draw())
            self.noted.append(("draw", self.place(op.buffer, op.slot)))
            return None
        if isinstance(op, Drawn):
            self.noted.append(("read", ((self.place(op.buffer, op.slot), None),)))
            self.known += 1
            return self.drawn[self.known - 1]
        if isinstance(op, SharedLoad) and op.buffer in self.full and op.slot is not None:
            self.noted.append(("read", ((self.place(op.buffer, op.slot), self.fill(op.buffer)),)))
        if isinstance(op, WarpgroupDot):
            pairs = ((op.a, op.slot_a), (op.b, op.slot_b))
            reads = tuple(
                (self.place(v, slot), self.fill(v))
                for v, slot in pairs
                if isinstance(v.type, Shared) and slot
            )
            self.noted += [("product", reads), ("products", op.in_flight)]
            return self[op.accumulator]
        if isinstance(op, WaitProducts | ScaleProducts):
            self.noted.append(("products", op.pending))
            return self[op.accumulator]
        return op.interpret(self)  # type: ignore[arg-type]

    def step(self, op: Arrive | Expect | TensorCopy) -> tuple[Any, ...]:
        where = self.place(op.barriers, op.turn)
        if isinstance(op, Expect):
            return ("expect", where, op.bytes)
        self.protocol.blocks = max(self.protocol.blocks, op.blocks)
        every, mine = range(op.blocks), self.block % op.blocks
        if isinstance(op, Arrive):
            total = prod(map(self.num_programs, range(3)))
            peers = [mine ^ bits if self.number ^ bits < total else mine for bits in every]
            return ("arrive", where, op.warps or 1, peers)
        assert op.slot is not None
        self.full[op.buffer] = op.barriers
        together = bool(self.get(op.together, default=False))
        parts = [(peer, mine) if together else (mine, peer) for peer in every]
        assert op.map.op is not None
        box = (op.map.op.id, *(tuple(np.ravel(self[v]).tolist()) for v in op.coordinates))
        slot = self.place(op.buffer, op.slot)
        return ("copy", where, slot, op.bytes // op.blocks, parts, box if together else None)

    def fill(self, buffer: Value) -> int | None:
        """Return which fill of a buffer with one slot a product reads; None of a ring."""
        assert isinstance(buffer.type, Shared)
        return self.waits.get(self.full[buffer], 0) - 1 if buffer.type.slots == 1 else None

    def ring(self, value: Value) -> int:
        return self.rings.setdefault(value, len(self.rings))

    def place(self, value: Value, turn: Value) -> Place:
        return self.ring(value), int(self[turn])


def record(
    module: Module, arguments: Sequence[Any], groups: int, grid: Sequence[int] = (1,),
    block: int = 0, blocks: int = 1,
) -> Protocol:  # fmt: skip
    """Return the protocol of a kernel whose consumers are so many groups of warps.

    A block that stays takes what one of so many takes of the grid: the whole.
    """
    protocol = Protocol(groups=groups)
    machine = Machine(module, grid, arguments)
    machine.blocks = blocks
    with np.errstate(all="ignore"):
        _Recorder(machine, protocol, block).run(module.body, ())
    return protocol


class WrongError(Exception):
    """What an interleaving does that must not be."""


class _State(NamedTuple):
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
    def __init__(self, *protocols: Protocol) -> None:
        self.arrivals: list[int] = []
        self.barriers: dict[tuple[int, Place], int] = {}
        self.home: list[int] = []
        self.slots: dict[tuple[int, Place, int], int] = {}
        #: Of each fill that blocks copy together: the boxes of which they copy parts.
        self.together: dict[tuple[Place, int], set[tuple[Any, ...]]] = {}
        (first, *_) = protocols
        self.parts, self.groups = first.blocks, first.groups
        self.arrivals_of = first.arrivals
        #: Producers, then consumers of one block after the other.
        self.producers = len(protocols)
        self.roles = [self._numbered(n, one.producer) for n, one in enumerate(protocols)]
        for n, one in enumerate(protocols):
            steps = self._numbered(n, one.consumer)
            self.roles += [self._in_turns(n, group, steps) for group in range(self.groups)]

    def _numbered(self, block: int, steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return steps with barriers and slots as numbers, copies and products with their fills."""
        found: list[tuple[Any, ...]] = []
        fills: dict[tuple[int, bool], int] = {}

        def fill(ring: int, *, fills_it: bool = False) -> int:
            fills[ring, fills_it] = fills.get((ring, fills_it), -1) + 1
            return fills[ring, fills_it]

        for kind, *rest in steps:
            if kind in ("product", "read"):
                reads = [
                    (place, fill(place[0]) if known is None else known) for place, known in rest[0]
                ]
                found.append((kind, tuple(
                    (self._slot(block, place, part), known)
                    for place, known in reads for part in range(self.parts)
                )))  # fmt: skip
            elif kind == "products":
                found.append((kind, rest[0]))
            elif kind == "turn":
                found.append((kind, *rest))
            elif kind == "copy":
                where, slot, size, parts, box = rest
                number = fill(slot[0], fills_it=True)
                if box is not None:
                    self.together.setdefault((slot, number), set()).add(box)
                found.append((kind, [
                    (self._slot(at, slot, part), number, self._barrier(at, where), size)
                    for at, part in parts
                ]))  # fmt: skip
            elif kind == "draw":
                (slot,) = rest
                number = fill(slot[0], fills_it=True)
                parts = range(self.parts)
                found.append((kind, [self._slot(block, slot, part) for part in parts], number))
            elif kind == "arrive":
                where, times, peers = rest
                found.append((kind, [self._barrier(at, where) for at in peers], times))
            else:
                found.append((kind, self._barrier(block, rest[0]), rest[1]))
        return found

    def _in_turns(
        self, block: int, group: int, steps: list[tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        """Return a group's steps, in which turns are waits and arrivals at barriers of groups."""
        found: list[tuple[Any, ...]] = []
        turns = 0
        for kind, *rest in steps:
            if kind != "turn":
                found.append((kind, *rest))
                continue
            waits, first = rest
            if waits:
                found.append(("wait", self._barrier(block, (_TURNS, group)), turns & 1))
                turns += 1
            elif not first or group == self.groups - 1:
                following = self._barrier(block, (_TURNS, (group + 1) % self.groups))
                found.append(("arrive", [following], 1))
        return found

    def _barrier(self, block: int, place: Place) -> int:
        key = block, place
        if key not in self.barriers:
            self.barriers[key] = len(self.arrivals)
            self.arrivals.append(self.arrivals_of.get(place[0], 1))
            self.home.append(block)
        return self.barriers[key]

    def _slot(self, block: int, place: Place, part: int) -> int:
        return self.slots.setdefault((block, place, part), len(self.slots))

    def is_mixed(self) -> bool:
        """Say whether blocks copy parts of different boxes into one slot."""
        return any(len(boxes) > 1 for boxes in self.together.values())

    def explore(self) -> tuple[str, int]:
        if self.is_mixed():
            return MIXED, 0
        start = self.start()
        seen, queue = {start}, deque([start])
        while queue:
            state = queue.popleft()
            stuck = True
            try:
                for after in self.successors(state):
                    stuck, known = False, len(seen)
                    seen.add(after)
                    if len(seen) > known:
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

    def walk(self, seed: int) -> str:
        """Return "ok" or what goes wrong in one interleaving."""
        choice, state = Random(seed), self.start()
        while True:
            try:
                after = list(self.successors(state))
            except WrongError as wrong:
                return str(wrong)
            if not after:
                if not self.ended(state):
                    return "deadlock"
                return "a copy is under way at the end" if state.copies else "ok"
            state = choice.choice(after)

    def start(self) -> _State:
        return _State(
            (0,) * len(self.roles), tuple((0, count, 0) for count in self.arrivals),
            (-1,) * len(self.slots), frozenset(),
            ((),) * (len(self.roles) - self.producers),
        )  # fmt: skip

    def ended(self, state: _State) -> bool:
        return all(at == len(steps) for at, steps in zip(state.at, self.roles, strict=True))

    def is_over(self, state: _State, block: int) -> bool:
        first = self.producers + block * self.groups
        own = (block, *range(first, first + self.groups))
        return all(state.at[role] == len(self.roles[role]) for role in own)

    def successors(self, state: _State) -> Iterator[_State]:
        early = self.unseen(state)
        if early is not None:
            yield early
            return
        for role, steps in enumerate(self.roles):
            if state.at[role] < len(steps):
                after = self.step(state, role, steps[state.at[role]])
                if after is not None:
                    yield after
        for copy in state.copies:
            slot, fill, barrier, size = copy
            yield _State(
                state.at, self._counted(state.barriers, barrier, 0, -size),
                _put(state.slots, slot, fill), state.copies - {copy}, state.products,
            )  # fmt: skip
        for group, queue in enumerate(state.products):
            if queue:
                self.check(state, queue[0], "a slot changes under a product")
                left = _put(state.products, group, queue[1:])
                yield _State(state.at, state.barriers, state.slots, state.copies, left)

    def unseen(self, state: _State) -> _State | None:
        """Return the state after a wait for products that have ended; None if there is none.

        Such a step touches nothing and stays possible, and nobody else's step asks for it but the
        last, by which a block ends: every interleaving has one with the same steps and verdict
        that takes it first, so it alone is looked at (a persistent set).
        """
        for role, steps in enumerate(self.roles[self.producers :], self.producers):
            at = state.at[role]
            if at + 1 < len(steps) and steps[at][0] == "products":
                after = self.step(state, role, steps[at])
                if after is not None:
                    return after
        return None

    def step(self, state: _State, role: int, step: tuple[Any, ...]) -> _State | None:
        """Return the state after a role's step; None if it has to wait."""
        kind, *rest = step
        barriers, slots, copies = state.barriers, state.slots, state.copies
        products, group = state.products, role - self.producers
        if kind == "wait":
            if barriers[rest[0]][0] == rest[1]:
                return None
        elif kind == "expect":
            barriers = self._counted(barriers, rest[0], 1, rest[1])
        elif kind == "arrive":
            barriers = self._arrived(state, group, *rest)
        elif kind in ("copy", "draw"):
            slots, copies = self._filled(state, kind, *rest)
        elif kind in ("product", "read"):
            self.check(state, rest[0], f"a {kind} of a slot that does not hold its fill")
            if kind == "product":
                products = _put(products, group, (*products[group], rest[0]))
        elif len(products[group]) > rest[0]:
            return None
        return _State(_put(state.at, role, state.at[role] + 1), barriers, slots, copies, products)

    def _filled(
        self, state: _State, kind: str, places: Sequence[Any], number: int = 0
    ) -> tuple[tuple[int | None, ...], frozenset[Any]]:
        """Return the slots after a copy has been started, or a number stored; copies under way."""
        slots, copies = state.slots, state.copies
        if kind == "draw":
            for slot in places:
                slots = _put(slots, slot, number)
            return slots, copies
        read = {slot for queue in state.products for reads in queue for slot, _ in reads}
        for slot, fill, barrier, size in places:
            _check_free(slots, slot, read)
            slots, copies = _put(slots, slot, None), copies | {(slot, fill, barrier, size)}
        return slots, copies

    def _arrived(
        self, state: _State, group: int, at: Sequence[int], warps: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Return the barriers after arrivals; each group of consumers makes its share of them."""
        times = warps // self.groups if group >= 0 and warps > 1 else warps
        barriers = state.barriers
        for barrier in at:
            if self.is_over(state, self.home[barrier]):
                raise WrongError("an arrival at a block that has ended")
            barriers = self._counted(barriers, barrier, times, 0)
        return barriers

    def check(self, state: _State, reads: Sequence[tuple[int, int]], what: str) -> None:
        for slot, fill in reads:
            if state.slots[slot] != fill:
                raise WrongError(f"{what}: {state.slots[slot]}, not {fill}")

    def _counted(
        self, barriers: tuple[tuple[int, int, int], ...], number: int, arrived: int, size: int
    ) -> tuple[tuple[int, int, int], ...]:
        phase, missing, bytes_ = barriers[number]
        missing, bytes_ = missing - arrived, bytes_ + size
        if missing < 0:
            raise WrongError("a phase gets more arrivals than it has")
        now = (phase, missing, bytes_)
        if not missing and not bytes_:
            now = (phase ^ 1, self.arrivals[number], 0)
        return _put(barriers, number, now)


def _check_free(slots: Sequence[int | None], slot: int, read: set[int]) -> None:
    if slot in read:
        raise WrongError("a copy overwrites a slot while a product reads it")
    if slots[slot] is None:
        raise WrongError("a slot is filled again before its copy has landed")


def _put(held: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*held[:place], value, *held[place + 1 :])


def explore(*protocols: Protocol) -> tuple[str, int]:
    """Return ("ok" or what goes wrong in some interleaving, the states that were looked at).

    Of one block, or of those of a cluster.
    """
    return _Explorer(*protocols).explore()


def walks(count: int, *protocols: Protocol) -> set[str]:
    """Return what comes of so many interleavings, where all would be too many."""
    explorer = _Explorer(*protocols)
    if explorer.is_mixed():
        return {MIXED}
    return {explorer.walk(seed) for seed in range(count)}
