"""Shared memory of a kernel: who needs how much and when, and where it lies."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from workbench.ir import Block, Module, Op, Shared, Value, layout_of
from workbench.source import Note, ResourceError
from workbench.targets.simt.lowering import used_values
from workbench.targets.simt.passes.going import Going, goes_on
from workbench.targets.simt.rules import Device, Scratch

#: Swizzled buffers start at multiples of their pattern (8 rows of 128 bytes).
_ALIGNMENT = 1024


@dataclass(frozen=True, slots=True)
class Interval:
    """One piece of shared memory: its op, bytes, and the first and last op that needs it."""

    name: str
    op: int
    offset: int
    bytes: int
    first: int
    last: int


def allocate(module: Module, chip: Device) -> tuple[dict[int, int], tuple[Interval, ...], int]:
    """Return (byte offset by op id, the intervals, bytes in all).

    Liveness is counted in program order; what is live in a loop is live in all of it. Pieces are
    placed first fit, largest first. Raises ResourceError (K401) if they do not fit the chip.
    """
    placed, total = _place(module, chip)
    if total > chip.shared_bytes:
        raise _too_much(module, chip, [want for *_, want in placed], total)
    offsets = {want.op.id: offset for offset, *_, want in placed}
    intervals = tuple(
        Interval(want.name, want.op.id, offset, want.bytes, want.first_op, want.last_op)
        for offset, _, _, _, want in sorted(placed, key=lambda p: p[0])
    )
    return offsets, intervals, total


def bytes_needed(module: Module, chip: Device) -> int:
    """Return the bytes that a kernel takes, as `allocate` does, whether or not they are there."""
    return _place(module, chip)[1]


def room_for_rings(module: Module, chip: Device) -> int | None:
    """Return the bytes that rings may take beside the rest where all does not fit; None: it does.

    Also None where there are no rings.
    """
    placed, total = _place(module, chip)
    lives = [(first, last, want.bytes) for _, _, first, last, want in placed if want.slots]
    # Loops one after another have rings in the same bytes.
    rings = max(
        (sum(size for first, last, size in lives if first <= at <= last) for at, *_ in lives),
        default=0,
    )
    if total <= chip.shared_bytes or not rings:
        return None
    return max(0, rings - (total - chip.shared_bytes))


#: Where a piece starts, its bytes, from when to when it is needed, and by whom.
_Placed = tuple[int, int, int, int, "_Want"]


def _place(module: Module, chip: Device) -> tuple[list[_Placed], int]:
    """Return where each piece lies, and the bytes in all.

    Whether a kernel fits is asked before where it lies.
    """
    return module.once(("shared memory", chip), partial(_placed_of, module, chip))


def _placed_of(module: Module, chip: Device) -> tuple[list[_Placed], int]:
    wants = _Liveness(module, chip).wants
    placed: list[_Placed] = []
    for want in sorted(wants, key=lambda w: (-w.bytes, w.first)):
        taken = sorted(
            (offset, offset + size)
            for offset, size, first, last, _ in placed
            if first <= want.last and want.first <= last
        )
        start = 0
        for low, high in taken:
            if start + want.bytes <= low:
                break
            start = max(start, -(-high // want.align) * want.align)
        placed.append((start, want.bytes, want.first, want.last, want))
    return placed, max((offset + want.reach for offset, *_, want in placed), default=0)


@dataclass
class _Want:
    op: Op
    name: str
    bytes: int
    align: int
    first: int
    last: int
    first_op: int
    last_op: int
    #: Of a ring of buffers.
    slots: int = 0
    #: Bytes that may be read: what lies after its own is read for elements that do not exist.
    reach: int = 0
    #: Of a buffer.
    type: Shared | None = None


class _Liveness:
    """Walks a module and notes who needs shared memory, and from when to when."""

    def __init__(self, module: Module, chip: Device) -> None:
        self.chip = chip
        self.wants: list[_Want] = []
        self.warps: int = module.attributes["num_warps"]
        self.used = used_values(module)
        self.buffers: dict[Value, _Want] = {}
        #: Buffers whose accesses put others into an order.
        self.barriers: list[_Want] = []
        self.clock = 0
        #: Buffers that products go on reading.
        self.going: Going[Value] = Going()
        self.visit(module.body)
        for want in self.barriers:  # who waits there may come late, others arrive early
            want.last = self.clock

    def visit(self, block: Block) -> None:
        """Note all wants of a block; one tick of the clock is an op."""
        for op in block.ops:
            self.clock += 1
            start = self.clock
            self.want(op)
            self.regions(op, start)
            for operand in op.operands:
                if operand in self.buffers:
                    self.buffers[operand].last = self.clock
                    self.buffers[operand].last_op = op.id
            self.read(op)
            self.end(op)
            if op.regions and not op.side_by_side:
                # A buffer from outside that is used in a loop lives through all of it. Roles run
                # side by side, the producer's first here; what it fills consumers wait for, all of
                # it, so that a ring is nobody's any more once they have read it for the last time.
                for held in self.buffers.values():
                    if held.first < start <= held.last:
                        held.last = self.clock

    def regions(self, op: Op, start: int) -> None:
        """Visit the regions of an op; what goes on at the end of one goes on behind the op."""
        entry, after = self.going, self.going.copy()
        for region in op.regions:
            self.going = entry.copy()
            self.visit(region)
            after.add(self.going)
        self.going = after
        if op.repeats:  # what a round leaves going goes on in the next one, in the same bytes
            for buffer in after.since:
                held = self.buffers[buffer]
                held.first, held.last = min(held.first, start), max(held.last, self.clock)

    def end(self, op: Op) -> None:
        """Note which buffers an op starts to read, and which are needed until it has waited."""
        started = [e.through for e in op.own_effects() if goes_on(e) and e.through is not None]
        for buffer in self.going.step(op, self.chip.rules, started):
            self.buffers[buffer].last = self.clock
            self.buffers[buffer].last_op = op.id

    def read(self, op: Op) -> None:
        """Note how far behind a buffer an op reads."""
        for effect in op.own_effects():
            buffer = effect.through
            held = self.buffers.get(buffer) if buffer is not None else None
            if held is None or buffer is None:
                continue
            if effect.order != "plain":
                self.barriers.append(held)
            if not effect.reads:
                continue
            # What only moves elements from a buffer to its result reads them as that has them.
            layout = layout_of(op.results[0].type) if op.results and op.exact else None
            if held.type is not None and op.reads_beyond(buffer):
                held.reach = max(held.reach, held.type.reach(layout, self.chip.widest_bytes))

    def want(self, op: Op) -> None:
        """Note what an op allocates or needs while it runs."""
        now = self.clock
        for result in op.results:
            if isinstance(result.type, Shared):
                name = result.hint or "buffer"
                size, slots = result.type.bytes, result.type.slots
                # What is as short as a barrier is swizzled by nobody.
                align = _ALIGNMENT if size >= 128 * max(1, slots) else 16
                want = _Want(op, name, size, align, now, now, op.id, op.id, slots, size)
                want.type = result.type
                self.buffers[result] = want
                self.wants.append(want)
        scratch = scratch_of(op, self.chip, self.warps, self.used)
        if scratch.bytes:
            name = scratch.purpose or f"{op.name.removeprefix('tile.')} across warps"
            size = scratch.bytes
            want = _Want(op, name, size, scratch.align, now, now, op.id, op.id, reach=size)
            if scratch.kept:
                want.first, want.last = 0, sys.maxsize
            self.wants.append(want)


def scratch_of(op: Op, chip: Device, num_warps: int, used: Collection[Value]) -> Scratch:
    """Return the shared memory that an op needs for itself while it runs."""
    wanted = any(result in used for result in op.results)
    return chip.rules.scratch_of(op, chip, num_warps, wanted)


def _too_much(module: Module, chip: Device, wants: list[_Want], total: int) -> ResourceError:
    largest = sorted(wants, key=lambda w: -w.bytes)
    notes: list[Note] = []
    for want in largest[:3]:
        line = f" at line {want.op.span.line}" if want.op.span else ""
        slots = ""
        if want.slots:
            slots = f" ({want.slots} stages × {want.bytes // want.slots:,} B)"
        notes.append(Note(f"{want.name} takes {want.bytes:,} bytes{slots}{line}"))
    advice = (chip.rules.advice_of(op, total, chip.shared_bytes) for op in module.walk())
    hint = next(filter(None, advice), "use smaller tiles")
    rings = [want for want in wants if want.slots]
    per_stage = sum(ring.bytes // ring.slots for ring in rings)
    rest = total - sum(ring.bytes for ring in rings)
    if per_stage and (chip.shared_bytes - rest) // per_stage >= 1:
        fits = (chip.shared_bytes - rest) // per_stage
        hint = f"--set stages={fits} fits ({fits * per_stage + rest:,} bytes)"
    return ResourceError(
        f"needs {total:,} bytes of shared memory, {chip.name} allows {chip.shared_bytes:,}",
        largest[0].op.span,
        notes=notes,
        hint=hint,
    ).counted("shared memory", total, chip.shared_bytes)


__all__ = ["Interval", "allocate", "scratch_of"]
