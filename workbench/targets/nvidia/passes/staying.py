"""Blocks that stay: whether they do, for how many programs, and what authors are told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.analysis.successive import Pace, Successive
from workbench.ir import Module, Op, Value
from workbench.ops import For
from workbench.passes.manager import Severity
from workbench.targets.nvidia.passes.channels import Channel, RefusedError, producer_slice
from workbench.targets.simt.passes.longest_first import (
    decided_by_memory,
    inner_ops,
    orders_programs,
)
from workbench.targets.simt.passes.staged_loads import Known

#: As many programs as blocks that stay can number.
MOST_NUMBERED = 2**31 - 1
#: Programs for each block from which on blocks do not stay that would lose the cache (products of
#: 16384 from 32 of them on: 7 % slower, of 8192, 16 for each: 1 % faster. Attention of D 128 at
#: 8192, whose blocks do not lose it: 1.054 of cuDNN with 62 for each, 1.026 with blocks that go).
FEW_ROUNDS = 32

#: What is said of an op.
Told = list[tuple[Op | None, str, Severity]]


def stays(
    module: Module, channels: Mapping[For, Sequence[Channel]], known: Known, *, alone: bool
) -> tuple[int, Told]:
    """Say for how many programs blocks are to stay and may, 0 if for one alone; remarks.

    Programs of a block then run in the order of their numbers, as far as anybody can tell, and a
    block's barriers and shared memory are all theirs. A launch has as many blocks as the device
    holds at once, or as programs if those are fewer. `alone`: whether a block has a multiprocessor
    to itself.
    """
    wanted = module.attributes.get("persistent")
    if wanted is False:
        return 0, []
    if wanted is None:
        op, reason = _why_go(module, channels, alone)
        if reason:
            return 0, [(op, f"not persistent: {reason}", "note")]
    for op in module.walk():
        reason = "asks which block it is in" if op.names_block else ""
        if any(map(orders_programs, op.own_effects())):
            reason = "waits for other programs or signals to them"
        if reason:
            return 0, [(op, f"not persistent: {op.name} {reason}", "missed")]
    for loop, found in channels.items():
        loads = [load for channel in found for load in channel.loads]
        try:
            producer_slice(loop, loads, module, known, persistent=True)
        except RefusedError as refused:
            return 0, [(refused.op, f"not persistent: {refused.why}", "missed")]
    rounds, why = most_rounds(module, channels)
    text = "persistent: as many blocks as the device holds stay for one program after the other, "
    few = f"if these are at most {rounds:,} for each" if rounds < MOST_NUMBERED else "however many"
    return rounds, [(None, f"{text}{few}: {why}", "applied")]


def draws(
    module: Module, channels: Mapping[For, Sequence[Channel]], blocks: int = 1
) -> tuple[bool, Told]:
    """Say whether blocks that stay draw their programs one by one, and remarks.

    A fixed order shares evenly what grows along an axis, and nothing else: where lengths are read
    from memory, who is through first takes the next program. Drawing costs an atomic operation for
    each. `blocks`: how many are a cluster, whose programs follow each other.
    """
    asked: bool | None = module.attributes.get("tickets")
    loads = (decided_by_memory(loop, module) for loop in channels)
    load = next(filter(None, loads), None)
    if asked is False or (asked is None and load is None):
        return False, []
    if blocks > 1:
        why = "tickets=True is not obeyed: programs of a cluster follow each other"
        return False, [(None, why, "missed")] if asked else []
    why = f": how long a loop runs follows from {load.name}" if load is not None else ""
    return True, [(load, f"blocks draw the programs that they take{why}", "applied")]


def most_rounds(module: Module, channels: Mapping[For, Sequence[Channel]]) -> tuple[int, str]:
    """Return how many programs a block takes at most, and why.

    With more each program has a block. Blocks that stay get apart: they take programs in a fixed
    order, some are faster, and nothing brings them together again. Of operands that programs in a
    row read in turns (a product's rows of tiles) the cache then holds no longer what the last ones
    have yet to read; of one that all of them read from its beginning (keys and values of a head)
    it holds most, whoever is where.
    """
    asked: int | None = module.attributes.get("most_rounds")
    if asked is not None:
        return asked, "most_rounds says so"
    drawn, _ = draws(module, channels)
    if drawn:
        return MOST_NUMBERED, "they draw them, so none gets apart from the others"
    for loop in channels:
        if load := decided_by_memory(loop, module):
            return FEW_ROUNDS, f"how long a loop runs follows from {load.name}"
    known = Successive(module)
    for loop, found in channels.items():
        moving = _of_round(loop)
        for load in (load for channel in found for load in channel.loads):
            lasting = [number for number in load.box.reads if number not in moving]
            if known.pace(lasting) is Pace.ALWAYS:
                name = load.op.result.hint or load.op.name
                text = f"each reads another part of what {name} is loaded from than the one before"
                return FEW_ROUNDS, f"{text}, and blocks that get apart lose the cache"
    return MOST_NUMBERED, "those in a row read the same in their loops, so it stays in the cache"


def _of_round(loop: For) -> set[Value]:
    """Return the values that differ between a loop's rounds."""
    found = set(loop.body.arguments)
    for op in loop.body.ops:
        if any(value in found for one in (op, *inner_ops(op)) for value in one.operands):
            found.update(op.results)
    return found


def _why_go(
    module: Module, channels: Mapping[For, Sequence[Channel]], alone: bool
) -> tuple[Op | None, str]:
    """Say why blocks that could stay had better not, and of which op; "" if nothing speaks for it.

    Programs are shared out before anybody knows how long they take: what grows along an axis comes
    out even, what is read from memory does not. Beside other blocks of a multiprocessor a block's
    beginning and end are hidden anyway.
    """
    drawn, _ = draws(module, channels)
    for loop, found in channels.items():
        load = decided_by_memory(loop, module)
        if load and (not drawn or len(found) == 1):
            text = "blocks in a fixed order would not share that evenly"
            return load, f"how long a loop runs follows from {load.name}: {text}"
        if len(found) > 1 and not alone:
            return loop, "other blocks on its multiprocessor fill the time between programs"
    return None, ""


__all__ = ["FEW_ROUNDS", "Told", "draws", "most_rounds", "stays"]
