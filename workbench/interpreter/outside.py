"""What is said of an access that leaves the memory it may touch, whoever found it: K502, K505."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.interpreter.memory import PAGE, Allocation, Memory
from workbench.ir import Module, Op, Value, shape_of
from workbench.source import LaunchError


class Wrong(NamedTuple):
    """An access: by which program (its coordinates), which lane of the tile, where, how wide."""

    program: tuple[int, ...]
    lane: int
    address: int
    size: int
    writes: bool


def pointers_of(op: Op) -> Value | None:
    """Return the pointers through which an op touches global memory, or checks that it may."""
    through = next((e.through for e in op.own_effects() if e.space == "global"), None)
    return through if through is not None else getattr(op, "pointers", None)


def outside(
    op: Op, wrong: Wrong, memory: Memory, among: Sequence[Allocation], module: Module
) -> LaunchError:
    """Return the error for an access of an op.

    Args:
        op: the load, store or atomic.
        wrong: what it did.
        memory: the memory of all arguments.
        among: the allocations that it may touch; none: all.
        module: where the op stands.
    """
    word = "load" if op.name == "tile.load" else op.name.removeprefix("tile.")
    address, size = wrong.address, wrong.size
    nearest = memory.nearest(address, among)
    place = _place(op, wrong)
    if nearest is None:
        return LaunchError(
            f"{word} at address {address:#x}, but no argument is an array", op.span, code="K502"
        )
    whole = f"{nearest.name}[{nearest.element_at(address)}]"
    if nearest.start <= address and address + size <= nearest.end and wrong.writes:
        return LaunchError(
            f"{word} into {nearest.name}, which is read-only",
            op.span, code="K505", notes=[f"{place} is {whole}"],
            hint=f"pass a copy: {nearest.name}.copy()",
        )  # fmt: skip
    notes = [f"{place} is {whole}; {nearest.name} has {nearest.elements} elements"]
    hint = _hint(op, module)
    inside = int(memory.locate(np.asarray([address]), size)[0])
    outside = "outside every argument" if inside < 0 else f"outside {nearest.name}"
    if nearest.start == nearest.end:
        text = f"{nearest.name} is empty" if nearest.address else f"{nearest.name} has no memory"
        notes = [f"{place} is at address {address:#x}"]
        hint = "pass an array that has elements, or mask the access off for one that has none"
    elif 0 <= address < PAGE:
        text = f"address {address:#x} is a null pointer's"
        notes = [f"{place} is there"]
        hint = "look at what the pointer is made of: a table's entry may never have been written"
    elif address + size > nearest.end:
        past = address - nearest.end
        text = f"{max(0, past)} to {past + size} bytes past the end of {nearest.name}"
    else:
        text = f"{nearest.start - address} bytes before the start of {nearest.name}"
    note, better = _of_the_array(op, size, nearest)
    notes += note
    if nearest.start < nearest.low or nearest.high < nearest.end:
        notes.append(
            f"{nearest.name} is a view: its storage has {nearest.end - nearest.start} bytes"
        )
    if inside >= 0:
        notes.append(f"there lies {memory.allocations[inside].name}")
    return LaunchError(
        f"{word} {outside}: {text}", op.span, code="K502", notes=notes, hint=better or hint
    )


def _repeated(array: Any) -> str:
    """Return the shape and strides of an array that steps nowhere along an axis, else nothing."""
    asked: Any = getattr(array, "stride", None)  # torch's; all others have numbers
    strides: tuple[int, ...] = tuple(asked() if asked else getattr(array, "strides", None) or ())
    shape = tuple[int, ...](getattr(array, "shape", ()))
    if not any(step == 0 and extent > 1 for step, extent in zip(strides, shape, strict=False)):
        return ""
    return f"shape {shape}, strides {strides}"


def _of_the_array(op: Op, size: int, array: Allocation) -> tuple[list[str], str]:
    """Return what an array or an access of it has that explains more, and the hint then."""
    repeated = _repeated(array.owner)
    if repeated:
        copy = "contiguous" if hasattr(array.owner, "contiguous") else "copy"
        return (
            [f"{array.name} is expanded: {repeated}, the same memory for many elements"],
            f"give it memory of its own, {array.name}.{copy}(), as for gradients of "
            "`y.sum().backward()`, or pass its strides",
        )
    if getattr(op, "box", False):
        return [], (
            "give the block pointer or descriptor the array's own shape, and name every axis "
            "that a block may leave in boundary_check"
        )
    if size != array.itemsize and array.start < array.end:
        return (
            [f"each access has {size} bytes, an element {array.itemsize}"],
            "count in the mask what the pointer was cast to, not the array's elements",
        )
    return [], ""


def _hint(op: Op, module: Module) -> str:
    lines = _loaded_at(op, module)
    if not lines:
        return "mask the access so that every live element lies inside, e.g. mask=offsets < n"
    *others, last = map(str, lines)
    loading = f"lines {', '.join(others)} and {last} load" if others else f"line {last} loads"
    return (
        f"its address is made of what {loading}: "
        "see that the entries name what is there, or mask the access"
    )


def _loaded_at(op: Op, module: Module) -> list[int]:
    """Return the lines that load what an access computes its address from, at most three.

    What a loop carries is made of what it starts with and of what comes round.
    """
    given: dict[Value, list[Value]] = {}
    for each in module.walk():
        for source, receiver in each.flows():
            given.setdefault(receiver, []).append(source)
    pointers = pointers_of(op)
    work, seen = [pointers] if pointers is not None else [], set[Value]()
    lines: set[int] = set()
    while work and len(lines) < 3:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        made = value.op
        if made is None or made.regions:
            work += given.get(value, [])
        elif made.name == "tile.load" and made.span is not None:
            lines.add(made.span.line)
        else:
            work += made.operands
    return sorted(lines)


def _place(op: Op, wrong: Wrong) -> str:
    pointers = pointers_of(op)
    shape = shape_of(pointers.type) if pointers is not None else ()
    if not shape:
        return f"program {wrong.program}"
    index = tuple(int(i) for i in np.unravel_index(wrong.lane, shape))
    return f"program {wrong.program}, element {index} of the tile"
