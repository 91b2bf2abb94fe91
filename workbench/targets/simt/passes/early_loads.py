"""Small loads of a loop of products start a round before their turn, into registers.

What is copied ahead to shared memory waits for nobody. A scale of two bytes cannot be copied so: a
round that asks memory for it where it is used waits there, every warp at the same place. It is
loaded for the next round while this one computes, and carried:

    s = load p(lower)                         before the loop, if it has a round
    for i:  t = load p(i + step) if i + step is reached
            ... s ...
            s = t

The loads are those that products are made of element by element, of a few registers, whose address
and memory may be read early (staged_loads.Early). What says where copies read is loaded a round
before them, too: the page of a block of keys, the neighbours whose rows are gathered.

Without products of tensor cores, all that a round loads starts so, where a thread makes some
requests. ptxas puts each in front of what is computed of it, and a round would wait for memory once
for each of them; where programs are few, nobody else fills that time.
"""

from __future__ import annotations

from workbench.ir import (
    Block,
    Builder,
    Module,
    Op,
    Value,
    copy_op,
    layout_of,
    rebuild,
    shape_of,
    walk,
)
from workbench.ops import Elementwise, Splat, counted
from workbench.passes.manager import Remarks
from workbench.targets.simt.passes.rounds import another, counts_ahead, reached, reading_from
from workbench.targets.simt.passes.staged_loads import Early, Known, staged_load
from workbench.targets.simt.pressure import is_written_where_used, peak_in, registers_of
from workbench.targets.simt.rules import Access, Device

#: The registers of a thread that all such loads of a loop may take, 32 bits each.
MOST_REGISTERS = 8
#: The same in loops without products of tensor cores, and the fewest requests of a thread a round.
MOST_PLAIN, LEAST_PLAIN = 32, 3
#: The most registers of tiles that such a loop may fill with them.
MOST_ALIVE = 128


def load_early(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Load a round ahead what products need and no copy brings.

    Needs: layouts. Keeps: every value (memory that the loop stores to is not loaded ahead).
    """
    known = Known(module, chip)

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        loop = counted(op)
        if loop is None or loop.stages_in(module.attributes) < 2:
            return None
        if not counts_ahead(loop):
            return None
        early = Early(loop, known)
        chosen = loaded_early(early) if known.hides(loop.body) else _of_plain_rounds(early)
        if not chosen:
            return None
        for load in chosen:
            remarks.note(load, "loaded a round ahead, into registers", "applied")
        return _written(early, chosen, builder)

    return rebuild(module, rewrite)


def loaded_early(early: Early) -> list[Op]:
    """Return the loads of a loop that are worth it, and may be early."""
    known, room = early.known, MOST_REGISTERS
    found: list[Op] = []
    boxes = [box for op in early.loop.body.ops if (box := known.rules.box_of(op)) is not None]
    copied = [] if boxes else _copied(early)
    reads = [v for box in boxes for v in box.reads] + [v for load in copied for v in load.operands]
    where = early.slice_of(reads) or []
    for op in early.loop.body.ops:
        access, effects = known.rules.access_of(op), op.own_effects()
        if access is None or len(op.results) != 1 or any(e.writes for e in effects):
            continue
        leads = op in where and op not in copied and (bool(copied) or _is_number(op))
        if op.results[0] not in known.operands and not leads:
            continue
        ahead, layout = known.rules.ahead_of(op, known.on), layout_of(op.results[0].type)
        if not leads and ahead is not None and not ahead.obstacle:
            continue  # a copy brings it
        if early.obstacle(op) or (layout is None and not _is_number(op)):
            continue
        taken = 1 if layout is None else len(set(layout.table("register")))
        if taken > room:
            continue
        before = early.slice_of(op.operands)
        if before is None or not all(inner.pure for inner in before):
            continue
        room -= taken
        found.append(op)
    return found


def _of_plain_rounds(early: Early) -> list[Op]:
    """Return all loads of a loop without products, where a thread makes some and they are few."""
    known, body = early.known, early.loop.body
    if any(map(known.rules.staged_of, walk(body))) or any(map(_may_stop, walk(body))):
        return []
    found, requests, registers = list[Op](), 0, 0
    for op in body.ops:
        if known.rules.access_of(op) is None or len(op.results) != 1:
            continue
        before = None if early.obstacle(op) else early.slice_of(op.operands)
        if before is None or not all(inner.pure for inner in before):
            return []
        found.append(op)
        for move in known.rules.moves_of(op, known.on):
            requests += move.requests
            registers += move.requests * -(-move.bytes // 4)
    if requests < LEAST_PLAIN or registers > MOST_PLAIN:
        return []
    elsewhere = [v for op in walk(body) if is_written_where_used(op) for v in op.results]
    # Integers too, but those that are written where somebody needs them: what says where it loads.
    integers = [*body.arguments, *body.yields, *(v for op in found for v in op.results)]
    alive = peak_in(body, elsewhere, integers) + registers
    return found if alive <= _room(known) else []


def _room(known: Known) -> int:
    """Return the registers that tiles of such a loop may fill: of many warps each has few."""
    have = registers_of(known.on.module, known.on.chip)
    return min(MOST_ALIVE, have, known.on.options.get("maxnreg") or have)


def _may_stop(op: Op) -> bool:
    """Say whether an op may end the program before what stands behind it is loaded."""
    return any(effect.space == "outside" for effect in op.own_effects())


def _copied(early: Early) -> list[Op]:
    """Return the loads of a loop that copies bring to products which are waited for later.

    Where warps multiply, other blocks fill the time in which one waits for its table; with
    `tables_ahead` what they would fill is taken for the copies.
    """
    waited = any(early.known.rules.later_of(op) for op in early.loop.body.ops)
    if not waited and not early.known.on.options.get("tables_ahead", False):
        return []
    said = Remarks()
    found = (staged_load(early, op, said) for op in early.loop.body.ops)
    return [way.load for way in found if way is not None and not way.through_registers]


def _is_number(op: Op) -> bool:
    return not any(shape_of(value.type) for value in (*op.operands, *op.results))


def _written(early: Early, chosen: list[Op], builder: Builder) -> tuple[Value, ...]:
    loop, (counter, *arguments) = early.loop, early.loop.body.arguments
    needed = {id(op) for op in early.slice_of([v for op in chosen for v in op.operands]) or ()}
    ops = [op for op in loop.body.ops if id(op) in needed]
    ahead = _Ahead(early, ops, chosen, builder)
    starts = {counter: loop.lower, **dict(zip(arguments, loop.inits, strict=True))}
    loaded = ahead.load(starts, reached(loop, loop.lower, builder))
    kept = [Value(load.results[0].type, load.results[0].hint) for load in chosen]
    with builder.block() as body:
        values: dict[Value, Value] = {}
        for op in ops:  # what the next round starts with
            builder.insert(copy_op(op, values, builder))
        wraps = loop.may_wrap
        following = builder.add(Elementwise("add", (counter, loop.step), no_wrap=not wraps))
        ends = [values.get(v, v) for v in loop.body.yields]
        runs = another(loop, counter, following, builder)
        coming = ahead.load({counter: following, **dict(zip(arguments, ends, strict=True))}, runs)
        replaced = dict(zip((load.results[0] for load in chosen), kept, strict=True))
        for op in loop.body.ops[:-1]:
            if op in chosen:
                continue
            new = reading_from(op, replaced)
            builder.insert(new)
            if new is not op:
                replaced.update(zip(op.results, new.results, strict=True))
        ends = (*(replaced.get(v, v) for v in loop.body.yields), *coming)
        builder.insert(loop.body.terminator.changed(values=ends))
    block = Block((counter, *arguments, *kept), tuple(body))
    new = builder.insert(loop.changed(inits=(*loop.inits, *loaded), body=block))
    return new.results[: len(loop.results)]


class _Ahead:
    """Loads what a round needs, given its counter and carried values."""

    def __init__(self, early: Early, ops: list[Op], chosen: list[Op], builder: Builder) -> None:
        self.early = early
        self.ops = ops
        self.chosen = chosen
        self.builder = builder

    def load(self, values: dict[Value, Value], runs: Value) -> list[Value]:
        """Return what is loaded in a round; anything in one that the loop does not reach."""
        rules, builder = self.early.known.rules, self.builder
        for op in self.ops:
            builder.insert(copy_op(op, values, builder))
        found: list[Value] = []
        for load in self.chosen:
            copied = copy_op(load, values, builder)
            access = rules.access_of(copied)
            assert access is not None
            found.append(builder.insert(access.under(self._under(runs, access))).results[0])
        return found

    def _under(self, runs: Value, access: Access) -> Value:
        shape, layout = shape_of(access.pointers.type), layout_of(access.pointers.type)
        mask = runs if not shape else self.builder.add(Splat(runs, shape, layouts=(layout,)))
        if access.mask is None:
            return mask
        return self.builder.add(Elementwise("and", (mask, access.mask)))
