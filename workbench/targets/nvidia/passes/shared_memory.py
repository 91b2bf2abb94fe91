"""Shared memory of a kernel: who needs how much and when, where it lies, which waits it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.ir import Block, Builder, Module, Op, Value, shape_of
from workbench.layouts import SharedPlan
from workbench.ops import (
    AtomicCompareExchange,
    AtomicUpdate,
    ConvertLayout,
    Dot,
    Merge,
    Reduce,
    Scan,
    Sort,
)
from workbench.ops.program import Barrier
from workbench.source import Note, ResourceError
from workbench.targets.nvidia.atomics import shared_result_bytes
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.layout import convert_plan
from workbench.targets.nvidia.lowering import used_values
from workbench.targets.nvidia.ops import (
    AsyncCopy,
    BlockBarrier,
    SharedAllocate,
    SharedDot,
    SharedLoad,
    SharedStore,
)
from workbench.targets.nvidia.reductions import warp_scratch
from workbench.targets.nvidia.scans import scan_scratch
from workbench.targets.nvidia.sorts import sort_scratch
from workbench.targets.nvidia.staged import is_staged, staged_bytes

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


def allocate(module: Module, chip: Chip) -> tuple[dict[int, int], tuple[Interval, ...], int]:
    """Return (byte offset by op id, the intervals, bytes in all).

    Liveness is counted in program order; what is live in a loop is live in all of it. Pieces are
    placed first fit, largest first. Raises ResourceError (K401) if they do not fit the chip.
    """
    wants = _Liveness(module).wants
    placed: list[tuple[int, int, int, int, _Want]] = []
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
    total = max((offset + size for offset, size, *_ in placed), default=0)
    if total > chip.shared_bytes:
        raise _too_much(module, chip, [want for *_, want in placed], total)
    offsets = {want.op.id: offset for offset, *_, want in placed}
    intervals = tuple(
        Interval(want.name, want.op.id, offset, want.bytes, want.first_op, want.last_op)
        for offset, _, _, _, want in sorted(placed, key=lambda p: p[0])
    )
    return offsets, intervals, total


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


class _Liveness:
    """Walks a module and notes who needs shared memory, and from when to when."""

    def __init__(self, module: Module) -> None:
        self.wants: list[_Want] = []
        self.warps: int = module.attributes["num_warps"]
        self.used = used_values(module)
        self.buffers: dict[Value, _Want] = {}
        self.clock = 0
        self.visit(module.body)

    def visit(self, block: Block) -> None:
        """Note all wants of a block; one tick of the clock is an op."""
        for op in block.ops:
            self.clock += 1
            start = self.clock
            self.want(op)
            inner = () if isinstance(op, Reduce | Scan) else op.regions
            for region in inner:
                self.visit(region)
            for operand in op.operands:
                if operand in self.buffers:
                    self.buffers[operand].last = self.clock
                    self.buffers[operand].last_op = op.id
            if inner:
                # A buffer from outside that is used in a loop lives through all of it.
                for held in self.buffers.values():
                    if held.first < start <= held.last:
                        held.last = self.clock

    def want(self, op: Op) -> None:
        """Note what an op allocates or needs while it runs."""
        now = self.clock
        if isinstance(op, SharedAllocate):
            name = op.result.hint or "buffer"
            want = _Want(op, name, op.type.bytes, _ALIGNMENT, now, now, op.id, op.id)
            self.buffers[op.result] = want
            self.wants.append(want)
        elif bytes_ := _scratch(op, self.warps, self.used):
            self.wants.append(_Want(op, _scratch_name(op), bytes_, 16, now, now, op.id, op.id))


def _scratch_name(op: Op) -> str:
    """Return what the user would call the bytes that an op needs for itself."""
    if isinstance(op, ConvertLayout):
        return f"{op.result.hint or op.source.hint or 'a value'} on its way to other threads"
    return f"{op.name.removeprefix('tile.')} across warps"


def _scratch(op: Op, num_warps: int, used: set[Value]) -> int:
    """Return the bytes an op needs for itself while it runs."""
    if isinstance(op, ConvertLayout):
        plan = convert_plan(op)
        return plan.scratch_bytes if isinstance(plan, SharedPlan) else 0
    if isinstance(op, Reduce):
        return warp_scratch(op, num_warps)
    if isinstance(op, Scan):
        return scan_scratch(op, num_warps)
    if isinstance(op, Sort | Merge):
        return sort_scratch(op, num_warps)
    if is_staged(op):
        return staged_bytes(op)
    if isinstance(op, AtomicUpdate | AtomicCompareExchange):
        return shared_result_bytes(op) if op.result in used else 0
    return 0


def _too_much(module: Module, chip: Chip, wants: list[_Want], total: int) -> ResourceError:
    largest = sorted(wants, key=lambda w: -w.bytes)
    notes: list[Note] = []
    for want in largest[:3]:
        line = f" at line {want.op.span.line}" if want.op.span else ""
        slots = ""
        if isinstance(want.op, SharedAllocate) and len(want.op.type.shape) > 2:
            count = want.op.type.shape[0]
            slots = f" ({count} stages × {want.bytes // count:,} B)"
        notes.append(Note(f"{want.name} takes {want.bytes:,} bytes{slots}{line}"))
    hint = _smaller_dot(module, total, chip) or "use smaller tiles"
    rings = [w.op.type for w in wants if isinstance(w.op, SharedAllocate)]
    rings = [type for type in rings if len(type.shape) > 2]
    per_stage = sum(type.bytes // type.shape[0] for type in rings)
    rest = total - sum(type.bytes for type in rings)
    if per_stage and (chip.shared_bytes - rest) // per_stage >= 1:
        fits = (chip.shared_bytes - rest) // per_stage
        hint = f"--set stages={fits} fits ({fits * per_stage + rest:,} bytes)"
    return ResourceError(
        f"needs {total:,} bytes of shared memory, {chip.name} allows {chip.shared_bytes:,}",
        largest[0].op.span,
        notes=notes,
        hint=hint,
    ).counted("shared memory", total, chip.shared_bytes)


def _smaller_dot(module: Module, total: int, chip: Chip) -> str | None:
    """Say which dot would fit: the largest extent is halved until the operands do."""
    for op in module.walk():
        if not isinstance(op, Dot | SharedDot):
            continue
        (m, k), n = shape_of(op.a.type)[-2:], shape_of(op.b.type)[-1]
        whole = (m + n) * k
        extents = [m, n, k]
        while total * (extents[0] + extents[1]) * extents[2] > chip.shared_bytes * whole:
            largest = max(range(3), key=extents.__getitem__)
            extents[largest] //= 2
        found = " × ".join(map(str, (m, n, k)))
        return (
            f"use smaller tiles: instead of {found} a dot of {' × '.join(map(str, extents))} fits"
        )
    return None


# -- barriers ------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Touch:
    """Bytes that an op reads or writes in shared memory."""

    low: int
    high: int
    writes: bool
    #: The ring this is a slot of: slots filled and read between two of its barriers differ.
    ring: Value | None = None

    def conflicts(self, other: _Touch) -> bool:
        if self.ring is not None and self.ring is other.ring:
            return False
        return (self.writes or other.writes) and self.low < other.high and other.low < self.high


class _Barriers:
    """Inserts a barrier before an op that touches bytes which another thread may still be using."""

    def __init__(self, module: Module, offsets: dict[int, int]) -> None:
        self.builder = Builder(module.next_id)
        self.offsets = offsets
        self.warps = module.attributes["num_warps"]
        self.used = used_values(module)
        self.buffers: dict[Value, tuple[int, int]] = {}
        #: Buffers with slots: pipeline_loads has placed their barriers.
        self.rings: set[Value] = set()

    def block(self, block: Block, pending: list[_Touch], write: bool) -> tuple[Block, list[_Touch]]:
        with self.builder.block() as ops:
            for op in block.ops:
                pending = self.op(op, pending, write)
        return (Block(block.arguments, tuple(ops)) if write else block), pending

    def op(self, op: Op, pending: list[_Touch], write: bool) -> list[_Touch]:
        if isinstance(op, BlockBarrier | Barrier):
            self._insert(op, write)
            return []
        if isinstance(op, SharedAllocate):
            start = self.offsets[op.id]
            self.buffers[op.result] = (start, start + op.type.bytes)
            if len(op.type.shape) > 2:
                self.rings.add(op.result)
        if op.regions and not isinstance(op, Reduce | Scan):
            return self._regions(op, pending, write)
        before, keep, clears = self._touches(op)
        if any(a.conflicts(b) for a in before for b in pending):
            if write:
                barrier = BlockBarrier()
                barrier.__dict__["span"] = op.span
                barrier.__dict__["origins"] = (op.id,)
                self.builder.insert(barrier)
            pending = []
        self._insert(op, write)
        return keep if clears else [*pending, *(t for t in keep if t not in pending)]

    def _insert(self, op: Op, write: bool) -> None:
        if write:
            self.builder.insert(op)

    def _regions(self, op: Op, pending: list[_Touch], write: bool) -> list[_Touch]:
        fields: dict[str, Block] = {}
        ends: list[_Touch] = []
        for spec in op.fields:
            if spec.role != "region":
                continue
            block = op.__dict__[spec.name]
            start = pending
            if op.name in ("tile.for", "tile.while"):
                # What the end of a round leaves pending is pending when the next one starts.
                for _ in range(2):
                    _, after = self.block(block, start, write=False)
                    start = [*start, *(t for t in after if t not in start)]
            new, after = self.block(block, start, write)
            fields[spec.name] = new
            ends += [t for t in after if t not in ends]
        changed = any(fields[k].ops != op.__dict__[k].ops for k in fields)
        self._insert(_with_regions(op, fields) if write and changed else op, write)
        return [*pending, *(t for t in ends if t not in pending)]

    def _touches(self, op: Op) -> tuple[list[_Touch], list[_Touch], bool]:
        """Return what an op touches first, what it leaves behind, and whether it waits between."""
        touched: list[_Touch] = []
        if isinstance(op, SharedAllocate):
            # The bytes get a new owner: whoever used them before must be done.
            return [_Touch(*self.buffers[op.result], writes=True)], [], False
        if isinstance(op, SharedStore | AsyncCopy | SharedLoad):
            ring = op.buffer if op.buffer in self.rings else None
            writes = not isinstance(op, SharedLoad)
            touched = [_Touch(*self.buffers[op.buffer], writes=writes, ring=ring)]
        elif isinstance(op, SharedDot):
            touched = [_Touch(*self.buffers[v], writes=False) for v in (op.a, op.b)]
        if touched:
            return touched, touched, False
        bytes_ = _scratch(op, self.warps, self.used)
        if not bytes_:
            return [], [], False
        low = self.offsets[op.id]
        write = [_Touch(low, low + bytes_, writes=True)]
        read = [_Touch(low, low + bytes_, writes=False)]
        if isinstance(op, ConvertLayout) and getattr(convert_plan(op), "barrier", "") == "warp":
            return write, write, False
        return write, read, True


def _with_regions(op: Op, fields: dict[str, Block]) -> Op:
    """Return the op with other regions but its own results, so that users need no change."""
    new = op.changed(**fields)
    new.__dict__["results"] = op.results
    return new


def insert_barriers(module: Module, offsets: dict[int, int]) -> Module:
    """Insert the barriers that shared memory needs, and no others.

    Before:
        #L0 = linear<16, lane=[1,2,4,8,0]>
        #L1 = linear<16, lane=[8,4,2,1,0]>
        #S0 = linear<16, offset=[1,2,4,8]>
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, #L0>
        %1 = gpu.shared_allocate {type = shared<16xf32, #S0>} : shared<16xf32, #S0>
        gpu.shared_store %0, %1
        %2 = gpu.shared_load %1 {type = tile<16xf32, #L1>} : tile<16xf32, #L1>
    After:
        #L0 = linear<16, lane=[1,2,4,8,0]>
        #L1 = linear<16, lane=[8,4,2,1,0]>
        #S0 = linear<16, offset=[1,2,4,8]>
        %0 = tile.splat %x {shape = (16,)} : tile<16xf32, #L0>
        %1 = gpu.shared_allocate {type = shared<16xf32, #S0>} : shared<16xf32, #S0>
        gpu.shared_store %0, %1
        gpu.barrier
        %2 = gpu.shared_load %1 {type = tile<16xf32, #L1>} : tile<16xf32, #L1>

    Keeps: every value, now also when threads run at different speeds.
    Two accesses of which one writes need a barrier between them if their bytes overlap. Rings of
    asynchronous copies bring their own barrier (pipeline_loads); a slot that is filled is never
    the slot that is read in the same round, so they are taken as one buffer and left alone.
    """
    worker = _Barriers(module, offsets)
    body, _ = worker.block(module.body, [], write=True)
    return replace(module, body=body, next_id=worker.builder.next_id)


__all__ = ["Interval", "allocate", "insert_barriers"]
