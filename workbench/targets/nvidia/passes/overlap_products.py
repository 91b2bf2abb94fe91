"""Two products at once: the second of a round is started beside the first of the next round.

A loop whose round j is

    S = first product;  P, factor = what is made of S;  sums = second product (P) + sums * factor

waits for the first product before it can make P, and for the second before it can go on: while P is
made, nothing multiplies. Rotated, the second product of a round is started in the next one:

    S = first(0);  P = ...;  sums = sums * factor                  the first round, peeled
    for j = 1 ...:  S = first(j), sums = second(P) + sums          both are started
                    wait for S;  P', factor = ...                  while the second goes on
                    wait for sums;  sums = sums * factor;  P = P'
    sums = second(P) + sums                                        the last one

Every operation and its operands stay, so results are the same to the bit. What the second product
reads has to last a round longer: P is carried, a ring has a slot more or starts its copies a round
less ahead (pipeline_loads.py, which decides), and the registers hold P beside all that the next
round makes. No round at all leaves the sums as they were, so all of it stands in a branch.

Where rings have one slot more than that, a round also waits for the copies of the next one, meets
the other warps and starts further copies while its products go on: nobody waits for the slowest
warp before products are started.

ptxas moves a wait up over what does not need it, in its own block of code: then nothing goes on
beside the second product. `gpu.scale_products` puts a branch in its way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.distances import Distances
from workbench.ir import I1, Block, Builder, Module, Op, Order, Value, copy_op, rebuild
from workbench.ops import Constant, Elementwise, For, If, Select, Yield, counted
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.rounds import another, counts_ahead, reached, reading_from
from workbench.targets.simt.pressure import is_written_where_used, peak_in, registers_held
from workbench.targets.simt.rules import Later, RuleTable

#: What a thread has in registers beside tiles of floats and the addresses of its copies, about.
_OTHER_REGISTERS = 24


@dataclass(frozen=True, slots=True)
class Late:
    """A product of a loop that may be started a round later.

    Attributes:
        product: it; its result is carried into the next round, where nobody looks at it but
            `chain`, ops that make the sums from which the product starts.
        how: what is known of it on the target.
        number: which of the carried values.
        first: the product of the next round behind which it is started.
        before, behind: what waits until its slot is full, and gives it back: late with it.
        held: what they read that differs from round to round, its sums left aside.
    """

    product: Op
    how: Later
    number: int
    first: Op
    chain: tuple[Op, ...]
    before: tuple[Op, ...]
    behind: tuple[Op, ...]
    held: tuple[Value, ...]


def late_product(loop: For, rules: RuleTable) -> Late | None:
    """Return the last product of a loop that may be started a round later, by what depends on it.

    Another product of the loop comes before it: it reads what is made of that one.
    """
    products = {op: later for op in loop.body.ops if (later := rules.later_of(op)) is not None}
    if len(products) < 2 or not counts_ahead(loop):
        return None
    uses: dict[Value, list[Op]] = {}
    for op in loop.body.ops:
        for value in read_by(op):
            uses.setdefault(value, []).append(op)
    for product in reversed(products):
        found = _late(loop, product, products, uses)
        if found is not None:
            return found
    return None


def read_by(op: Op) -> tuple[Value, ...]:
    """Return what an op reads, its regions included."""
    inner = [value for region in op.regions for one in region.ops for value in read_by(one)]
    return (*op.operands, *inner)


def _late(
    loop: For, product: Op, products: Mapping[Op, Later], uses: Mapping[Value, Sequence[Op]]
) -> Late | None:
    body, end, how = loop.body, loop.body.terminator, products[product]
    if uses.get(product.result) != [end]:
        return None
    number = body.yields.index(product.result)
    if body.yields.count(product.result) != 1:
        return None
    chain = _following(body, body.arguments[1 + number])
    if product not in chain:
        return None
    before = [op for op in chain if op is not product]
    made = {body.arguments[1 + number], *(value for op in before for value in op.results)}
    known = {*chain}
    held = [v for v in product.operands if v is not how.sums]
    if (
        how.sums in how.operands
        or any(value in made for value in held)
        or any(user not in known for value in made for user in uses.get(value, ()))
        or not all(op.pure and not op.regions for op in before)
    ):
        return None
    needed = _leading(body, held)
    firsts = [op for op in products if op in needed and op not in known]
    if not firsts:
        return None
    first = firsts[0]
    for op in firsts[1:]:  # a product that another one goes on with
        if products[op].sums is first.result and uses[first.result] == [op]:
            first = op
    turns = _turns(product, how.slots, uses)
    if turns is None:
        return None
    waits, gives_back = turns
    held += [value for op in (*waits, *gives_back) for value in op.operands]
    inside = {*body.arguments, *(value for op in body.ops for value in op.results)}
    return Late(
        product, how, number, first, tuple(before), waits, gives_back,
        tuple(dict.fromkeys(value for value in held if value in inside)),
    )  # fmt: skip


def _turns(
    product: Op, slots: Sequence[Value], uses: Mapping[Value, Sequence[Op]]
) -> tuple[tuple[Op, ...], tuple[Op, ...]] | None:
    """Return what waits for the slot that a product alone reads, and what gives it back.

    None if a slot that others read as well is given back.
    """
    waits: list[Op] = []
    behind: list[Op] = []
    for slot in dict.fromkeys(slots):
        users = uses.get(slot, ())
        waiting = [op for op in users if _has_order(op, "acquire")]
        giving = [op for op in users if _has_order(op, "release")]
        others = (op for op in users if op is not product and op not in (*waiting, *giving))
        shared = not all(op.pure for op in others)
        if shared and giving:
            return None
        waits += [] if shared else waiting
        behind += giving
    return tuple(dict.fromkeys(waits)), tuple(dict.fromkeys(behind))


def _has_order(op: Op, order: Order) -> bool:
    return any(effect.space == "shared" and effect.order == order for effect in op.own_effects())


def _following(body: Block, start: Value) -> list[Op]:
    """Return the ops of a block, but for its last, that depend on a value."""
    values, found = {start}, list[Op]()
    for op in body.ops[:-1]:
        if any(value in values for value in read_by(op)):
            found.append(op)
            values.update(op.results)
    return found


def _leading(body: Block, ends: Collection[Value]) -> set[Op]:
    """Return the ops of a block on which values depend."""
    values, found = set(ends), set[Op]()
    for op in reversed(body.ops[:-1]):
        if any(value in values for value in op.results):
            found.add(op)
            values.update(read_by(op))
    return found


def obstacle(late: Late, in_rings: Collection[Value], rules: RuleTable) -> str:
    """Say why a product cannot be started a round later; empty if it can.

    in_rings: the tiles of the loop that products read in rings.
    """
    stored = {one.tile for one in rules.stored_of(late.product)}
    if any(value in stored and value not in in_rings for value in late.held):
        return "an operand is stored anew in each round, where the product would still read it"
    return ""


def registers_needed(
    loop: For, late: Late, in_rings: Collection[Value], rules: RuleTable, copies: int
) -> tuple[int, int]:
    """Return about how many registers a thread needs for a loop as it is, and with a late product.

    copies: that it starts in a round, each from an address of two registers.
    """
    elsewhere = {*in_rings, *(one.tile for op in loop.body.ops for one in rules.stored_of(op))}
    read = (value for op in loop.body.ops for value in read_by(op))
    elsewhere |= {v for v in read if v.op is not None and is_written_where_used(v.op)}
    carried = sum(registers_held(value) for value in late.held if value not in in_rings)
    plain = peak_in(loop.body, elsewhere) + 2 * copies + _OTHER_REGISTERS
    return plain, plain + carried


def stored_bytes(loop: For, in_rings: Collection[Value], rules: RuleTable) -> int:
    """Return the bytes of what products of a loop read in buffers that are no rings."""
    stored = (one for op in loop.body.ops for one in rules.stored_of(op))
    return sum({one.tile: one.buffer.bytes for one in stored if one.tile not in in_rings}.values())


def overlap_products(module: Module, remarks: Remarks, rules: RuleTable) -> Module:
    """Start products that are to be late (`stage` 1 or 2) in the next round of their loop.

    Needs: layouts, and rings with a slot for what they read (pipeline-loads). Keeps: every value.
    """
    distances = Distances(module)

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        loop = counted(op)
        late = None if loop is None else late_product(loop, rules)
        if loop is None or late is None or not late.how.late:
            return None
        remarks.note(
            late.product, "started beside the first product of the next round (overlap)", "applied"
        )
        return _Rotation(loop, late, builder, rules, distances).write()

    return rebuild(module, rewrite)


class _Rotation:
    """Writes a loop whose late product is started a round later."""

    def __init__(
        self, loop: For, late: Late, builder: Builder, rules: RuleTable, distances: Distances
    ) -> None:
        self.loop = loop
        self.late = late
        self.builder = builder
        self.rules = rules
        self.distances = distances
        #: The first round is the last one, if there is one.
        self.once = _runs_once(loop, distances)
        #: What comes once the late product has been waited for.
        self.after = {*late.chain, *_narrowed(loop.body, late)}
        self.late_ops = {*late.before, late.product, *late.behind}
        #: What begins a round, if it may come while the products of the one before go on.
        self.head = None if self.once else _head(loop.body, late)

    def write(self) -> tuple[Value, ...]:
        """Insert all of it; returns what the loop gave."""
        builder, loop = self.builder, self.loop
        runs = reached(loop, loop.lower, builder)
        with builder.block() as rounds:
            builder.insert(Yield(self._rounds()))
        with builder.block() as none:
            builder.insert(Yield(loop.inits))
        done = builder.insert(If(runs, Block((), tuple(rounds)), Block((), tuple(none))))
        for result, old in zip(done.results, loop.results, strict=True):
            result.hint = old.hint
        return done.results

    def _rounds(self) -> tuple[Value, ...]:
        builder, loop, late = self.builder, self.loop, self.late
        arguments, number = loop.body.arguments, late.number
        values = dict(zip(arguments, (loop.lower, *loop.inits), strict=True))
        for op in loop.body.ops[:-1]:
            if op in self.late_ops:
                continue
            new = builder.insert(copy_op(op, values, builder))
            if (
                self.once
                and [result.type for result in new.results] == [I1]
                and self.distances.is_off(new.result)
            ):
                values[op.result] = builder.add(Constant(False, I1))  # of a round that never comes
        ends = [values.get(value, value) for value in self._ends(loop.body.yields)]
        last = {value: values.get(value, value) for value in late.held}
        if not self.once:
            ends, last = self._further(values, ends)
        last[late.how.sums] = ends[number]
        for op in late.before:
            builder.insert(copy_op(op, last, builder))
        final = copy_op(late.product, last, builder).changed(**late.how.started(0))
        ends[number] = builder.insert(final).result
        for op in late.behind:
            builder.insert(copy_op(op, last, builder))
        return tuple(ends)

    def _further(
        self, values: Mapping[Value, Value], ends: list[Value]
    ) -> tuple[list[Value], dict[Value, Value]]:
        """Insert all rounds but the first.

        Returns what they give, of the late product what it starts from, and what it reads.
        """
        builder, loop, late = self.builder, self.loop, self.late
        arguments = loop.body.arguments
        if self.head is not None:
            state = dict(zip(arguments[1:], ends, strict=True))
            ahead = self.head.write(state, builder)
            ends = [ahead.get(a, end) for a, end in state.items()]
        wraps, upper = loop.may_wrap, loop.upper
        second = builder.add(Elementwise("add", (loop.lower, loop.step), no_wrap=not wraps))
        if wraps:  # no rounds, whatever the second counter would be
            more = another(loop, loop.lower, second, builder)
            upper = builder.add(Select(more, upper, second))
        kept = {value: Value(value.type, value.hint) for value in late.held}
        with builder.block() as body:
            builder.insert(Yield(self._round(kept)))
        inits = (*ends, *(values.get(value, value) for value in late.held))
        block = Block((*arguments, *kept.values()), tuple(body))
        rest = builder.insert(loop.changed(lower=second, upper=upper, inits=inits, body=block))
        results = list(rest.results[: len(loop.results)])
        return results, dict(zip(late.held, rest.results[len(loop.results) :], strict=True))

    def _ends(self, yields: Sequence[Value]) -> list[Value]:
        """Return what a round gives: of the late product what it starts from."""
        late = self.late
        return [late.how.sums if v is late.product.result else v for v in yields]

    def _round(self, kept: Mapping[Value, Value]) -> tuple[Value, ...]:
        """Insert a round but the first; `kept` is what the late product reads, of the last one."""
        builder, loop, late = self.builder, self.loop, self.late
        argument = loop.body.arguments[1 + late.number]
        values: dict[Value, Value] = {}
        sums = argument
        after = [op for op in loop.body.ops if op in self.after]
        ahead: dict[Value, Value] = {}
        skipped = {*self.late_ops, *after, *(self.head.first if self.head is not None else ())}
        for op in loop.body.ops[:-1]:
            if op in skipped:
                continue
            fields = self._later(op).going(1) if op is late.first else None
            new = builder.insert(reading_from(op, values, fields))
            values.update(zip(op.results, new.results, strict=True))
            if op is late.first:
                for one in late.before:
                    builder.insert(reading_from(one, kept))
                how = {**late.how.going(2), **late.how.started(1)}
                started = reading_from(late.product, {**kept, late.how.sums: sums}, how)
                sums = builder.insert(started).result
                if self.head is not None:
                    ahead = self.head.write({}, builder)
                values[op.result] = builder.add(self._later(op).waited(new.result, 1))
        waits = self._waiting(argument, after)
        if waits is None:
            values[argument] = builder.add(late.how.waited(sums, 0), argument.hint)
        for op in after:
            if waits is not None and op is waits[0]:
                waiting = reading_from(waits[1], {**values, argument: sums})
                values[op.result] = builder.add(waiting, op.result.hint)
                continue
            new = builder.insert(reading_from(op, values))
            values.update(zip(op.results, new.results, strict=True))
        for op in late.behind:
            builder.insert(reading_from(op, kept))
        ends = [values.get(value, value) for value in self._ends(loop.body.yields)]
        carried = loop.body.arguments[1:]
        ends = [ahead.get(a, end) for a, end in zip(carried, ends, strict=True)]
        return (*ends, *(values.get(value, value) for value in late.held))

    def _later(self, product: Op) -> Later:
        later = self.rules.later_of(product)
        assert later is not None
        return later

    def _waiting(self, sums: Value, after: Sequence[Op]) -> tuple[Op, Op] | None:
        """Return the only op that reads the sums, and one that also waits for them."""
        users = [op for op in after if sums in op.operands]
        waiting = self.rules.waiting_of(users[0], sums) if len(users) == 1 else None
        return None if waiting is None else (users[0], waiting)


def _runs_once(loop: For, distances: Distances) -> bool:
    """Say whether a loop is known to have no second round."""
    step = constant_of(loop.step)
    if step is None or step <= 0:
        return False
    distance = distances.between(loop.lower, loop.upper)
    if distance is None or (loop.may_wrap and distance <= 0):
        return False
    return distance <= step


@dataclass(frozen=True, slots=True)
class _Head:
    """What begins a round: waiting for its copies, the barrier, starting copies of later rounds.

    first: those ops. ops: with what computes for the next round what they read. carried: the
    arguments of the loop that nobody else reads, and what each will be in the next round.
    """

    first: tuple[Op, ...]
    ops: tuple[Op, ...]
    carried: Mapping[Value, Value]

    def write(self, state: Mapping[Value, Value], builder: Builder) -> dict[Value, Value]:
        """Insert them for given values of the arguments; returns those of the next round."""
        values = dict(state)
        for op in self.ops:
            builder.insert(copy_op(op, values, builder))
        return {argument: values.get(v, v) for argument, v in self.carried.items()}


def _head(body: Block, late: Late) -> _Head | None:
    """Return what begins a round if it may come a round early, behind the start of the products.

    Rings have to have room: what is copied then must not take the slot of the round before.
    """
    numbers = [n for n, op in enumerate(body.ops) if _starts_copies(op)]
    if late.how.late < 2 or not numbers:
        return None
    first = body.ops[: numbers[-1] + 1]
    if late.first in first or not any(op.meets for op in first):
        return None
    arguments, yields = body.arguments[1:], body.yields
    ops, carried = {*first}, dict[Value, Value]()
    work = [value for op in first for value in read_by(op) if value in arguments]
    while work:
        argument = work.pop()
        if argument not in carried:
            after = carried[argument] = yields[arguments.index(argument)]
            found = _leading(body, [after])
            ops |= found
            work += [v for op in found for v in read_by(op) if v in arguments]
            work += [after] if after in arguments else []
    more = ops - {*first}
    known = {*carried, *(value for op in first for value in op.results)}
    if (
        any(body.arguments[0] in read_by(op) for op in ops)
        or not all(op.pure for op in more)
        or any(value in known for op in body.ops[:-1] if op not in ops for value in read_by(op))
        or any(v in known for a, v in zip(arguments, yields, strict=True) if a not in carried)
    ):
        return None
    return _Head(first, tuple(op for op in body.ops if op in ops), carried)


def _starts_copies(op: Op) -> bool:
    """Say whether an op starts copies to shared memory, or has those that it follows go on."""
    return any(e.later and e.space == "shared" and not e.reads for e in op.own_effects())


def _narrowed(body: Block, late: Late) -> list[Op]:
    """Return the ops that make what the late product reads of something larger.

    Until it has been waited for, what it reads of the last round needs registers too.
    """
    return [
        op
        for op in body.ops
        if op.pointwise
        and len(op.operands) == 1
        and op.result in late.held
        and registers_held(op.result) < sum(map(registers_held, op.operands))
        and not any(op.result in read_by(other) for other in body.ops if other is not late.product)
    ]
