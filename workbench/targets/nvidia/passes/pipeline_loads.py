"""Software pipelining: loads that feed dots start several rounds ahead, into a ring of buffers.

For a loop of T rounds and S stages the ring has S slots. Before the loop the copies of rounds
0 … S-2 are started; round i waits for its own copy, meets all threads at one barrier (so slot
i-1 is free as well), starts the copy of round i+S-1 into the slot that round i-1 used, and works
on slot i. Addresses of a later round come from running the loop's address arithmetic ahead: the
carried values it needs are carried a second time, S-1 rounds further on. Tables that an address is
read from are read ahead with it, in rounds that the loop reaches and in no others.

Loads of boxes of a tensor (`gpu.tensor_load`) go through the same ring: one thread starts their
copies, and a barrier for each slot counts the bytes, for which all threads wait. The block meets
all the same, since a slot is free when everybody has read it. What such a copy writes and what
products read is ordered without a fence: both are of the asynchronous proxy. What threads wrote
to the same bytes before the loop, as another buffer, is ordered by one fence in front of it.

Products that read the ring themselves may go on while the next round starts (`gpu.wgmma`). Where
the only product of a loop adds to a carried sum, it is waited for one round later. Its slot is
free a round later too, so the ring has one more, or the copies start one round less ahead. Where
there is room for neither, the product is started in front of the copies and waited for behind them.

A product that adds to sums and reads what is made of another one may be started a round later
(overlap_products.py); its slot is free as much later.

Rows of a tile that the next round goes on with, and that are short, are asked for by several rounds
at once: memory gives 32 bytes of a row at two fifths of its speed, 64 at three, 256 at nine tenths
(H100, tests/bench/mixed.py). Every so many rounds the block waits for what these read, meets, and
starts the copies of as many later ones.

What no copy brings as such a product reads it goes through registers: turned tiles, and elements of
which fewer than four bytes lie side by side. Round i loads what round i+S-1 needs, and the next one
stores it to its slot, right behind the barrier; who multiplies it has met the others since then.

What may be staged at all, staged_loads.py says; ring_loops.py writes the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from workbench.ir import (
    Builder,
    Module,
    Op,
    Value,
    element_of,
    layout_of,
    rebuild,
    walk,
)
from workbench.ops import For, counted
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import MOST_REGISTERS, Chip, chip_of, residency
from workbench.targets.nvidia.passes.kept_operands import may_stay
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
    stored_bytes,
)
from workbench.targets.nvidia.passes.plain_rings import (
    OTHER_REGISTERS,
    going_product,
    in_turn,
    inside,
    registers_of,
    scratch_bytes,
)
from workbench.targets.nvidia.passes.ring_loops import Plan, RingLoop, begun_once, tiles_of
from workbench.targets.nvidia.told_blocks import ENOUGH_WARPS
from workbench.targets.simt.copying import TAKES_NONE
from workbench.targets.simt.ops import roles_of
from workbench.targets.simt.passes.costs import vector_width
from workbench.targets.simt.passes.rounds import counts_ahead
from workbench.targets.simt.passes.staged_loads import (
    Early,
    Known,
    Staged,
    staged_load,
)
from workbench.targets.simt.rules import Device, Setting

_BARRIER_BYTES = 8
#: The option with which operands that are computed stay in registers (warpgroups.py).
COMPUTED_FIRST = "computed_first"
#: What it has of those at the least, where threads start the copies of its only product: a slot
#: more may cost a block then (of gathered rows by 128x128 and eight warps, which have 128 in all).
_FEWEST_REGISTERS = 64
#: The addresses that it has among those.
_OTHER_ADDRESSES = 24
#: Rounds ahead in which a tile is loaded that is stored a round later, for all to see in the next.
_LEAST_DISTANCE = 2
#: Blocks of which one reads a table, one waits for what that leads to, and one multiplies.
_TAKING_TURNS = 3
#: Bytes that a multiprocessor asks memory for at once, from which on more gain nothing: nearly
#: three times what its share of an H100's memory, 25 GB/s, brings in a microsecond.
_ON_THE_WAY = 1 << 16


def pipeline_loads(
    module: Module, remarks: Remarks, chip: Device, room: int | None = None
) -> Module:
    """Turn loads that feed dots in a loop into asynchronous copies, started rounds ahead.

    `room`: the bytes of shared memory that a ring may take; what the chip has, if nobody says.

    Needs: layouts. Keeps: every value (memory that the loop stores to is not loaded ahead).
    """
    room = chip.shared_bytes if room is None else room
    known = Known(module, chip)
    rings: list[Value] = []
    together: set[int] = set()
    roles = roles_of(module)  # there a producer copies ahead already
    regions = () if roles is None else roles.regions
    fed = {op.id for region in regions for op in walk(region)}

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        loop = counted(op)
        depth = 0 if loop is None else loop.stages_in(module.attributes)
        if loop is None or depth < 2:
            return None
        if not counts_ahead(loop):
            remarks.note(op, "nothing is copied ahead: the counter may not fit its type behind the "
                         "last round, and how far a round goes is not known", "missed")  # fmt: skip
            return None
        early = Early(loop, known)
        found, plan = _decided(early, depth, chip_of(chip), room, remarks)
        if plan is None:
            if loop.id not in fed:
                _answer_stages(loop, known, remarks)
            return None
        together.add(plan.together)
        for staged in found:
            _answer_memory_hints(staged, remarks)
        first = module.attributes.get("loads_first", True)
        clean = first and _is_untouched(module, loop, known)
        return RingLoop(early, found, plan, builder).written(remarks, rings, clean=clean)

    done = rebuild(module, rewrite)
    if module.attributes.get("rounds_together", False) and max(together, default=1) == 1:
        text = "rounds_together=True is not obeyed: no ring of vectors has short rows that go on"
        remarks.note(None, text, "missed")
    return begun_once(done, rings) if rings else done


def _is_untouched(module: Module, loop: For, known: Known) -> bool:
    """Say whether no thread can have written shared memory before a loop at the top.

    Products' operands are stored right in front of it (stage_products.py).
    """
    rules, on = known.rules, known.on
    for op in module.body.ops:
        if op.id == loop.id:
            return True
        scratch = rules.scratch_of(op, on.chip, on.num_warps, True)
        if op.regions or scratch.bytes or rules.stored_of(op):
            return False
    return False


def _decided(
    early: Early, depth: int, chip: Chip, room: int, remarks: Remarks
) -> tuple[list[Staged], Plan | None]:
    """Return the loads of a loop to stage and their ring; no ring if there are none.

    Those that no copy brings go through registers, if there are enough of them.
    """
    if not early.known.hides(early.loop.body):
        return [], None
    said = remarks.aside()
    found, plan = _ring_of(early, depth, chip, room, said, through_registers=True)
    held = [staged.load for staged in found if staged.through_registers]
    if held and plan is not None:
        reason = _obstacle_of_registers(early, found, plan, chip)
        if reason:
            said = remarks.aside()
            found, plan = _ring_of(early, depth, chip, room, said, through_registers=False)
            for load in held:
                said.note(load, f"not loaded ahead into registers: {reason}", "missed")
    remarks.take(said)
    return found, plan


def _ring_of(
    early: Early, depth: int, chip: Chip, room: int, remarks: Remarks, *, through_registers: bool
) -> tuple[list[Staged], Plan | None]:
    loop, options = early.loop, early.known.on.options

    def staged(said: Remarks, *, beside: bool) -> list[Staged]:
        ways = (
            staged_load(early, op, said, through_registers=through_registers, beside=beside)
            for op in loop.body.ops
        )
        return [way for way in ways if way is not None]

    said = remarks.aside()
    found = staged(said, beside=False)
    if found and options.get("copy_narrow", False):  # a ring is there for what meets the products
        said = remarks.aside()
        found = staged(said, beside=True)
    remarks.take(said)
    if found and loop.stages is None and options.get("stages_are_free"):
        depth = _fitting(loop, found, depth, room, remarks)
    else:
        found = _affordable(early, found, depth, room, remarks)
    if not found or depth < 2:
        return found, None
    depth = _for_more_blocks(early, found, depth, chip, remarks)
    return found, _planned(early, found, depth, chip, room, remarks)


def _obstacle_of_registers(early: Early, found: Sequence[Staged], plan: Plan, chip: Chip) -> str:
    """Say why no tile of a loop may go through registers; "" if it may.

    What is loaded in one round is stored in the next one, and is seen behind that one's end.
    """
    if plan.late is not None:
        return "a product of the loop starts a round late"
    if plan.distance < _LEAST_DISTANCE:
        return f"{plan.slots} slots hold {plan.distance} rounds ahead, it takes {_LEAST_DISTANCE}"
    on = early.known.on
    most = min(chip.most_registers(on.num_warps), on.options.get("maxnreg") or MOST_REGISTERS)
    products = [op for op in early.loop.body.ops if on.chip.rules.staged_of(op)]
    sums = max(registers_of(op.result) + op.registers_beside for op in products)
    held = rows = 0
    for staged in found:
        if staged.through_registers:
            accesses, addresses = _accesses(staged, on)
            held += max(accesses, registers_of(staged.load.result))
            rows += addresses
    needed = sums + OTHER_REGISTERS + held + 2 * max(0, rows - _OTHER_ADDRESSES)
    return f"{needed} registers needed, {most} there" if needed > most else ""


def _accesses(staged: Staged, on: Setting) -> tuple[int, int]:
    """Return how many accesses of a thread bring a tile, and of how many addresses those are.

    What lies along memory is a number away from what a thread reads there already. Of single
    elements there are addresses of rows (or of columns, if those are fewer) and numbers, half as
    wide, to add to them (`_shared_first` in simt's memory.py).
    """
    access, layout = staged.access, layout_of(staged.load.result.type)
    assert access is not None
    assert layout is not None
    itemsize = element_of(staged.load.result.type).itemsize
    pointers, mask = access.pointers, access.mask
    width, _ = vector_width(on.facts, pointers, mask, layout, itemsize, on.chip.widest_bytes)
    strides = [on.facts.usual_stride(pointers, axis, mask) for axis in range(layout.rank)]
    away = [
        base for base in layout.bases["register"]
        if any(part and strides[axis] != 1 for axis, part in enumerate(base))
    ]  # fmt: skip
    if width > 1:
        return layout.registers() // width, 1 << len(away)
    along = Counter(tuple(map(bool, base)) for base in away)
    *few, many = sorted(1 << count for count in (*along.values(), 0))
    return layout.registers(), sum(few) + many // 2


def _planned(
    early: Early, found: list[Staged], depth: int, chip: Chip, room: int, remarks: Remarks
) -> Plan:
    """Return the ring for a loop whose author (or the default) wants so many stages.

    What a product reads a round longer takes a slot more, if as many blocks still share a
    multiprocessor; if not, copies start a round later, if that leaves one (two, for the only
    product of a loop, unless the slot has no room at all and an operand is computed meanwhile).
    Where few blocks share it, operands that may stay in registers leave their bytes to the ring.
    """
    plain = Plan(depth, max(1, depth - 1), beside=_beside(early, found))
    product = _goes_on(early, found)
    boxes = any(staged.box is not None for staged in found)
    each = sum(staged.ahead.buffer.bytes for staged in found)
    if product is not None:
        layout = layout_of(product.result.type)
        assert layout is not None
        others = OTHER_REGISTERS if boxes else _FEWEST_REGISTERS
        registers = plain_registers = min(MOST_REGISTERS, layout.registers() + others)
        late, ways = None, [(depth + 1, depth - 1), (depth, depth - 2)]
        computes = (depth + 1) * each > room and _is_computed(product, early, found)
        ways = ways[: 2 if depth > 3 or computes else 1]
        if all(staged.through_registers for staged in found):  # stored a round later: free by then
            ways = [(depth, depth - 1)]
    else:
        # With two slots more no warp waits for the others before it starts products.
        late, plain_registers, registers = _late(early, found, chip, remarks)
        ways = [(depth + 2, depth - 1), (depth + 1, depth - 2), (depth + 1, depth - 1)]
        ways.append((depth, depth - 2))
    if product is None and late is None:
        return in_turn(early, found, plain, chip, room)
    warps = early.known.on.num_warps
    in_rings = {place.operand for staged in found for place in staged.in_place}
    on = early.known.on
    beside = stored_bytes(early.loop, in_rings, on.chip.rules) + scratch_bytes(early)

    def warps_with(slots: int, registers: int, kept: int = 0) -> int:
        barriers = _BARRIER_BYTES * slots if boxes else 0
        return residency(chip, warps, registers, slots * each + beside - kept + barriers).warps

    least = min(max(1, warps_with(depth, plain_registers)), ENOUGH_WARPS)
    tried = [(0, 0)]
    if least < ENOUGH_WARPS:  # else other blocks' products fill the time, too
        more, kept = may_stay(early.loop, on.module, on.chip.rules)
        most = min(chip.most_registers(warps), on.options.get("maxnreg") or MOST_REGISTERS)
        tried += [(more, kept)] if kept and registers + more <= most else []
    for more, kept in tried:
        for slots, distance in ways:
            fits = slots == depth or slots * each <= room
            if distance > 0 and fits and warps_with(slots, registers + more, kept) >= least:
                return Plan(slots, distance, product, late)
    if late is not None:
        text = (
            f"overlap dropped: {depth + 1} slots of {each:,} bytes and {registers} registers "
            f"leave room for fewer than {least} warps, which other blocks' products need"
        )
        remarks.note(late, text, "missed")
        return replace(plain, going=going_product(early, found))
    return plain


def _late(
    early: Early, found: list[Staged], chip: Chip, remarks: Remarks
) -> tuple[Op | None, int, int]:
    """Return the product that is started a round later, if there is one.

    With the registers of the loop as it is, and with that.
    """
    on, loop = early.known.on, early.loop
    late = late_product(loop, on.chip.rules)
    if late is None:
        return None, 0, 0
    in_rings = {place.operand for staged in found for place in staged.in_place}
    most = min(chip.most_registers(on.num_warps), on.options.get("maxnreg") or MOST_REGISTERS)
    reason = obstacle(late, in_rings, on.chip.rules)
    at_once = on.num_warps * on.lanes * chip.widest_bytes
    vectors = [staged.ahead.buffer.bytes for staged in found if staged.box is None]
    copies = sum(-(-size // at_once) for size in vectors)
    plain, needed = registers_needed(loop, late, in_rings, on.chip.rules, copies)
    if not reason and needed > most:
        reason = f"{needed} registers needed, {most} there"
    if not on.options.get("overlap", True):
        reason = "overlap=False"
    if reason:
        remarks.note(late.product, f"overlap dropped: {reason}", "missed")
    return None if reason else late.product, plain, needed


def _goes_on(early: Early, found: list[Staged]) -> Op | None:
    """Return the product of a loop that may be waited for a round later.

    Nobody but the next round looks at its sums, and its operands stay in the ring; or one of them
    is computed in the round, in registers, which it takes in parts.
    """
    loop, known = early.loop, early.known
    waiting = [(op, later) for op in inside(loop) if (later := known.rules.later_of(op))]
    if len(waiting) != 1 or waiting[0][0] not in loop.body.ops:
        return None
    ((product, later),) = waiting
    read = {place.operand for staged in found for place in staged.in_place if place.op is product}
    arguments, yields = loop.body.arguments[1:], loop.body.yields
    alone = (
        known.uses.get(later.sums, []) == [product] and len(known.uses.get(product.result, [])) == 1
    )
    if not alone or later.sums not in arguments or not read:
        return None
    held, others = later.held, tiles_of(later) - read
    in_parts = held is not None and others <= {held} and held.op in loop.body.ops
    if others and not (in_parts and known.on.options.get(COMPUTED_FIRST, True)):
        return None
    return product if yields[arguments.index(later.sums)] is product.result else None


def _beside(early: Early, found: list[Staged]) -> Op | None:
    """Return the product of a loop beside which copies of vectors start, if it is waited for.

    It reads the ring alone. Threads take as long to start copies as it takes, or longer: 64 bytes
    go to a multiprocessor in a cycle. Boxes are started by one thread, in front of it.
    """
    loop, rules = early.loop, early.known.rules
    waiting = [(op, later) for op in inside(loop) if (later := rules.later_of(op))]
    alone = len(waiting) == 1 and waiting[0][0] in loop.body.ops
    if not alone or not early.known.on.options.get("overlap", True):
        return None
    ((product, later),) = waiting
    read = {place.operand for staged in found for place in staged.in_place if place.op is product}
    by_threads = any(staged.is_vectors for staged in found)
    stored = any(staged.through_registers for staged in found)
    return product if by_threads and not stored and tiles_of(later) <= read else None


def _is_computed(product: Op, early: Early, found: list[Staged]) -> bool:
    """Say whether an operand of a product is none that it reads in a ring."""
    later = early.known.rules.later_of(product)
    read = {place.operand for staged in found for place in staged.in_place if place.op is product}
    return later is not None and not tiles_of(later) <= read


def _affordable(
    early: Early, found: list[Staged], depth: int, shared_limit: int, remarks: Remarks
) -> list[Staged]:
    """Return the loads to stage: what is computed with first, and what a table leads to, may go."""

    def fit(some: list[Staged]) -> bool:
        return sum(staged.ahead.buffer.bytes for staged in some) * depth <= shared_limit

    if fit(found):
        return found
    for staged in found:
        if not staged.plain:
            text = f"{depth} stages of what is not multiplied itself do not fit"
            remarks.note(staged.load, f"not copied ahead: {text}", "missed")
    found = [staged for staged in found if staged.plain]
    if fit(found):
        return found
    kept: list[Staged] = []
    for staged in found:
        if _is_led_by_table(early, staged):
            remarks.note(
                staged.load,
                f"not copied ahead: {depth} stages of what a table leads to do not fit",
                "missed",
            )
        else:
            kept.append(staged)
    return kept


def _for_more_blocks(
    early: Early, found: list[Staged], depth: int, chip: Chip, remarks: Remarks
) -> int:
    """Return the slots of a ring whose copies wait for a table: fewer, if more blocks fit then.

    A block asks for what a table leads to when it has begun and has read that. Memory is kept busy
    meanwhile by other blocks, if what these wait for is enough. Only where warps multiply: products
    of warpgroups take longer than their copies.
    """
    on, loop = early.known.on, early.loop
    led = all(staged.is_vectors for staged in found) and any(
        _is_led_by_table(early, staged) for staged in found
    )
    waits = any(early.known.rules.later_of(op) for op in inside(loop))
    if not led or waits or not on.options.get("fewer_stages", True):
        return depth
    each = sum(staged.ahead.buffer.bytes for staged in found)
    scratch = scratch_bytes(early, found)
    products = [op for op in inside(loop) if chip.rules.staged_of(op)]
    sums = sum(registers_of(op.result) for op in products)
    registers = min(MOST_REGISTERS, OTHER_REGISTERS + sums)

    def blocks_of(slots: int) -> int:
        fits = residency(chip, on.num_warps, registers, slots * each + scratch)
        return fits.warps // on.num_warps

    fewest, most = depth, blocks_of(depth)
    for slots in range(depth - 1, 0, -1):
        blocks = blocks_of(slots)
        # Of one slot nothing is on its way while it is read.
        on_the_way = (blocks * (slots - 1) if slots > 1 else blocks - 1) * each
        few = most < _TAKING_TURNS and most * on.num_warps < ENOUGH_WARPS
        if few and blocks > most and on_the_way >= _ON_THE_WAY:
            fewest, most = slots, blocks
    if fewest < depth:
        text = (
            f"num_stages={loop.stages or depth}: {fewest} taken, so that {most} blocks share a "
            f"multiprocessor, not {blocks_of(depth)}, and wait for their tables by turns "
            f"(fewer_stages=False takes {depth})"
        )
        remarks.note(loop, text, "applied")
    return fewest


def _is_led_by_table(early: Early, staged: Staged) -> bool:
    """Say whether what a load's address is made of in the loop is itself loaded there."""
    return any(not op.pure for op in early.slice_of(staged.reads) or [])


def _fitting(
    loop: For, found: list[Staged], depth: int, shared_limit: int, remarks: Remarks
) -> int:
    """Return how many of the stages that nobody asked for fit into shared memory."""
    each = sum(staged.ahead.buffer.bytes for staged in found)
    fits = shared_limit // max(each, 1)
    if fits < depth:
        remarks.note(loop, f"{depth} stages need {depth * each:,} bytes; {fits} fit", "missed")
    return min(depth, fits)


def _answer_stages(loop: For, known: Known, remarks: Remarks) -> None:
    if loop.stages is None:
        return
    text = "no load of this loop can be copied ahead"
    if not known.hides(loop.body):
        text = "loads are copied ahead for products, this loop has none"
    remarks.note(loop, f"num_stages={loop.stages} is not obeyed: {text}", "missed")


def _answer_memory_hints(staged: Staged, remarks: Remarks) -> None:
    for name, word in staged.ahead.unheard.items():
        why = staged.ahead.why_unheard.get(name, TAKES_NONE)
        remarks.note(staged.load, f"{name} '{word}' is not obeyed: {why}", "missed")
