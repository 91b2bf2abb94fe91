"""The consumers' part of a kernel: its own work, with products of what lies in rings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.ir import (
    I32,
    Block,
    Op,
    Shared,
    Tile,
    Value,
    element_of,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops import Constant, Elementwise, For
from workbench.targets.nvidia.chip import chip_of
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
)
from workbench.targets.nvidia.passes.channels import (
    Channel,
)
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
)
from workbench.targets.nvidia.passes.ring_loops import read_for
from workbench.targets.nvidia.passes.role_rings import AHEAD, DRAWN, Roles, Turn, flat_turns
from workbench.targets.simt.ops import SharedLoad
from workbench.targets.simt.passes.roles import Carried
from workbench.targets.simt.passes.rounds import reading_from
from workbench.targets.simt.rules import InRegisters, Later


class Consumers:
    """Writes what consumers do: all of the kernel but the loads that a producer makes for them."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles
        self.builder = roles.builder
        #: Operands loaded before all loops that are in registers, by the products' ids.
        self.in_registers: dict[int, Value] = {}

    def write(self) -> Carried | None:
        """Write what the consumers do; returns what they carry from program to program."""
        turns = {key: self.roles.start(0) for key in self.roles.rings}
        carried = None
        if self.roles.persistent:
            carried, turns = self.roles.carried_turns(turns)
        values: dict[Value, Value] = {}
        loops = {id(loop): loop for loop in self.roles.loops}
        gone = {n for c in self.roles.held for load in c.loads for n in (id(load.op), *load.gone)}
        for op in self.roles.module.body.ops[:-1]:
            if id(op) in gone:
                continue
            if id(op) in loops:
                if op is self.roles.loops[0] and self.roles.hold is not None:
                    self.roles.at(op)
                    zero = self.builder.add(Constant(0, I32))
                    self.builder.insert(Arrive(self.roles.hold, zero, warps=self.roles.warps))
                self._wait_for_held(op, turns)
                self._loop(loops[id(op)], turns, values)
                self._give_held_back(op, turns)
            else:
                self._copied(op, values)
        number: tuple[Value, ...] = ()
        if self.roles.drawn:
            turn = turns[DRAWN]
            number = (self.roles.next_program(turn, self.roles.warps),)
            turns[DRAWN] = Turn(*self.roles.next(turn, AHEAD))
        return None if carried is None else replace(carried, yields=(*number, *flat_turns(turns)))

    def _readers(self, channel: Channel) -> list[For]:
        """Return the loops that read what is loaded before all of them."""
        reads = {id(read.op) for load in channel.loads for read in load.reads}
        return [loop for loop in self.roles.loops if any(id(op) in reads for op in loop.body.ops)]

    def _wait_for_held(self, loop: Op, turns: Mapping[Any, Turn]) -> None:
        for channel in self.roles.held:
            if self._readers(channel)[0] is loop:
                self.roles.at(channel.loads[0].op)
                ring, turn = self.roles.rings[channel.key], turns[channel.key]
                self.builder.insert(Await(ring.full, turn.slot, turn.parity))
                self._read_once(channel, turn)

    def _read_once(self, channel: Channel, turn: Turn) -> None:
        """Read what products may have in registers in all rounds, if these suffice."""
        if not self.roles.module.attributes.get("keep_operands", True):
            return
        ring, tiles = self.roles.rings[channel.key], dict[LinearLayout, Value]()
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            for read in load.reads:
                how = self.roles.chip.rules.in_registers_of(read.op)
                if how is None or not (how.operand is read.operand is load.op.result):
                    continue
                if not self._suffice(read.op, how):
                    text = "read from shared memory in each round: registers do not suffice"
                    self.roles.remarks.note(read.op, text, "missed")
                    continue
                assert isinstance(buffer.type, Shared)
                if how.layout not in tiles:
                    type = Tile(shape_of(buffer.type), element_of(buffer.type), how.layout)
                    tiles[how.layout] = self.builder.add(
                        SharedLoad(buffer, turn.slot, type=type), load.op.result.hint
                    )
                self.in_registers[id(read.op)] = tiles[how.layout]

    def _suffice(self, product: Op, how: InRegisters) -> bool:
        """Say whether a thread has registers for an operand beside all else of its loop."""
        loop = next(loop for loop in self.roles.loops if product in loop.body.ops)
        filled = [*self.roles.channels[loop], *self.roles.held]
        read = {place.operand for c in filled for load in c.loads for place in load.reads}
        late = late_product(loop, self.roles.chip.rules)
        if late is None:
            return False
        _, needed = registers_needed(loop, late, read, self.roles.chip.rules, copies=0)
        words = how.layout.registers() * element_of(how.operand.type).itemsize // 4
        return needed + words <= self._registers_there(loop)

    def _registers_there(self, loop: For) -> int:
        registers, warps = loop.decided("registers"), self.roles.warps + loop.decided("warps")
        return registers[1] if registers else chip_of(self.roles.chip).most_registers(warps)

    def _give_held_back(self, loop: Op, turns: dict[Any, Turn]) -> None:
        for channel in self.roles.held:
            if self._readers(channel)[-1] is loop:
                self.roles.at(loop)
                ring, turn = self.roles.rings[channel.key], turns[channel.key]
                self.roles.arrive(ring.empty, turn.slot)
                turns[channel.key] = self.roles.following(channel, turns)

    def _held_fields(self, op: Op, turns: Mapping[Any, Turn]) -> dict[str, Any]:
        """Return how an op reads, in its buffers, what is loaded before all loops."""
        fields: dict[str, Any] = {}
        for channel in self.roles.held:
            ring, turn = self.roles.rings[channel.key], turns[channel.key]
            for load, buffer in zip(channel.loads, ring.buffers, strict=True):
                for read in load.reads:
                    if read.op is op:
                        fields |= read.how.fields(buffer, turn.slot)
        if id(op) in self.in_registers:
            how = self.roles.chip.rules.in_registers_of(op)
            assert how is not None
            fields |= how.fields(self.in_registers[id(op)])
        return fields

    def _loop(self, loop: For, turns: dict[Any, Turn], values: dict[Value, Value]) -> None:
        builder, channels = self.builder, self.roles.channels[loop]
        keys = list(dict.fromkeys(channel.key for channel in channels))
        inner = {key: Turn(Value(I32, "slot"), Value(I32, "parity")) for key in keys}
        going = next((channel for channel in channels if channel.goes_on), None)
        none = builder.add(Constant(-1, I32)) if going is not None else None
        held = Value(I32, "held")
        inside = dict(values)
        with builder.block() as body:
            self._round(loop, turns, inner, held, inside)
            self.roles.at(loop)
            yields = [inside.get(v, v) for v in loop.body.yields]
            for key in keys:
                yields += self.roles.next(inner[key], self.roles.rings[key].slots)
            if going is not None:
                yields.append(inner[going.key].slot)
            builder.insert(loop.body.terminator.changed(values=tuple(yields)))
        flat = [v for key in keys for v in (inner[key].slot, inner[key].parity)]
        inits = [values.get(v, v) for v in loop.inits]
        inits += [v for key in keys for v in (turns[key].slot, turns[key].parity)]
        if going is not None:
            assert none is not None
            flat.append(held)
            inits.append(none)
        bounds = {
            n: values.get(v, v) for n in ("lower", "upper", "step") for v in (getattr(loop, n),)
        }
        block = Block((*loop.body.arguments, *flat), tuple(body))
        new = builder.insert(loop.changed(inits=tuple(inits), body=block, schedule=(), **bounds))
        results = list(new.results)
        count = len(loop.results)
        for number, key in enumerate(keys):
            turns[key] = Turn(results[count + 2 * number], results[count + 2 * number + 1])
        self.roles.at(loop)
        values.update(zip(loop.results, results, strict=False))
        if going is not None:
            place = loop.body.yields.index(going.product.result)
            waited = self._later(going.product).waited(results[place], 0)
            values[loop.results[place]] = builder.add(waited, loop.results[place].hint)
            self._give_back(self.roles.rings[going.key].empty, results[-1])

    def _round(
        self, loop: For, turns: Mapping[Any, Turn], inner: Mapping[Any, Turn], held: Value,
        inside: dict[Value, Value],
    ) -> None:  # fmt: skip
        """Write what consumers do in a round; `inside` becomes what stands for values in it."""
        builder, channels = self.builder, self.roles.channels[loop]
        late = self._late(loop, channels)
        by_product = {id(channel.product): channel for channel in channels}
        gone = {n for c in channels for load in c.loads for n in (id(load.op), *load.gone)}
        users = {
            id(user.op): (channel, number, user)
            for channel in channels
            for number, load in enumerate(channel.loads)
            for user in load.users
        }
        ends = {id(user.end) for _, _, user in users.values()}
        computed = {
            id(load.op): (channel, number)
            for channel in channels
            for number, load in enumerate(channel.loads)
            if load.whole
        }
        awaited: set[int] = set()
        for op in loop.body.ops[:-1]:
            if id(op) in computed:
                channel, number = computed[id(op)]
                turn, buffer = inner[channel.key], self.roles.rings[channel.key].buffers[number]
                self._await(channel, turn, awaited)
                self.roles.at(op)
                assert isinstance(op.result.type, Tile)
                read = SharedLoad(buffer, turn.slot, type=op.result.type)
                inside[op.result] = builder.add(read, op.result.hint)
                continue
            if id(op) in gone:
                continue
            if id(op) in users:
                channel, number, user = users[id(op)]
                turn, buffer = inner[channel.key], self.roles.rings[channel.key].buffers[number]
                self._await(channel, turn, awaited)
                load = channel.loads[number].op
                inside[op.result] = read_for(user, load, buffer, turn.slot, self.builder)
            elif id(op) in ends:
                inside[op.result] = inside[op.operands[0]]
            else:
                fields = self._held_fields(op, turns)
                if id(op) not in by_product:
                    self._copied(op, inside, fields)
                    continue
                if op is late:
                    fields |= self._later(op).started(1)
                channel = by_product[id(op)]
                self._await(channel, inner[channel.key], awaited)
                self._multiply(op, channel, inner[channel.key], held, inside, fields)

    def _late(self, loop: For, channels: list[Channel]) -> Op | None:
        """Return the product that is started a round later, if one is: its slot is held longer."""
        options = self.roles.module.attributes
        late = late_product(loop, self.roles.chip.rules)
        if late is None:
            return None
        slots = min(load.box.slots for channel in channels for load in channel.loads)
        filled = [*channels, *self.roles.held]
        read = {place.operand for c in filled for load in c.loads for place in load.reads}
        reason = obstacle(late, read, self.roles.chip.rules)
        _, needed = registers_needed(loop, late, read, self.roles.chip.rules, copies=0)
        most = self._registers_there(loop)
        if not reason and needed > most:
            reason = f"{needed} registers needed, {most} there"
        if not reason and slots < 2:
            reason = f"rings of {slots} slots hold one round"
        if not options.get("overlap", True):
            reason = "overlap=False"
        if reason:
            self.roles.remarks.note(late.product, f"overlap dropped: {reason}", "missed")
        return None if reason else late.product

    def _await(self, channel: Channel, turn: Turn, awaited: set[int]) -> None:
        """Wait for a slot of a channel, if nobody has in this round."""
        if id(channel) not in awaited:
            awaited.add(id(channel))
            self.roles.at(channel.product)
            self.builder.insert(Await(self.roles.rings[channel.key].full, turn.slot, turn.parity))

    def _multiply(
        self, op: Op, channel: Channel, turn: Turn, held: Value, values: dict[Value, Value],
        given: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Multiply what is in a slot, and give back the slot that has been read."""
        builder, ring = self.builder, self.roles.rings[channel.key]
        self.roles.at(op)
        fields = {"role": "consumer", **given}
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            for read in load.reads:
                fields |= read.how.fields(buffer, turn.slot)
        if channel.goes_on:
            later = self._later(op)
            fields |= later.going(1)
            if any(later.held in load.held for load in channel.loads):
                fields |= later.in_parts(2)
        new = builder.insert(reading_from(op, values, fields))
        values.update(zip(op.results, new.results, strict=True))
        if channel.goes_on:
            self._give_back(ring.empty, held)
        else:
            self.roles.arrive(ring.empty, turn.slot)

    def _later(self, product: Op) -> Later:
        later = self.roles.known.rules.later_of(product)
        assert later is not None
        return later

    def _give_back(self, empty: Value, slot: Value) -> None:
        """Arrive for a slot that was read, if there was one."""
        builder = self.builder
        zero = builder.add(Constant(0, I32))
        was = builder.add(Elementwise("ge", (slot, zero)))
        self.roles.arrive(empty, slot, was)

    def _copied(
        self, op: Op, values: dict[Value, Value], given: Mapping[str, Any] | None = None
    ) -> None:
        new = reading_from(op, values, given)
        self.builder.insert(new)
        if new is not op:
            values.update(zip(op.results, new.results, strict=True))
