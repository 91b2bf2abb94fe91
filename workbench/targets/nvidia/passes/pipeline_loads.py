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
free a round later too, so the ring has one more, or the copies start one round less ahead.

A product that adds to sums and reads what is made of another one may be started a round later
(overlap_products.py); its slot is free as much later.

What may be staged at all, staged_loads.py says.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from workbench.ir import (
    I32,
    Block,
    Builder,
    Module,
    Op,
    Tile,
    Value,
    copy_op,
    element_of,
    layout_of,
    rebuild,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops import Constant, Elementwise, For, Select, Splat
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import MOST_REGISTERS, Chip, chip_of, residency
from workbench.targets.nvidia.ops import (
    Await,
    Barriers,
    CommitCopies,
    Expect,
    FenceProducts,
    WaitCopies,
)
from workbench.targets.nvidia.passes.overlap_products import (
    late_product,
    obstacle,
    registers_needed,
    stored_bytes,
)
from workbench.targets.nvidia.passes.rounds import (
    begun_once,
    ends_with,
    next_slot,
    reached,
    read_by,
    reading_from,
)
from workbench.targets.nvidia.passes.staged_loads import (
    Early,
    Known,
    Read,
    Staged,
    staged_load,
)
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, SharedLoad
from workbench.targets.simt.passes.shared_memory import scratch_of
from workbench.targets.simt.rules import Access, Device

#: Resident warps beyond which more hide no waiting: four on each of a multiprocessor's schedulers.
_ENOUGH_WARPS = 16
_BARRIER_BYTES = 8
#: The option with which operands that are computed stay in registers (warpgroups.py).
COMPUTED_FIRST = "computed_first"
#: What a thread of a loop of products has in registers beside its sums, about: addresses, masks.
_OTHER_REGISTERS = 72


def pipeline_loads(
    module: Module, remarks: Remarks, chip: Device, room: int | None = None
) -> Module:
    """Turn loads that feed dots in a loop into asynchronous copies, started rounds ahead.

    `room`: the bytes of shared memory that a ring may take; what the chip has, if nobody says.

    Needs: layouts. Keeps: every value (memory that the loop stores to is not loaded ahead).
    """
    stages = module.attributes["num_stages"]
    room = chip.shared_bytes if room is None else room
    known = Known(module, chip)
    rings: list[Value] = []

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not isinstance(op, For):
            return None
        depth = op.stages if op.stages is not None else stages
        if depth < 2:
            return None
        early = Early(op, known)
        found: list[Staged] = []
        if known.hides(op.body):
            found = [s for load in op.body.ops if (s := staged_load(early, load, remarks))]
        if found and op.stages is None and module.attributes.get("stages_are_free"):
            depth = _fitting(op, found, depth, room, remarks)
        else:
            found = _affordable(early, found, depth, room, remarks)
        if not found or depth < 2:
            _answer_stages(op, known, remarks)
            return None
        for staged in found:
            _answer_memory_hints(staged, remarks)
        plan = _planned(early, found, depth, chip_of(chip), room, remarks)
        first = module.attributes.get("loads_first", True)
        clean = first and _is_untouched(module, op, known)
        return _pipelined(early, found, plan, builder, remarks, rings, clean=clean)

    done = rebuild(module, rewrite)
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """The ring of a loop: its slots, how many rounds ahead copies start, and who reads it.

    product: one that is waited for a round later, if there is one.
    late: one that is started a round later, if there is one.
    """

    slots: int
    distance: int
    product: Op | None = None
    late: Op | None = None


def _planned(
    early: Early, found: list[Staged], depth: int, chip: Chip, room: int, remarks: Remarks
) -> _Plan:
    """Return the ring for a loop whose author (or the default) wants so many stages.

    What a product reads a round longer takes a slot more, if as many blocks still share a
    multiprocessor; if not, copies start a round later, if that leaves one (two, for the only
    product of a loop).
    """
    plain = _Plan(depth, depth - 1)
    product = _goes_on(early, found)
    if product is not None:
        layout = layout_of(product.result.type)
        assert layout is not None
        registers = plain_registers = min(MOST_REGISTERS, layout.registers() + _OTHER_REGISTERS)
        late, ways = None, [(depth + 1, depth - 1), (depth, depth - 2)]
        ways = ways[: 2 if depth > 3 else 1]
    else:
        # With two slots more no warp waits for the others before it starts products.
        late, plain_registers, registers = _late(early, found, chip, remarks)
        ways = [(depth + 2, depth - 1), (depth + 1, depth - 2), (depth + 1, depth - 1)]
        ways.append((depth, depth - 2))
    if product is None and late is None:
        return plain
    each, warps = sum(staged.ahead.buffer.bytes for staged in found), early.known.on.num_warps
    in_rings = {place.operand for staged in found for place in staged.in_place}
    beside = stored_bytes(early.loop, in_rings, early.known.rules) + _scratch_bytes(early)
    boxes = any(staged.box is not None for staged in found)

    def warps_with(slots: int, registers: int) -> int:
        barriers = _BARRIER_BYTES * slots if boxes else 0
        return residency(chip, warps, registers, slots * each + beside + barriers).warps

    least = min(max(1, warps_with(depth, plain_registers)), _ENOUGH_WARPS)
    for slots, distance in ways:
        fits = slots == depth or slots * each <= room
        if distance > 0 and fits and warps_with(slots, registers) >= least:
            return _Plan(slots, distance, product, late)
    if late is not None:
        text = (
            f"overlap dropped: {depth + 1} slots of {each:,} bytes and {registers} registers "
            f"leave room for fewer than {least} warps, which other blocks' products need"
        )
        remarks.note(late, text, "missed")
    return plain


def _scratch_bytes(early: Early) -> int:
    """Return the most bytes that an op of a loop needs beside its operands, one after the other."""
    on, used = early.known.on, early.known.uses.keys()
    return max(
        (scratch_of(op, on.chip, on.num_warps, used).bytes for op in _inside(early.loop)),
        default=0,
    )


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
    waiting = [(op, later) for op in _inside(loop) if (later := known.rules.later_of(op))]
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
    held, others = later.held, later.operands - read
    in_parts = held is not None and others <= {held} and held.op in loop.body.ops
    if others and not (in_parts and known.on.options.get(COMPUTED_FIRST, True)):
        return None
    return product if yields[arguments.index(later.sums)] is product.result else None


def _inside(op: Op) -> list[Op]:
    found = [inner for region in op.regions for inner in region.ops]
    return [*found, *(deeper for inner in found for deeper in _inside(inner))]


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
        before = early.slice_of(staged.reads) or []
        if any(not op.pure for op in before):
            remarks.note(
                staged.load,
                f"not copied ahead: {depth} stages of what a table leads to do not fit",
                "missed",
            )
        else:
            kept.append(staged)
    return kept


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
        text = "the load is copied ahead, and such a copy takes none"
        remarks.note(staged.load, f"{name} '{word}' is not obeyed: {text}", "missed")


def _needed_carries(loop: For, ops: list[Op], found: list[Staged]) -> list[int]:
    """Return which carried values the address arithmetic reads."""
    arguments = loop.body.arguments[1:]
    reads = {v for op in ops for v in read_by(op)}
    reads |= {v for s in found for v in s.reads}
    needed = {i for i, a in enumerate(arguments) if a in reads}
    # A carried value that only another needed one is computed from.
    changed = True
    while changed:
        changed = False
        for i in list(needed):
            after = loop.body.yields[i]
            if after in arguments and arguments.index(after) not in needed:
                needed.add(arguments.index(after))
                changed = True
    return sorted(needed)


def _pipelined(
    early: Early, found: list[Staged], plan: _Plan, builder: Builder, remarks: Remarks,
    made: list[Value], *, clean: bool = False,
) -> tuple[Value, ...]:  # fmt: skip
    """Write a loop with its ring; the barriers of the ring are added to what was `made`.

    `clean`: no thread has written shared memory before.
    """
    loop, stages, distance = early.loop, plan.slots, plan.distance
    needed = {id(inner) for staged in found for inner in early.slice_of(staged.reads) or ()}
    ops = [op for op in loop.body.ops if id(op) in needed]
    carries = _needed_carries(loop, ops, found)
    rings = [replace(staged.ahead.buffer, slots=stages) for staged in found]
    buffers = [
        builder.add(SharedAllocate(type=ring), staged.load.result.hint)
        for ring, staged in zip(rings, found, strict=True)
    ]
    boxes = any(staged.box is not None for staged in found)
    vectors = any(staged.box is None for staged in found)
    barriers = None
    if boxes:
        barriers = builder.add(Barriers(count=stages), "full")
        made.append(barriers)
        _meet(builder, clean=clean)
    ahead = _Ahead(early, found, buffers, barriers, ops, carries, builder)

    state = {a: loop.inits[i] for i, a in enumerate(loop.body.arguments[1:]) if i in carries}
    index = loop.lower
    for stage in range(distance):
        slot = builder.add(Constant(stage, I32))
        state = ahead.start(index, state, slot)
        index = builder.add(Elementwise("add", (index, loop.step), no_wrap=True))

    zero = builder.add(Constant(0, I32))
    last = builder.add(Constant(distance, I32))
    arguments = loop.body.arguments
    next_index = Value(element_of(loop.lower.type), "ahead")
    read_slot, write_slot, parity = Value(I32, "slot"), Value(I32, "fill"), Value(I32, "parity")
    shadows = {
        arguments[1 + i]: Value(arguments[1 + i].type, arguments[1 + i].hint) for i in carries
    }
    with builder.block() as body:
        if vectors:
            builder.insert(WaitCopies(distance - 1))
        if any(staged.in_place and staged.box is None for staged in found):
            builder.insert(FenceProducts())
        builder.insert(BlockBarrier())
        # Copies come first: a warp that starts a product waits there until the one before is
        # nearly done (measured: 0.93 of cuBLAS this way, 0.86 with the product first).
        moved = ahead.start(next_index, dict(shadows), write_slot, stage=-distance)
        if barriers is not None:
            builder.insert(Await(barriers, read_slot, parity))
        reading = _Reading(early, found, buffers, read_slot, builder)
        replaced = reading.write(plan)
        yields = [replaced.get(v, v) for v in loop.body.yields]
        following = builder.add(Elementwise("add", (next_index, loop.step), no_wrap=True))
        (read, past), (write, _) = (next_slot(v, stages, builder) for v in (read_slot, write_slot))
        ends = [*yields, following, read, write, *(moved[a] for a in shadows)]
        if barriers is not None:
            one = builder.add(Constant(1, I32))
            turned = builder.add(Elementwise("xor", (parity, one)))
            ends.append(builder.add(Select(past, turned, parity)))
        builder.insert(loop.body.terminator.changed(values=tuple(ends)))
    inits = (*loop.inits, index, zero, last, *(state[a] for a in shadows))
    inside = (*arguments, next_index, read_slot, write_slot, *shadows.values())
    if barriers is not None:
        inits, inside = (*inits, zero), (*inside, parity)
    new = builder.insert(loop.changed(inits=inits, body=Block(inside, tuple(body))))
    if vectors:
        builder.insert(WaitCopies(0))
    results = list(new.results[: len(loop.results)])
    if plan.product is not None:
        number = loop.body.yields.index(plan.product.result)
        later = early.known.rules.later_of(plan.product)
        assert later is not None
        results[number] = builder.add(later.waited(results[number], 0), results[number].hint)
    total = sum(ring.bytes for ring in rings)
    remarks.note(
        loop,
        f"{len(found)} loads copied {distance} rounds ahead "
        f"through {total:,} bytes of shared memory"
        + (", the product goes on into the next round" if plan.product is not None else ""),
        "applied",
    )
    return tuple(results)


def _meet(builder: Builder, *, clean: bool) -> None:
    """Have all threads know of barriers, and of what other buffers had in the ring's bytes.

    Who fences what threads wrote there waits for what was loaded before, too.
    """
    if not clean:
        builder.insert(FenceProducts())
    builder.insert(BlockBarrier())


class _Ahead:
    """Starts the copies of one round, given the counter and the carried values of that round."""

    def __init__(
        self, early: Early, found: list[Staged], buffers: list[Value], barriers: Value | None,
        ops: list[Op], carries: list[int], builder: Builder,
    ) -> None:  # fmt: skip
        self.loop = early.loop
        self.rules = early.known.rules
        self.facts = early.known.on.facts
        self.found = found
        self.buffers = buffers
        self.barriers = barriers
        self.ops = ops
        self.carries = carries
        self.builder = builder
        #: What copies of a whole tile read, by load.
        self.prepared = {
            id(staged.load): staged.box.prepare(builder, staged.ahead.buffer)
            for staged in found
            if staged.box is not None
        }

    def start(
        self, index: Value, state: dict[Value, Value], slot: Value, stage: int = 0
    ) -> dict[Value, Value]:
        """Start all copies of the round and return the carried values of the next.

        `stage`: minus the rounds that they are ahead of the round they stand in.
        """
        builder, loop = self.builder, self.loop
        values = {loop.body.arguments[0]: index, **state}
        runs = reached(self.loop, index, self.builder)
        for op in self.ops:
            copied = copy_op(op, values, builder)
            access = self.rules.access_of(copied)
            if access is not None:
                copied = access.under(self._under(runs, access))
                values[op.results[0]] = copied.result
            builder.insert(copied)
        pairs = list(zip(self.found, self.buffers, strict=True))
        vectors = [(staged, buffer) for staged, buffer in pairs if staged.box is None]
        for staged, buffer in vectors:
            with self._for(staged):
                self._start_vectors(staged, buffer, (slot, stage), values, runs)
        if vectors:
            builder.insert(CommitCopies())
        if self.barriers is not None:
            self._start_boxes(pairs, (slot, stage), values, runs)
        arguments = loop.body.arguments[1:]
        return {
            arguments[i]: values.get(loop.body.yields[i], loop.body.yields[i]) for i in self.carries
        }

    @contextmanager
    def _for(self, staged: Staged) -> Generator[None]:
        """Have ops that are written come from a load."""
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = staged.load.span, (staged.load.id,)
        yield
        builder.span, builder.origins = before

    def _start_vectors(
        self, staged: Staged, buffer: Value, at: tuple[Value, int], values: dict[Value, Value],
        runs: Value,
    ) -> None:  # fmt: skip
        old, copy = staged.access, staged.ahead.copy
        assert old is not None
        assert copy is not None
        mask = values.get(old.mask, old.mask) if old.mask is not None else None
        access = replace(old, pointers=values.get(old.pointers, old.pointers), mask=mask)
        slot, stage = at
        if old.mask is None or not ends_with(self.loop, old.mask, self.facts):
            mask = self._under(runs, access)
        self.builder.insert(copy(access.pointers, mask, buffer, slot).changed(stage=stage))

    def _start_boxes(
        self, pairs: Sequence[tuple[Staged, Value]], at: tuple[Value, int],
        values: dict[Value, Value], runs: Value,
    ) -> None:  # fmt: skip
        """Have the slot's barrier expect the bytes of all boxes, and start their copies."""
        assert self.barriers is not None
        slot, stage = at
        boxes = [(staged, box, buffer) for staged, buffer in pairs if (box := staged.box)]
        total = sum(box.bytes(staged.ahead.buffer) for staged, box, _ in boxes)
        with self._for(boxes[0][0]):
            self.builder.insert(Expect(self.barriers, slot, runs, bytes=total))
        for staged, box, buffer in boxes:
            with self._for(staged):
                reads = [values.get(v, v) for v in box.reads]
                source = self.prepared[id(staged.load)]
                counted = self.barriers, slot
                copy = box.copy(source, reads, (buffer, slot), counted, runs)
                self.builder.insert(copy.changed(stage=stage))

    def _under(self, runs: Value, access: Access) -> Value:
        """Return a mask for an access, off in rounds that the loop does not reach."""
        type = access.pointers.type
        if shape_of(type):
            runs = self.builder.add(Splat(runs, shape_of(type), layouts=(layout_of(type),)))
        if access.mask is None:
            return runs
        return self.builder.add(Elementwise("and", (runs, access.mask)))


class _Reading:
    """Writes the loop's ops with staged loads read from (a slot of) the ring."""

    def __init__(
        self, early: Early, found: list[Staged], buffers: list[Value], slot: Value,
        builder: Builder,
    ) -> None:  # fmt: skip
        loop, rules = early.loop, early.known.rules
        pairs = list(zip(found, buffers, strict=True))
        self.loop = loop
        self.rules = rules
        self.slot = slot
        self.builder = builder
        #: What stands for a value of the loop.
        self.values: dict[Value, Value] = {}
        self.users = {
            id(u.op): (staged, u, buffer) for staged, buffer in pairs for u in staged.users
        }
        self.ends = {id(u.end) for staged in found for u in staged.users if u.end is not None}
        self.loads = {id(staged.load): (staged, buffer) for staged, buffer in pairs}
        self.gone = {name for staged in found for name in staged.gone}
        self.places: dict[int, list[tuple[Read, Value]]] = {}
        for staged, buffer in pairs:
            for place in staged.in_place:
                self.places.setdefault(id(place.op), []).append((place, buffer))

    def write(self, plan: _Plan) -> dict[Value, Value]:
        """Insert all ops but the last; returns replaced values.

        A product that goes on is not waited for, a late one is marked for overlap-products.
        """
        for op in self.loop.body.ops[:-1]:
            if id(op) in self.loads:
                self._load(op)
            elif id(op) in self.gone:
                continue
            elif id(op) in self.places:
                self._in_place(op, plan)
            elif id(op) in self.users:
                self._user(op)
            elif id(op) in self.ends:
                self.values[op.results[0]] = self.values[op.operands[0]]
            else:
                self._insert(op, reading_from(op, self.values))
        return self.values

    def _in_place(self, op: Op, plan: _Plan) -> None:
        fields: dict[str, Any] = {}
        later = self.rules.later_of(op)
        if op is plan.late and later is not None:  # 2: copies leave a slot more than it needs
            fields |= later.started(2 if plan.slots > plan.distance + 2 else 1)
        for place, buffer in self.places[id(op)]:
            fields |= place.how.fields(buffer, self.slot)
        if op is plan.product and later is not None:
            fields |= later.going(1)
            if later.operands - {place.operand for place, _ in self.places[id(op)]}:
                fields |= later.in_parts(2)
        self._insert(op, reading_from(op, self.values, fields))

    def _insert(self, old: Op, new: Op) -> None:
        self.builder.insert(new)
        if new is not old:
            self.values.update(zip(old.results, new.results, strict=True))

    def _load(self, op: Op) -> None:
        staged, buffer = self.loads[id(op)]
        layout = layout_of(op.results[0].type)
        if staged.has_others and layout is not None:
            loaded = _from_buffer(op, op, layout, buffer, self.slot)
            self.values[op.results[0]] = self.builder.add(loaded, op.results[0].hint)

    def _user(self, op: Op) -> None:
        staged, user, buffer = self.users[id(op)]
        loaded = _from_buffer(staged.load, op, user.layout, buffer, self.slot)
        value = self.values[op.results[0]] = self.builder.add(loaded, op.results[0].hint)
        if user.end is not None:  # renamed, it is what `end` makes of it
            wanted = (layout_of(user.end.results[0].type),)
            renamed = op.with_operands((value,), layouts=wanted)
            self.values[op.results[0]] = self.builder.insert(renamed).result


def _from_buffer(
    load: Op, user: Op, layout: LinearLayout, buffer: Value, slot: Value
) -> SharedLoad:
    """Return the op that reads what `load` copied, in the layout that `user` wants."""
    type = Tile(shape_of(load.result.type), element_of(load.result.type), layout)
    return SharedLoad(buffer, slot, type=type, span=load.span, origins=(load.id, user.id))
