"""Products of one round that nobody waits for before their results are read.

An op that may end after its turn (`later` in the tables) ends in its turn all the same where
nothing else was decided. In a block of several such ops that wastes what lies between them:

    S = K Q';  P = exp(S);  dV += P dO;  T = V dO';  D = P * (T - delta);  dK += D Q

    S and T are started;  wait for S;  P = exp(S)             T goes on
    dV += P dO is started;  wait for T;  D = P * (T - delta)  dV goes on
    dK += D Q is started;  wait for both                      the round ends

First a product moves up to the first one of its block if it depends on none of those between, then
each wait goes down to whoever reads the result. Whoever writes shared memory, copies or meets other
warps in between does so when the products that this pass let go on have ended.
Products end in the order in which they are started, and one that was to go on before goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.ir import Block, Builder, Module, Op, Value, shape_of, walk
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import Chip, chip_of, residency
from workbench.targets.simt.passes.rounds import read_by, reading_from
from workbench.targets.simt.pressure import peak_in
from workbench.targets.simt.rules import Device, Later

#: What a thread has in registers beside tiles of floats, about, and what products that go on
#: longer take of them: operands that are computed stay until they have ended.
_OTHER_REGISTERS = 24
_OF_OPERANDS = 16


def start_products(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Wait for a product where its result is read, not where it is started.

    Needs: layouts, buffers of operands (stage-products). Keeps: every value.
    """
    if not module.attributes.get("overlap", True):
        return module
    unit = chip_of(chip)
    every = [module.body, *(region for op in module.walk() for region in op.regions)]
    if not any(sum(unit.rules.later_of(op) is not None for op in b.ops) > 1 for b in every):
        return module
    builder = Builder(module.next_id)
    uses: dict[Value, list[Op]] = {}
    for op in module.walk():
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    writer = _Writer(unit, module.attributes["num_warps"], uses, builder, remarks)
    body = writer.block(module.body, {})
    return replace(module, body=body, next_id=builder.next_id) if writer.changed else module


@dataclass(slots=True)
class _Going:
    """A product under way; `mine`: that it goes on was decided here."""

    result: Value
    mine: bool


class _Writer:
    def __init__(
        self,
        chip: Chip,
        warps: int,
        uses: Mapping[Value, Sequence[Op]],
        builder: Builder,
        remarks: Remarks,
    ) -> None:
        self.chip = chip
        self.warps = warps
        self.uses = uses
        self.builder = builder
        self.remarks = remarks
        self.changed = False

    def block(self, block: Block, values: dict[Value, Value]) -> Block:
        """Return a block whose products end late, and so of all blocks in it."""
        products = [op for op in block.ops if self.later(op) is not None]
        ops = block.ops
        late = len(products) > 1 and self._has_room(block, ops)
        if late:
            ops = self._moved_up(block, products)
        with self.builder.block() as found:
            _Round(self, dict(values)).write(ops, late=late)
        return Block(block.arguments, tuple(found))

    def later(self, op: Op) -> Later | None:
        return self.chip.rules.later_of(op)

    def _moved_up(self, block: Block, products: Sequence[Op]) -> tuple[Op, ...]:
        """Return the ops of a block with products moved up as far as it pays."""
        ops = block.ops
        for product in products[1:]:
            if self._is_placed(product):
                continue
            moved = self._up(ops, product, products[0])
            if moved is not None and self._has_room(block, moved):
                self.remarks.note(
                    product, "started before what does not depend on it is computed", "applied"
                )
                ops = moved
        return ops

    def _is_placed(self, product: Op) -> bool:
        """Say whether how many may go on was decided for a product where it stands (overlap).

        What waits for all but some means those by the order in which they start.
        """
        how = self.later(product)
        return how is not None and bool(how.flight)

    def _up(self, ops: Sequence[Op], product: Op, first: Op) -> tuple[Op, ...] | None:
        """Return ops with a product behind the first one, or the last that it must follow."""
        at = ops.index(product)
        needed, taken = {*product.operands}, [product]
        start = at
        for place in range(at - 1, ops.index(first), -1):
            op = ops[place]
            if any(result in needed for result in op.results):
                if not op.pure or op.regions or (op.operands and _has_tiles(op)):
                    break
                taken.append(op)
                needed.update(op.operands)
            elif not self.leaves_alone(op):
                break
            start = place
        if any(result in needed for result in first.results):
            return None
        passed = [op for op in ops[start:at] if op not in taken]
        if not any(map(_has_tiles, passed)):
            return None
        return (*ops[:start], *reversed(taken), *passed, *ops[at + 1 :])

    def leaves_alone(self, op: Op) -> bool:
        """Say whether an op leaves alone what products under way read."""
        if self.later(op) is not None or op.awaited() is not None:
            return True
        inside = [op, *(inner for region in op.regions for inner in walk(region))]
        if any(self.later(inner) is not None or self._takes_scratch(inner) for inner in inside):
            return False
        return all(
            e.order == "plain" and not e.later and (e.space == "global" or not e.writes)
            for e in op.effects()
        )

    def _takes_scratch(self, op: Op) -> bool:
        """Say whether an op writes shared memory of its own, which may be where an operand was."""
        return self.chip.rules.scratch_of(op, self.chip, self.warps, used=True).bytes > 0

    def _has_room(self, block: Block, ops: Sequence[Op]) -> bool:
        """Say whether ops in this order spill nothing and leave room for as many blocks."""
        before, after = (
            peak_in(Block(block.arguments, tuple(order))) + _OTHER_REGISTERS
            for order in (block.ops, ops)
        )
        if after + _OF_OPERANDS > self.chip.most_registers(self.warps):
            return False
        fits = [residency(self.chip, self.warps, count, 0).warps for count in (before, after)]
        return fits[1] >= fits[0]


def _has_tiles(op: Op) -> bool:
    return any(shape_of(result.type) for result in op.results)


class _Round:
    """Writes the ops of one block."""

    def __init__(self, writer: _Writer, values: dict[Value, Value]) -> None:
        self.writer = writer
        self.builder = writer.builder
        self.values = values
        self.going: list[_Going] = []
        #: Results, as the block has them, that are not to be read before they are waited for.
        self.open: dict[Value, Later] = {}

    def write(self, ops: Sequence[Op], *, late: bool) -> None:
        """Insert ops; with `late` their products may go on."""
        for op in ops:
            later = self.writer.later(op)
            reads = [value for value in read_by(op) if value in self.open]
            if later is not None:
                # Sums go on in the registers in which they are.
                chained = later.sums if self._is_handed_on(later) else None
                self._wait([value for value in reads if value is not chained])
                self._start(op, later, late=late)
                continue
            if not self.writer.leaves_alone(op) or op.ends_block:
                reads = [*self.open]
            self._wait(reads)
            self._other(op)

    def _is_handed_on(self, later: Later) -> bool:
        once = len(self.writer.uses.get(later.sums, ())) == 1
        return once and later.sums not in later.operands

    def _start(self, op: Op, later: Later, *, late: bool) -> None:
        self.open.pop(later.sums, None)
        mine = late and later.flight == 0
        if mine:
            self.writer.changed = True
        else:
            self._end_old(later.flight - 1)
        if mine or later.flight:
            self.going.append(_Going(op.result, mine))
        fields = later.going(len(self.going)) if self._is_changed() else None
        self._insert(op, reading_from(op, self.values, fields))
        if mine:
            self.open[op.result] = later

    def _is_changed(self) -> bool:
        """Say whether more goes on than was decided before: counts are others then."""
        return any(one.mine for one in self.going)

    def _end_old(self, count: int) -> None:
        """Forget what has ended once at most so many of what was to go on before go on."""
        old = [one for one in self.going if not one.mine]
        if count < 0:
            self.going.clear()
        elif len(old) > count:
            last = old[len(old) - count - 1]
            del self.going[: self.going.index(last) + 1]

    def _other(self, op: Op) -> None:
        fields: dict[str, Any] = {}
        if (awaited := op.awaited()) is not None:
            self._end_old(awaited[1])
            if self._is_changed():
                fields = {"pending": len(self.going)}
        for name, region in zip(op.region_names, op.regions, strict=True):
            fields[name] = self.writer.block(region, self.values)
        self._insert(op, reading_from(op, self.values, fields))
        inside = (inner for region in op.regions for inner in walk(region))
        if any(self.writer.later(inner) is not None for inner in inside):
            self.going.clear()  # what goes on now is counted where it was started

    def _insert(self, old: Op, new: Op) -> None:
        self.builder.insert(new)
        if new is not old:
            self.values.update(zip(old.results, new.results, strict=True))

    def _wait(self, results: Sequence[Value]) -> None:
        """Wait for products of which this block has let go on, the first started first."""
        for result in [value for value in self.open if value in results]:
            later = self.open.pop(result)
            place = next((n for n, one in enumerate(self.going) if one.result is result), None)
            if place is not None:
                self.going = self.going[place + 1 :]
            op = result.op
            assert op is not None
            self.builder.span, self.builder.origins = op.span, (op.id,)
            waited = later.waited(self.values.get(result, result), len(self.going))
            self.values[result] = self.builder.add(waited, result.hint)
