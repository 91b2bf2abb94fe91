"""Running results along an axis: in the thread, across lanes, across warps.

A scan needs order: along its axis coordinates must ascend with register, then lane, then warp
(`scan_layouts`). Each thread scans its own registers; the totals are scanned across lanes by
shuffles and across warps through shared memory; what comes before a thread is then combined into
its registers. `reverse` is the same with registers, lanes and warps taken from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir import layout_of, shape_of
from workbench.layouts import LinearLayout, blocked
from workbench.layouts.coordinates import axis_bits
from workbench.ops import Scan
from workbench.targets.simt.hardware import Costs
from workbench.targets.simt.layout import shuffle
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.program import barrier
from workbench.targets.simt.reductions import (
    Crossing,
    Row,
    combine_present,
    elements_of,
    from_words,
    kinds_of,
    to_words,
    word_bytes,
)
from workbench.targets.simt.rules import NO_SCRATCH, SAME, Device, Layouts, Scratch, Setting, same
from workbench.targets.simt.table import SIMT


@SIMT.layouts(Scan)
def scan_rule(op: Scan, on: Setting) -> Layouts:
    """Inputs and results in one of the layouts in which coordinates ascend along the axis."""
    shape, axis, count = shape_of(op.inputs[0].type), op.axis, len(op.inputs)
    return Layouts(
        own=shape,
        operands=(SAME,) * count,
        results=(same,) * len(op.results),
        cost=lambda layout: scan_cost(layout, axis, count, on.chip.costs),
        offers=lambda: scan_layouts(shape, axis, on.num_warps, on.lanes),
        fixed=True,
    )


def scan_layouts(
    shape: tuple[int, ...], axis: int, num_warps: int, warp_lanes: int
) -> list[LinearLayout]:
    """Return the layouts in which a scan may work: all threads along its axis, or as few as can be.

    In the second, warps and then lanes go along the other axes, and what lanes are left along the
    axis; threads have longer runs of it, and there is less to exchange between them.
    """
    others = [d for d in range(len(shape) - 1, -1, -1) if d != axis]
    extent = 1 << (shape[axis] - 1).bit_length()
    vector = max(1, extent // (warp_lanes * num_warps))
    found = [blocked(shape, vector, (axis, *others), num_warps, warp_lanes)]
    bits = axis_bits(shape)
    along, *rest = (
        [1 << sum(bits[d + 1 :]) + bit for bit in range(bits[d])] for d in (axis, *others)
    )
    across = [column for columns in rest for column in columns]
    warps = num_warps.bit_length() - 1
    lane_bits = warp_lanes.bit_length() - 1
    lanes = min(lane_bits, len(across) - warps)
    if lanes > 0:
        own = along[len(along) - min(len(along), lane_bits - lanes) :]
        absent = [0] * (lane_bits - lanes - len(own))
        lane = (*own, *absent, *across[:lanes])
        register = (*along[: len(along) - len(own)], *across[lanes + warps :])
        columns = register, lane, tuple(across[lanes : lanes + warps]), ()
        found.append(LinearLayout.from_flat(columns, shape, "scan"))
    return found


def scan_cost(layout: LinearLayout, axis: int, inputs: int, costs: Costs) -> float:
    """Return the estimated cycles of a scan in one of its layouts (hardware.py has the unit)."""
    along = _along(layout, axis)
    warps, rows = layout.size("warp"), len(along.sequences)
    held = sum(map(len, along.sequences))
    shuffles = rows * along.lanes.bit_length() if along.lanes > 1 else 0
    crossing = costs.crossing + rows * along.warps * inputs if along.warps > 1 else 0
    return warps * inputs * (shuffles + costs.scanned * held) + crossing


@dataclass(frozen=True, slots=True)
class _Along:
    """How a scan layout spreads its axis: sequences of registers, lanes and warps per row."""

    sequences: tuple[tuple[int, ...], ...]
    lanes: int
    warps: int


def _along(layout: LinearLayout, axis: int) -> _Along:
    below = sum(layout.bits[axis + 1 :])
    mask = ((1 << layout.bits[axis]) - 1) << below
    rows: dict[int, list[tuple[int, int]]] = {}
    seen: set[int] = set()
    live = set(layout.live_registers())
    for r, flat in enumerate(layout.table("register")):
        if r in live and flat not in seen:
            seen.add(flat)
            rows.setdefault(flat & ~mask, []).append((flat & mask, r))
    sequences = tuple(tuple(r for _, r in sorted(found)) for found in rows.values())
    lanes = 1 << sum(1 for c in layout.flat("lane") if c & mask)
    warps = 1 << sum(1 for c in layout.flat("warp") if c & mask)
    return _Along(sequences, lanes, warps)


@SIMT.scratch(Scan)
def scan_scratch(op: Scan, chip: Device, num_warps: int, used: bool) -> Scratch:
    """What crosses warps."""
    layout = layout_of(op.inputs[0].type)
    assert layout is not None
    along = _along(layout, op.axis)
    if along.warps == 1:
        return NO_SCRATCH
    return Scratch(_scratch_bytes(op, along, num_warps))


def _scratch_bytes(op: Scan, along: _Along, num_warps: int) -> int:
    """Return the bytes in which the totals of all warps lie side by side."""
    return sum(map(word_bytes, kinds_of(op, True))) * len(along.sequences) * num_warps


@SIMT.lower(Scan)
def lower_scan(low: Lowering, op: Scan) -> None:
    layout = low.layout(op.inputs[0])
    along = _along(layout, op.axis)
    rows = [_in_thread(low, op, layout, sequence) for sequence in along.sequences]
    before: list[Row | None] = [None] * len(rows)
    if along.lanes > 1:
        before = [_before_in_warp(low, op, along, row[-1]) for row in rows]
    if along.warps > 1:
        totals = [
            _warp_total(low, op, along, row[-1], ahead)
            for row, ahead in zip(rows, before, strict=True)
        ]
        earlier = _before_warps(low, op, along, totals)
        before = [
            first if then is None else combine_present(low, op, first, then)
            for first, then in zip(earlier, before, strict=True)
        ]
    registers: list[list[str | None]] = [[None] * layout.registers() for _ in op.inputs]
    for sequence, row, ahead in zip(along.sequences, rows, before, strict=True):
        ordered = sequence[::-1] if op.reverse else sequence
        for register, held in zip(ordered, row, strict=True):
            final = held if ahead is None else combine_present(low, op, ahead, held)
            for number, operand in enumerate(final):
                registers[number][register] = operand
    table = layout.table("register")
    live = set(layout.live_registers())
    for result, found in zip(op.results, registers, strict=True):
        first = {table[r]: v for r, v in enumerate(found) if v is not None}
        low.set_registers(
            result, [first[table[r]] if r in live else None for r in range(len(found))]
        )


def _in_thread(low: Lowering, op: Scan, layout: LinearLayout, sequence: Sequence[int]) -> list[Row]:
    """Return the running results of a thread's registers of one row, first to last."""
    running: list[Row] = []
    for r in sequence[::-1] if op.reverse else sequence:
        inside = low.inside(layout, r, [op.axis])
        own = Row([low.register(v, r) for v in op.inputs], inside)
        running.append(own if not running else combine_present(low, op, running[-1], own))
    return running


def _place(low: Lowering, count: int, index: str, reverse: bool) -> str:
    """Return this thread's place along the axis among `count` lanes or warps, from its start."""
    place = low.emit.bitwise("and", "i32", index, str(count - 1))
    return low.emit.bitwise("xor", "i32", place, str(count - 1)) if reverse else place


def _shifted(low: Lowering, op: Scan, row: Row, distance: int, place: str) -> Row:
    """Return the row of the lane `distance` places earlier; absent where there is none."""
    emit = low.emit
    kind = "down" if op.reverse else "up"
    values: list[str] = []
    for value, element in zip(row, elements_of(op), strict=True):
        words = [shuffle(low, kind, w, str(distance)) for w in to_words(low, value, element)]
        values.append(from_words(emit, words, element))
    exists = emit.pure(f"icmp uge i32 {place}, {distance}")
    if row.present is not None:
        word = shuffle(low, kind, emit.zext(row.present, "i1", "i32"), str(distance))
        exists = emit.bitwise("and", "i1", exists, emit.pure(f"icmp ne i32 {word}, 0"))
    return Row(values, exists)


def _before_in_warp(low: Lowering, op: Scan, along: _Along, total: Row) -> Row:
    """Return the combination of all earlier lanes of the row."""
    place = _place(low, along.lanes, low.lane, op.reverse)
    distance = 1
    while distance < along.lanes:
        total = combine_present(low, op, _shifted(low, op, total, distance, place), total)
        distance *= 2
    return _shifted(low, op, total, 1, place)


def _warp_total(low: Lowering, op: Scan, along: _Along, own: Row, before: Row | None) -> Row:
    """Return the combination of a lane and all before it: in the last lane, of the whole warp."""
    return own if before is None else combine_present(low, op, before, own)


def _before_warps(low: Lowering, op: Scan, along: _Along, totals: Sequence[Row]) -> list[Row]:
    """Return the combination of all earlier warps of each row."""
    emit, warps = low.emit, low.num_warps
    kinds = kinds_of(op, any(row.present is not None for row in totals))
    room = _scratch_bytes(op, along, warps)
    parts = Crossing(low, low.offset(op), room, kinds, len(totals), 1)
    last = emit.pure(f"icmp eq i32 {low.lane}, {0 if op.reverse else low.lanes - 1}")
    then, end = emit.fresh("total"), emit.fresh("totalled")
    emit.branch(last, then, end)
    emit.label(then)
    with emit.scope():
        for number, row in enumerate(totals):
            parts.write(number, low.warp, [*row, row.present or "true"])
    emit.jump(end)
    emit.label(end)
    barrier(low)
    place = _place(low, along.warps, low.warp, op.reverse)
    others = emit.bitwise("and", "i32", low.warp, str((warps - 1) & ~(along.warps - 1)))
    found: list[Row] = []
    for number in range(len(totals)):
        prefix: Row | None = None
        for earlier in range(along.warps - 1):
            index = earlier ^ (along.warps - 1) if op.reverse else earlier
            row = parts.read(number, emit.add("i32", others, str(index)))
            exists = emit.pure(f"icmp ugt i32 {place}, {earlier}")
            if row.present is not None:
                exists = emit.bitwise("and", "i1", exists, row.present)
            row = Row(row.values, exists)
            prefix = row if prefix is None else combine_present(low, op, prefix, row)
        assert prefix is not None
        found.append(prefix)
    return found
