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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from workbench.ir import Block, Effect, Module, Op, Value, element_of, layout_of, shape_of
from workbench.ops import For, count_rounds, counted_loops
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.chip import MOST_HALVINGS, Chip, chip_of, residency
from workbench.targets.nvidia.passes.channels import (
    Channel,
    RefusedError,
    channels_of,
    held_of,
    in_buffers,
    in_parts,
    loops_with_boxes,
    producer_slice,
)
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
    stored_bytes,
)
from workbench.targets.nvidia.passes.sharing import together
from workbench.targets.nvidia.passes.staying import Told, draws, stays
from workbench.targets.simt.lowering import used_values
from workbench.targets.simt.passes.guarded_work import without_branch
from workbench.targets.simt.passes.longest_first import inner_ops, orders_programs
from workbench.targets.simt.passes.shared_memory import scratch_of
from workbench.targets.simt.passes.staged_loads import Known
from workbench.targets.simt.pressure import peak_in
from workbench.targets.simt.rules import Device

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
_FEWEST_SLOTS = 2
#: The slots without which a producer waits for a product that goes on into the next round: it holds
#: its own until that has begun (an H100, int4 of 256 x 128 by 128 at 4096: 3.83 ms, 2.74 with one
#: more and blocks that go).
_SLOTS_OF_TWO_ROUNDS = 3
#: Of how many programs what is loaded before the loops is there at once, where blocks stay: the
#: next one's comes while this one still reads its own.
_PROGRAMS = 2
#: The same where a producer's copies read more numbers in a round: tiles that are several boxes.
_MORE_NUMBERS, MORE_REGISTERS = 16, {2: (40, 232), 4: (40, 104)}

_NO_ROOM: Told = [
    (
        None,
        "not persistent: rings do not fit shared memory beside what else a program keeps there",
        "missed",
    )
]


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
    unasked where each loop has one product, or where a block has a multiprocessor to itself
    (attention of 128 x 128 by 128: 3 to 12 %, the most where programs are short), unless how long
    programs take is read from memory (staying.py, which says for how many programs, too). For a
    loop's only product warps part if a block has a multiprocessor to itself (fp16 of 128 x 256
    by 64: 1.5 to 2.7 % from 3072 to 8192, fp8 3 %). So they do where threads compute an operand of
    what boxes bring, all of it: nobody starts copies beside that, or meets the block (int8 weights
    of 256 x 128 by 64 at 4096: 1.16, and 1.12 with a slot less).

    Needs: layouts. Keeps: every value; what is decided are attributes (`schedule` of a loop,
    `role`, `channel` and `slots` of a load).
    """
    key = ("roles", chip, room)  # `will_stay` has asked for it, perhaps
    found, said = module.once(key, lambda: _partition(module, chip, room))
    remarks.take(said)
    return found


def _partition(module: Module, chip: Device, room: int | None) -> tuple[Module, Remarks]:
    remarks = Remarks()
    outside = (
        module if loops_with_boxes(module, chip.rules) else without_branch(module, chip) or module
    )
    found = _parted(outside, remarks, chip, room)
    found = module if found is outside else found
    if found is module and module.attributes.get("persistent"):
        remarks.note(None, "not persistent: the warps of a block do not part", "missed")
    return found, remarks


def will_stay(module: Module, chip: Device, room: int | None = None) -> bool:
    """Say whether `role_partition` will have the blocks of a kernel stay."""
    if module.attributes.get("persistent") is False:
        return False
    decided = role_partition(module, Remarks(), chip, room)
    return any(loop.decided("persistent") for loop in counted_loops(decided.body.ops))


def left_by_rings(module: Module, chip: Device, room: int | None = None) -> int:
    """Return the bytes of shared memory that rings leave as `role_partition` decides them."""
    taken = 0
    for op in role_partition(module, Remarks(), chip, room).walk():
        if (box := chip.rules.box_of(op)) is not None:
            (tile,) = op.results
            taken += box.slots * prod(shape_of(tile.type)) * element_of(tile.type).itemsize
    return chip.shared_bytes - taken


def _parted(module: Module, remarks: Remarks, chip: Device, room: int | None) -> Module:
    asked = _asked(module)
    loads = [op for op in module.walk() if chip.rules.box_of(op)]
    if not loads:
        _answer(asked, "no load of it is a tensor copy that a product by warpgroups reads", remarks)
        return module
    wanted, unit = module.attributes.get("warp_specialize"), chip_of(chip)
    if wanted is False and not asked:
        return module
    known = Known(module, unit)
    ways = (_adds, _pays, _may_stay)
    if not (wanted or asked or any(check(module, unit, room, known) for check in ways)):
        return module
    try:
        return _decided(module, unit, loads, room, known, remarks)
    except RefusedError as refused:
        remarks.note(refused.op, f"not specialised: {refused.why}", "missed")
        _answer(asked, refused.why, remarks)
        return module


def _adds(module: Module, chip: Chip, room: int | None, known: Known) -> bool:
    """Say whether several groups of warps compute in the midst of their loops' only products."""
    del room
    loops = loops_with_boxes(module, chip.rules)
    some = all(any(op.registers_beside for op in loop.body.ops) for loop in loops)
    if not some or not loops or module.attributes["num_warps"] < _TWO_GROUPS:
        return False
    for loop in loops:
        try:
            channels = channels_of(loop, known)
            needed = _BESIDE_TILES + _peak(loop, channels, known)
            _registers(module, chip, needed)
        except RefusedError:
            return False
        if len(channels) != 1 or not channels[0].product.registers_beside:
            return False
    return True


def _may_stay(module: Module, chip: Chip, room: int | None, known: Known) -> bool:
    """Say whether groups of warps have the only products of their loops in a block that is alone.

    It is to stay, then.
    """
    loops, warps = loops_with_boxes(module, chip.rules), module.attributes["num_warps"]
    if module.attributes.get("persistent") is False or warps < _TWO_GROUPS or len(loops) != 1:
        return False
    (loop,) = loops
    try:
        channels = channels_of(loop, known)
        needed = _BESIDE_TILES + _peak(loop, channels, known)
        _registers(module, chip, needed)
    except RefusedError:
        return False
    if len(channels) != 1 or not channels[0].goes_on:
        return False
    if not stays(module, {loop: channels}, known, alone=True)[0]:
        return False
    depth = loop.stages_in(module.attributes)
    ring = depth * channels[0].bytes
    fits = ring <= (chip.shared_bytes if room is None else room)
    return fits and residency(chip, warps, needed, ring).warps <= warps


def _pays(module: Module, chip: Chip, room: int | None, known: Known) -> bool:
    """Say whether loops start two products at once and, as they are, leave room for one block."""
    loops = loops_with_boxes(module, chip.rules)
    late = [late_product(loop, chip.rules) for loop in loops]
    if not all(late) or not late or not module.attributes.get("overlap", True):
        return False
    warps = module.attributes["num_warps"]
    for loop, product in zip(loops, late, strict=True):
        assert product is not None
        try:
            channels = channels_of(loop, known)
            in_rings = {read.operand for channel in channels for read in channel.reads}
            plain, needed = registers_needed(loop, product, in_rings, chip.rules, copies=0)
            _registers(module, chip, needed)
        except RefusedError:
            return False
        depth = loop.stages_in(module.attributes)
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
    module: Module, chip: Chip, loads: Sequence[Op], room: int | None, known: Known,
    remarks: Remarks,
) -> Module:  # fmt: skip
    loops = loops_with_boxes(module, chip.rules)
    outside = "it loads outside the loops at the top of the kernel"
    if not loops:
        raise RefusedError(loads[0], outside)
    channels = {loop: channels_of(loop, known) for loop in loops}
    held = held_of(module, loops, known)
    warps: int = module.attributes["num_warps"]
    needed = max(
        _registers_of(loop, [*found, *held], module, chip, known)
        for loop, found in channels.items()
    )
    copied = ([one.box for c in found for one in c.loads] for found in channels.values())
    numbers = max(len({v for box in boxes for v in box.reads}) for boxes in copied)
    further, registers = _registers(module, chip, needed, numbers)
    threads = _Threads(warps + further, min(needed, chip.most_registers(warps + further)))
    rings = {channel.key: channel.bytes for found in channels.values() for channel in found}
    ring = _Ring(module, loops, chip, sum(rings.values()), threads, room)
    beside = sum(channel.bytes for channel in held)
    read = {r.operand for found in (*channels.values(), held) for c in found for r in c.reads}
    stored = max(stored_bytes(loop, read, chip.rules) for loop in loops)
    rounds, told = stays(module, channels, known, alone=ring.is_alone(beside + stored))
    kept = _scratch(module, chip) if rounds and room is None else 0
    goes_on = any(channel.goes_on for found in channels.values() for channel in found)
    least = _SLOTS_OF_TWO_ROUNDS if goes_on and not held else _FEWEST_SLOTS
    if rounds and ring.most(beside + kept) < min(least, ring.most(0)):
        rounds, kept, told = 0, 0, _NO_ROOM
    inside = {id(op) for loop in loops for op in loop.body.ops}
    inside |= {id(load.op) for channel in held for load in channel.loads} if rounds else set()
    for load in loads:
        if id(load) not in inside:
            raise RefusedError(load, outside)
    blocks, more = together(module, channels, held, known, stays=rounds > 0)
    drawn, also = draws(module, channels, blocks) if rounds else (False, [])
    _check_order(module, loops[-1], _produced(module, channels, held, loads, known), known)
    slots = ring.slots(beside, kept)
    ahead = ring.programs(beside, kept, slots) if rounds else 1
    beside *= ahead
    keys = [*rings, *(channel.key for channel in held)]
    places = {
        id(load.op): load.box.decided(keys.index(channel.key), ahead if channel.held else slots)
        for found in (*channels.values(), held)
        for channel in found
        for load in channel.loads
    }

    for op, text, kind in [*told, *more, *also]:
        remarks.note(op, text, kind)
    noted: dict[int, Op] = {}
    for loop, found in channels.items():
        flight = int(any(channel.goes_on for channel in found))
        schedule = (("warps", further), ("registers", registers), ("in_flight", flight))
        schedule += (("persistent", rounds),) if rounds else ()
        schedule += (("blocks", blocks),) if blocks > 1 else ()
        schedule += (("drawn", 1),) if drawn else ()
        ops = (op.noted(**places[id(op)]) if id(op) in places else op for op in loop.body.ops)
        body = Block(loop.body.arguments, tuple(ops))
        noted[id(loop)] = loop.noted(body=body, schedule=schedule)
    text = f"{further} producer warp{'s' if further > 1 else ''} + {warps} that multiply"
    each = sum(rings.values())
    empty = each - sum(
        {channel.key: channel.copied for c in channels.values() for channel in c}.values()
    )
    for loop in loops:
        remarks.note(
            loop,
            f"specialised: {text}, ring of {slots} x {each:,} bytes"
            + (f", {empty:,} of them empty beside a narrower box" if empty else "")
            + (f", {beside:,} bytes loaded first" if beside else "")
            + (f", {registers[1]} registers each" if registers else ""),
            "applied",
        )
    top = [op.noted(**places[id(op)]) if id(op) in places else op for op in module.body.ops]
    body = Block((), tuple(noted.get(id(op), op) for op in top))
    return replace(module, body=body)


def _produced(
    module: Module, channels: Mapping[For, Sequence[Channel]], held: Iterable[Channel],
    loads: Sequence[Op], known: Known,
) -> list[Op]:  # fmt: skip
    """Return what a producer does; raise RefusedError where it has no role in a loop."""
    found = [*loads]
    for loop in channels:
        found += _check(loop, channels[loop], module, known)
    for channel in held:
        found += producer_slice(None, channel.loads, module, known, persistent=True)[0]
    return found


def _check_order(module: Module, last: For, loads: Sequence[Op], known: Known) -> None:
    """Raise RefusedError where a producer would overtake what comes before a load.

    It waits for slots, and where everybody waits at the top of the kernel; for nothing else that
    consumers do.
    """
    reads = [effect for load in loads for effect in load.effects()]
    until = module.body.ops.index(last) + 1
    for found in (inner for op in module.body.ops[:until] for inner in inner_ops(op)):
        if any(effect.is_wait for effect in found.own_effects()):
            raise RefusedError(found, f"{found.name} does not stand at the top of the kernel")
    before = [inner for op in module.body.ops[:until] for inner in (op, *inner_ops(op))]
    for found in before:
        reasons = (_overtaken(found, effect, reads, known) for effect in found.own_effects())
        if reason := next(filter(None, reasons), ""):
            raise RefusedError(found, reason)


def _overtaken(op: Op, effect: Effect, reads: Sequence[Effect], known: Known) -> str:
    """Say why loads must not come before what an op does; "" if they may."""
    if effect.space != "global":
        return ""
    if orders_programs(effect):
        return f"{op.name} waits for other programs or signals to them"
    if effect.writes and any(known.memory.may_meet(read, effect) for read in reads):
        return "it stores to memory that a producer might have read by then"
    return ""


def _check(loop: For, channels: Iterable[Channel], module: Module, known: Known) -> list[Op]:
    """Return what a producer computes for a loop; raise RefusedError where it has no role there."""
    bounds = [constant_of(value) for value in (loop.lower, loop.upper, loop.step)]
    if None not in bounds and bounds[2] and count_rounds(*bounds) < 2:  # type: ignore[arg-type]
        raise RefusedError(loop, "the loop has one round")
    loads = [load for channel in channels for load in channel.loads]
    before, within, _ = producer_slice(loop, loads, module, known)
    return [*before, *within]


def _peak(loop: For, channels: Sequence[Channel], known: Known) -> int:
    """Return the registers of a thread that tiles fill at most in a loop.

    Sums and fragments beside them count whatever their type, others where they are floats. What is
    computed in parts, each in front of its product, is never there as a whole.
    """
    found = peak_in(loop.body, [*in_buffers(channels, known), *in_parts(channels)])
    for channel in channels:
        held = {value for load in channel.loads for value in load.held}
        if held:
            found = max(found, sum(map(_words_of, (channel.product.result, *held))))
    return found


def _words_of(tile: Value) -> int:
    layout = layout_of(tile.type)
    assert layout is not None
    again = layout.flat("register").count(0)
    return (len(layout.live_registers()) >> again) * element_of(tile.type).itemsize // 4


def _registers_of(
    loop: For, channels: Sequence[Channel], module: Module, chip: Chip, known: Known
) -> int:
    """Return about how many registers a thread that multiplies needs for a loop.

    With a product that starts a round later, if they are there for it.
    """
    late = late_product(loop, chip.rules) if module.attributes.get("overlap", True) else None
    if late is None:
        return _BESIDE_TILES + _peak(loop, channels, known)
    in_rings = {read.operand for channel in channels for read in channel.reads}
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


@dataclass(frozen=True, slots=True)
class _Threads:
    """The warps of a block and the registers of a thread, about."""

    warps: int
    registers: int


@dataclass(frozen=True, slots=True)
class _Ring:
    """What may become of the rings of loops, whose slots have `each` bytes in all."""

    module: Module
    loops: Sequence[For]
    chip: Chip
    each: int
    threads: _Threads
    room: int | None

    def most(self, beside: int) -> int:
        """Return how many slots there may be, where something else takes `beside` bytes."""
        there = (self.chip.shared_bytes if self.room is None else self.room) - beside
        return min(MOST_SLOTS, there // max(self.each, 1))

    @property
    def wanted(self) -> int | None:
        """How many the author wants, None where nobody said anything."""
        asked = [loop.stages for loop in self.loops if loop.stages is not None]
        if not asked and self.module.attributes.get("stages_are_free"):
            return None
        return max(asked, default=self.module.attributes["num_stages"])

    @property
    def _usual(self) -> int:
        wanted = self.wanted
        return self.module.attributes["num_stages"] if wanted is None else wanted

    def _resident(self, slots: int, beside: int) -> int:
        needed = slots * self.each + beside
        return residency(self.chip, self.threads.warps, self.threads.registers, needed).warps

    def is_alone(self, beside: int) -> bool:
        """Say whether a block with the slots that are wanted has a multiprocessor to itself."""
        slots = max(_FEWEST_SLOTS, self._usual)
        return self._resident(slots, beside) <= self.threads.warps

    def slots(self, held: int, kept: int) -> int:
        """Return how many slots rings have; raise RefusedError where there is no room for two.

        As many as the author wants, one more for a product in flight where that costs no resident
        block; where nobody asked for a depth, as many as leave resident what three of them do.
        `held`: bytes of what is loaded before the loops; `kept`: of what lies beside the rings.
        """
        most = self.most(held + kept)
        if most < _FEWEST_SLOTS:
            text = f"there is no room for two slots of {self.each:,} bytes"
            raise RefusedError(self.loops[0], text)
        start = max(_FEWEST_SLOTS, min(self._usual, most))
        last = most if self.wanted is None else min(most, start + 1)
        found = start
        for slots in range(start + 1, last + 1):
            if self._resident(slots, held) == self._resident(start, held):
                found = slots
        return found

    def programs(self, held: int, kept: int, slots: int) -> int:
        """Return of how many programs what is loaded first is there, beside so many slots.

        One where the next one's would cost a slot, or a resident block.
        """
        more = _PROGRAMS * held
        fits = self.most(more + kept) >= slots
        return (
            _PROGRAMS if fits and self._resident(slots, more) == self._resident(slots, held) else 1
        )


def _scratch(module: Module, chip: Chip) -> int:
    """Return the bytes that ops take at once while they run, as few as they can do with.

    Where blocks stay that lies beside rings, which the producer fills for the next program.
    """
    used, warps = used_values(module), module.attributes["num_warps"]
    found: list[int] = []
    for halvings in range(MOST_HALVINGS + 1):  # smaller pieces may not exist, and take it all
        unit = replace(chip, halvings=halvings)
        taken = (scratch_of(op, unit, warps, used).bytes for op in module.walk())
        found.append(max(taken, default=0))
    return min(found)


__all__ = ["role_partition", "will_stay"]
