"""Operands of products that stay in registers for all rounds of a loop.

What products of a loop read as their first operand and no round changes (queries and their
gradients where dQ is summed, keys and values where dK and dV are) would come from shared memory in
each round. Of 64 rows by 64 columns an instruction reads as many bytes of the first operand as of
the second, for as long as it multiplies: copies that fill rings wait for it, or it for them.

A block more on a multiprocessor is worth more than that. Where a thread needs but few registers
more than leave room for it, it gets that many, which ptxas does with (`blocks_wanted`): dK and dV
of heads of 64 take 172 of a thread, three blocks leave it 168 (an H100: 0.86 of the time).

Where warps part consumers decide (consumers.py), of what their producer brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from workbench.ir import Block, Module, Op, Tile, Value, walk
from workbench.layouts import LinearLayout
from workbench.ops import For
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import MOST_REGISTERS, Chip, chip_of, residency
from workbench.targets.simt.ops import all_warps
from workbench.targets.simt.ops.roles import roles_of
from workbench.targets.simt.passes.shared_memory import bytes_needed
from workbench.targets.simt.pressure import peak
from workbench.targets.simt.rules import Device, InRegisters, RuleTable, Stored

#: Registers of a thread beside tiles of floats, about, and how many of these ptxas does without.
_BESIDE_TILES = 32
_SPARED = 8

#: By the ids of the ops that read them.
Kept = dict[int, InRegisters]


def kept_operands(
    module: Module, remarks: Remarks, chip: Device, staged: Callable[[Kept], Module]
) -> tuple[Kept, int]:
    """Return which operands stay in registers; `staged` stores the others.

    Unasked those that leave room for as many blocks, with `keep_operands=True` all for which a
    thread has registers. Beside them: how many blocks are to be resident at least, 0 where the
    registers of a thread decide.
    """
    asked: bool | None = module.attributes.get("keep_operands")
    kept, unit = Kept(), chip_of(chip)
    if asked is False or roles_of(module) is not None:
        return kept, 0
    tiles = _staying(module, chip.rules)
    if not tiles:
        return kept, 0
    limit: int | None = module.attributes.get("maxnreg")
    have = min(unit.most_registers(all_warps(module)), limit or MOST_REGISTERS)
    resident = partial(_resident, unit=unit, have=have)
    least, before = resident(staged(kept))
    blocks = 0
    counted = _has_one_sum(module, chip.rules) and not _goes_on(module, chip.rules)
    if not asked and limit is None and counted:
        blocks = _blocks_for(staged(kept), unit, least)
        before = max(before, blocks * all_warps(module))
    for readers in tiles:
        more = kept | {op.id: how for op, how in readers.items()}
        needed, after = resident(staged(more))
        if needed <= have and (after >= before or asked):
            kept = more
            continue
        why = "registers do not suffice" if needed > have else "fewer blocks would be resident"
        remarks.note(next(iter(readers)), f"read from shared memory in each round: {why}", "missed")
    if blocks and not kept:
        most = unit.most_registers(blocks * all_warps(module))
        text = f"{most} registers of a thread leave room for {blocks} blocks on a multiprocessor"
        remarks.note(None, text, "applied")
    return kept, 0 if kept else blocks


def _has_one_sum(module: Module, rules: RuleTable) -> bool:
    """Say whether each loop of products goes on with the tiles that the one before it carries.

    Where loops begin others, numbers of one are alive in the next, of which nobody knows how many
    registers they take (of dQ beside dK and dV in one kernel 43).
    """
    loops = [
        op for op in module.walk()
        if op.repeats and any(rules.later_of(one) for region in op.regions for one in region.ops)
    ]  # fmt: skip
    return all(
        value in before.results
        for before, after in pairwise(loops)
        for value in after.operands
        if isinstance(value.type, Tile)
    )


def _goes_on(module: Module, rules: RuleTable) -> bool:
    """Say whether a product goes on that holds an operand in registers: nobody counts these."""
    waiting = (later for op in module.walk() if (later := rules.later_of(op)) is not None)
    return any(later.flight and later.held is not None for later in waiting)


def _blocks_for(module: Module, unit: Chip, needed: int) -> int:
    """Return how many blocks would be resident if a thread got few registers less, 0: no more."""
    warps = all_warps(module)
    size = bytes_needed(module, unit)
    now = residency(unit, warps, min(needed, unit.most_registers(warps)), size).warps
    fewer = residency(unit, warps, needed - _SPARED, size).warps
    return fewer // warps if fewer > now else 0


def may_stay(loop: For, module: Module, rules: RuleTable) -> tuple[int, int]:
    """Return the registers of a thread in which operands of a loop could stay, and their bytes."""
    if module.attributes.get("keep_operands") is False or roles_of(module) is not None:
        return 0, 0
    made, found = made_in(loop), dict[Value, tuple[int, int]]()
    for op in loop.body.ops:
        for how, one in _first_stored(op, rules):
            if one.tile not in made:
                words = how.layout.registers() * one.buffer.element.itemsize // 4
                found[one.tile] = words, one.buffer.bytes
    return sum(words for words, _ in found.values()), sum(size for _, size in found.values())


def _resident(module: Module, unit: Chip, have: int) -> tuple[int, int]:
    """Return about how many registers a thread needs, and how many warps are resident then."""
    needed = _BESIDE_TILES + peak(module)[1]
    warps = all_warps(module)
    return needed, residency(unit, warps, min(needed, have), bytes_needed(module, unit)).warps


def _staying(module: Module, rules: RuleTable) -> list[dict[Op, InRegisters]]:
    """Return for each tile that stays in a loop who would read it from a buffer, and how else."""
    found: dict[tuple[Value, LinearLayout], dict[Op, InRegisters]] = {}
    stays = set[tuple[Value, LinearLayout]]()
    for op, loop in _with_loops(module.body, None):
        for how, _ in _first_stored(op, rules):
            key = how.operand, how.layout
            found.setdefault(key, {})[op] = how
            if loop is not None and how.operand not in made_in(loop):
                stays.add(key)
    return [readers for key, readers in found.items() if key in stays]


def _first_stored(op: Op, rules: RuleTable) -> list[tuple[InRegisters, Stored]]:
    """Return the operand of an op that would be stored and could be in registers, if it has one."""
    how = rules.in_registers_of(op)
    if how is None or how.operand.op is None:
        return []
    return [(how, one) for one in rules.stored_of(op) if one.tile is how.operand][:1]


def _with_loops(block: Block, loop: Op | None) -> Iterator[tuple[Op, Op | None]]:
    """Yield all ops, each with the innermost loop that it is in."""
    for op in block.ops:
        yield op, loop
        for region in op.regions:
            yield from _with_loops(region, op if op.repeats else loop)


def made_in(loop: Op) -> set[Value]:
    """Return what is not the same in all rounds of a loop."""
    inside = [op for region in loop.regions for op in walk(region)]
    blocks = [*loop.regions, *(region for op in inside for region in op.regions)]
    arguments = {value for block in blocks for value in block.arguments}
    return arguments | {value for op in inside for value in op.results}
