"""Roles: a producer's warps copy what the consumers' multiply, each in a straight loop of its own.

Loops at the top of a kernel whose products read tensor loads in shared memory are taken apart.
`role_partition` decides and writes the decision on the ops; `expand_roles` carries it out:

    producer:   for ...:  await empty[slot];  expect full[slot];  copy, copy, ...
    consumers:  for ...:  await full[slot];  multiply;  arrive at empty[slot]

Loads that one product reads share a ring of slots and one pair of barriers (a channel). Slot and
parity of a channel run on through all loops that share it, so the producer is ahead across loops as
well. A fresh barrier counts as if the phase before its first had ended: the producer begins with
parity 1, the consumers with 0, and both turn theirs where the ring begins again.

The only product of a loop goes on into the next round; then its slot is given back a round later.
Everything but the producer's numbers is the consumers'. A number is never sent: who needs one
computes it, so what decides where copies begin must not come from a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    layout_of,
    shape_of,
    walk,
)
from workbench.ops import Constant, Elementwise, For, Select, While, Yield
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.chip import Chip, chip_of, residency
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Expect,
    TensorLoad,
    WaitProducts,
)
from workbench.targets.nvidia.passes.pipeline_loads import (
    _Module as Known,  # pyright: ignore[reportPrivateUsage]
)
from workbench.targets.nvidia.passes.pipeline_loads import (
    _Read as Read,  # pyright: ignore[reportPrivateUsage]
)
from workbench.targets.nvidia.passes.pipeline_loads import (
    _reading as reading,  # pyright: ignore[reportPrivateUsage]
)
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate
from workbench.targets.simt.passes.roles import part_warps, stays_before
from workbench.targets.simt.pressure import peak_in
from workbench.targets.simt.rules import Box, Device

#: Slots of a ring beyond which more gain nothing (hopper_matmul: 64 x 128 wants eight).
MOST_SLOTS = 8
#: Registers of a thread beside the tiles of its loop: addresses, descriptors, counters (matmul has
#: 154 for 128 sums and 90 for 64).
_BESIDE_TILES = 32
#: Registers of a producer's thread and of a consumer's, by the consumers' groups of four warps,
#: where a producer of four warps gives some away. Their sum over all groups is within what the
#: launch takes, else `setmaxnreg` waits for ever.
REGISTERS = {1: (40, 216), 2: (24, 240), 4: (24, 112)}


@dataclass(frozen=True, slots=True)
class _Load:
    """A tensor load of a loop: its copy, a slot of its ring, what reads it, transposes gone."""

    op: TensorLoad
    box: Box
    buffer: Shared
    reads: tuple[Read, ...]
    gone: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Channel:
    """Loads that one product reads, and whether it goes on into the next round.

    `number`: how many like it its loop has before.
    """

    loads: tuple[_Load, ...]
    product: Op
    number: int = 0
    goes_on: bool = False

    @property
    def bytes(self) -> int:
        """Of one slot."""
        return sum(load.buffer.bytes for load in self.loads)

    @property
    def key(self) -> tuple[object, ...]:
        """Channels of loops after each other share a ring if their keys are equal."""
        return (self.number, *((load.buffer, load.op.map.type, load.op.axes) for load in self.loads))


@dataclass
class _Refused(Exception):
    """Why a kernel is not taken apart."""

    op: Op | None
    why: str


# -- deciding -------------------------------------------------------------------------------------
def role_partition(
    module: Module, remarks: Remarks, chip: Device, room: int | None = None
) -> Module:
    """Decide whether warps part, and write on loops and loads which do what.

    Needs: layouts. Keeps: every value; what is decided are attributes (`schedule` of a loop,
    `role`, `channel` and `slots` of a load).
    """
    asked = _asked(module)
    loads = [op for op in module.walk() if isinstance(op, TensorLoad)]
    if not loads:
        _answer(asked, "no load of it is a tensor copy that a product by warpgroups reads", remarks)
        return module
    if not (module.attributes.get("warp_specialize") or any(asked.values())):
        return module
    try:
        return _decided(module, chip_of(chip), loads, room, remarks)
    except _Refused as refused:
        remarks.note(refused.op, f"not specialised: {refused.why}", "missed")
        _answer(asked, refused.why, remarks)
        return module


def _asked(module: Module) -> dict[Op, bool]:
    """Return the loops whose author says whether warps are to part."""
    found: dict[Op, bool] = {}
    for op in module.walk():
        hint = dict(op.hints).get("warp_specialize") if isinstance(op, For | While) else None
        if hint is not None:
            found[op] = bool(hint)
    return found


def _answer(asked: dict[Op, bool], why: str, remarks: Remarks) -> None:
    for loop, wanted in asked.items():
        if wanted:
            remarks.note(loop, f"warp_specialize=True is not obeyed: {why}", "missed")


def _decided(
    module: Module, chip: Chip, loads: Sequence[TensorLoad], room: int | None, remarks: Remarks
) -> Module:
    known = Known(module, chip)
    loops = [op for op in module.body.ops if isinstance(op, For) and _loads_in(op.body)]
    inside = {id(load) for loop in loops for load in loop.body.ops if isinstance(load, TensorLoad)}
    for load in loads:
        if id(load) not in inside:
            raise _Refused(load, "it loads outside the loops at the top of the kernel")
    channels = {loop: _channels(loop, known) for loop in loops}
    for loop in loops:
        _check(loop, channels[loop], module, known)
    warps: int = module.attributes["num_warps"]
    needed = _BESIDE_TILES + max(
        peak_in(loop.body, _in_buffers(found, known)) for loop, found in channels.items()
    )
    further, registers = _registers(module, chip, needed)
    rings: dict[tuple[object, ...], int] = {}
    for found in channels.values():
        for channel in found:
            rings[channel.key] = channel.bytes
    threads = _Threads(warps + further, min(needed, chip.most_registers(warps + further)))
    slots = _slots(module, loops, chip, sum(rings.values()), threads, room)
    keys = list(rings)
    places = {
        id(load.op): (keys.index(channel.key), channel)
        for found in channels.values()
        for channel in found
        for load in channel.loads
    }

    def marked(op: Op) -> Op:
        if id(op) in places:
            number, _ = places[id(op)]
            new = op.changed(role="producer", channel=number, slots=slots)
            new.__dict__["results"] = op.results
            return new
        if isinstance(op, For) and op in channels:
            flight = int(any(channel.goes_on for channel in channels[op]))
            schedule = (("warps", further), ("registers", registers), ("in_flight", flight))
            body = Block(op.body.arguments, tuple(map(marked, op.body.ops)))
            new = op.changed(body=body, schedule=schedule)
            new.__dict__["results"] = op.results
            return new
        return op

    text = f"{further} producer warp{'s' if further > 1 else ''} + {warps} that multiply"
    each = sum(rings.values())
    for loop in loops:
        remarks.note(
            loop,
            f"specialised: {text}, ring of {slots} x {each:,} bytes"
            + (f", {registers[1]} registers each" if registers else ""),
            "applied",
        )
    return replace(module, body=Block((), tuple(map(marked, module.body.ops))))


def _loads_in(block: Block) -> bool:
    return any(isinstance(op, TensorLoad) for op in block.ops)


def _channels(loop: For, known: Known) -> list[_Channel]:
    """Return what products of a loop read of its tensor loads, in the order of the products."""
    here = {id(op): place for place, op in enumerate(loop.body.ops)}
    groups: dict[int, list[_Load]] = {}
    for op in loop.body.ops:
        if not isinstance(op, TensorLoad):
            continue
        ahead = known.rules.ahead_of(op, known.on)
        if ahead is None or ahead.obstacle or not isinstance(ahead.copy, Box):
            why = ahead.obstacle if ahead is not None else "no copy fills a buffer as it does"
            raise _Refused(op, why)
        buffer, reads = known.in_place(op.result, ahead.buffer)
        transposes = known.transposes(op.result)
        taken = {id(read.op) for read in reads} | {id(t.op) for t in transposes}
        users = [u for v in (op.result, *transposes) for u in known.uses.get(v, [])]
        if any(id(u) not in taken for u in users) or not reads:
            raise _Refused(op, "something beside a product reads the loaded tile")
        products = {id(read.op) for read in reads}
        if len(products) > 1 or not products <= set(here):
            raise _Refused(op, "products outside its loop, or several, read the loaded tile")
        gone = frozenset(id(t.op) for t in transposes)
        groups.setdefault(here[products.pop()], []).append(_Load(op, ahead.copy, buffer, reads, gone))
    ordered = [loop.body.ops[place] for place in sorted(groups)]
    found: list[_Channel] = []
    for op in ordered:
        channel = _Channel(tuple(groups[here[id(op)]]), op)
        alike = sum(replace(other, number=0).key == channel.key for other in found)
        found.append(replace(channel, number=alike))
    if len(found) == 1 and _may_go_on(loop, found[0], known):
        found = [replace(found[0], goes_on=True)]
    return found


def _may_go_on(loop: For, channel: _Channel, known: Known) -> bool:
    """Say whether the sums of the only product of a loop are nobody's but the next round's."""
    product = channel.product
    waiting = [op for op in walk(loop.body) if known.rules.later_of(op) is not None]
    later = known.rules.later_of(product)
    if later is None or waiting != [product]:
        return False
    arguments, yields = loop.body.arguments[1:], loop.body.yields
    read = {read.operand for load in channel.loads for read in load.reads}
    return (
        later.sums in arguments
        and known.uses.get(later.sums, []) == [product]
        and len(known.uses.get(product.result, [])) == 1
        and set(later.operands) == read
        and yields[arguments.index(later.sums)] is product.result
    )


def _check(loop: For, channels: Iterable[_Channel], module: Module, known: Known) -> None:
    """Raise _Refused for a loop that has no role of its own for a producer."""
    bounds = [constant_of(value) for value in (loop.lower, loop.upper, loop.step)]
    if None not in bounds and bounds[2] and len(range(*bounds)) < 2:  # type: ignore[arg-type]
        raise _Refused(loop, "the loop has one round")
    if dict(loop.hints).get("warp_specialize") is False:
        raise _Refused(loop, "warp_specialize=False")
    loads = [load.op for channel in channels for load in channel.loads]
    _producer_slice(loop, loads, module, known)


def _producer_slice(
    loop: For, loads: Sequence[TensorLoad], module: Module, known: Known
) -> tuple[list[Op], list[Op], list[int]]:
    """Return what the producer computes: before the loop, in it, and which carried values.

    Raises _Refused where that is not numbers alone.
    """
    stays = stays_before(module)
    outside = {r: op for op in module.body.ops for r in op.results}
    inside = {r: op for op in loop.body.ops for r in op.results}
    arguments = list(loop.body.arguments[1:])
    work = [v for load in loads for v in load.coordinates]
    work += [loop.lower, loop.upper, loop.step]
    seen: set[Value] = set()
    first: set[int] = set()
    within: set[int] = set()
    carried: set[int] = set()
    while work:
        value = work.pop()
        if value in seen or value is loop.body.arguments[0]:
            continue
        seen.add(value)
        if isinstance(value.type, Tile):
            raise _Refused(loop, "where a copy begins follows from a tile")
        if value in arguments:
            place = arguments.index(value)
            carried.add(place)
            work += [loop.body.yields[place], loop.inits[place]]
            continue
        op = inside.get(value) or outside.get(value)
        if op is None or op in stays:
            continue
        if op.regions or not (op.pure or _may_repeat(op, known)):
            raise _Refused(loop, f"where a copy begins follows from {op.name}")
        (within if value in inside else first).add(id(op))
        work += op.operands
    return (
        [op for op in module.body.ops if id(op) in first],
        [op for op in loop.body.ops if id(op) in within],
        sorted(carried),
    )


def _may_repeat(op: Op, known: Known) -> bool:
    """Say whether each role may do what an op does, and get the same from it."""
    return op.removable and all(
        effect.order == "plain" and known.memory.is_settled(effect) for effect in op.effects()
    )


def _in_buffers(channels: Iterable[_Channel], known: Known) -> list[Value]:
    loaded = [load.op.result for channel in channels for load in channel.loads]
    return [*loaded, *(turned for tile in loaded for turned in known.transposes(tile))]


@dataclass(frozen=True, slots=True)
class _Threads:
    """The warps of a block and the registers of a thread, about."""

    warps: int
    registers: int


def _registers(module: Module, chip: Chip, needed: int) -> tuple[int, tuple[int, ...]]:
    """Return the producer's warps and, where registers are given away, each role's."""
    warps: int = module.attributes["num_warps"]
    if needed <= chip.most_registers(warps + 1):
        return 1, ()
    pair = REGISTERS.get(warps // 4)
    if pair is None or module.attributes.get("maxnreg") or needed > pair[1]:
        raise _Refused(None, f"about {needed} registers of a thread are needed beside a producer")
    return 4, pair


def _slots(
    module: Module, loops: Sequence[For], chip: Chip, each: int, threads: _Threads,
    room: int | None,
) -> int:  # fmt: skip
    """Return how many slots rings have; raise _Refused where there is no room for two.

    As many as the author wants, one more for a product in flight where that costs no resident
    block; where nobody asked for a depth, as many as leave resident what three of them do.
    """
    most = min(MOST_SLOTS, (chip.shared_bytes if room is None else room) // max(each, 1))
    if most < 2:
        raise _Refused(loops[0], f"there is no room for two slots of {each:,} bytes")
    wanted = max((loop.stages or 0 for loop in loops), default=0)
    free = not wanted and module.attributes.get("stages_are_free")
    wanted = wanted or module.attributes["num_stages"]
    start = max(2, min(wanted, most))

    def resident(slots: int) -> int:
        return residency(chip, threads.warps, threads.registers, slots * each).warps

    last = most if free else min(most, start + 1)
    found = start
    for slots in range(start + 1, last + 1):
        if resident(slots) == resident(start):
            found = slots
    return found


# -- carrying out ---------------------------------------------------------------------------------
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
    del remarks
    loops = [op for op in module.body.ops if isinstance(op, For) and op.schedule]
    if not loops:
        return module
    return _Expansion(module, loops, chip).module()


@dataclass
class _Expansion:
    module_: Module
    loops: list[For]
    chip: Device
    rings: dict[tuple[object, ...], _Ring] = field(default_factory=dict[Any, _Ring])
    #: Tensor maps for copies that lie as the rings do, by the loads' map and buffer.
    maps: dict[tuple[Value, Shared], Value] = field(default_factory=dict[Any, Value])

    def module(self) -> Module:
        module = self.module_
        self.known = Known(module, self.chip)
        self.channels = {loop: self._channels_of(loop) for loop in self.loops}
        schedule = dict(self.loops[0].schedule)
        self.warps: int = module.attributes["num_warps"]
        self.builder = builder = Builder(module.next_id)
        with builder.block() as first:
            for loop in self.loops:
                for channel in self.channels[loop]:
                    self._ring(loop, channel)
            self._at(self.loops[0])
            builder.insert(BlockBarrier())
        with builder.block() as producer:
            self._producer()
            builder.insert(Yield(()))
        with builder.block() as rest:
            self._consumers()
        *_, end = module.body.ops
        body = (*rest, *first, end)
        module = replace(module, body=Block((), body), next_id=builder.next_id)
        return part_warps(
            module, Block((), tuple(producer)), warps=schedule["warps"],
            registers=schedule["registers"], stays=first,
        )  # fmt: skip

    def _channels_of(self, loop: For) -> list[_Channel]:
        flight = dict(loop.schedule)["in_flight"]
        return [
            replace(channel, goes_on=channel.goes_on and bool(flight))
            for channel in _channels(loop, self.known)
        ]

    def _at(self, op: Op) -> None:
        self.builder.span, self.builder.origins = op.span, (op.id,)

    def _map(self, load: _Load) -> None:
        """Have what copies into a ring read: a tensor map whose boxes lie as the buffer does."""
        if (load.op.map, load.buffer) not in self.maps:
            self._at(load.op)
            self.maps[load.op.map, load.buffer] = load.box.prepare(self.builder, load.buffer)

    def _ring(self, loop: For, channel: _Channel) -> None:
        for load in channel.loads:
            self._map(load)
        if channel.key in self.rings:
            return
        builder, slots = self.builder, channel.loads[0].op.slots
        buffers: list[Value] = []
        for load in channel.loads:
            self._at(load.op)
            ring = replace(load.buffer, slots=slots)
            buffers.append(builder.add(SharedAllocate(type=ring), load.op.result.hint))
        self._at(loop)
        full = builder.add(Barriers(slots), "full")
        empty = builder.add(Barriers(slots, arrivals=self.warps), "empty")
        self.rings[channel.key] = _Ring(tuple(buffers), full, empty, slots)

    # -- the producer ---------------------------------------------------------------------
    def _producer(self) -> None:
        builder = self.builder
        turns = {key: self._start(1) for key in self.rings}
        for loop in self.loops:
            channels = self.channels[loop]
            loads = [load.op for channel in channels for load in channel.loads]
            before, within, carried = _producer_slice(loop, loads, self.module_, self.known)
            values: dict[Value, Value] = {}
            for op in before:
                builder.insert(copy_op(op, values, builder))
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
                for channel in channels:
                    self._fill(channel, inner[channel.key], inside)
                    self._at(loop)
                yields = [inside.get(v, v) for i in carried for v in (loop.body.yields[i],)]
                for key in keys:
                    yields += self._next(inner[key], self.rings[key].slots)
                builder.insert(Yield(tuple(yields)))
            flat = [v for key in keys for v in (inner[key].slot, inner[key].parity)]
            block = Block((counter, *own, *flat), tuple(body))
            inits = [values.get(loop.inits[i], loop.inits[i]) for i in carried]
            inits += [v for key in keys for v in (turns[key].slot, turns[key].parity)]
            bounds = [values.get(v, v) for v in (loop.lower, loop.upper, loop.step)]
            made = For(*bounds, tuple(inits), block, span=loop.span, origins=(loop.id,))
            results = builder.insert(made).results[len(carried) :]
            for number, key in enumerate(keys):
                turns[key] = _Turn(results[2 * number], results[2 * number + 1])

    def _fill(self, channel: _Channel, turn: _Turn, values: dict[Value, Value]) -> None:
        """Wait for an empty slot and start the copies of a round into it."""
        builder, ring = self.builder, self.rings[channel.key]
        self._at(channel.loads[0].op)
        builder.insert(Await(ring.empty, turn.slot, turn.parity))
        total = sum(load.box.bytes for load in channel.loads)
        builder.insert(Expect(ring.full, turn.slot, bytes=total))
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            self._at(load.op)
            reads = [values.get(v, v) for v in load.box.reads]
            source, counted = self.maps[load.op.map, load.buffer], (ring.full, turn.slot)
            builder.insert(load.box.copy(source, reads, (buffer, turn.slot), counted, None))

    # -- the consumers --------------------------------------------------------------------
    def _consumers(self) -> None:
        builder = self.builder
        turns = {key: self._start(0) for key in self.rings}
        #: Slots whose product is under way, to be given back; -1: none.
        values: dict[Value, Value] = {}
        for op in self.module_.body.ops[:-1]:
            if isinstance(op, For) and op in self.channels:
                self._loop(op, turns, values)
            else:
                self._copied(op, values)

    def _loop(self, loop: For, turns: dict[Any, _Turn], values: dict[Value, Value]) -> None:
        builder, channels = self.builder, self.channels[loop]
        keys = list(dict.fromkeys(channel.key for channel in channels))
        inner = {key: _Turn(Value(I32, "slot"), Value(I32, "parity")) for key in keys}
        going = next((channel for channel in channels if channel.goes_on), None)
        none = builder.add(Constant(-1, I32)) if going is not None else None
        held = Value(I32, "held")
        inside = dict(values)
        by_product = {id(channel.product): channel for channel in channels}
        gone = {number for c in channels for load in c.loads for number in load.gone}
        with builder.block() as body:
            for op in loop.body.ops[:-1]:
                if isinstance(op, TensorLoad) or id(op) in gone:
                    continue
                channel = by_product.get(id(op))
                if channel is None:
                    self._copied(op, inside)
                else:
                    self._multiply(op, channel, inner[channel.key], held, inside)
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
        bounds = {n: values.get(v, v) for n in ("lower", "upper", "step") for v in (getattr(loop, n),)}
        block = Block((*loop.body.arguments, *flat), tuple(body))
        new = builder.insert(loop.changed(inits=tuple(inits), body=block, schedule=(), **bounds))
        results = list(new.results)
        count = len(loop.results)
        for number, key in enumerate(keys):
            turns[key] = _Turn(results[count + 2 * number], results[count + 2 * number + 1])
        self._at(loop)
        for old, now in zip(loop.results, results, strict=False):
            values[old] = now
        if going is not None:
            place = loop.body.yields.index(going.product.result)
            values[loop.results[place]] = builder.add(
                WaitProducts(results[place]), loop.results[place].hint
            )
            self._give_back(self.rings[going.key].empty, results[-1])

    def _multiply(
        self, op: Op, channel: _Channel, turn: _Turn, held: Value, values: dict[Value, Value]
    ) -> None:
        """Wait for the slot, multiply what is in it, and give back the slot that has been read."""
        builder, ring = self.builder, self.rings[channel.key]
        self._at(op)
        builder.insert(Await(ring.full, turn.slot, turn.parity))
        fields: dict[str, Any] = {}
        for load, buffer in zip(channel.loads, ring.buffers, strict=True):
            for read in load.reads:
                fields |= read.how.fields(buffer, turn.slot)
        if channel.goes_on:
            later = self.known.rules.later_of(op)
            assert later is not None
            fields |= later.fields
        new = builder.insert(reading(op, values, fields))
        values.update(zip(op.results, new.results, strict=True))
        if channel.goes_on:
            self._give_back(ring.empty, held)
        else:
            builder.insert(Arrive(ring.empty, turn.slot, warps=self.warps))

    def _give_back(self, empty: Value, slot: Value) -> None:
        """Arrive for a slot that was read, if there was one."""
        builder = self.builder
        zero = builder.add(Constant(0, I32))
        was = builder.add(Elementwise("ge", (slot, zero)))
        builder.insert(Arrive(empty, slot, was, warps=self.warps))

    def _copied(self, op: Op, values: dict[Value, Value]) -> None:
        new = reading(op, values)
        self.builder.insert(new)
        if new is not op:
            values.update(zip(op.results, new.results, strict=True))

    # -- turns ----------------------------------------------------------------------------
    def _start(self, parity: int) -> _Turn:
        builder = self.builder
        return _Turn(builder.add(Constant(0, I32)), builder.add(Constant(parity, I32)))

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


__all__ = ["expand_roles", "role_partition"]
