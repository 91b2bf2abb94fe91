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
from dataclasses import dataclass, replace

from workbench.ir import (
    Block,
    Effect,
    Module,
    Op,
    Shared,
    Value,
    shape_of,
    walk,
)
from workbench.ops import For, count_rounds
from workbench.passes.manager import Remarks, Severity
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.chip import Chip, chip_of, residency
from workbench.targets.nvidia.passes.guarded_work import without_branch
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
    stored_bytes,
)
from workbench.targets.nvidia.passes.rounds import read_by
from workbench.targets.nvidia.passes.staged_loads import Known, Read
from workbench.targets.simt.passes.roles import stays_before
from workbench.targets.simt.pressure import peak_in
from workbench.targets.simt.rules import Box, Device, RuleTable

#: Slots of a ring beyond which more gain nothing (hopper_matmul: 64 x 128 wants eight).
MOST_SLOTS = 8
#: Registers of a thread beside the tiles of its loop: addresses, descriptors, counters (matmul has
#: 154 for 128 sums and 90 for 64).
_BESIDE_TILES = 32
#: Warps of two groups that multiply.
_TWO_GROUPS = 8
#: Registers of a producer's thread and of a consumer's, by the consumers' groups of four warps,
#: where a producer of four warps gives some away. Their sum over all groups is within what the
#: launch takes, else `setmaxnreg` waits for ever.
REGISTERS = {2: (24, 240), 4: (24, 112)}
#: The same where a producer's copies read more numbers in a round: tiles that are several boxes.
_MORE_NUMBERS, MORE_REGISTERS = 16, {2: (40, 232), 4: (40, 104)}


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a whole tile: its copy, a slot of its ring, what reads it, transposes gone."""

    op: Op
    box: Box
    buffer: Shared
    reads: tuple[Read, ...]
    gone: frozenset[int]


@dataclass(frozen=True, slots=True)
class Channel:
    """Loads that one product reads, and whether it goes on into the next round.

    `number`: how many like it its loop has before. What is `held` is loaded once for a program,
    before its loops: it has one slot, which is given back behind the last loop that reads it.
    """

    loads: tuple[Load, ...]
    product: Op
    number: int = 0
    goes_on: bool = False
    held: bool = False

    @property
    def bytes(self) -> int:
        """Of one slot."""
        return sum(load.buffer.bytes for load in self.loads)

    @property
    def key(self) -> tuple[object, ...]:
        """Channels of loops after each other share a ring if their keys are equal."""
        return (
            self.number,
            self.held,
            *((load.buffer, load.box.kind) for load in self.loads),
        )


@dataclass
class RefusedError(Exception):
    """Why a kernel is not taken apart."""

    op: Op | None
    why: str


# -- deciding -------------------------------------------------------------------------------------
def role_partition(
    module: Module, remarks: Remarks, chip: Device, room: int | None = None
) -> Module:
    """Decide whether warps part, and write on loops and loads which do what.

    They do where the author says so, and where nobody says anything and it pays: products alone
    gain nothing by that (measured: 0.99 to 1.01 of the speed without), two at once do where
    a block has a multiprocessor to itself (attention of 128 x 128 by 128: 1.2 to 1.4), and so do
    products whose sums threads add to longer ones (fp8 of 128 x 128 by 128 at 4096: 1.23; of
    128 x 256 by 128, which need it: 1.37): one group of warps adds while another multiplies, where
    none waits for the block.

    Blocks of a kernel whose warps part may stay, and take program after program: the producer
    fills the rings for the next one while the others end theirs. They do with `persistent`, and
    unasked where each loop has one product. Then warps part for it if a block has a multiprocessor
    to itself (fp16 of 128 x 256 by 64: 1.5 to 2.7 % from 3072 to 8192, fp8 3 %).

    Needs: layouts. Keeps: every value; what is decided are attributes (`schedule` of a loop,
    `role`, `channel` and `slots` of a load).
    """
    outside = module if _loops(module, chip.rules) else without_branch(module, chip) or module
    found = _parted(outside, remarks, chip, room)
    found = module if found is outside else found
    if found is module and module.attributes.get("persistent"):
        remarks.note(None, "not persistent: the warps of a block do not part", "missed")
    return found


def _parted(module: Module, remarks: Remarks, chip: Device, room: int | None) -> Module:
    asked = _asked(module)
    loads = [op for op in module.walk() if chip.rules.box_of(op)]
    if not loads:
        _answer(asked, "no load of it is a tensor copy that a product by warpgroups reads", remarks)
        return module
    wanted = module.attributes.get("warp_specialize")
    if not (wanted or asked):
        unit = chip_of(chip)
        ways = (_adds(module, unit) or check(module, unit, room) for check in (_pays, _may_stay))
        if wanted is False or not any(ways):
            return module
    try:
        return _decided(module, chip_of(chip), loads, room, remarks)
    except RefusedError as refused:
        remarks.note(refused.op, f"not specialised: {refused.why}", "missed")
        _answer(asked, refused.why, remarks)
        return module


def _adds(module: Module, chip: Chip) -> bool:
    """Say whether several groups of warps compute in the midst of their loops' only products."""
    loops = _loops(module, chip.rules)
    some = all(any(op.registers_beside for op in loop.body.ops) for loop in loops)
    if not some or not loops or module.attributes["num_warps"] < _TWO_GROUPS:
        return False
    known = Known(module, chip)
    for loop in loops:
        try:
            channels = channels_of(loop, known)
            needed = _BESIDE_TILES + peak_in(loop.body, _in_buffers(channels, known))
            _registers(module, chip, needed)
        except RefusedError:
            return False
        if len(channels) != 1 or not channels[0].product.registers_beside:
            return False
    return True


def _may_stay(module: Module, chip: Chip, room: int | None) -> bool:
    """Say whether groups of warps have the only products of their loops in a block that is alone.

    It is to stay, then.
    """
    loops, warps = _loops(module, chip.rules), module.attributes["num_warps"]
    if module.attributes.get("persistent") is False or warps < _TWO_GROUPS or len(loops) != 1:
        return False
    (loop,), known = loops, Known(module, chip)
    try:
        if not _stays(module, loops, known)[0]:
            return False
        channels = channels_of(loop, known)
        needed = _BESIDE_TILES + peak_in(loop.body, _in_buffers(channels, known))
        _registers(module, chip, needed)
    except RefusedError:
        return False
    if len(channels) != 1 or not channels[0].goes_on:
        return False
    depth = loop.stages or module.attributes["num_stages"]
    ring = depth * channels[0].bytes
    fits = ring <= (chip.shared_bytes if room is None else room)
    return fits and residency(chip, warps, needed, ring).warps <= warps


def _pays(module: Module, chip: Chip, room: int | None) -> bool:
    """Say whether loops start two products at once and, as they are, leave room for one block."""
    loops = _loops(module, chip.rules)
    late = [late_product(loop, chip.rules) for loop in loops]
    if not all(late) or not late or not module.attributes.get("overlap", True):
        return False
    known, warps = Known(module, chip), module.attributes["num_warps"]
    for loop, product in zip(loops, late, strict=True):
        assert product is not None
        try:
            channels = channels_of(loop, known)
            in_rings = {read.operand for c in channels for load in c.loads for read in load.reads}
            plain, needed = registers_needed(loop, product, in_rings, chip.rules, copies=0)
            _registers(module, chip, needed)
        except RefusedError:
            return False
        depth = loop.stages or module.attributes["num_stages"]
        ring = depth * sum(channel.bytes for channel in channels)
        beside = stored_bytes(loop, in_rings, chip.rules)
        alone = residency(chip, warps, plain, ring + beside).warps <= warps
        fits = ring <= (chip.shared_bytes - beside if room is None else room)
        if obstacle(product, in_rings, chip.rules) or not alone or not fits:
            return False
    return True


def _asked(module: Module) -> list[Op]:
    """Return the loops whose author wants warps to part, one for each place in the source."""
    wanted = [op for op in module.walk() if op.hinted("warp_specialize")]
    return list({op.span: op for op in reversed(wanted)}.values())


def _answer(asked: Iterable[Op], why: str, remarks: Remarks) -> None:
    for loop in asked:
        remarks.note(loop, f"warp_specialize=True is not obeyed: {why}", "missed")


def _decided(
    module: Module, chip: Chip, loads: Sequence[Op], room: int | None, remarks: Remarks
) -> Module:
    known = Known(module, chip)
    loops = _loops(module, chip.rules)
    stays, told = _stays(module, loops, known)
    held = held_of(module, loops, known) if stays and loops else []
    inside = {id(op) for loop in loops for op in loop.body.ops}
    inside |= {id(load.op) for channel in held for load in channel.loads}
    for load in loads:
        if id(load) not in inside:
            raise RefusedError(load, "it loads outside the loops at the top of the kernel")
    channels = {loop: channels_of(loop, known) for loop in loops}
    own = [*loads]
    for loop in loops:
        own += _check(loop, channels[loop], module, known)
    for channel in held:
        own += producer_slice(None, channel.loads, module, known, persistent=True)[0]
    _check_order(module, loops[-1], own, known)
    warps: int = module.attributes["num_warps"]
    needed = max(
        _registers_of(loop, [*found, *held], module, chip, known)
        for loop, found in channels.items()
    )
    copied = ([one.box for c in found for one in c.loads] for found in channels.values())
    numbers = max(len({v for box in boxes for v in box.reads}) for boxes in copied)
    further, registers = _registers(module, chip, needed, numbers)
    rings: dict[tuple[object, ...], int] = {}
    for found in channels.values():
        for channel in found:
            rings[channel.key] = channel.bytes
    threads = _Threads(warps + further, min(needed, chip.most_registers(warps + further)))
    beside = sum(channel.bytes for channel in held)
    slots = _slots(module, loops, chip, sum(rings.values()), threads, room, beside)
    keys = [*rings, *(channel.key for channel in held)]
    places = {
        id(load.op): load.box.decided(keys.index(channel.key), 1 if channel.held else slots)
        for found in (*channels.values(), held)
        for channel in found
        for load in channel.loads
    }

    for op, text, kind in told:
        remarks.note(op, text, kind)
    noted: dict[int, Op] = {}
    for loop, found in channels.items():
        flight = int(any(channel.goes_on for channel in found))
        schedule = (("warps", further), ("registers", registers), ("in_flight", flight))
        schedule += (("persistent", True),) if stays else ()
        ops = (op.noted(**places[id(op)]) if id(op) in places else op for op in loop.body.ops)
        body = Block(loop.body.arguments, tuple(ops))
        noted[id(loop)] = loop.noted(body=body, schedule=schedule)
    text = f"{further} producer warp{'s' if further > 1 else ''} + {warps} that multiply"
    each = sum(rings.values())
    for loop in loops:
        remarks.note(
            loop,
            f"specialised: {text}, ring of {slots} x {each:,} bytes"
            + (f", {beside:,} bytes loaded first" if beside else "")
            + (f", {registers[1]} registers each" if registers else ""),
            "applied",
        )
    top = [op.noted(**places[id(op)]) if id(op) in places else op for op in module.body.ops]
    body = Block((), tuple(noted.get(id(op), op) for op in top))
    return replace(module, body=body)


def _stays(
    module: Module, loops: Iterable[For], known: Known
) -> tuple[bool, list[tuple[Op | None, str, Severity]]]:
    """Say whether blocks may stay for one program after the other; remarks.

    Programs of a block then run in the order of their numbers, as far as anybody can tell, and a
    block's barriers and shared memory are all theirs. A launch has as many blocks as the device
    holds at once, or as programs if those are fewer.
    """
    wanted = module.attributes.get("persistent")
    if wanted is None:  # of two products in a loop the most are as fast without (attention)
        wanted = all(len(channels_of(loop, known)) == 1 for loop in loops)
    if not wanted:
        return False, []
    for op in module.walk():
        reason = "asks which block it is in" if op.names_block else ""
        if any(map(_orders_programs, op.own_effects())):
            reason = "waits for other programs or signals to them"
        if reason:
            return False, [(op, f"not persistent: {op.name} {reason}", "missed")]
    for loop in loops:
        loads = [load for channel in channels_of(loop, known) for load in channel.loads]
        try:
            producer_slice(loop, loads, module, known, persistent=True)
        except RefusedError as refused:
            return False, [(refused.op, f"not persistent: {refused.why}", "missed")]
    text = "persistent: as many blocks as the device holds stay for one program after the other"
    return True, [(None, text, "applied")]


def _orders_programs(effect: Effect) -> bool:
    touches = effect.reads or effect.writes
    return (
        effect.space == "global" and effect.order != "plain" and (touches or effect.scope != "cta")
    )


def _check_order(module: Module, last: For, loads: Sequence[Op], known: Known) -> None:
    """Raise RefusedError where a producer would overtake what comes before a load.

    It waits for slots and for nothing else that consumers do.
    """
    reads = [effect for load in loads for effect in load.effects()]
    until = module.body.ops.index(last) + 1
    before = [inner for op in module.body.ops[:until] for inner in (op, *_inner(op))]
    for found in before:
        reasons = (_overtaken(found, effect, reads, known) for effect in found.own_effects())
        if reason := next(filter(None, reasons), ""):
            raise RefusedError(found, reason)


def _overtaken(op: Op, effect: Effect, reads: Sequence[Effect], known: Known) -> str:
    """Say why loads must not come before what an op does; "" if they may."""
    if effect.space != "global":
        return ""
    if _orders_programs(effect):
        return f"{op.name} waits for other programs or signals to them"
    if effect.writes and any(known.memory.may_meet(read, effect) for read in reads):
        return "it stores to memory that a producer might have read by then"
    return ""


def _inner(op: Op) -> list[Op]:
    return [inner for region in op.regions for inner in walk(region)]


def _loops(module: Module, rules: RuleTable) -> list[For]:
    """Return the loops at the top of a kernel in which tiles are copied as a whole."""
    return [
        op for op in module.body.ops if isinstance(op, For) and any(map(rules.box_of, op.body.ops))
    ]


def channels_of(loop: For, known: Known) -> list[Channel]:
    """Return what products of a loop read of its loads of boxes, in the order of the products."""
    here = {id(op): place for place, op in enumerate(loop.body.ops)}
    groups: dict[int, list[Load]] = {}
    for op in loop.body.ops:
        if known.rules.box_of(op) is None:
            continue
        load = _load(op, known)
        products = {id(read.op) for read in load.reads}
        if len(products) > 1 or not products <= set(here):
            raise RefusedError(op, "products outside its loop, or several, read the loaded tile")
        groups.setdefault(here[products.pop()], []).append(load)
    ordered = [loop.body.ops[place] for place in sorted(groups)]
    found: list[Channel] = []
    for op in ordered:
        channel = Channel(tuple(groups[here[id(op)]]), op)
        alike = sum(replace(other, number=0).key == channel.key for other in found)
        found.append(replace(channel, number=alike))
    if len(found) == 1 and _may_go_on(loop, found[0], known):
        found = [replace(found[0], goes_on=True)]
    return found


def held_of(module: Module, loops: Sequence[For], known: Known) -> list[Channel]:
    """Return what products of loops read of boxes that are loaded before all of them."""
    places = {id(op) for loop in loops for op in loop.body.ops}
    first = module.body.ops.index(loops[0])
    found: list[Channel] = []
    for op in module.body.ops[:first]:
        if known.rules.box_of(op) is None:
            continue
        load = _load(op, known)
        if any(id(read.op) not in places for read in load.reads):
            raise RefusedError(op, "products outside the loops read the loaded tile")
        channel = Channel((load,), load.reads[0].op, held=True)
        alike = sum(replace(other, number=0).key == channel.key for other in found)
        found.append(replace(channel, number=alike))
    return found


def _load(op: Op, known: Known) -> Load:
    """Return a load of a box that products read; raises RefusedError where others do, too."""
    ahead = known.rules.ahead_of(op, known.on)
    if ahead is None or ahead.obstacle or ahead.box is None:
        why = ahead.obstacle if ahead is not None else "no copy fills a buffer as it does"
        raise RefusedError(op, why)
    buffer, reads = known.in_place(op.result, ahead.buffer)
    transposes = known.transposes(op.result)
    taken = {id(read.op) for read in reads} | {id(t.op) for t in transposes}
    users = [u for v in (op.result, *transposes) for u in known.uses.get(v, [])]
    if any(id(u) not in taken for u in users) or not reads:
        raise RefusedError(op, "something beside a product reads the loaded tile")
    return Load(op, ahead.box, buffer, reads, frozenset(id(t.op) for t in transposes))


def _may_go_on(loop: For, channel: Channel, known: Known) -> bool:
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


def _check(loop: For, channels: Iterable[Channel], module: Module, known: Known) -> list[Op]:
    """Return what a producer computes for a loop; raise RefusedError where it has no role there."""
    bounds = [constant_of(value) for value in (loop.lower, loop.upper, loop.step)]
    if None not in bounds and bounds[2] and count_rounds(*bounds) < 2:  # type: ignore[arg-type]
        raise RefusedError(loop, "the loop has one round")
    loads = [load for channel in channels for load in channel.loads]
    before, within, _ = producer_slice(loop, loads, module, known)
    return [*before, *within]


def producer_slice(
    loop: For | None,
    loads: Sequence[Load],
    module: Module,
    known: Known,
    *,
    persistent: bool = False,
) -> tuple[list[Op], list[Op], list[int]]:
    """Return what the producer computes: before the loop, in it, and which carried values.

    Where blocks are `persistent` that is what follows from a program's number, too. Without a loop
    it is for loads before all loops.
    Raises RefusedError where that is not numbers alone.
    """
    stays = stays_before(module, programs=persistent)
    outside = {r: op for op in module.body.ops for r in op.results}
    body = loop.body if loop is not None else Block((), ())
    inside = {r: op for op in body.ops for r in op.results}
    counter, arguments = body.arguments[:1], list(body.arguments[1:])
    work = [v for load in loads for v in load.box.reads]
    work += [loop.lower, loop.upper, loop.step] if loop is not None else []
    seen: set[Value] = set()
    first: set[int] = set()
    within: set[int] = set()
    carried: set[int] = set()
    while work:
        value = work.pop()
        if value in seen or value in counter:
            continue
        seen.add(value)
        if shape_of(value.type):
            raise RefusedError(loop or loads[0].op, "where a copy begins follows from a tile")
        if value in arguments:
            place = arguments.index(value)
            carried.add(place)
            assert loop is not None
            work += [body.yields[place], loop.inits[place]]
            continue
        op = inside.get(value) or outside.get(value)
        if op is None or op in stays:
            continue
        tiled = any(shape_of(v.type) for v in read_by(op))
        if tiled or not (op.pure or known.memory.may_repeat(op)):
            raise RefusedError(loop or loads[0].op, f"where a copy begins follows from {op.name}")
        (within if value in inside else first).add(id(op))
        work += read_by(op)
    return (
        [op for op in module.body.ops if id(op) in first],
        [op for op in body.ops if id(op) in within],
        sorted(carried),
    )


def _in_buffers(channels: Iterable[Channel], known: Known) -> list[Value]:
    loaded = [load.op.result for channel in channels for load in channel.loads]
    return [*loaded, *(turned for tile in loaded for turned in known.transposes(tile))]


@dataclass(frozen=True, slots=True)
class _Threads:
    """The warps of a block and the registers of a thread, about."""

    warps: int
    registers: int


def _registers_of(
    loop: For, channels: Sequence[Channel], module: Module, chip: Chip, known: Known
) -> int:
    """Return about how many registers a thread that multiplies needs for a loop.

    With a product that starts a round later, if they are there for it.
    """
    late = late_product(loop, chip.rules) if module.attributes.get("overlap", True) else None
    if late is None:
        return _BESIDE_TILES + peak_in(loop.body, _in_buffers(channels, known))
    in_rings = {read.operand for c in channels for load in c.loads for read in load.reads}
    alone, beside = registers_needed(loop, late, in_rings, chip.rules, copies=0)
    try:
        _registers(module, chip, beside)
    except RefusedError:
        return alone
    return beside


def _registers(
    module: Module, chip: Chip, needed: int, numbers: int = 0
) -> tuple[int, tuple[int, ...]]:
    """Return the producer's warps and, where registers are given away, each role's.

    `numbers`: how many the producer's copies of a round read.
    """
    warps: int = module.attributes["num_warps"]
    if needed <= chip.most_registers(warps + 1):
        return 1, ()
    pair = (MORE_REGISTERS if numbers > _MORE_NUMBERS else REGISTERS).get(warps // 4)
    if pair is None or module.attributes.get("maxnreg") or needed > pair[1]:
        raise RefusedError(
            None, f"about {needed} registers of a thread are needed beside a producer"
        )
    return 4, pair


def _slots(
    module: Module, loops: Sequence[For], chip: Chip, each: int, threads: _Threads,
    room: int | None, beside: int,
) -> int:  # fmt: skip
    """Return how many slots rings have; raise RefusedError where there is no room for two.

    As many as the author wants, one more for a product in flight where that costs no resident
    block; where nobody asked for a depth, as many as leave resident what three of them do.
    `beside`: bytes of what is loaded before the loops.
    """
    there = (chip.shared_bytes if room is None else room) - beside
    most = min(MOST_SLOTS, there // max(each, 1))
    if most < 2:
        raise RefusedError(loops[0], f"there is no room for two slots of {each:,} bytes")
    wanted = max((loop.stages or 0 for loop in loops), default=0)
    free = not wanted and module.attributes.get("stages_are_free")
    wanted = wanted or module.attributes["num_stages"]
    start = max(2, min(wanted, most))

    def resident(slots: int) -> int:
        return residency(chip, threads.warps, threads.registers, slots * each + beside).warps

    last = most if free else min(most, start + 1)
    found = start
    for slots in range(start + 1, last + 1):
        if resident(slots) == resident(start):
            found = slots
    return found


__all__ = ["Channel", "Load", "channels_of", "held_of", "producer_slice", "role_partition"]
