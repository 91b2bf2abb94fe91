"""Rings in shared memory between a producer and consumers, and where in them each role is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.ir import (
    I32,
    Builder,
    Module,
    Op,
    Shared,
    Value,
)
from workbench.ops import Constant, Elementwise, For, Select
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Drawn,
)
from workbench.targets.nvidia.passes.channels import (
    Channel,
    Load,
    channels_of,
    held_of,
)
from workbench.targets.simt.copying import Box
from workbench.targets.simt.ops import SharedAllocate
from workbench.targets.simt.passes.roles import Carried
from workbench.targets.simt.passes.staged_loads import Known
from workbench.targets.simt.rules import Device

#: The ring in which numbers of programs are handed over, and its slots: a producer that has drawn
#: one may be copying for it while consumers have yet to ask for the one before.
DRAWN, AHEAD = ("drawn",), 2


@dataclass
class Ring:
    """What a channel has in shared memory."""

    buffers: tuple[Value, ...]
    full: Value
    empty: Value
    slots: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Where in a ring a role is."""

    slot: Value
    parity: Value


class Roles:
    """What the code of a producer and that of consumers share: the rings, and what was decided.

    Ops are written where `builder` stands.
    """

    def __init__(self, module: Module, loops: list[For], chip: Device, remarks: Remarks) -> None:
        self.module = module
        self.loops = loops
        self.chip = chip
        self.remarks = remarks
        self.rings: dict[tuple[object, ...], Ring] = {}
        #: Tensor maps for copies that lie as the rings do, by the loads' map and buffer.
        self.maps: dict[tuple[Value, Shared], Value] = {}
        #: What a producer waits for behind its first copy: consumers have what they begin with.
        self.hold: Value | None = None
        self.known = Known(module, chip)
        self.channels = {loop: self._channels_of(loop) for loop in loops}
        self.rounds: int = loops[0].decided("persistent") or 0
        self.persistent = self.rounds > 0
        self.blocks: int = loops[0].decided("blocks") or 1
        self.drawn = bool(loops[0].decided("drawn"))
        self.held = held_of(module, loops, self.known) if self.persistent else []
        self.warps: int = module.attributes["num_warps"]
        self.builder = Builder(module.next_id)

    def _channels_of(self, loop: For) -> list[Channel]:
        flight = bool(loop.decided("in_flight"))
        return [
            replace(channel, goes_on=channel.goes_on and flight)
            for channel in channels_of(loop, self.known)
        ]

    def at(self, op: Op) -> None:
        """Have what is written from now on count as an op's."""
        self.builder.span, self.builder.origins = op.span, (op.id,)

    def _map(self, load: Load) -> None:
        """Have what copies into a ring read: a tensor map whose boxes lie as the buffer does."""
        if (load.box.source, load.buffer) not in self.maps:
            self.at(load.op)
            box = self.box(load)
            self.maps[load.box.source, load.buffer] = box.prepare(self.builder, load.buffer)

    def box(self, load: Load) -> Box:
        """Return how a load is copied: by all blocks of a cluster, where that is decided."""
        box = load.box.shared(load.buffer, self.blocks) if self.blocks > 1 else load.box
        assert box is not None
        return box

    def make(self, loop: For, channel: Channel) -> None:
        """Make the ring of a channel, and what copies into it read."""
        for load in channel.loads:
            self._map(load)
        if channel.key in self.rings:
            return
        builder, slots = self.builder, channel.loads[0].box.slots
        buffers: list[Value] = []
        for load in channel.loads:
            self.at(load.op)
            ring = replace(load.buffer, slots=slots)
            buffers.append(builder.add(SharedAllocate(type=ring), load.op.result.hint))
        self.at(loop)
        full = builder.add(Barriers(slots), "full")
        empty = builder.add(Barriers(slots, arrivals=self.warps * self.blocks), "empty")
        self.rings[channel.key] = Ring(tuple(buffers), full, empty, slots)

    def make_numbers(self) -> None:
        """Make the ring of numbers of programs, which all warps of the block read."""
        builder = self.builder
        ring = Shared((1,), I32, None, AHEAD)
        buffer = builder.add(SharedAllocate(type=ring), "number")
        full = builder.add(Barriers(AHEAD), "full")
        readers = self.warps + self.loops[0].decided("warps")
        empty = builder.add(Barriers(AHEAD, arrivals=readers), "empty")
        self.rings[DRAWN] = Ring((buffer,), full, empty, AHEAD)

    def next_program(self, turn: Turn, warps: int) -> Value:
        """Return the number of the next program, once it has been drawn, to so many warps."""
        builder, ring = self.builder, self.rings[DRAWN]
        builder.insert(Await(ring.full, turn.slot, turn.parity))
        number = builder.add(Drawn(ring.buffers[0], turn.slot), "next")
        builder.insert(Arrive(ring.empty, turn.slot, warps=warps))
        return number

    def arrive(self, empty: Value, slot: Value, when: Value | None = None) -> None:
        """Give a slot back to all who fill it."""
        self.builder.insert(Arrive(empty, slot, when, warps=self.warps, blocks=self.blocks))

    # -- turns ----------------------------------------------------------------------------
    def carried_turns(self, turns: dict[Any, Turn]) -> tuple[Carried, dict[Any, Turn]]:
        """Return how turns go on from program to program, and what they are in one.

        The number of the next program comes first, where it is drawn.
        """
        inner = {key: Turn(Value(I32, "slot"), Value(I32, "parity")) for key in turns}
        none = (self.builder.add(Constant(0, I32)),) if self.drawn else ()
        arguments = (*(Value(I32, "number") for _ in none), *flat_turns(inner))
        inits = (*none, *flat_turns(turns))
        return Carried(inits, arguments, (), self.rounds, self.blocks, self.drawn), inner

    def start(self, parity: int) -> Turn:
        """Return the first turn: that of slot 0, in the phase of a parity."""
        builder = self.builder
        return Turn(builder.add(Constant(0, I32)), builder.add(Constant(parity, I32)))

    def following(self, channel: Channel, turns: Mapping[Any, Turn]) -> Turn:
        """Return the turn after this one of what is loaded once for a program."""
        turn, slots = turns[channel.key], self.rings[channel.key].slots
        if slots > 1:
            return Turn(*self.next(turn, slots))
        one = self.builder.add(Constant(1, I32))
        return Turn(turn.slot, self.builder.add(Elementwise("xor", (turn.parity, one))))

    def next(self, turn: Turn, slots: int) -> list[Value]:
        """Return the next slot and the parity that it has."""
        builder = self.builder
        one, zero = builder.add(Constant(1, I32)), builder.add(Constant(0, I32))
        count = builder.add(Constant(slots, I32))
        following = builder.add(Elementwise("add", (turn.slot, one), no_wrap=True))
        past = builder.add(Elementwise("ge", (following, count)))
        other = builder.add(Elementwise("xor", (turn.parity, one)))
        return [
            builder.add(Select(past, zero, following)),
            builder.add(Select(past, other, turn.parity)),
        ]


def flat_turns(turns: Mapping[Any, Turn]) -> tuple[Value, ...]:
    """Return turns as values one after the other."""
    return tuple(value for turn in turns.values() for value in (turn.slot, turn.parity))
