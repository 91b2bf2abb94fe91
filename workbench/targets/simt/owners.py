"""What one thread does for all that hold an element, and how the others learn what came of it.

Where several threads hold copies of an element, exactly one of them owns it (LinearLayout.owners);
of a scalar it is thread 0. An atomic must happen once, and a load from memory that others write
must not give each copy another value: so owners alone do these, and write what they got to shared
memory, from which all threads read it behind a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from workbench.ir import Op, Value, element_of, layout_of, shape_of
from workbench.targets.simt.lowering import Lowering, at, llvm_type
from workbench.targets.simt.program import barrier
from workbench.targets.simt.rules import NO_SCRATCH, Device, Scratch


def answer_scratch(op: Any, chip: Device, num_warps: int, used: bool) -> Scratch:
    """The bytes through which what owners got through `op.pointers` reaches all copies."""
    if not used:
        return NO_SCRATCH
    size = max(4, element_of(op.result.type).itemsize)
    if not shape_of(op.pointers.type):
        return Scratch(size)
    layout = layout_of(op.pointers.type)
    assert layout is not None
    owners = layout.owners()
    copies = owners.get("lane") or owners.get("warp")
    return Scratch(prod(layout.padded) * size) if copies else NO_SCRATCH


def owner_of(low: Lowering, pointers: Value) -> str | None:
    """Return the i1 of whether this thread owns its elements; None: it does in any case."""
    if shape_of(pointers.type):
        return low.owner(low.layout(pointers))
    return low.emit.pure(f"icmp eq i32 {low.thread}, 0")


def first_of_copies(low: Lowering, value: Value) -> list[int]:
    """Return live registers, each element of a thread once."""
    if not shape_of(value.type):
        return [0]
    table = low.layout(value).table("register")
    seen: set[int] = set()
    unique: list[int] = []
    for r in low.live(value):
        if table[r] not in seen:
            seen.add(table[r])
            unique.append(r)
    return unique


def answer(low: Lowering, op: Op, pointers: Value, values: list[str]) -> None:
    """Make the result of an op of what owners got, in the order of `first_of_copies`."""
    result = op.results[0]
    owner = owner_of(low, pointers)
    wanted = owner is not None and result in low.used
    if not shape_of(pointers.type):
        if wanted:
            assert owner is not None
            values = _told(low, op, [(values[0], "0")], owner)
        low.set_scalar(result, values[0])
        return
    layout = low.layout(pointers)
    table = layout.table("register")
    unique = first_of_copies(low, pointers)
    if wanted:
        assert owner is not None
        thread = low.thread_part(layout.flat("lane"), layout.flat("warp"))
        places = [low.emit.bitwise("xor", "i32", thread, str(table[r])) for r in unique]
        values = _told(low, op, list(zip(values, places, strict=True)), owner)
    found = {table[r]: v for r, v in zip(unique, values, strict=True)}
    live = set(low.live(result))
    low.set_registers(result, [found[f] if r in live else None for r, f in enumerate(table)])


def _told(low: Lowering, op: Op, values: Sequence[tuple[str, str]], owner: str) -> list[str]:
    """Write (value, place) pairs where the thread owns them, wait, and read them everywhere."""
    emit, element = low.emit, element_of(op.results[0].type)
    type, size = llvm_type(element), max(4, element.itemsize)
    base = low.shared(low.offset(op))
    addresses = [at(low, base, emit.mul("i32", place, str(size))) for _, place in values]
    then, end = emit.fresh("tell"), emit.fresh("told")
    emit.branch(owner, then, end)
    emit.label(then)
    for (value, _), address in zip(values, addresses, strict=True):
        low.store_shared(type, value, address, element.itemsize)
    emit.jump(end)
    emit.label(end)
    barrier(low)
    return [low.load_shared(type, address, element.itemsize) for address in addresses]


__all__ = ["answer", "answer_scratch", "first_of_copies", "owner_of"]
