"""Rings of loops whose products are started in their turn; pipeline_loads.py decides the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.ir import Op, Value, element_of, layout_of, shape_of
from workbench.ops import pointee_of
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.chip import MOST_REGISTERS, Chip, residency
from workbench.targets.nvidia.passes.overlap_products import Late, late_product, obstacle
from workbench.targets.nvidia.passes.ring_loops import Plan
from workbench.targets.nvidia.told_blocks import ENOUGH_WARPS
from workbench.targets.simt.passes.shared_memory import scratch_of
from workbench.targets.simt.passes.staged_loads import Early, Staged

#: What a thread of a loop of products has in registers beside its sums, about: addresses, masks.
OTHER_REGISTERS = 72
#: Bytes of a row that memory gives at about its speed, if they are asked for together.
_ROW_BYTES = 256
#: Rounds whose copies may start together: their code is written so often.
_MOST_TOGETHER = 8
#: Resident warps that stay where a ring takes more slots to bring such rows.
_LEAST_WARPS = 8


def in_turn(early: Early, found: list[Staged], plain: Plan, chip: Chip, room: int) -> Plan:
    """Return the ring of a loop whose products are started in their turn."""
    going = going_product(early, found)
    if going is not None:
        return replace(plain, going=going)
    return _together(early, found, _behind(early, found, plain, chip), chip, room)


def going_product(early: Early, found: list[Staged]) -> Late | None:
    """Return the last product of a loop, if it may go on until the next round's first has ended.

    It holds what it reads no longer than until then, so that takes fewer registers than to start it
    a round later. Copies of a round start behind the first product, which is for one thread alone:
    boxes.
    """
    loop, rules, on = early.loop, early.known.rules, early.known.on
    late = late_product(loop, rules)
    if late is None or not on.options.get("overlap", True):
        return None
    if any(staged.box is None or staged.through_registers for staged in found):
        return None
    read = {place.operand for staged in found for place in staged.in_place}
    first = loop.body.ops.index(late.first)
    ready = all(loop.body.ops.index(op) > first for op in late.chain)
    waits = (rules.later_of(op) for op in loop.body.ops)
    two = sum(later is not None for later in waits) == 2
    starts = rules.later_of(late.first)
    if starts is None or constant_of(starts.sums) != 0:
        return None  # ptxas has it wait for what goes on (C7517): its sums are computed meanwhile
    if obstacle(late, read, rules) or late.before or late.behind or not ready or not two:
        return None
    return late


def _behind(early: Early, found: list[Staged], plain: Plan, chip: Chip) -> Plan:
    """Return the ring of a loop with a slot less, if enough warps share a multiprocessor by that.

    Copies start behind what reads the slot that they fill: a second barrier in each round, for
    which as many rounds stay under way. Only where warps multiply. Fewer warps than enough do not
    make good for the barrier (a race on an H100: 32x64x64 of 5 stages 15.8 to 13.5 us with a fourth
    block, 32x64x128 of 4 stages 14.9 to 16.2 with a third).
    """
    on, loop = early.known.on, early.loop
    alone = all(staged.is_vectors and not staged.in_place for staged in found)
    waits = any(early.known.rules.later_of(op) for op in inside(loop))
    fewer = plain.slots - 1
    if not alone or waits or fewer < 2 or not on.options.get("fewer_slots", True):
        return plain
    each = sum(staged.ahead.buffer.bytes for staged in found)
    scratch = scratch_bytes(early, found)
    sums = sum(registers_of(op.result) for op in inside(loop) if chip.rules.staged_of(op))
    registers = min(MOST_REGISTERS, OTHER_REGISTERS + sums)
    before, after = (
        residency(chip, on.num_warps, registers, slots * each + scratch).warps
        for slots in (plain.slots, fewer)
    )
    return Plan(fewer, fewer) if before < ENOUGH_WARPS <= after else plain


def _together(early: Early, found: list[Staged], plain: Plan, chip: Chip, room: int) -> Plan:
    """Return the ring of a loop that starts copies of several rounds together, if that pays.

    Not where products read it in place: they take tiles of so many rows that memory can wait.
    """
    on = early.known.on
    plain_reads = all(staged.is_vectors and not staged.in_place for staged in found)
    if not plain_reads or not on.options.get("rounds_together", False):
        return plain
    sizes = [staged.ahead.buffer.bytes for staged in found]
    large = [s for s, size in zip(found, sizes, strict=True) if 2 * size >= max(sizes)]
    rows = [row for staged in large if (row := _row_that_goes_on(early, staged))]
    count = min(_MOST_TOGETHER, _ROW_BYTES // min(rows)) if rows else 1
    each = sum(staged.ahead.buffer.bytes for staged in found)

    def warps_with(slots: int) -> int:
        size = slots * each + scratch_bytes(early)
        return residency(chip, on.num_warps, OTHER_REGISTERS, size).warps

    least = min(max(1, warps_with(plain.slots)), _LEAST_WARPS)
    while count > 1:
        slots = max(2, -(-plain.slots // count)) * count
        if slots * each <= room and warps_with(slots) >= least:
            return Plan(slots, slots - count, together=count)
        count //= 2
    return plain


def _row_that_goes_on(early: Early, staged: Staged) -> int:
    """Return the bytes of a tile that lie side by side, where the next round's lie behind them.

    0 if they do not, or are no power of two.
    """
    facts, loop = early.known.on.facts, early.loop
    assert staged.access is not None
    pointers = staged.access.pointers
    form, index = facts.form(pointers), facts.form(loop.body.arguments[0])
    if form is None or index is None:
        return 0
    rounds = [m for m in index.terms if len(m) == 1 and m[0].kind == "trip"]
    for monomial, factor in form.terms.items():
        if factor == 1 and len(monomial) == 1 and monomial[0].kind == "x":
            axis: int = monomial[0].key
            extent = shape_of(pointers.type)[axis]
            size = extent * pointee_of(pointers.type).itemsize
            steps = [form.terms.get(one) for one in rounds]
            return size if steps == [extent] and size & (size - 1) == 0 else 0
    return 0


def scratch_bytes(early: Early, found: Sequence[Staged] = ()) -> int:
    """Return the most bytes that an op of a loop needs beside its operands, one after the other.

    Those do not count that reads of the rings of `found` stand for.
    """
    on, used = early.known.on, early.known.uses.keys()
    gone = {id(user.op) for staged in found for user in staged.users}
    left = (op for op in inside(early.loop) if id(op) not in gone)
    return max((scratch_of(op, on.chip, on.num_warps, used).bytes for op in left), default=0)


def registers_of(tile: Value) -> int:
    """Return the registers of a thread in which a tile is held, narrow elements in words."""
    layout = layout_of(tile.type)
    assert layout is not None
    return -(-layout.registers() * element_of(tile.type).itemsize // 4)


def inside(op: Op) -> list[Op]:
    found = [inner for region in op.regions for inner in region.ops]
    return [*found, *(deeper for inner in found for deeper in inside(inner))]
