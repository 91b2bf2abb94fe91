"""The producer's part of a kernel: it copies into rings what consumers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.ir import (
    I32,
    Block,
    Op,
    Value,
    copy_op,
)
from workbench.ops import Constant, Elementwise, For, Yield
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Draw,
    Expect,
    HasPeers,
)
from workbench.targets.nvidia.passes.channels import (
    Channel,
    Load,
    producer_slice,
    read_before,
)
from workbench.targets.nvidia.passes.role_rings import DRAWN, Ring, Roles, Turn, flat_turns
from workbench.targets.simt.passes.roles import each_program

#: What is said of loads where each block copies its own.
NOWHERE: Mapping[int, Value] = {}


class Producer:
    """Writes what the producer does."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.builder = roles.builder

    def write(self) -> None:
        """Write the copies of one program, or of all that a block takes."""
        builder = self.builder
        for op in self.roles.module.body.ops:  # what others have stored is there for copies, too
            if any(effect.is_wait for effect in op.own_effects()):
                builder.insert(copy_op(op, {}, builder))
        turns = {key: self.roles.start(1) for key in self.roles.rings}
        if not self.roles.persistent:
            self._copies(turns)
            return
        begun, inner = self.roles.carried_turns(turns)
        with builder.block() as work:
            self._copies(inner)
            number = self._draw(inner)
        last: tuple[Value, ...] = ()
        for op in each_program(builder, work, replace(begun, yields=(*number, *flat_turns(inner)))):
            last = builder.insert(op).results
        if self.roles.blocks > 1:
            for number, ring in enumerate(self.roles.rings.values()):
                self._until_given_back(ring, Turn(last[2 * number], last[2 * number + 1]))

    def _until_given_back(self, ring: Ring, turn: Turn) -> None:
        """Wait for all slots of a ring: others of the cluster reach for this block until then."""
        builder = self.builder
        zero, one, count = (builder.add(Constant(n, I32)) for n in (0, 1, ring.slots))
        counter, inner = Value(I32, "last"), Turn(Value(I32, "slot"), Value(I32, "parity"))
        with builder.block() as body:
            builder.insert(Await(ring.empty, inner.slot, inner.parity))
            builder.insert(Yield(tuple(self.roles.next(inner, ring.slots))))
        block = Block((counter, inner.slot, inner.parity), tuple(body))
        builder.insert(For(zero, count, one, (turn.slot, turn.parity), block))

    def _draw(self, turns: dict[Any, Turn]) -> tuple[Value, ...]:
        """Draw the next program for all warps once this one's copies have been started.

        Earlier would be further ahead of the consumers: another block may be through before them.
        A slot is full in the phase before that in which it is empty again.
        """
        if not self.roles.drawn:
            return ()
        builder, ring, turn = self.builder, self.roles.rings[DRAWN], turns[DRAWN]
        self.roles.at(self.roles.loops[-1])
        builder.insert(Await(ring.empty, turn.slot, turn.parity))
        builder.insert(Draw(ring.buffers[0], turn.slot))
        builder.insert(Arrive(ring.full, turn.slot))
        one = builder.add(Constant(1, I32))
        full = Turn(turn.slot, builder.add(Elementwise("xor", (turn.parity, one))))
        number = self.roles.next_program(full, self.roles.loops[0].decided("warps"))
        turns[DRAWN] = Turn(*self.roles.next(turn, ring.slots))
        return (number,)

    def _copies(self, turns: dict[Any, Turn]) -> None:
        """Write the producer's loops for one program; `turns` become those after them."""
        builder = self.builder
        for channel in self.roles.held:
            first: dict[Value, Value] = {}
            before, _, _ = producer_slice(
                None, channel.loads, self.roles.module, self.roles.known, persistent=True
            )
            for op in before:
                builder.insert(copy_op(op, first, builder))
            self._fill(channel, turns[channel.key], first)
            turns[channel.key] = self.roles.following(channel, turns)
        for loop in self.roles.loops:
            channels = self.roles.channels[loop]
            loads = [load for channel in channels for load in channel.loads]
            before, within, carried = producer_slice(
                loop, loads, self.roles.module, self.roles.known, persistent=True
            )
            values: dict[Value, Value] = {}
            for op in before:
                builder.insert(copy_op(op, values, builder))
            together = self._together(loop, loads, before, values) if self.roles.blocks > 1 else {}
            keys = list(dict.fromkeys(channel.key for channel in channels))
            arguments = loop.body.arguments
            counter = Value(arguments[0].type, arguments[0].hint)
            own = [Value(arguments[1 + i].type, arguments[1 + i].hint) for i in carried]
            inner = {key: Turn(Value(I32, "slot"), Value(I32, "parity")) for key in keys}
            inside = dict(values)
            inside[arguments[0]] = counter
            inside.update(zip((arguments[1 + i] for i in carried), own, strict=True))
            with builder.block() as body:
                for op in within:
                    builder.insert(copy_op(op, inside, builder))
                for number, channel in enumerate(channels):
                    self._fill(channel, inner[channel.key], inside, together)
                    self.roles.at(loop)
                    if number == 0 and self.roles.hold is not None:
                        zero = builder.add(Constant(0, I32))
                        builder.insert(Await(self.roles.hold, zero, zero))
                yields = [inside.get(v, v) for i in carried for v in (loop.body.yields[i],)]
                for key in keys:
                    yields += self.roles.next(inner[key], self.roles.rings[key].slots)
                builder.insert(Yield(tuple(yields)))
            flat = [v for key in keys for v in (inner[key].slot, inner[key].parity)]
            block = Block((counter, *own, *flat), tuple(body))
            inits = [values.get(loop.inits[i], loop.inits[i]) for i in carried]
            inits += [v for key in keys for v in (turns[key].slot, turns[key].parity)]
            lower, upper, step = (values.get(v, v) for v in (loop.lower, loop.upper, loop.step))
            made = For(
                lower, upper, step, tuple(inits), block, may_wrap=loop.may_wrap, span=loop.span,
                origins=(loop.id,),
            )  # fmt: skip
            results = builder.insert(made).results[len(carried) :]
            for number, key in enumerate(keys):
                turns[key] = Turn(results[2 * number], results[2 * number + 1])

    def _together(
        self, loop: For, loads: Sequence[Load], before: Sequence[Op], values: Mapping[Value, Value]
    ) -> dict[int, Value]:
        """Return whether each load reads the same in all programs of a cluster, by its op.

        It does if what it is computed of is equal there before the loop, whose rounds are as many.
        """
        builder, own = self.builder, {result for op in before for result in op.results}
        others: list[dict[Value, Value]] = []
        for peer in range(1, self.roles.blocks):
            there: dict[Value, Value] = {}
            for op in before:
                other = copy_op(op, there, builder).at_peer(peer)
                assert other is not None
                there.update(zip(op.results, builder.insert(other).results, strict=True))
            others.append(there)
        self.roles.at(loop)
        every = builder.add(HasPeers(self.roles.blocks), "peers")
        found: dict[int, Value] = {}
        for load in loads:
            same = every
            for value in (v for v in read_before(loop, load) if v in own):
                for there in others:
                    equal = builder.add(Elementwise("eq", (values[value], there[value])))
                    same = builder.add(Elementwise("and", (same, equal)))
            found[id(load.op)] = same
        return found

    def _fill(
        self, channel: Channel, turn: Turn, values: dict[Value, Value],
        together: Mapping[int, Value] = NOWHERE,
    ) -> None:  # fmt: skip
        """Wait for an empty slot and start the copies of a round into it."""
        builder, ring = self.builder, self.roles.rings[channel.key]
        self.roles.at(channel.loads[0].op)
        builder.insert(Await(ring.empty, turn.slot, turn.parity))
        total = sum(load.box.bytes(load.buffer) for load in channel.loads)
        builder.insert(Expect(ring.full, turn.slot, bytes=total))
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            self.roles.at(load.op)
            reads = [values.get(v, v) for v in load.box.reads]
            source, counted = self.roles.maps[load.box.source, load.buffer], (ring.full, turn.slot)
            copy = self.roles.box(load).copy(source, reads, (buffer, turn.slot), counted, None)
            same = {"together": held} if (held := together.get(id(load.op))) else {}
            builder.insert(copy.changed(role="producer", stage=-ring.slots, **same))
