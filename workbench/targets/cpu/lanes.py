"""Which axis of a loop nest goes to the vector lanes, how wide, and which masks cut it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Value, element_of, shape_of
from workbench.ops import Load, Store
from workbench.targets.cpu.chunks import register_bytes
from workbench.targets.cpu.masks import Axes, Mask, masks_below, moved_axes
from workbench.targets.cpu.sinks import Sink
from workbench.targets.cpu.table import STATEMENTS
from workbench.targets.cpu.writer import Writer

#: Registers in one vector value: two keep both vector units busy (tests/bench/cpu.py).
REGISTERS = 2


def lane_axis(w: Writer, sinks: Sequence[Sink], shape: tuple[int, ...]) -> int:
    """Return the axis along which most accesses lie side by side; the last one in doubt."""
    candidates = [d for d, extent in enumerate(shape) if extent > 1]
    if any(sink.matrix for sink in sinks):
        candidates = [d for d in candidates if d >= len(shape) - 2]
    if len(candidates) < 2:
        return candidates[0] if candidates else max(len(shape) - 1, 0)
    score = dict.fromkeys(candidates, 0)
    score[candidates[-1]] += 1
    seen: set[tuple[Value, Axes]] = set()
    for sink in sinks:
        for root in sink.roots:
            _score(w, root, tuple(range(len(shape))), score, seen)
        if isinstance(sink.op, Store):
            _score_access(w, sink.op.pointers, tuple(range(len(shape))), score)
    full = REGISTERS * w.register_bytes // 4
    return max(candidates, key=lambda d: (score[d], shape[d] >= full, d))


def _score(
    w: Writer,
    value: Value,
    axes: Axes,
    score: dict[int, int],
    seen: set[tuple[Value, Axes]],
) -> None:
    op = value.op
    if op is None or value in w.buffers or (value, axes) in seen:
        return
    if not shape_of(value.type) or STATEMENTS.rule(type(op)) is not None:
        return
    seen.add((value, axes))
    if isinstance(op, Load):
        _score_access(w, op.pointers, axes, score)
        return
    moved = moved_axes(op, axes)
    for operand in op.operands:
        if moved is not None and len(shape_of(operand.type)) == len(moved):
            _score(w, operand, moved, score, seen)


def _score_access(w: Writer, pointers: Value, axes: Axes, score: dict[int, int]) -> None:
    for own, place in enumerate(axes):
        if place in score and w.affine.stride(pointers, own) == 1:
            score[place] += 4


def lane_count(w: Writer, sinks: Sequence[Sink], extent: int) -> int:
    """Return the lanes of one vector: REGISTERS registers of the widest element."""
    widest = 4
    for value in _values(w, sinks):
        if not _is_address(value):
            widest = max(widest, register_bytes(element_of(value.type)))
    wanted = max(sink.lanes for sink in sinks)
    return min(wanted or REGISTERS * w.register_bytes // widest, extent)


def _values(w: Writer, sinks: Sequence[Sink]) -> set[Value]:
    """Return the tiles of which the sinks' elements are made."""
    found: set[Value] = set()
    work = [root for sink in sinks for root in sink.roots]
    while work:
        value = work.pop()
        if value in found or not shape_of(value.type):
            continue
        found.add(value)
        op = value.op
        if op is None or value in w.buffers or STATEMENTS.rule(type(op)) is not None:
            continue
        if isinstance(op, Load):
            if op.other is not None:
                work.append(op.other)
            continue
        work.extend(op.operands)
    return found


def _is_address(value: Value) -> bool:
    """Say whether a value is 64 bits wide only to address memory."""
    element = element_of(value.type)
    return register_bytes(element) == 8 and not element.is_float


def cutting_masks(w: Writer, sinks: Sequence[Sink], shape: tuple[int, ...]) -> list[Mask]:
    """Return the masks of all accesses in a nest that mean one thing throughout it."""
    seen: dict[Value, Axes | None] = {}
    visited: set[tuple[Value, Axes | None]] = set()
    identity: Axes = tuple(range(len(shape)))
    for sink in sinks:
        for root in sink.roots:
            masks_below(w, root, identity, seen, visited)
        if sink.mask is not None:
            same = seen.get(sink.mask, identity) == identity
            seen[sink.mask] = identity if same else None
    return [Mask(value, axes) for value, axes in seen.items() if axes is not None]
