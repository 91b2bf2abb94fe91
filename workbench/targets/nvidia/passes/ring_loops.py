"""A loop whose loads go through rings of buffers, as it is written; pipeline_loads.py decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.ir import (
    I32,
    Block,
    Builder,
    Module,
    Op,
    Tile,
    Value,
    element_of,
    layout_of,
    shape_of,
    walk,
)
from workbench.layouts import LinearLayout
from workbench.ops import Constant, Elementwise, For, If, Select, Yield
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import Await, Barriers, FenceProducts, RenewBarriers, WaitCopies
from workbench.targets.nvidia.passes.overlap_products import Late
from workbench.targets.nvidia.passes.started_ahead import Ahead
from workbench.targets.simt.ops import (
    BlockBarrier,
    SharedAllocate,
    SharedLoad,
    SharedStore,
    WarpBarrier,
)
from workbench.targets.simt.passes.costs import vector_width
from workbench.targets.simt.passes.rounds import (
    another,
    next_slot,
    reached,
    read_by,
    reading_from,
)
from workbench.targets.simt.passes.staged_loads import Early, Read, Staged, User
from workbench.targets.simt.rules import Later

#: Rounds of loads into registers that are under way before a loop: there are no sums yet.
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The ring of a loop: its slots, how many rounds ahead copies start, and who reads it.

    Where copies start as many rounds ahead as there are slots, they start at the end of a round,
    into the slot that it has read.

    product: one that is waited for a round later, if there is one.
    late: one that is started a round later, if there is one.
    together: of so many rounds copies start at one time, and are waited for. Slots and distance
        are multiples of it.
    beside: one that is started in front of its round's copies and waited for behind them.
    going: one that goes on until the next round's first product has ended. Only then all warps
        meet, and copies start into the slot that it has read.
    """

    slots: int
    distance: int
    product: Op | None = None
    late: Op | None = None
    together: int = 1
    beside: Op | None = None
    going: Late | None = None

    @property
    def starts_first(self) -> bool:
        """Whether a round starts copies in front of all else."""
        return self.beside is None and self.going is None


@dataclass(slots=True)
class _Carried:
    """What a loop carries beside its own values: as it begins, and inside."""

    inits: list[Value] = field(default_factory=list[Value])
    inside: list[Value] = field(default_factory=list[Value])

    def add(self, init: Value, hint: str = "") -> Value:
        """Carry one more; returns what it is inside."""
        self.inits.append(init)
        self.inside.append(Value(init.type, hint or init.hint))
        return self.inside[-1]


def tiles_of(later: Later) -> frozenset[Value]:
    """Return the tiles that an op goes on reading: what lies in buffers stays there in a loop."""
    return frozenset(value for value in later.operands if isinstance(value.type, Tile))


class RingLoop:
    """Writes a loop with its rings.

    Attributes:
        early: the loop.
        found: the loads that go through rings.
        plan: the slots of these, how far ahead loads start, who reads them late.
    """

    def __init__(self, early: Early, found: list[Staged], plan: Plan, builder: Builder) -> None:
        self.early = early
        self.loop = early.loop
        self.found = found
        self.plan = plan
        self.builder = builder
        needed = {id(op) for staged in found for op in early.slice_of(staged.reads) or ()}
        self.ops = [op for op in self.loop.body.ops if id(op) in needed]
        self.carries = _needed_carries(self.loop, self.ops, found)
        self.rings = [replace(staged.ahead.buffer, slots=plan.slots) for staged in found]
        self.vectors = any(staged.is_vectors for staged in found)

    def written(self, remarks: Remarks, made: list[Value], *, clean: bool) -> tuple[Value, ...]:
        """Insert the loop; returns its results. The barriers of its rings are added to `made`.

        `clean`: no thread has written shared memory before.
        """
        builder, loop = self.builder, self.loop
        buffers = [
            builder.add(SharedAllocate(type=ring), staged.load.result.hint)
            for ring, staged in zip(self.rings, self.found, strict=True)
        ]
        barriers = None
        if any(staged.box is not None for staged in self.found):
            barriers = builder.add(Barriers(count=self.plan.slots), "full")
            made.append(barriers)
            _meet(builder, clean=clean)
        ahead = Ahead(self.early, self.found, buffers, barriers, self.ops, self.carries, builder)
        new = self._loop(ahead, buffers, barriers)
        if self.vectors:
            builder.insert(WaitCopies(0))
        results = list(new.results[: len(loop.results)])
        going = self.plan.going
        product = self.plan.product if going is None else going.product
        if product is not None:
            number = loop.body.yields.index(product.result)
            later = self.early.known.rules.later_of(product)
            assert later is not None
            results[number] = builder.add(later.waited(results[number], 0), results[number].hint)
        self._tell(remarks)
        return tuple(results)

    def _loop(self, ahead: Ahead, buffers: list[Value], barriers: Value | None) -> Op:
        if self.plan.together > 1:
            return self._loop_together(ahead, buffers)
        if self.plan.slots == self.plan.distance:
            return self._loop_with_copies_behind(ahead, buffers)
        builder, loop = self.builder, self.loop
        carried, arguments = _Carried(), loop.body.arguments
        index, any_more, state, waiting, last_slot = self._begun(ahead)
        zero, distance = self._number(0), self._number(self.plan.distance)
        next_index = carried.add(index, "ahead")
        read_slot, write_slot = carried.add(zero, "slot"), carried.add(distance, "fill")
        shadows = {a: carried.add(value, a.hint) for a, value in state.items()}
        held_slot = carried.add(last_slot, "held") if waiting else read_slot
        held = [(carried.add(tile), buffer) for tile, buffer in waiting]
        parity = None if barriers is None else carried.add(zero, "parity")
        runs = None if any_more is None else carried.add(any_more, "runs")
        with builder.block() as body:
            self._meet_for_copies()
            self._store(held, held_slot)
            self._keep_loads_behind()
            # Copies come first: a warp that starts a product waits there until the one before is
            # nearly done (measured: 0.93 of cuBLAS this way, 0.86 with the product first).
            moved: dict[Value, Value] = {}

            def start() -> None:
                stage = -self.plan.distance
                found = ahead.start(next_index, dict(shadows), write_slot, stage=stage, runs=runs)
                moved.update(found)

            if self.plan.starts_first:
                start()
            if held:  # ptxas moves loads behind the product
                builder.insert(WarpBarrier())
            if barriers is not None:
                assert parity is not None
                builder.insert(Await(barriers, read_slot, parity))
            reading = _Reading(self.early, self.found, buffers, read_slot, builder)
            replaced = reading.write(self.plan, start)
            yields = [replaced.get(v, v) for v in loop.body.yields]
            following, more = self._following(next_index, runs)
            slots = self.plan.slots
            (read, past), (write, _) = (
                next_slot(v, slots, builder) for v in (read_slot, write_slot)
            )
            ends = [following, read, write, *(moved[a] for a in shadows)]
            if held:
                ends += [write_slot, *(tile for tile, _ in ahead.loaded)]
            if parity is not None:
                turned = builder.add(Elementwise("xor", (parity, self._number(1))))
                ends.append(builder.add(Select(past, turned, parity)))
            if more is not None:
                ends.append(more)
            builder.insert(loop.body.terminator.changed(values=(*yields, *ends)))
        block = Block((*arguments, *carried.inside), tuple(body))
        return builder.insert(loop.changed(inits=(*loop.inits, *carried.inits), body=block))

    def _keep_loads_behind(self) -> None:
        """Have loads of single elements start behind the fence, which would wait for them.

        ptxas moves them in front of it, where there are many: so little at a time that no copy
        would bring it.
        """
        on = self.early.known.on
        for staged in self.found:
            access, layout = staged.access, layout_of(staged.load.result.type)
            if not staged.through_registers or access is None or layout is None:
                continue
            size = element_of(staged.load.result.type).itemsize
            pointers, mask, most = access.pointers, access.mask, on.chip.widest_bytes
            width, _ = vector_width(on.facts, pointers, mask, layout, size, most)
            if width * size < on.chip.least_copied_bytes:
                self.builder.insert(WarpBarrier())
                return

    def _meet_for_copies(self) -> None:
        """Have all threads see what copies have brought for a round.

        Of boxes barriers tell; where a product goes on until the next one has ended, all meet then.
        """
        if self.plan.going is not None:
            return
        if self.vectors:
            self.builder.insert(WaitCopies(self.plan.distance - 1))
        if any(staged.in_place and staged.is_vectors for staged in self.found):
            self.builder.insert(FenceProducts())
        self.builder.insert(BlockBarrier())

    def _store(self, tiles: Sequence[tuple[Value, Value]], slot: Value) -> None:
        """Store what was loaded to a slot of the rings that it is for.

        What products read there they are shown behind it where no copies are to be shown as well:
        a fence waits for the loads that are under way, and here there are none.
        """
        for tile, buffer in tiles:
            self.builder.insert(SharedStore(tile, buffer, slot))
        if tiles and not any(staged.in_place and staged.is_vectors for staged in self.found):
            self.builder.insert(FenceProducts())

    def _loop_with_copies_behind(self, ahead: Ahead, buffers: list[Value]) -> Op:
        """Insert the loop that starts copies behind all that reads a round's slot, into that slot.

        Tables of addresses are read in front of what the round computes.
        """
        builder, loop, slots = self.builder, self.loop, self.plan.slots
        carried, arguments = _Carried(), loop.body.arguments
        index, any_more, state, _, _ = self._begun(ahead)
        next_index, zero = carried.add(index, "ahead"), self._number(0)
        slot = zero if slots == 1 else carried.add(zero, "slot")
        shadows = {a: carried.add(value, a.hint) for a, value in state.items()}
        runs = None if any_more is None else carried.add(any_more, "runs")
        with builder.block() as body:
            self._meet_for_copies()
            tables = ahead.looked_up(next_index, dict(shadows), runs)
            reading = _Reading(self.early, self.found, buffers, slot, builder)
            replaced = reading.write(self.plan, lambda: None)
            yields = [replaced.get(v, v) for v in loop.body.yields]
            builder.insert(BlockBarrier())
            moved = ahead.copy(tables, slot, -slots)
            following, more = self._following(next_index, runs)
            ends = [following]
            if slots > 1:
                ends.append(next_slot(slot, slots, builder)[0])
            ends += [*(moved[a] for a in shadows), *([] if more is None else [more])]
            builder.insert(loop.body.terminator.changed(values=(*yields, *ends)))
        block = Block((*arguments, *carried.inside), tuple(body))
        return builder.insert(loop.changed(inits=(*loop.inits, *carried.inits), body=block))

    def _loop_together(self, ahead: Ahead, buffers: list[Value]) -> Op:
        """Insert the loop where the copies of several rounds start together.

        In the first of so many rounds the block waits for what all of them read, meets, and starts
        those that come `distance` rounds later, into the slots of the rounds before.
        """
        builder, loop, plan = self.builder, self.loop, self.plan
        carried, arguments = _Carried(), loop.body.arguments
        index, any_more, state, _, _ = self._begun(ahead)
        next_index = carried.add(index, "ahead")
        slot = carried.add(self._number(0), "slot")
        shadows = {a: carried.add(value, a.hint) for a, value in state.items()}
        runs = None if any_more is None else carried.add(any_more, "runs")
        stay = [next_index, *shadows.values(), *([] if runs is None else [runs])]
        with builder.block() as body:
            place = builder.add(Elementwise("and", (slot, self._number(plan.together - 1))))
            is_first = builder.add(Elementwise("eq", (place, self._number(0))))
            with builder.block() as then:
                builder.insert(WaitCopies(plan.distance // plan.together - 1))
                builder.insert(BlockBarrier())
                builder.insert(Yield(tuple(self._started(ahead, next_index, shadows, slot, runs))))
            with builder.block() as otherwise:
                builder.insert(Yield(tuple(stay)))
            branch = If(is_first, Block((), tuple(then)), Block((), tuple(otherwise)))
            moved = list(builder.insert(branch).results)
            reading = _Reading(self.early, self.found, buffers, slot, builder)
            replaced = reading.write(plan, lambda: None)
            yields = [replaced.get(v, v) for v in loop.body.yields]
            following, _ = next_slot(slot, plan.slots, builder)
            ends = [moved[0], following, *moved[1:]]
            builder.insert(loop.body.terminator.changed(values=(*yields, *ends)))
        block = Block((*arguments, *carried.inside), tuple(body))
        return builder.insert(loop.changed(inits=(*loop.inits, *carried.inits), body=block))

    def _started(
        self, ahead: Ahead, index: Value, shadows: dict[Value, Value], slot: Value,
        runs: Value | None,
    ) -> list[Value]:  # fmt: skip
        """Start the copies of some rounds; returns what a loop carries for the next ones."""
        builder, plan = self.builder, self.plan
        state = dict(shadows)
        each = self._number(plan.together)
        before = builder.add(Elementwise("sub", (slot, each), no_wrap=True))
        wraps = builder.add(Elementwise("lt", (slot, each)))
        first = builder.add(Select(wraps, self._number(plan.distance), before))
        for number in range(plan.together):
            place = first
            if number:
                step = self._number(number)
                place = builder.add(Elementwise("add", (first, step), no_wrap=True))
            state = ahead.start(index, state, place, stage=-plan.distance - number, runs=runs,
                                commit=number == plan.together - 1)  # fmt: skip
            index, runs = self._following(index, runs)
        return [index, *(state[a] for a in shadows), *([] if runs is None else [runs])]

    def _begun(
        self, ahead: Ahead
    ) -> tuple[Value, Value | None, dict[Value, Value], list[tuple[Value, Value]], Value]:
        """Start what the first rounds need.

        Returns the counter of the round behind them, whether it is reached if the counter does not
        tell, its carried values, and what was loaded in the last one, with its slot: the first
        round of the loop stores it.
        """
        builder, loop, arguments = self.builder, self.loop, self.loop.body.arguments[1:]
        state = {a: loop.inits[i] for i, a in enumerate(arguments) if i in self.carries}
        index, loaded = loop.lower, list[tuple[list[tuple[Value, Value]], Value]]()
        runs = reached(loop, loop.lower, builder) if loop.may_wrap else None
        for stage in range(self.plan.distance):
            if len(loaded) == _AT_ONCE:
                self._store(*loaded.pop(0))
            slot = self._number(stage)
            commit = (stage + 1) % self.plan.together == 0
            state = ahead.start(index, state, slot, runs=runs, commit=commit)
            loaded.append((ahead.loaded, slot))
            index, runs = self._following(index, runs)
        for tiles, slot in loaded[:-1]:
            self._store(tiles, slot)
        return index, runs, state, *loaded[-1]

    def _following(self, index: Value, runs: Value | None) -> tuple[Value, Value | None]:
        """Return the next counter, and whether it is reached if that of this one was asked.

        A counter that leaves its type is looked at by nobody: its round is not reached. As it may
        not wrap, it is known where tiles of that round lie, and so how wide their copies are.
        """
        builder, loop = self.builder, self.loop
        following = builder.add(Elementwise("add", (index, loop.step), no_wrap=True))
        if runs is not None:
            runs = builder.add(Select(runs, another(loop, index, following, builder), runs))
        return following, runs

    def _number(self, value: int) -> Value:
        return self.builder.add(Constant(value, I32))

    def _tell(self, remarks: Remarks) -> None:
        distance = self.plan.distance
        for staged in self.found:
            if staged.through_registers:
                text = f"loaded {distance} rounds ahead into registers, stored a round later"
                remarks.note(staged.load, text, "applied")
        total = sum(ring.bytes for ring in self.rings)
        remarks.note(
            self.loop,
            f"{len(self.found)} loads copied {distance} rounds ahead "
            f"through {total:,} bytes of shared memory"
            + (f", those of {self.plan.together} rounds together" * (self.plan.together > 1))
            + (", the product goes on into the next round" if self.plan.product else "")
            + (", beside the product" if self.plan.beside else "")
            + (", the last product goes on into the next round" if self.plan.going else "")
            + (", each behind what reads its slot" if distance == self.plan.slots else ""),
            "applied",
        )


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


def _meet(builder: Builder, *, clean: bool) -> None:
    """Have all threads know of barriers, and of what other buffers had in the ring's bytes.

    Who fences what threads wrote there waits for what was loaded before, too.
    """
    if not clean:
        builder.insert(FenceProducts())
    builder.insert(BlockBarrier())


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

    def write(self, plan: Plan, start: Callable[[], None]) -> dict[Value, Value]:
        """Insert all ops but the last; returns replaced values.

        A product that goes on is not waited for, a late one is marked for overlap-products; one
        that has copies beside it is waited for once `start` has started these.
        """
        for op in self.loop.body.ops[:-1]:
            if id(op) in self.loads:
                self._load(op)
            elif id(op) in self.gone:
                continue
            elif id(op) in self.places:
                self._in_place(op, plan)
                if op is plan.beside:
                    start()
                    self._wait(op)
            elif id(op) in self.users:
                self._user(op)
            elif id(op) in self.ends:
                self.values[op.results[0]] = self.values[op.operands[0]]
            else:
                self._insert(op, reading_from(op, self.values))
            if plan.going is not None and op is plan.going.first:
                self._end(plan.going)
                self.builder.insert(BlockBarrier())
                start()
        return self.values

    def _end(self, going: Late) -> None:
        """Wait for the product of the round before, and for the first one of this round.

        ptxas has products wait for each other where it sees a wait for one of the two (C7514).
        """
        sums = self.loop.body.arguments[1 + going.number]
        for value in (going.first.result, sums):
            ended = going.how.waited(self.values.get(value, value), 0)
            self.values[value] = self.builder.add(ended, value.hint)

    def _in_place(self, op: Op, plan: Plan) -> None:
        fields: dict[str, Any] = {}
        later = self.rules.later_of(op)
        if op is plan.late and later is not None:  # 2: copies leave a slot more than it needs
            fields |= later.started(2 if plan.slots > plan.distance + 2 else 1)
        for place, buffer in self.places[id(op)]:
            fields |= place.how.fields(buffer, self.slot)
        if plan.going is not None and op in (plan.going.first, plan.going.product):
            fields |= plan.going.how.going(2)
        if op in (plan.product, plan.beside) and later is not None:
            fields |= later.going(1)
            if tiles_of(later) - {place.operand for place, _ in self.places[id(op)]}:
                fields |= later.in_parts(2)
        self._insert(op, reading_from(op, self.values, fields))

    def _wait(self, product: Op) -> None:
        """Wait for a product that goes on."""
        later = self.rules.later_of(product)
        assert later is not None
        going = self.values.get(product.result, product.result)
        self.values[product.result] = self.builder.add(later.waited(going, 0), product.result.hint)

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
        self.values[op.result] = read_for(user, staged.load, buffer, self.slot, self.builder)


def read_for(user: User, load: Op, buffer: Value, slot: Value, builder: Builder) -> Value:
    """Read what `load` copied as an op wants it; returns what stands for its result."""
    op = user.op
    loaded = _from_buffer(load, op, user.layout, buffer, slot)
    value = builder.add(loaded, op.result.hint)
    if user.end is None:
        return value
    # renamed, it is what `end` makes of it
    renamed = op.with_operands((value,), layouts=(layout_of(user.end.result.type),))
    return builder.insert(renamed).result


def _from_buffer(
    load: Op, user: Op, layout: LinearLayout, buffer: Value, slot: Value
) -> SharedLoad:
    """Return the op that reads what `load` copied, in the layout that `user` wants."""
    type = Tile(shape_of(load.result.type), element_of(load.result.type), layout)
    return SharedLoad(buffer, slot, type=type, span=load.span, origins=(load.id, user.id))


def begun_once(module: Module, rings: Collection[Value]) -> Module:
    """Return a module that makes some rings of barriers once, before the loops around them.

    Where they were made in every round, they are renewed.
    """
    builder = Builder(module.next_id)
    outside: list[Op] = []

    def within(block: Block) -> Block:
        with builder.block() as ops:
            for op in block.ops:
                if any(result in rings for result in op.results):
                    outside.append(op)
                    builder.span, builder.origins = op.span, (op.id,)
                    builder.insert(BlockBarrier())
                    builder.insert(RenewBarriers(op.result))
                else:
                    builder.insert(around(op, again=True))
        return Block(block.arguments, tuple(ops))

    def around(op: Op, *, again: bool) -> Op:
        inside = (value for region in op.regions for one in walk(region) for value in one.results)
        if not any(value in rings for value in inside):
            return op
        regions = map(within if again or op.repeats else beside, op.regions)
        return op.noted(**dict(zip(op.region_names, regions, strict=True)))

    def beside(block: Block) -> Block:
        with builder.block() as ops:
            for op in block.ops:
                new = around(op, again=False)
                for made in outside:
                    builder.insert(made)
                outside.clear()
                builder.insert(new)
        return Block(block.arguments, tuple(ops))

    body = beside(module.body)
    return replace(module, body=body, next_id=builder.next_id)
