"""Barriers: where threads of a block must wait for each other, and nowhere else.

A program is written as if one thread ran it, so its accesses happen in program order. They are
made by many warps, which run at different speeds. A barrier stands between two accesses if

- both may touch the same bytes of shared memory and one of them writes;
- both may touch the same bytes of global memory, one of them writes, and different warps may make
  the two (where only overlapping arguments could make them meet, the barrier is taken if these do
  overlap: hazards.py);
- the second is a release and the first is any access that other programs may look at: what one
  thread releases has to come after what all warps did;
- the first is an acquire and the second an access to what other programs write: what one thread
  has acquired, all warps may use.

What goes on after its op (a product's reads, going.py) is under way until somebody has waited for
it: a barrier in between orders nothing of it, one behind the wait does. A module in which bytes are
written that a product under way still reads is refused: no barrier helps.

The order that is asked for is a union over all ways through the program, loops included; a loop is
summed up once, so the work grows with the program's length, whatever the depth of its loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import product
from typing import Any

from workbench.ir import (
    I1,
    U64,
    Block,
    Builder,
    Effect,
    InvalidModuleError,
    Module,
    Op,
    Shared,
    Value,
    shape_of,
    walk,
)
from workbench.ops import Bitcast, Constant, Elementwise, For, If, Yield, counted, pointee_of
from workbench.passes.manager import Remarks
from workbench.targets.simt.corners import Elements
from workbench.targets.simt.lowering import used_values
from workbench.targets.simt.ops import BlockBarrier, is_persistent
from workbench.targets.simt.passes.going import Going, goes_on
from workbench.targets.simt.passes.hazards import Access, Doubt, Hazards, Overlap, words_of
from workbench.targets.simt.passes.reaches import MeetAnywhere, UnknownError
from workbench.targets.simt.passes.rounds import reading_from
from workbench.targets.simt.passes.shared_memory import scratch_of
from workbench.targets.simt.rules import Device

#: More arguments than this are not compared at run time: a barrier costs less. Those that are
#: compared at the kernel's start count apart.
MOST_DOUBTS = 6
MOST_DOUBTS_AT_START = 16
#: Rounds whose barriers cost less than such a question.
FEW_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class _Touch:
    """Bytes that an op reads or writes in shared memory."""

    low: int
    high: int
    writes: bool
    #: The ring this is a slot of: slots filled and read between two of its barriers differ.
    ring: Value | None = None
    #: Whether each warp has a part of it that no other touches, as many bytes as the next one has.
    shared_out: bool = False

    def conflicts(self, other: _Touch) -> bool:
        if self.ring is not None and self.ring is other.ring:
            return False
        if (
            self.shared_out
            and other.shared_out
            and (self.low, self.high) == (other.low, other.high)
        ):
            return False  # whoever uses such bytes waits for its own warp first
        return (self.writes or other.writes) and self.low < other.high and other.low < self.high


@dataclass
class _Pending:
    """What warps may still be doing, or may not know yet, since the last barrier."""

    touches: dict[_Touch, None] = field(default_factory=dict[_Touch, None])
    accesses: dict[Access, None] = field(default_factory=dict[Access, None])
    #: An acquire that one thread has made.
    acquired: Op | None = None
    #: What goes on, whatever barriers there are, until it is waited for.
    going: Going[_Touch] = field(default_factory=Going[_Touch])
    #: Of a block that is summed up: what its own ops left, not those of regions, in their order.
    straight: dict[_Touch | Access, None] = field(default_factory=dict[Any, None])
    #: The arguments that an access has been followed by a barrier for, if they overlap.
    asked: dict[Access, frozenset[_Near]] = field(default_factory=dict[Any, Any])

    def copy(self) -> _Pending:
        return _Pending(
            dict(self.touches), dict(self.accesses), self.acquired, self.going.copy(),
            asked=dict(self.asked),
        )  # fmt: skip

    def of_memory_shared(self) -> _Pending:
        """Return what is pending in shared memory alone."""
        return _Pending(dict(self.touches), going=self.going.copy())

    def add(self, other: _Pending, *, round_of: Op | None = None) -> None:
        """Let what is pending in `other` be pending too, perhaps from a loop's round before."""
        self.touches.update(other.touches)
        for access in other.accesses:
            if round_of is not None:
                access = replace(access, earlier=(*access.earlier, round_of))
            self.accesses[access] = None
            self.asked.pop(access, None)
        self.acquired = self.acquired or other.acquired
        self.going.add(other.going)
        for held in (*other.touches, *other.accesses):
            self.straight.pop(held, None)

    def leave(self, touches: Iterable[_Touch], accesses: Iterable[Access]) -> None:
        """Let what an op does be pending, as the latest."""
        for touch in touches:
            self.touches.pop(touch, None)
            self.straight.pop(touch, None)
            self.touches[touch] = self.straight[touch] = None
        for access in accesses:
            self.accesses.pop(access, None)
            self.straight.pop(access, None)
            self.asked.pop(access, None)
            self.accesses[access] = self.straight[access] = None

    def ask(self, doubts: frozenset[_Near]) -> None:
        """Note a barrier that is taken if one of some pairs of arguments overlaps."""
        for access in self.accesses:
            self.asked[access] = self.asked.get(access, frozenset()) | doubts

    def settle(self, last: _Touch | Access) -> None:
        """Forget what the block's own ops left up to `last`, that included."""
        for held in [*self.straight]:
            del self.straight[held]
            if isinstance(held, _Touch):
                self.touches.pop(held, None)
            else:
                self.accesses.pop(held, None)
            if held == last:
                return

    def clear(self) -> None:
        self.straight.clear()
        self.touches.clear()
        self.accesses.clear()
        self.asked.clear()
        self.acquired = None


@dataclass(frozen=True, slots=True)
class _Own:
    """What an op does itself: first, what it leaves behind, and whether it waits between."""

    before: tuple[_Touch, ...] = ()
    after: tuple[_Touch, ...] = ()
    going: tuple[_Touch, ...] = ()
    accesses: tuple[Access, ...] = ()
    waits: bool = False
    is_barrier: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Near:
    """Two accesses that meet only if arguments do, in whatever rounds, as the first ops find."""

    names: tuple[str, ...]
    ops: tuple[Op, ...]
    meet: Value
    #: The loop that asks, if its rounds are all that there are.
    loop: Op | None = None


@dataclass(frozen=True, slots=True)
class _Wait:
    """Why an op waits, or on which arguments it depends whether it must."""

    reason: str = ""
    doubts: tuple[Doubt | Overlap | _Near, ...] = ()


class _Barriers:
    """Inserts a barrier before an op that must not overtake, or be overtaken by, other warps."""

    def __init__(
        self, module: Module, offsets: dict[int, int], remarks: Remarks, chip: Device
    ) -> None:
        self.module = module
        self.chip = chip
        self.builder = Builder(module.next_id)
        self.offsets = offsets
        self.remarks = remarks
        self.warps = module.attributes["num_warps"]
        self.used = used_values(module)
        self.hazards = Hazards(module, self.used)
        self.buffers: dict[Value, tuple[int, int]] = {}
        #: Where blocks stay, a barrier has groups of warps wait that are programs apart.
        self.costs = is_persistent(module)
        #: Whether what is written at the kernel's start holds for all that follows.
        self.starts = not self.costs and not any(op.side_by_side for op in module.walk())
        self._near: dict[tuple[Op | None, frozenset[Value | str | None]], _Near | None] = {}
        #: How many loops are around, and the outermost.
        self.depth = 0
        self.loop: Op | None = None
        #: What has to be written at the kernel's start.
        self.first: dict[_Near, None] = {}
        #: Ops whose operands are known where code is being written.
        self.open: list[set[int]] = []
        #: What a block leaves pending that began with nothing pending.
        self._left: dict[Block, _Pending] = {}

    # -- walking --------------------------------------------------------------------------
    def block(self, block: Block, pending: _Pending, write: bool) -> Block:
        """Go through a block; `pending` becomes what is pending at its end."""
        self.open.append(set())
        with self.builder.block() as ops:
            for place, op in enumerate(block.ops):
                self.op(op, pending, write, block.ops[place + 1 :])
                self.open[-1].add(op.id)
        self.open.pop()
        return Block(block.arguments, tuple(ops)) if write else block

    def op(self, op: Op, pending: _Pending, write: bool, behind: tuple[Op, ...]) -> None:
        own = self.own(op)
        if write:
            self.refuse(op, own, pending)
        wait = self.wait(own, pending)
        if write and not own.is_barrier:
            wait = self.with_behind(wait, pending, behind)
            self.insert(op, wait)
            pending.ask(frozenset(d for d in wait.doubts if isinstance(d, _Near)))
        if own.is_barrier or own.waits or (write and wait.reason):
            pending.clear()
        elif wait.reason and (last := self.certain(own, pending)) is not None:
            pending.settle(last)
        # What has ended has done so in warps that waited, others may still be at it.
        pending.touches.update(dict.fromkeys(pending.going.step(op, self.chip.rules, own.going)))
        pending.leave(own.after, () if own.waits else own.accesses)
        if not own.waits:
            for access in own.accesses:
                if access.effect.acquires and access.effect.scope != "cta":
                    pending.acquired = op
        if op.regions:
            self.regions(op, pending, write)
        elif write:
            self.builder.insert(op)

    def regions(self, op: Op, pending: _Pending, write: bool) -> None:
        if op.repeats and not self.depth:
            self.loop = op
            if write:
                self.settle_before(op, pending)
        self.depth += op.repeats
        ends = [self.left_by(region) for region in op.regions]
        entry = pending.copy()
        if op.repeats:  # what one round leaves pending is pending when the next one starts
            for end in ends:
                # Another program has nothing to do with what this one did to global memory.
                left = end.of_memory_shared() if op.per_program else end
                entry.add(left, round_of=op)
        if write:
            new = self.rewritten(op, entry)
            self.builder.insert(self.asking(new) if op is self.loop else new)
        for end in ends:
            pending.add(end)
        self.depth -= op.repeats

    def settle_before(self, loop: Op, pending: _Pending) -> None:
        """Insert a barrier before a loop that would ask in its rounds for what lies before it.

        One barrier costs less than asking whether several arguments overlap.
        """
        if self.warps == 1:
            return
        self.depth += 1
        inside = [
            Access(op, effect)
            for region in loop.regions
            for op in walk(region)
            for effect in op.own_effects()
            if effect.space == "global"
        ]
        asked = {
            doubt
            for first in pending.accesses
            for second in inside
            if self.hazards.meet(first, second)
            and isinstance(doubt := self.doubt(first, second), _Near)
        }
        self.depth -= 1
        if len(asked) > 1:
            self.insert(
                loop, _Wait("what was accessed before the loop may overlap what it accesses")
            )
            pending.clear()

    def rewritten(self, op: Op, entry: _Pending) -> Op:
        """Return the op with barriers in its regions, itself if they need none."""
        fields: dict[str, Block] = {}
        for spec in op.fields:
            if spec.role == "region":
                old: Block = getattr(op, spec.name)
                new = self.block(old, entry.copy(), write=True)
                if new.ops != old.ops:
                    fields[spec.name] = new
        return op.noted(**fields) if fields else op

    def left_by(self, block: Block) -> _Pending:
        """Return what a block leaves pending, found once for each block, whatever is before it.

        What is pending before may put a barrier in front of others, and then the one that follows
        here of the block alone is none: it is certain only that one stands between two ops of the
        block that need one, whatever lies between them may be pending yet.
        """
        known = self._left.get(block)
        if known is None:
            known = self._left[block] = _Pending()
            self.block(block, known, write=False)
        return known

    # -- what ops do ----------------------------------------------------------------------
    def own(self, op: Op) -> _Own:
        """Return what an op does itself, its regions left aside."""
        before: list[_Touch] = []
        after: list[_Touch] = []
        going: list[_Touch] = []
        accesses: list[Access] = []
        for effect in op.own_effects():
            if effect.space == "global" and (effect.reads or effect.writes):
                accesses.append(Access(op, effect))
            elif effect.space == "shared" and effect.through in op.results:
                # The bytes get a new owner: whoever used them before must be done.
                before.append(self.allocated(op, effect.through))
            elif effect.space == "shared" and effect.through is not None:
                touch = self.touch(effect)
                before.append(touch)
                (going if goes_on(effect) else after).append(touch)
            elif effect.is_meeting:
                return _Own(is_barrier=op.meets)
        scratch = scratch_of(op, self.chip, self.warps, self.used)
        waits = scratch.bytes > 0 and not scratch.alone
        if scratch.bytes:
            low = self.offsets[op.id]
            held = _Touch(low, low + scratch.bytes, writes=True, shared_out=scratch.alone)
            before.append(held)
            after.append(replace(held, writes=not waits))
        return _Own(tuple(before), tuple(after), tuple(going), tuple(accesses), waits)

    def allocated(self, op: Op, buffer: Value) -> _Touch:
        assert isinstance(buffer.type, Shared)
        start = self.offsets[op.id]
        self.buffers[buffer] = (start, start + buffer.type.bytes)
        return _Touch(*self.buffers[buffer], writes=True)

    def touch(self, effect: Effect) -> _Touch:
        buffer = effect.through
        assert buffer is not None
        assert isinstance(buffer.type, Shared)
        # pipeline_loads has placed the barriers of buffers with slots.
        ring = buffer if buffer.type.slots else None
        return _Touch(*self.buffers[buffer], writes=effect.writes, ring=ring)

    # -- what must wait -------------------------------------------------------------------
    def refuse(self, op: Op, own: _Own, pending: _Pending) -> None:
        """Raise an error where an op writes what is read by one that nobody has waited for."""
        if any(a.conflicts(b) for a in own.before for b in pending.going.since):
            raise InvalidModuleError(
                f"{op!r} at {op.span} writes shared memory that a product under way still reads: "
                "it has to be waited for"
            )

    def wait(self, own: _Own, pending: _Pending) -> _Wait:
        """Say why an op has to wait for what is pending, or on what it depends."""
        if any(a.conflicts(b) for a in own.before for b in pending.touches):
            return _Wait("the shared memory it uses may still be in use")
        doubts: dict[Doubt | Overlap | _Near, None] = {}
        for access in own.accesses:
            if reason := self.order_of(access, pending):
                return _Wait(reason)
            for other in pending.accesses:
                if not self.hazards.meet(other, access):
                    continue
                doubt = None if self.warps == 1 else self.doubt(other, access)
                if doubt is None:  # or lanes alone wait for each other, which costs nothing
                    return _Wait(words_of(other, access))
                if doubt in pending.asked.get(other, ()):
                    continue
                doubts[doubt] = None
                near = sum(isinstance(doubt, _Near) for doubt in doubts)
                if near > MOST_DOUBTS_AT_START or len(doubts) - near > MOST_DOUBTS:
                    return _Wait(words_of(other, access))
        return _Wait("", tuple(doubts))

    def with_behind(self, wait: _Wait, pending: _Pending, behind: tuple[Op, ...]) -> _Wait:
        """Let a barrier that is asked for be taken for loads right behind it as well."""
        if not wait.doubts or not all(isinstance(doubt, _Near) for doubt in wait.doubts):
            return wait
        doubts = dict.fromkeys(wait.doubts)
        for op in behind:
            if op.regions or any(e.writes or e.acquires or e.is_meeting for e in op.own_effects()):
                break
            own = self.own(op)
            more = self.wait(own, pending)
            if (
                own.waits
                or more.reason
                or not all(isinstance(doubt, _Near) for doubt in more.doubts)
            ):
                break
            doubts |= dict.fromkeys(more.doubts)
        return _Wait("", tuple(doubts)) if len(doubts) <= MOST_DOUBTS_AT_START else wait

    def certain(self, own: _Own, pending: _Pending) -> _Touch | Access | None:
        """Return the last of what the block's own ops left that an op waits for in any case."""
        for held in reversed(pending.straight):
            if isinstance(held, _Touch):
                found = any(touch.conflicts(held) for touch in own.before)
            else:
                found = any(
                    self.hazards.meet(held, access) and self.doubt(held, access) is None
                    for access in own.accesses
                )
            if found:
                return held
        return None

    def doubt(self, first: Access, second: Access) -> Doubt | Overlap | _Near | None:
        """Return what decides whether two accesses that may meet do; None if nobody can tell."""
        doubt = self.hazards.doubt(first, second) or self.asked(first, second)
        return doubt or self.near(first, second)

    def near(self, first: Access, second: Access) -> _Near | None:
        """Return what says at the kernel's start whether two accesses meet in any of its rounds.

        Asked of accesses through different arguments, which nearly always lie apart: in loops,
        where a round has nothing else to wait for, and where stores and loads take turns, each of
        which would wait for all before it.
        """
        if not self.starts or not (self.depth or self.takes_turns):
            return None  # a barrier of its own costs less
        if not self.hazards.are_arguments_apart(first, second):
            return None
        one, other = first.effect, second.effect
        names = (*self.hazards.roots(one), *self.hazards.roots(other))
        here = (one.through, other.through) if self.depth else names
        key = self.loop if self.depth else None, frozenset(here)
        if key not in self._near:
            self._near[key] = None
            asking = MeetAnywhere(self.module, self.hazards.facts, self.builder)
            before = self.builder.span, self.builder.origins
            self.builder.span, self.builder.origins = second.op.span, (second.op.id,)
            with suppress(UnknownError), self.builder.block() as ops:
                sides = [(one,), (other,)] if self.depth else map(self.through, names)
                meet, alone = asking.ask(*sides), self.depth and self.alone()
                self._near[key] = _Near(names, tuple(ops), meet, self.loop if alone else None)
            self.builder.span, self.builder.origins = before
        return self._near[key]

    def asking(self, loop: Op) -> Op:
        """Return a loop behind what it asks; where it has few rounds nothing is, and all meet."""
        builder, rounds = self.builder, self.alone()
        nears = [near for near in self.first if near.loop is self.loop]
        if not nears or rounds is None:
            return loop
        for near in nears:
            del self.first[near]
        asks = [op for near in nears for op in near.ops]
        asking = MeetAnywhere(self.module, self.hazards.facts, builder)
        try:
            with builder.block() as counts:
                few = asking.ends_after(FEW_ROUNDS, rounds.counter)
        except UnknownError:  # nobody can count them
            counts, few = asks, None
        for op in counts:
            builder.insert(op)
        if few is None:
            return loop
        yes = builder.add(Constant(1, I1))
        meets = tuple(near.meet for near in nears)
        with builder.block() as then:
            builder.insert(Yield((yes,) * len(nears)))
        with builder.block(asks) as otherwise:
            builder.insert(Yield(meets))
        made = builder.insert(If(few, Block((), tuple(then)), Block((), tuple(otherwise))))
        new = reading_from(loop, dict(zip(meets, made.results, strict=True)))
        regions = [spec.name for spec in loop.fields if spec.role == "region"]
        return loop.noted(**{name: getattr(new, name) for name in regions})

    def alone(self) -> For | None:
        """Return the loop around, if it has none inside and may be counted."""
        loop = None if self.loop is None else counted(self.loop)
        return loop if loop and not any(op.repeats for op in walk(loop.body)) else None

    @cached_property
    def takes_turns(self) -> bool:
        """Whether outside of loops what follows stores is loaded, more than once."""
        turns, stored = 0, False
        for op in self.module.body.ops:
            effects = [e for e in op.own_effects() if e.space == "global"]
            turns += stored and any(e.reads and not e.writes for e in effects)
            stored = any(e.writes for e in effects) or (stored and not effects)
        return turns > 1

    def through(self, name: str) -> list[Effect]:
        """Return all accesses of a kernel through an argument."""
        return [
            effect
            for op in self.module.walk()
            for effect in op.own_effects()
            if effect.space == "global" and name in self.hazards.roots(effect)
        ]

    def asked(self, first: Access, second: Access) -> Overlap | None:
        """Return what decides whether two accesses meet, if that is worth asking and known here."""
        if not self.costs or not any(first.op.id in ops for ops in self.open):
            return None
        return self.hazards.overlap(first, second)

    def order_of(self, access: Access, pending: _Pending) -> str:
        """Say which order between programs an access has to wait for; "" for none."""
        effect = access.effect
        if pending.acquired is not None and not self.hazards.is_settled(access):
            return "one thread has acquired what all warps go on to use"
        unsettled = any(not self.hazards.is_settled(other) for other in pending.accesses)
        if effect.releases and effect.scope != "cta" and unsettled:
            return "what it releases comes after the accesses of all warps"
        return ""

    def insert(self, op: Op, wait: _Wait) -> None:
        """Insert the barrier that an op needs before it, if it needs one."""
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        if wait.reason:
            self.remarks.note(op, f"barrier: {wait.reason}")
            builder.insert(BlockBarrier())
        elif wait.doubts:
            names = sorted({name for doubt in wait.doubts for name in self.names(doubt)})
            self.remarks.note(op, f"barrier if arguments overlap: {', '.join(names)}")
            holds = [self.holds(doubt) for doubt in wait.doubts]
            when = reduce(lambda x, y: builder.add(Elementwise("or", (x, y))), holds)
            builder.insert(BlockBarrier(when))
        builder.span, builder.origins = before

    def holds(self, doubt: Doubt | Overlap | _Near) -> Value:
        """Write whether what a doubt is about is so."""
        if isinstance(doubt, _Near):
            self.first[doubt] = None
            return doubt.meet
        return self.ends_meet(doubt) if isinstance(doubt, Overlap) else self.overlap(doubt)

    def names(self, doubt: Doubt | Overlap | _Near) -> list[str]:
        """Return the names of the arguments that a doubt is about."""
        if isinstance(doubt, _Near):
            return [*doubt.names]
        if isinstance(doubt, Doubt):
            return [doubt.one.hint, doubt.two.hint]
        effects = (doubt.first.effect, doubt.second.effect)
        return [name for effect in effects for name in self.hazards.roots(effect)]

    def ends_meet(self, doubt: Overlap) -> Value:
        """Write whether the bytes between the ends of two accesses have some in common."""
        builder, elements = self.builder, Elements(self.builder, {})

        def ends(pointers: Value) -> tuple[Value, Value]:
            corners = product(*((0, extent - 1) for extent in shape_of(pointers.type)))
            places = [
                builder.add(Bitcast(elements.at(pointers, place), U64))
                for place in dict.fromkeys(corners)
            ]
            least, most = (
                reduce(lambda x, y, of=of: builder.add(Elementwise(of, (x, y))), places)
                for of in ("min", "max")
            )
            last = builder.add(Constant(pointee_of(pointers.type).itemsize - 1, U64))
            return least, builder.add(Elementwise("add", (most, last)))

        one, two = doubt.first.effect.through, doubt.second.effect.through
        assert one is not None
        assert two is not None
        (low, high), (first, last) = ends(one), ends(two)
        before = builder.add(Elementwise("le", (low, last)))
        return builder.add(
            Elementwise("and", (before, builder.add(Elementwise("le", (first, high)))))
        )

    def overlap(self, doubt: Doubt) -> Value:
        """Write whether two arguments lie so near that accesses by equal offsets meet."""
        builder = self.builder
        one, two = (builder.add(Bitcast(v, U64)) for v in (doubt.one, doubt.two))
        apart = builder.add(Elementwise("sub", (one, two)))
        below = builder.add(Constant(doubt.bytes - 1, U64))
        most = builder.add(Constant(2 * doubt.bytes - 2, U64))
        shifted = builder.add(Elementwise("add", (apart, below)))
        near = builder.add(Elementwise("le", (shifted, most)))
        if not doubt.but_equal:
            return near
        differ = builder.add(Elementwise("ne", (one, two)))
        return builder.add(Elementwise("and", (near, differ)))


def insert_barriers(
    module: Module, remarks: Remarks, offsets: dict[int, int], chip: Device
) -> Module:
    """Insert the barriers that the order of memory needs, and no others.

    Before:
        #L0 = linear<16, lane=[1,2,4,8,0]>
        #L1 = linear<16, lane=[8,4,2,1,0]>
        #S0 = linear<16, offset=[1,2,4,8]>
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, #L0>
        %1 = gpu.shared_allocate {type = shared<16xf32, #S0>} : shared<16xf32, #S0>
        gpu.shared_store %0, %1
        %2 = gpu.shared_load %1 {type = tile<16xf32, #L1>} : tile<16xf32, #L1>
    After:
        #L0 = linear<16, lane=[1,2,4,8,0]>
        #L1 = linear<16, lane=[8,4,2,1,0]>
        #S0 = linear<16, offset=[1,2,4,8]>
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, #L0>
        %1 = gpu.shared_allocate {type = shared<16xf32, #S0>} : shared<16xf32, #S0>
        gpu.shared_store %0, %1
        gpu.barrier
        %2 = gpu.shared_load %1 {type = tile<16xf32, #L1>} : tile<16xf32, #L1>

    Keeps: every value, now also when warps run at different speeds.
    Rings of asynchronous copies bring their own barrier (pipeline_loads); a slot that is filled is
    never the slot that is read in the same round, so they are taken as one buffer and left alone.
    """
    worker = _Barriers(module, offsets, remarks, chip)
    body = worker.block(module.body, _Pending(), write=True)
    first = [op for near in worker.first for op in near.ops]
    body = Block(body.arguments, (*first, *body.ops))
    return replace(module, body=body, next_id=worker.builder.next_id)
