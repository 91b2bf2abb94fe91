"""What is written a part at a time: tiles that are computed for an op that takes them in parts.

A product that goes on reads a tile in registers, which must not be written while it does. Taken in
two parts along k, each of which has ended before the next but one starts, it leaves the registers
of one part free while it reads the other: what is computed for a part then may be written right in
front of it, while the part before is multiplied:

    eager       all of W is computed     part 0    part 1
    in parts    W's part 0    part 0     W's part 1    part 1

So the ops that compute W and nothing else, its *chain*, are put off, and for each part is written
what its registers need of them (`Lowering.write_part`). They give every element to the thread that
has it already, so which these are follows from what ops say of elements (`Op.element_from`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from workbench.ir import Block, Op, Value, layout_of, walk
from workbench.layouts import LinearLayout
from workbench.targets.simt.rules import Device


def chain_of(
    block: Block, taker: Op, operand: Value, chip: Device, warps: int, *, loads: bool = True,
    once: bool = False,
) -> tuple[Op, ...]:  # fmt: skip
    """Return the ops of a block, in order, that compute an operand of the taker and nothing else.

    None of them can tell whether it happens in its turn or right before the taker. The chain is
    empty if the op that gives the operand is none of them. `loads`: what reads shared memory may
    be one of them. `once`: only ops that have as many registers as the operand are, since parts
    that share one would each compute it.
    """
    users: dict[Value, set[int]] = {}
    for op in walk(block):
        for value in op.operands:
            users.setdefault(value, set()).add(id(op))
    taken, late = {id(taker)}, dict[Value, Op]()
    before = block.ops[: block.ops.index(taker)]
    quiet = _quiet_from(before)
    for op in reversed(before):
        used = {user for result in op.results for user in users.get(result, ())}
        turn = loads or not op.effects()
        if once and turn and used and used <= taken:
            turn = len(op.results) == 1 and registers_of(op.result) >= registers_of(operand)
        if used and used <= taken and turn and _may_wait(op, quiet, chip, warps):
            late[op.result] = op
            taken.add(id(op))
    if not _is_new(operand, late):
        return ()
    needed, work = set[int](), [late[operand]]
    while work:
        op = work.pop()
        needed.add(id(op))
        work += [late[value] for value in op.operands if value in late]
    return tuple(op for op in before if id(op) in needed)


def _is_new(value: Value, chain: Mapping[Value, Op]) -> bool:
    """Say whether the ops of a chain hold their result in registers of their own.

    Those that only move elements, or have one operand, may leave them where they are.
    """
    op = chain.get(value)
    if op is None:
        return False
    if op.effects() or (op.pointwise and len(op.operands) > 1):
        return True
    return bool(op.operands) and all(_is_new(v, chain) for v in op.operands)


def _quiet_from(ops: Sequence[Op]) -> set[int]:
    """Return the ops from which on, to the end, shared memory stays and nobody meets."""
    found = set[int]()
    for op in reversed(ops):
        if any(e.space == "shared" and not (e.reads and e.removable) for e in op.effects()):
            break
        found.add(id(op))
    return found


def _may_wait(op: Op, quiet: Collection[int], chip: Device, warps: int) -> bool:
    if len(op.results) != 1 or op.regions or not op.result.type.takes_layout:
        return False
    reads = [effect for effect in op.effects() if effect.space == "shared" and effect.removable]
    if len(reads) != len(op.effects()) or (reads and id(op) not in quiet):
        return False
    if chip.rules.scratch_of(op, chip, warps, True).bytes:
        return False
    return bool(reads) or (not op.operands and op.pure) or _keeps_threads(op)


def _keeps_threads(op: Op) -> bool:
    """Say whether each thread computes its elements of elements that it has."""
    layout = layout_of(op.result.type)
    if layout is None or op.element_from((0,) * layout.rank) is None:
        return False
    for name in ("lane", "warp"):
        for number, flat in enumerate(layout.flat(name)):
            for value, place in _elements_read(op, layout, flat):
                held = layout_of(value.type)
                if held is not None and held.unflatten(held.flat(name)[number]) != place:
                    return False
    registers = range(layout.registers())
    return all(found or layout_of(v.type) is None for v, found in _read(op, registers).items())


def registers_read(
    chain: Sequence[Op], wanted: Mapping[Value, Collection[int]]
) -> dict[Value, set[int]]:
    """Return which registers of the results of a chain are needed for those of some values."""
    results = {op.result for op in chain}
    needed = {value: set(registers) for value, registers in wanted.items()}
    for op in reversed(chain):
        if op.effects():
            continue
        for value, registers in _read(op, needed.get(op.result, ())).items():
            if value in results:
                needed.setdefault(value, set()).update(registers)
    return needed


def _read(op: Op, registers: Collection[int]) -> dict[Value, set[int]]:
    """Return the registers of its operands that an op reads for some of its result's."""
    layout = layout_of(op.result.type)
    assert layout is not None
    table, found = layout.table("register"), dict[Value, set[int]]()
    places = {
        value: _registers_at(held) for value in op.operands if (held := layout_of(value.type))
    }
    for register in registers:
        for value, place in _elements_read(op, layout, table[register]):
            found.setdefault(value, set()).update(places.get(value, {}).get(place, ()))
    return found


def _elements_read(
    op: Op, layout: LinearLayout, flat: int
) -> Sequence[tuple[Value, tuple[int, ...]]]:
    """Return the elements that an op reads for one of its result: none for what does not exist."""
    place = layout.unflatten(flat)
    exists = all(at < extent for at, extent in zip(place, layout.shape, strict=True))
    return (op.element_from(place) or ()) if exists else ()


def registers_of(value: Value) -> int:
    """Return how many registers of a thread a value has, copies left out."""
    layout = layout_of(value.type)
    return 1 if layout is None else _different(layout)


@lru_cache(1024)
def _different(layout: LinearLayout) -> int:
    table = layout.table("register")
    return len({table[register] for register in layout.live_registers()})


@lru_cache(64)
def _registers_at(layout: LinearLayout) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for register, flat in enumerate(layout.table("register")):
        found.setdefault(layout.unflatten(flat), []).append(register)
    return found


__all__ = ["chain_of", "registers_of", "registers_read"]
