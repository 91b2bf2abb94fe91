"""Carries out what role_partition has decided: the producer's loops and the consumers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.ir import (
    I32,
    Block,
    Builder,
    Module,
    Op,
    Shared,
    Tile,
    Value,
    copy_op,
    element_of,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops import Constant, Elementwise, For, Select, Yield, counted_loops
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import chip_of
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    ClusterBarrier,
    Draw,
    Drawn,
    Expect,
    FenceProducts,
    HasPeers,
)
from workbench.targets.nvidia.passes.channels import (
    Channel,
    Load,
    channels_of,
    held_of,
    producer_slice,
    read_before,
)
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
)
from workbench.targets.nvidia.passes.ring_loops import read_for
from workbench.targets.simt.copying import Box
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, SharedLoad
from workbench.targets.simt.passes.roles import Carried, each_program, part_warps
from workbench.targets.simt.passes.rounds import reading_from
from workbench.targets.simt.passes.staged_loads import Known
from workbench.targets.simt.rules import Device, InRegisters, Later

#: What is said of loads where each block copies its own.
NOWHERE: Mapping[int, Value] = {}
#: The ring in which numbers of programs are handed over, and its slots: a producer that has drawn
#: one may be copying for it while consumers have yet to ask for the one before.
_DRAWN, _AHEAD = ("drawn",), 2


@dataclass
class _Ring:
    """What a channel has in shared memory."""

    buffers: tuple[Value, ...]
    full: Value
    empty: Value
    slots: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """Where in a ring a role is."""

    slot: Value
    parity: Value


def expand_roles(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Write the loops of a producer and of the consumers, as `role_partition` has decided.

    Keeps: every value.
    """
    loops = [loop for loop in counted_loops(module.body.ops) if loop.schedule]
    if not loops:
        return module
    return _Expansion(module, loops, chip, remarks).module()


@dataclass
class _Expansion:
    module_: Module
    loops: list[For]
    chip: Device
    remarks: Remarks
    rings: dict[tuple[object, ...], _Ring] = field(default_factory=dict[Any, _Ring])
    #: Tensor maps for copies that lie as the rings do, by the loads' map and buffer.
    maps: dict[tuple[Value, Shared], Value] = field(default_factory=dict[Any, Value])
    #: Operands loaded before all loops that consumers have in registers, by the products' ids.
    in_registers: dict[int, Value] = field(default_factory=dict[int, Value])
    #: What a producer waits for behind its first copy: consumers have what they begin with.
    hold: Value | None = None

    def module(self) -> Module:
        module = self.module_
        self.known = Known(module, self.chip)
        self.channels = {loop: self._channels_of(loop) for loop in self.loops}
        self.rounds: int = self.loops[0].decided("persistent") or 0
        self.persistent = self.rounds > 0
        self.blocks: int = self.loops[0].decided("blocks") or 1
        self.drawn = bool(self.loops[0].decided("drawn"))
        self.held = held_of(module, self.loops, self.known) if self.persistent else []
        self.warps: int = module.attributes["num_warps"]
        self.builder = builder = Builder(module.next_id)
        with builder.block() as first:
            for loop in self.loops:
                for channel in self.channels[loop]:
                    self._ring(loop, channel)
            for channel in self.held:
                self._ring(self.loops[0], channel)
            self._at(self.loops[0])
            if self.drawn:
                self._numbers()
            # Where blocks stay, what comes first for a program comes beside the one before.
            wanted = module.attributes.get("loads_first", True) and not self.persistent
            waited = self._waited_for() if wanted else None
            if waited is not None:
                self.hold = builder.add(Barriers(1, arrivals=self.warps), "hold")
                text = "copies after the first wait for what is loaded before the loop"
                self.remarks.note(waited, text, "applied")
            # Other buffers may have been where rings are, of which threads wrote elements.
            builder.insert(FenceProducts())
            builder.insert(BlockBarrier())
            if self.blocks > 1:
                builder.insert(ClusterBarrier())
        with builder.block() as producer:
            self._producer()
            builder.insert(Yield(()))
        with builder.block() as rest:
            carried = self._consumers()
        *_, end = module.body.ops
        body = (*rest, *first, end)
        module = replace(module, body=Block((), body), next_id=builder.next_id)
        return part_warps(
            module, Block((), tuple(producer)), warps=self.loops[0].decided("warps"),
            registers=self.loops[0].decided("registers"), stays=first, carried=carried,
        )  # fmt: skip

    def _waited_for(self) -> Op | None:
        """Return a load before the first loop whose tile a product of the loop reads, if one does.

        No product starts without it, and it comes by the same way as all that fills rings: it is
        to come before what is not needed as early.
        """
        loop = self.loops[0]
        inside = {*loop.body.arguments, *(v for op in loop.body.ops for v in op.results)}
        work = [v for c in self.channels[loop] for v in c.product.operands if v not in inside]
        seen: set[Value] = set()
        while work:
            value = work.pop()
            op = value.op
            if op is None or value in seen or not isinstance(value.type, Tile) or op.regions:
                continue
            seen.add(value)
            if self.known.rules.access_of(op) is not None:
                return op
            work += op.operands
        return None

    def _channels_of(self, loop: For) -> list[Channel]:
        flight = bool(loop.decided("in_flight"))
        return [
            replace(channel, goes_on=channel.goes_on and flight)
            for channel in channels_of(loop, self.known)
        ]

    def _at(self, op: Op) -> None:
        self.builder.span, self.builder.origins = op.span, (op.id,)

    def _map(self, load: Load) -> None:
        """Have what copies into a ring read: a tensor map whose boxes lie as the buffer does."""
        if (load.box.source, load.buffer) not in self.maps:
            self._at(load.op)
            box = self._box(load)
            self.maps[load.box.source, load.buffer] = box.prepare(self.builder, load.buffer)

    def _box(self, load: Load) -> Box:
        """Return how a load is copied: by all blocks of a cluster, where that is decided."""
        box = load.box.shared(load.buffer, self.blocks) if self.blocks > 1 else load.box
        assert box is not None
        return box

    def _ring(self, loop: For, channel: Channel) -> None:
        for load in channel.loads:
            self._map(load)
        if channel.key in self.rings:
            return
        builder, slots = self.builder, channel.loads[0].box.slots
        buffers: list[Value] = []
        for load in channel.loads:
            self._at(load.op)
            ring = replace(load.buffer, slots=slots)
            buffers.append(builder.add(SharedAllocate(type=ring), load.op.result.hint))
        self._at(loop)
        full = builder.add(Barriers(slots), "full")
        empty = builder.add(Barriers(slots, arrivals=self.warps * self.blocks), "empty")
        self.rings[channel.key] = _Ring(tuple(buffers), full, empty, slots)

    def _numbers(self) -> None:
        """Make the ring of numbers of programs, which all warps of the block read."""
        builder = self.builder
        ring = Shared((1,), I32, None, _AHEAD)
        buffer = builder.add(SharedAllocate(type=ring), "number")
        full = builder.add(Barriers(_AHEAD), "full")
        readers = self.warps + self.loops[0].decided("warps")
        empty = builder.add(Barriers(_AHEAD, arrivals=readers), "empty")
        self.rings[_DRAWN] = _Ring((buffer,), full, empty, _AHEAD)

    def _next_program(self, turn: _Turn, warps: int) -> Value:
        """Return the number of the next program, once it has been drawn, to so many warps."""
        builder, ring = self.builder, self.rings[_DRAWN]
        builder.insert(Await(ring.full, turn.slot, turn.parity))
        number = builder.add(Drawn(ring.buffers[0], turn.slot), "next")
        builder.insert(Arrive(ring.empty, turn.slot, warps=warps))
        return number

    # -- the producer ---------------------------------------------------------------------
    def _producer(self) -> None:
        builder = self.builder
        turns = {key: self._start(1) for key in self.rings}
        if not self.persistent:
            self._copies(turns)
            return
        begun, inner = self._carried_turns(turns)
        with builder.block() as work:
            self._copies(inner)
            number = self._draw(inner)
        last: tuple[Value, ...] = ()
        for op in each_program(builder, work, replace(begun, yields=(*number, *_flat(inner)))):
            last = builder.insert(op).results
        if self.blocks > 1:
            for number, ring in enumerate(self.rings.values()):
                self._until_given_back(ring, _Turn(last[2 * number], last[2 * number + 1]))

    def _until_given_back(self, ring: _Ring, turn: _Turn) -> None:
        """Wait for all slots of a ring: others of the cluster reach for this block until then."""
        builder = self.builder
        zero, one, count = (builder.add(Constant(n, I32)) for n in (0, 1, ring.slots))
        counter, inner = Value(I32, "last"), _Turn(Value(I32, "slot"), Value(I32, "parity"))
        with builder.block() as body:
            builder.insert(Await(ring.empty, inner.slot, inner.parity))
            builder.insert(Yield(tuple(self._next(inner, ring.slots))))
        block = Block((counter, inner.slot, inner.parity), tuple(body))
        builder.insert(For(zero, count, one, (turn.slot, turn.parity), block))

    def _carried_turns(self, turns: dict[Any, _Turn]) -> tuple[Carried, dict[Any, _Turn]]:
        """Return how turns go on from program to program, and what they are in one.

        The number of the next program comes first, where it is drawn.
        """
        inner = {key: _Turn(Value(I32, "slot"), Value(I32, "parity")) for key in turns}
        none = (self.builder.add(Constant(0, I32)),) if self.drawn else ()
        arguments = (*(Value(I32, "number") for _ in none), *_flat(inner))
        inits = (*none, *_flat(turns))
        return Carried(inits, arguments, (), self.rounds, self.blocks, self.drawn), inner

    def _draw(self, turns: dict[Any, _Turn]) -> tuple[Value, ...]:
        """Draw the next program for all warps once this one's copies have been started.

        Earlier would be further ahead of the consumers: another block may be through before them.
        A slot is full in the phase before that in which it is empty again.
        """
        if not self.drawn:
            return ()
        builder, ring, turn = self.builder, self.rings[_DRAWN], turns[_DRAWN]
        self._at(self.loops[-1])
        builder.insert(Await(ring.empty, turn.slot, turn.parity))
        builder.insert(Draw(ring.buffers[0], turn.slot))
        builder.insert(Arrive(ring.full, turn.slot))
        one = builder.add(Constant(1, I32))
        full = _Turn(turn.slot, builder.add(Elementwise("xor", (turn.parity, one))))
        number = self._next_program(full, self.loops[0].decided("warps"))
        turns[_DRAWN] = _Turn(*self._next(turn, ring.slots))
        return (number,)

    def _copies(self, turns: dict[Any, _Turn]) -> None:
        """Write the producer's loops for one program; `turns` become those after them."""
        builder = self.builder
        for channel in self.held:
            first: dict[Value, Value] = {}
            before, _, _ = producer_slice(
                None, channel.loads, self.module_, self.known, persistent=True
            )
            for op in before:
                builder.insert(copy_op(op, first, builder))
            self._fill(channel, turns[channel.key], first)
            turns[channel.key] = self._following(channel, turns)
        for loop in self.loops:
            channels = self.channels[loop]
            loads = [load for channel in channels for load in channel.loads]
            before, within, carried = producer_slice(
                loop, loads, self.module_, self.known, persistent=self.persistent
            )
            values: dict[Value, Value] = {}
            for op in before:
                builder.insert(copy_op(op, values, builder))
            together = self._together(loop, loads, before, values) if self.blocks > 1 else {}
            keys = list(dict.fromkeys(channel.key for channel in channels))
            arguments = loop.body.arguments
            counter = Value(arguments[0].type, arguments[0].hint)
            own = [Value(arguments[1 + i].type, arguments[1 + i].hint) for i in carried]
            inner = {key: _Turn(Value(I32, "slot"), Value(I32, "parity")) for key in keys}
            inside = dict(values)
            inside[arguments[0]] = counter
            inside.update(zip((arguments[1 + i] for i in carried), own, strict=True))
            with builder.block() as body:
                for op in within:
                    builder.insert(copy_op(op, inside, builder))
                for number, channel in enumerate(channels):
                    self._fill(channel, inner[channel.key], inside, together)
                    self._at(loop)
                    if number == 0 and self.hold is not None:
                        zero = builder.add(Constant(0, I32))
                        builder.insert(Await(self.hold, zero, zero))
                yields = [inside.get(v, v) for i in carried for v in (loop.body.yields[i],)]
                for key in keys:
                    yields += self._next(inner[key], self.rings[key].slots)
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
                turns[key] = _Turn(results[2 * number], results[2 * number + 1])

    def _together(
        self, loop: For, loads: Sequence[Load], before: Sequence[Op], values: Mapping[Value, Value]
    ) -> dict[int, Value]:
        """Return whether each load reads the same in all programs of a cluster, by its op.

        It does if what it is computed of is equal there before the loop, whose rounds are as many.
        """
        builder, own = self.builder, {result for op in before for result in op.results}
        others: list[dict[Value, Value]] = []
        for peer in range(1, self.blocks):
            there: dict[Value, Value] = {}
            for op in before:
                other = copy_op(op, there, builder).at_peer(peer)
                assert other is not None
                there.update(zip(op.results, builder.insert(other).results, strict=True))
            others.append(there)
        self._at(loop)
        every = builder.add(HasPeers(self.blocks), "peers")
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
        self, channel: Channel, turn: _Turn, values: dict[Value, Value],
        together: Mapping[int, Value] = NOWHERE,
    ) -> None:  # fmt: skip
        """Wait for an empty slot and start the copies of a round into it."""
        builder, ring = self.builder, self.rings[channel.key]
        self._at(channel.loads[0].op)
        builder.insert(Await(ring.empty, turn.slot, turn.parity))
        total = sum(load.box.bytes(load.buffer) for load in channel.loads)
        builder.insert(Expect(ring.full, turn.slot, bytes=total))
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            self._at(load.op)
            reads = [values.get(v, v) for v in load.box.reads]
            source, counted = self.maps[load.box.source, load.buffer], (ring.full, turn.slot)
            copy = self._box(load).copy(source, reads, (buffer, turn.slot), counted, None)
            same = {"together": held} if (held := together.get(id(load.op))) else {}
            builder.insert(copy.changed(role="producer", stage=-ring.slots, **same))

    # -- the consumers --------------------------------------------------------------------
    def _consumers(self) -> Carried | None:
        """Write what the consumers do; returns what they carry from program to program."""
        turns = {key: self._start(0) for key in self.rings}
        carried = None
        if self.persistent:
            carried, turns = self._carried_turns(turns)
        values: dict[Value, Value] = {}
        loops = {id(loop): loop for loop in self.loops}
        gone = {n for c in self.held for load in c.loads for n in (id(load.op), *load.gone)}
        for op in self.module_.body.ops[:-1]:
            if id(op) in gone:
                continue
            if id(op) in loops:
                if op is self.loops[0] and self.hold is not None:
                    self._at(op)
                    zero = self.builder.add(Constant(0, I32))
                    self.builder.insert(Arrive(self.hold, zero, warps=self.warps))
                self._wait_for_held(op, turns)
                self._loop(loops[id(op)], turns, values)
                self._give_held_back(op, turns)
            else:
                self._copied(op, values)
        number: tuple[Value, ...] = ()
        if self.drawn:
            turn = turns[_DRAWN]
            number = (self._next_program(turn, self.warps),)
            turns[_DRAWN] = _Turn(*self._next(turn, _AHEAD))
        return None if carried is None else replace(carried, yields=(*number, *_flat(turns)))

    def _readers(self, channel: Channel) -> list[For]:
        """Return the loops that read what is loaded before all of them."""
        reads = {id(read.op) for load in channel.loads for read in load.reads}
        return [loop for loop in self.loops if any(id(op) in reads for op in loop.body.ops)]

    def _wait_for_held(self, loop: Op, turns: Mapping[Any, _Turn]) -> None:
        for channel in self.held:
            if self._readers(channel)[0] is loop:
                self._at(channel.loads[0].op)
                ring, turn = self.rings[channel.key], turns[channel.key]
                self.builder.insert(Await(ring.full, turn.slot, turn.parity))
                self._read_once(channel, turn)

    def _read_once(self, channel: Channel, turn: _Turn) -> None:
        """Read what products may have in registers in all rounds, if these suffice."""
        if not self.module_.attributes.get("keep_operands", True):
            return
        ring, tiles = self.rings[channel.key], dict[LinearLayout, Value]()
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            for read in load.reads:
                how = self.chip.rules.in_registers_of(read.op)
                if how is None or not (how.operand is read.operand is load.op.result):
                    continue
                if not self._suffice(read.op, how):
                    text = "read from shared memory in each round: registers do not suffice"
                    self.remarks.note(read.op, text, "missed")
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
        loop = next(loop for loop in self.loops if product in loop.body.ops)
        filled = [*self.channels[loop], *self.held]
        read = {place.operand for c in filled for load in c.loads for place in load.reads}
        late = late_product(loop, self.chip.rules)
        if late is None:
            return False
        _, needed = registers_needed(loop, late, read, self.chip.rules, copies=0)
        words = how.layout.registers() * element_of(how.operand.type).itemsize // 4
        return needed + words <= self._registers_there(loop)

    def _registers_there(self, loop: For) -> int:
        registers, warps = loop.decided("registers"), self.warps + loop.decided("warps")
        return registers[1] if registers else chip_of(self.chip).most_registers(warps)

    def _give_held_back(self, loop: Op, turns: dict[Any, _Turn]) -> None:
        for channel in self.held:
            if self._readers(channel)[-1] is loop:
                self._at(loop)
                ring, turn = self.rings[channel.key], turns[channel.key]
                self._arrive(ring.empty, turn.slot)
                turns[channel.key] = self._following(channel, turns)

    def _held_fields(self, op: Op, turns: Mapping[Any, _Turn]) -> dict[str, Any]:
        """Return how an op reads, in its buffers, what is loaded before all loops."""
        fields: dict[str, Any] = {}
        for channel in self.held:
            ring, turn = self.rings[channel.key], turns[channel.key]
            for load, buffer in zip(channel.loads, ring.buffers, strict=True):
                for read in load.reads:
                    if read.op is op:
                        fields |= read.how.fields(buffer, turn.slot)
        if id(op) in self.in_registers:
            how = self.chip.rules.in_registers_of(op)
            assert how is not None
            fields |= how.fields(self.in_registers[id(op)])
        return fields

    def _loop(self, loop: For, turns: dict[Any, _Turn], values: dict[Value, Value]) -> None:
        builder, channels = self.builder, self.channels[loop]
        keys = list(dict.fromkeys(channel.key for channel in channels))
        inner = {key: _Turn(Value(I32, "slot"), Value(I32, "parity")) for key in keys}
        going = next((channel for channel in channels if channel.goes_on), None)
        none = builder.add(Constant(-1, I32)) if going is not None else None
        held = Value(I32, "held")
        inside = dict(values)
        with builder.block() as body:
            self._round(loop, turns, inner, held, inside)
            self._at(loop)
            yields = [inside.get(v, v) for v in loop.body.yields]
            for key in keys:
                yields += self._next(inner[key], self.rings[key].slots)
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
            turns[key] = _Turn(results[count + 2 * number], results[count + 2 * number + 1])
        self._at(loop)
        values.update(zip(loop.results, results, strict=False))
        if going is not None:
            place = loop.body.yields.index(going.product.result)
            waited = self._later(going.product).waited(results[place], 0)
            values[loop.results[place]] = builder.add(waited, loop.results[place].hint)
            self._give_back(self.rings[going.key].empty, results[-1])

    def _round(
        self, loop: For, turns: Mapping[Any, _Turn], inner: Mapping[Any, _Turn], held: Value,
        inside: dict[Value, Value],
    ) -> None:  # fmt: skip
        """Write what consumers do in a round; `inside` becomes what stands for values in it."""
        channels = self.channels[loop]
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
        awaited: set[int] = set()
        for op in loop.body.ops[:-1]:
            if id(op) in gone:
                continue
            if id(op) in users:
                channel, number, user = users[id(op)]
                turn, buffer = inner[channel.key], self.rings[channel.key].buffers[number]
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
        options = self.module_.attributes
        late = late_product(loop, self.chip.rules)
        if late is None:
            return None
        slots = min(load.box.slots for channel in channels for load in channel.loads)
        filled = [*channels, *self.held]
        read = {place.operand for c in filled for load in c.loads for place in load.reads}
        reason = obstacle(late, read, self.chip.rules)
        _, needed = registers_needed(loop, late, read, self.chip.rules, copies=0)
        most = self._registers_there(loop)
        if not reason and needed > most:
            reason = f"{needed} registers needed, {most} there"
        if not reason and slots < 2:
            reason = f"rings of {slots} slots hold one round"
        if not options.get("overlap", True):
            reason = "overlap=False"
        if reason:
            self.remarks.note(late.product, f"overlap dropped: {reason}", "missed")
        return None if reason else late.product

    def _await(self, channel: Channel, turn: _Turn, awaited: set[int]) -> None:
        """Wait for a slot of a channel, if nobody has in this round."""
        if id(channel) not in awaited:
            awaited.add(id(channel))
            self._at(channel.product)
            self.builder.insert(Await(self.rings[channel.key].full, turn.slot, turn.parity))

    def _multiply(
        self, op: Op, channel: Channel, turn: _Turn, held: Value, values: dict[Value, Value],
        given: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Multiply what is in a slot, and give back the slot that has been read."""
        builder, ring = self.builder, self.rings[channel.key]
        self._at(op)
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
            self._arrive(ring.empty, turn.slot)

    def _later(self, product: Op) -> Later:
        later = self.known.rules.later_of(product)
        assert later is not None
        return later

    def _give_back(self, empty: Value, slot: Value) -> None:
        """Arrive for a slot that was read, if there was one."""
        builder = self.builder
        zero = builder.add(Constant(0, I32))
        was = builder.add(Elementwise("ge", (slot, zero)))
        self._arrive(empty, slot, was)

    def _arrive(self, empty: Value, slot: Value, when: Value | None = None) -> None:
        """Give a slot back to all who fill it."""
        self.builder.insert(Arrive(empty, slot, when, warps=self.warps, blocks=self.blocks))

    def _copied(
        self, op: Op, values: dict[Value, Value], given: Mapping[str, Any] | None = None
    ) -> None:
        new = reading_from(op, values, given)
        self.builder.insert(new)
        if new is not op:
            values.update(zip(op.results, new.results, strict=True))

    # -- turns ----------------------------------------------------------------------------
    def _start(self, parity: int) -> _Turn:
        builder = self.builder
        return _Turn(builder.add(Constant(0, I32)), builder.add(Constant(parity, I32)))

    def _following(self, channel: Channel, turns: Mapping[Any, _Turn]) -> _Turn:
        """Return the turn after this one of what is loaded once for a program."""
        turn, slots = turns[channel.key], self.rings[channel.key].slots
        if slots > 1:
            return _Turn(*self._next(turn, slots))
        one = self.builder.add(Constant(1, I32))
        return _Turn(turn.slot, self.builder.add(Elementwise("xor", (turn.parity, one))))

    def _next(self, turn: _Turn, slots: int) -> list[Value]:
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


def _flat(turns: Mapping[Any, _Turn]) -> tuple[Value, ...]:
    """Return turns as values one after the other."""
    return tuple(value for turn in turns.values() for value in (turn.slot, turn.parity))


__all__ = ["expand_roles"]
