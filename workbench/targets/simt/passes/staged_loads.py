"""Which loads of a loop may be staged in a ring of buffers, and who reads them there.

Only what nobody can tell may happen early: memory that the loop may write is not read ahead, nor is
memory that other programs may write over anything that puts accesses into an order.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.analysis.memory import Memory
from workbench.analysis.products import beside_products
from workbench.ir import Block, Effect, Module, Op, Shared, Tile, Value, layout_of
from workbench.layouts import LinearLayout
from workbench.ops import For, pointee_of
from workbench.passes.manager import Remarks
from workbench.targets.simt.copying import Ahead, Box
from workbench.targets.simt.ops import SharedLoad
from workbench.targets.simt.passes.costs import goes_through_registers
from workbench.targets.simt.passes.roles import stays_before
from workbench.targets.simt.passes.rounds import read_by
from workbench.targets.simt.rules import Access, Device, InPlace, RuleTable, Setting

#: In a loop's schedule: the pairs of arguments that do not overlap there (apart.py).
APART = "apart"


@dataclass(frozen=True, slots=True)
class User:
    """An op that can read from a buffer what it moves, and the layout in which it does.

    The op itself if it gives elements to other threads; or one that renames them, for the one
    that gives its result to other threads (`end`).
    """

    op: Op
    layout: LinearLayout
    end: Op | None

    @property
    def given(self) -> Value:
        """What it makes of the tile."""
        return (self.op if self.end is None else self.end).result


@dataclass(frozen=True, slots=True)
class Read:
    """An op that reads an operand, a load's tile or its transpose, in the buffer."""

    op: Op
    operand: Value
    how: InPlace


@dataclass(frozen=True, slots=True)
class Staged:
    """A load, how it is copied, what reads operands off it, and whether anything else does.

    `access` is None of one that is copied as a whole. One that goes `through_registers` is no copy:
    threads load its tile, and store it to the ring a round later.
    """

    load: Op
    access: Access | None
    ahead: Ahead
    in_place: tuple[Read, ...]
    #: Transposes (by identity) of which nothing but such reads is left.
    gone: frozenset[int]
    users: tuple[User, ...]
    has_others: bool
    #: Whether dots multiply the tile itself, moved or not: else only what is made of it.
    plain: bool
    through_registers: bool = False

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that its copy takes, or itself."""
        if self.through_registers:
            return self.load.operands
        return reads_of(self.access, self.ahead)

    @property
    def box(self) -> Box | None:
        """How it is copied as a whole."""
        return self.ahead.box

    @property
    def is_vectors(self) -> bool:
        """Whether it is copied vector by vector."""
        return self.box is None and not self.through_registers


def reads_of(access: Access | None, ahead: Ahead) -> tuple[Value, ...]:
    if ahead.box is not None:
        return ahead.box.reads
    assert access is not None
    return (access.pointers,) if access.mask is None else (access.pointers, access.mask)


class Known:
    """What is known of the module."""

    def __init__(self, module: Module, chip: Device) -> None:
        self.rules: RuleTable = chip.rules
        self.on = Setting(module, chip)
        self.memory = Memory(module)
        self.uses: dict[Value, list[Op]] = {}
        for op in module.walk():
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)
        #: What dots multiply, and what that is made of element by element: users come first.
        self.operands: set[Value] = set()
        for op in reversed(list(module.walk())):
            self.operands.update(self.rules.staged_of(op))
            if self.hands_on(op):
                self.operands.update(op.operands)

    def hands_on(self, op: Op) -> bool:
        """Say whether dots multiply what an op makes element by element."""
        return op.by_elements and not self.operands.isdisjoint(op.results)

    def stays(self, *, programs: bool) -> frozenset[Op]:
        """Return what all warps may run (`stays_before`)."""
        return stays_before(self.on.module, programs=programs, memory=self.memory)

    @cached_property
    def beside(self) -> set[Value]:
        """The rows and columns that meet what dots give."""
        return beside_products(self.on.module)

    def is_moved_to_dot(self, op: Op) -> bool:
        """Say whether dots multiply what an op, and nothing but such ops, moves."""
        return op.moves and any(
            op.result in self.rules.staged_of(user) or self.is_moved_to_dot(user)
            for user in self.uses.get(op.result, [])
        )

    def hides(self, block: Block) -> bool:
        """Say whether a block has something for which loads are worth copying ahead."""
        return any(map(self.rules.staged_of, block.ops))

    def user(self, op: Op) -> User | None:
        """Return how an op reads a tile from a buffer instead, if it can."""
        if not op.moves:
            return None
        layout = layout_of(op.result.type)
        plan = self.rules.layout_rule(op)(op, self.on)
        if plan.work is None and plan.own is None:  # what it reads may be held in any layout
            return User(op, layout, None) if layout is not None else None
        users, (along, *_) = self.uses.get(op.result, []), plan.operands
        if along is None or len(users) != 1:
            return None
        end = self.user(users[0])
        before = along.need(end.layout) if end is not None and end.end is None else None
        return User(op, before, users[0]) if before is not None else None

    def holders(self, value: Value) -> list[Op]:
        """Return the products that read a tile from registers, if nobody else reads it."""
        users = self.uses.get(value, [])
        return users if all(held_of_product(op, self.rules) is value for op in users) else []

    def in_place(self, value: Value, buffer: Shared) -> tuple[Shared, tuple[Read, ...]]:
        """Return the ops that read a loaded tile in a buffer, and the type of that buffer.

        They read the tile or its transpose, and so does nobody else who reads a transpose.
        """
        found: list[Read] = []
        for turned, tile in ((False, value), *((True, t) for t in self.transposes(value))):
            for op in self.uses.get(tile, []):
                how = self.rules.in_place_of(op, tile, buffer, turned)
                if how is not None and (how.buffer == buffer or not found):
                    found.append(Read(op, tile, how))
                    buffer = how.buffer
        return buffer, tuple(found)

    def stored(self, value: Value, here: Container[int]) -> tuple[Shared, tuple[Read, ...]] | None:
        """Return how those who read a tile do so in a ring to which threads store it.

        None if one of them reads it otherwise, or is none of these ops (by identity).
        """
        found: list[Read] = []
        types = dict.fromkeys(
            stored.buffer
            for op in self.uses.get(value, [])
            for stored in self.rules.stored_of(op)
            if stored.tile is value
        )
        if len(types) != 1:
            return None
        (buffer,) = types
        for op in self.uses[value]:
            how = self.rules.in_place_of(op, value, buffer, False)
            if id(op) not in here or how is None or how.buffer != buffer:
                return None
            found.append(Read(op, value, how))
        return buffer, tuple(found)

    def wavefronts(self, buffer: Shared, layouts: Sequence[LinearLayout]) -> int:
        """Return what reading a buffer through layouts takes, in rows of banks."""
        found = 0
        for layout in layouts:
            type = Tile(buffer.shape, buffer.element, layout)
            load = SharedLoad(Value(buffer), type=type)
            for move in self.rules.moves_of(load, self.on):
                found += move.requests * (move.wavefronts or 0)
        return found

    def transposes(self, value: Value) -> list[Value]:
        """Return the values that are a tile of two axes transposed."""
        return transposes(value, self.uses)


def held_of_product(op: Op, rules: RuleTable) -> Value | None:
    """Return the operand of a product that it reads from registers, and may take in parts."""
    later = rules.later_of(op)
    return None if later is None else later.held


def transposes(value: Value, uses: Mapping[Value, Sequence[Op]]) -> list[Value]:
    """Return the values that are a tile of two axes transposed."""
    return [op.result for op in uses.get(value, ()) if op.exchanges_axes]


class Early:
    """What of a loop may happen rounds before its turn."""

    def __init__(self, loop: For, known: Known) -> None:
        self.loop = loop
        self.known = known
        self.memory = known.memory
        #: Arguments, read and written, that do not overlap in this loop.
        self._apart = frozenset[tuple[str, str]](loop.decided(APART) or ())
        effects = [e for op in loop.body.ops for e in op.effects() if e.space == "global"]
        self._writes = [e for e in effects if e.writes]
        #: What puts accesses into an order that other programs may see.
        self._orders = [e for e in effects if e.order != "plain" and _is_seen(e)]

    def obstacle(self, op: Op) -> str:
        """Say why an op must not read memory before its turn; "" if it may."""
        for effect in op.own_effects():
            if effect.order != "plain":
                return "the load is volatile"
            if any(self._may_meet(effect, write) for write in self._writes):
                return "the loop stores to memory it might load"
            if self._orders and not self.memory.is_settled(effect):
                return "the loop waits for other programs or signals to them"
        return ""

    def _may_meet(self, read: Effect, write: Effect) -> bool:
        if not self.memory.may_meet(read, write):
            return False
        pairs = {(p, q) for p in self.memory.roots(read) for q in self.memory.roots(write)}
        return not pairs <= self._apart

    def slice_of(self, wanted: Sequence[Value]) -> list[Op] | None:
        """Return the loop's ops that compute what a load reads, its address and mask, in order.

        With them come those that compute the carried values they need. None if one of them must
        not run early: then the address is not known rounds ahead.
        """
        loop = self.loop
        by_result = {r: op for op in loop.body.ops for r in op.results}
        carried = dict(zip(loop.body.arguments[1:], loop.body.yields, strict=True))
        needed: set[int] = set()
        work = [*wanted]
        seen: set[Value] = set()
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in carried:
                work.append(carried[value])
            op = by_result.get(value)
            if op is None:
                continue
            if (op.regions and not op.pure) or not op.removable or self.obstacle(op):
                return None
            needed.add(id(op))
            work += read_by(op)
        return [op for op in loop.body.ops if id(op) in needed]


def _is_seen(effect: Effect) -> bool:
    """Say whether an order is one for other programs: what a block's own fence does is not."""
    return effect.reads or effect.writes or effect.scope != "cta"


def staged_load(
    early: Early, op: Op, remarks: Remarks, *, through_registers: bool = True, beside: bool = False
) -> Staged | None:
    """Return how a load of the loop can be staged in shared memory; None if it cannot.

    What no copy brings as it is read may go `through_registers`, unless the author says no.
    `beside`: rows and columns that only meet what dots give are staged, too.
    """
    known = early.known
    ahead, access = known.rules.ahead_of(op, known.on), known.rules.access_of(op)
    if ahead is None:
        return None
    here = set(map(id, early.loop.body.ops))
    buffer, in_place = known.in_place(op.result, ahead.buffer)
    in_place = tuple(found for found in in_place if id(found.op) in here)
    if through_registers and access is not None:
        itemsize = pointee_of(access.pointers.type).itemsize
        through_registers = goes_through_registers(known.on, access.pointers, access.mask, itemsize)
    if through_registers and access is not None and (ahead.obstacle or not in_place):
        may_go = not early.obstacle(op) and early.slice_of(op.operands) is not None
        stored = known.stored(op.result, here) if may_go else None
        if stored is not None:
            ahead = replace(ahead, buffer=stored[0], others=(), obstacle="", unheard={})
            return Staged(op, access, ahead, stored[1], frozenset(), (), False, True, True)
    if in_place:
        ahead = replace(ahead, buffer=buffer)
    # A transpose that is only read in the buffer is not computed.
    gone = {
        id(tile.op)
        for tile in known.transposes(op.result)
        if all(
            any(found.op is user and found.operand is tile for found in in_place)
            for user in known.uses.get(tile, [])
        )
    }
    taken = gone | {id(found.op) for found in in_place if found.operand is op.result}
    readers = [reader for reader in known.uses.get(op.result, []) if id(reader) not in taken]
    users = [user for reader in readers if (user := known.user(reader)) is not None]
    # What a branch or an inner loop reads is taken out of the ring once, before it.
    users = [u for u in users if id(u.op) in here and (u.end is None or id(u.end) in here)]
    inside = [r for r in readers if id(r) in here]
    direct = any(op.result in known.rules.staged_of(r) for r in inside)
    multiplied = in_place or direct or any(map(known.hands_on, inside))
    if not multiplied and not (beside and inside and op.result in known.beside):
        return None
    reason = early.obstacle(op) or ahead.obstacle
    if not reason and early.slice_of(reads_of(access, ahead)) is None:
        reason = "its address depends on what must not be read ahead"
    if reason:
        remarks.note(op, f"not copied ahead: {reason}", "missed")
        return None
    has_others = len(users) < len(readers)
    if not in_place:  # the first of those in which readers meet the fewest conflicts
        own = layout_of(op.result.type)
        through = [u.layout for u in users] + ([own] if has_others and own is not None else [])
        types = (ahead.buffer, *ahead.others)
        ahead = replace(ahead, buffer=min(types, key=lambda t: known.wavefronts(t, through)))
    plain = bool(in_place) or direct or any(known.is_moved_to_dot(r) for r in inside)
    return Staged(op, access, ahead, in_place, frozenset(gone), tuple(users), has_others, plain)
