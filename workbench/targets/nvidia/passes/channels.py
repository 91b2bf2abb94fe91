"""What a producer would copy: loads of boxes by the products that read them, and their numbers.

Loads that one product reads share a ring of slots and one pair of barriers (a channel). What
decides where copies begin each role computes for itself, of numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.ir import Block, Module, Op, Shared, Value, shape_of, walk
from workbench.ops import For, counted_loops
from workbench.targets.simt.copying import Box
from workbench.targets.simt.passes.early_loads import loaded_early
from workbench.targets.simt.passes.rounds import read_by
from workbench.targets.simt.passes.staged_loads import (
    Early,
    Known,
    Read,
    User,
    held_of_product,
)
from workbench.targets.simt.rules import RuleTable


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a whole tile: its copy, a slot of its ring, what reads it, transposes gone.

    `users` read it to registers, `held` is what they make of it for a product that holds that.
    `made`: what is computed of it for such a product, element by element; None: nothing is.
    `whole`: others than the users read it as it is laid out, then.
    """

    op: Op
    box: Box
    buffer: Shared
    reads: tuple[Read, ...]
    gone: frozenset[int]
    users: tuple[User, ...] = ()
    products: tuple[Op, ...] = ()
    made: Value | None = None
    whole: bool = False

    @property
    def held(self) -> set[Value]:
        """What products have of it in registers."""
        return {user.given for user in self.users} if self.made is None else {self.made}


@dataclass(frozen=True, slots=True)
class Channel:
    """Loads that one product reads, and whether it goes on into the next round.

    `number`: how many like it its loop has before. What is `held` is loaded once for a program,
    before its loops: its slot is given back behind the last loop that reads it.
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
    def copied(self) -> int:
        """The bytes that copies bring into one slot."""
        return sum(load.box.bytes(load.buffer) for load in self.loads)

    @property
    def reads(self) -> tuple[Read, ...]:
        """Who reads what of all its loads."""
        return tuple(read for load in self.loads for read in load.reads)

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


def loops_with_boxes(module: Module, rules: RuleTable) -> list[For]:
    """Return the loops at the top of a kernel in which tiles are copied as a whole."""
    loops = counted_loops(module.body.ops)
    return [loop for loop in loops if any(map(rules.box_of, loop.body.ops))]


def channels_of(loop: For, known: Known) -> list[Channel]:
    """Return what products of a loop read of its loads of boxes, in the order of the products."""
    here = {id(op): place for place, op in enumerate(loop.body.ops)}
    groups: dict[int, list[Load]] = {}
    soon = loaded_early(Early(loop, known))
    late = [op for op in loop.body.ops if op not in soon and known.rules.box_of(op) is None]
    for op in loop.body.ops:
        if known.rules.box_of(op) is None:
            continue
        load = _load(op, known, late)
        products = {id(product) for product in load.products}
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
        if load.held or any(id(read.op) not in places for read in load.reads):
            raise RefusedError(op, "products outside the loops read the loaded tile")
        channel = Channel((load,), load.reads[0].op, held=True)
        alike = sum(replace(other, number=0).key == channel.key for other in found)
        found.append(replace(channel, number=alike))
    return found


def _load(op: Op, known: Known, late: Sequence[Op] = ()) -> Load:
    """Return a load of a box that products read; raises RefusedError where others do, too.

    `late`: what happens in its turn, in each round.
    """
    ahead = known.rules.ahead_of(op, known.on)
    if ahead is None or ahead.obstacle or ahead.box is None:
        why = ahead.obstacle if ahead is not None else "no copy fills a buffer as it does"
        raise RefusedError(op, why)
    buffer, reads = known.in_place(op.result, ahead.buffer)
    transposes = known.transposes(op.result)
    readers = known.uses.get(op.result, [])
    users = tuple(u for reader in readers if (u := known.user(reader)) and known.holders(u.given))
    turned = {id(t.op) for t in transposes} - {id(user.op) for user in users}
    taken = {id(read.op) for read in reads} | turned
    taken |= {id(part) for user in users for part in (user.op, user.end)}
    others = [u for v in (op.result, *transposes) for u in known.uses.get(v, [])]
    products = [read.op for read in reads]
    products += [holder for user in users for holder in known.holders(user.given)]
    if not reads and not users and (found := _computed_of(op, known)) is not None:
        product, made = found
        if (other := _loaded_beside(made, late)) is not None:
            raise RefusedError(other, "threads would load it in the round that computes with it")
        users = tuple(user for reader in readers if (user := known.user(reader)) is not None)
        whole = len(users) < len(readers)
        return Load(op, ahead.box, buffer, (), frozenset(), users, (product,), made, whole)
    if any(id(other) not in taken for other in others) or not products:
        raise RefusedError(op, "something beside a product reads the loaded tile")
    return Load(op, ahead.box, buffer, reads, frozenset(turned), users, tuple(products))


def _computed_of(op: Op, known: Known) -> tuple[Op, Value] | None:
    """Return the product that alone multiplies what is computed of a tile, and that operand.

    It has it in registers, made element by element: threads read the tile there as it is laid out.
    """
    found: dict[int, tuple[Op, Value]] = {}
    seen, work = set[Value](), [op.result]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for user in known.uses.get(value, []):
            if held_of_product(user, known.rules) is value:
                found[id(user)] = user, value
            elif user.by_elements:
                work += user.results
            else:
                return None
    return found.popitem()[1] if len(found) == 1 else None


def _loaded_beside(made: Value, late: Sequence[Op]) -> Op | None:
    """Return what is loaded in its turn for what is computed element by element; None: nothing."""
    seen, work = set[Value](), [made]
    while work:
        value = work.pop()
        op = value.op
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.by_elements:
            work += op.operands
        elif op in late and any(effect.reads for effect in op.own_effects()):
            return op
    return None


def _may_go_on(loop: For, channel: Channel, known: Known) -> bool:
    """Say whether the sums of the only product of a loop are nobody's but the next round's."""
    product = channel.product
    waiting = [op for op in walk(loop.body) if known.rules.later_of(op) is not None]
    later = known.rules.later_of(product)
    if later is None or waiting != [product]:
        return False
    arguments, yields = loop.body.arguments[1:], loop.body.yields
    read = {read.operand for load in channel.loads for read in load.reads}
    read |= {held for load in channel.loads for held in load.held & {later.held}}
    return (
        later.sums in arguments
        and known.uses.get(later.sums, []) == [product]
        and len(known.uses.get(product.result, [])) == 1
        and set(later.operands) == read
        and yields[arguments.index(later.sums)] is product.result
    )


def producer_slice(
    loop: For | None,
    loads: Sequence[Load],
    module: Module,
    known: Known,
    *,
    persistent: bool = False,
) -> tuple[list[Op], list[Op], list[int]]:
    """Return what the producer computes: before the loop, in it, and which carried values.

    `persistent`: what follows from a program's number, too. Without a loop it is for loads before
    all loops.
    Raises RefusedError where that is not numbers alone.
    """
    stays = known.stays(programs=persistent)
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


def read_before(loop: For, load: Load) -> list[Value]:
    """Return what is computed before a loop and decides where a load's copies begin in its rounds.

    Beside the number of the round.
    """
    inside = {r: op for op in loop.body.ops for r in op.results}
    counter, *arguments = loop.body.arguments
    work, found = [*load.box.reads, loop.lower, loop.step], dict[Value, None]()
    seen: set[Value] = set()
    while work:
        value = work.pop()
        if value in seen or value is counter:
            continue
        seen.add(value)
        if value in arguments:
            place = arguments.index(value)
            work += [loop.body.yields[place], loop.inits[place]]
        elif value in inside:
            work += read_by(inside[value])
        else:
            found[value] = None
    return list(found)


def in_buffers(channels: Iterable[Channel], known: Known) -> list[Value]:
    loaded = [load.op.result for channel in channels for load in channel.loads]
    return [*loaded, *(turned for tile in loaded for turned in known.transposes(tile))]


def in_parts(channels: Iterable[Channel]) -> list[Value]:
    """Return what is computed, by elements, of which products that go on take a part at a time."""
    found: dict[Value, None] = {}
    made = [load.made for channel in channels if channel.goes_on for load in channel.loads]
    work = [value for value in made if value is not None]
    while work:
        value = work.pop()
        if value not in found and value.op is not None and value.op.by_elements:
            found[value] = None
            work += value.op.operands
    return list(found)


__all__ = [
    "Channel", "Load", "RefusedError", "channels_of", "held_of", "in_buffers", "in_parts",
    "loops_with_boxes", "producer_slice", "read_before",
]  # fmt: skip
