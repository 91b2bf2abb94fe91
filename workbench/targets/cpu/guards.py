"""Checks of addresses: ranges where a tile's first and last address tell, else lane by lane.

A program whose access would leave the memory that it may touch writes down where (the layout of
the block is in `devices/guard_block.py`, whose words are repeated here: that room lies above) and
returns; no further program starts. A check is first asked of the tile's extreme addresses; where
they lie outside, or are not known, of every live lane; and lanes that may lead anywhere, of the
table of the process's memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Pointer, Value, shape_of
from workbench.ops import CheckAccess
from workbench.ops.memory import pointee_of
from workbench.targets.cpu.addresses import address_of
from workbench.targets.cpu.chunks import Coordinate, Point
from workbench.targets.cpu.memory import tile_bounds
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.reductions import nested
from workbench.targets.cpu.sinks import Sink
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Writer

STOP, ENDED, OP, PROGRAM, ADDRESS, LANE, MAPPED, TABLE, ROWS = range(9)
HEAD, STORAGE = 16, 3
READ, WRITE = 1, 2

#: Says whether the process's memory has `size` bytes at an address with a right: rows of
#: (start, end, rights), sorted and apart, are searched for the first and for the last byte.
_MAPPED = """
define internal i1 @mapped_byte(ptr %table, i64 %rows, i64 %address, i64 %right) nounwind {
entry:
  br label %look
look:
  %low = phi i64 [ 0, %entry ], [ %low1, %next ]
  %high = phi i64 [ %rows, %entry ], [ %high1, %next ]
  %left = icmp slt i64 %low, %high
  br i1 %left, label %probe, label %no
probe:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %offset = mul i64 %middle, 3
  %row = getelementptr i64, ptr %table, i64 %offset
  %start = load i64, ptr %row
  %end_at = getelementptr i64, ptr %row, i64 1
  %end = load i64, ptr %end_at
  %below = icmp ult i64 %address, %start
  %above = icmp uge i64 %address, %end
  %away = or i1 %below, %above
  br i1 %away, label %next, label %here
next:
  %following = add i64 %middle, 1
  %low1 = select i1 %below, i64 %low, i64 %following
  %high1 = select i1 %below, i64 %middle, i64 %high
  br label %look
here:
  %rights_at = getelementptr i64, ptr %row, i64 2
  %rights = load i64, ptr %rights_at
  %both = and i64 %rights, %right
  %fine = icmp ne i64 %both, 0
  ret i1 %fine
no:
  ret i1 false
}

define internal i1 @mapped(ptr %block, i64 %address, i64 %size, i64 %right) nounwind {
entry:
  %table_at = getelementptr i64, ptr %block, i64 TABLE
  %table = load ptr, ptr %table_at
  %rows_at = getelementptr i64, ptr %block, i64 ROWS
  %rows = load i64, ptr %rows_at
  %more = sub i64 %size, 1
  %last = add i64 %address, %more
  %first_fine = call i1 @mapped_byte(ptr %table, i64 %rows, i64 %address, i64 %right)
  %last_fine = call i1 @mapped_byte(ptr %table, i64 %rows, i64 %last, i64 %right)
  %fine = and i1 %first_fine, %last_fine
  br i1 %fine, label %note, label %out
note:
  %noted_at = getelementptr i64, ptr %block, i64 MAPPED
  store atomic i64 1, ptr %noted_at monotonic, align 8
  br label %out
out:
  ret i1 %fine
}
"""


class Guards:
    """The guard block of a launch as the code being written reads it."""

    def __init__(self, w: Writer, block: str) -> None:
        """Take the text of the block's address."""
        self.block = block
        self.open = any(isinstance(op, CheckAccess) and op.open for op in w.module.walk())
        #: The number of the program that is being written (i64).
        self.program = "0"
        self._ended = w.emit.effect("alloca i64")
        w.emit.do(f"store i64 0, ptr {self._ended}")
        self._storages: dict[str, tuple[str, str, str]] = {}
        pointers = [p for p in w.module.parameters if isinstance(p.value.type, Pointer)]
        for number, parameter in enumerate(pointers):
            words = [
                w.emit.effect(f"load i64, ptr {self.word(w, HEAD + STORAGE * number + n)}")
                for n in range(STORAGE)
            ]
            self._storages[parameter.name] = (words[0], words[1], words[2])
        if self.open:
            text = _MAPPED.replace("TABLE", str(TABLE)).replace("ROWS", str(ROWS))
            w.emit.globals.append(text.replace("i64 MAPPED", f"i64 {MAPPED}"))

    def word(self, w: Writer, number: int) -> str:
        """Return the address of a word."""
        return w.emit.pure(f"getelementptr i8, ptr {self.block}, i64 {8 * number}")

    def storages(self, op: CheckAccess) -> list[tuple[str, str]]:
        """Return (start, end) of the storages that an access may touch."""
        names = list(self._storages) if op.open else op.roots
        return [(s[0], s[2 if op.writes else 1]) for s in map(self._storages.__getitem__, names)]

    def readable(self) -> list[tuple[str, str]]:
        """Return (start, end) of all storages."""
        return [(start, end) for start, end, _ in self._storages.values()]

    def start_program(self, w: Writer, program: str) -> None:
        """Write what ends the code before a program where the launch is to stop."""
        self.program = program
        stop = w.emit.effect(f"load atomic i64, ptr {self.word(w, STOP)} monotonic, align 8")
        going = w.emit.effect(f"icmp eq i64 {stop}, 0")
        self._leave_unless(w, going, None)

    def end_program(self, w: Writer, program: str) -> None:
        """Note that a program has ended."""
        before = w.emit.effect(f"sub i64 {program}, %first")
        count = w.emit.effect(f"add i64 {before}, 1")
        w.emit.do(f"store i64 {count}, ptr {self._ended}")

    def end(self, w: Writer) -> None:
        """Count the programs that have ended."""
        count = w.emit.effect(f"load i64, ptr {self._ended}")
        w.emit.effect(f"atomicrmw add ptr {self.word(w, ENDED)}, i64 {count} monotonic")

    def fail_unless(self, w: Writer, op: CheckAccess, fine: str, address: str, lane: str) -> None:
        """End the launch where an access (i1 `fine` is false) is wrong."""
        self._leave_unless(w, fine, (op.access, address, lane))

    def _leave_unless(self, w: Writer, going: str, found: tuple[int, str, str] | None) -> None:
        emit = w.emit
        out, on = emit.fresh("leave"), emit.fresh("go")
        emit.branch(going, on, out)
        with emit.scope():
            emit.label(out)
            if found is not None:
                self._write_down(w, *found)
            self.end(w)
            if w.has_streams:
                emit.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()")
                emit.do("call void @llvm.x86.sse.sfence()")
            emit.do("ret void")
        emit.label(on)

    def _write_down(self, w: Writer, access: int, address: str, lane: str) -> None:
        """Leave what went wrong, unless another program has been faster, and stop the rest."""
        emit = w.emit
        place = self.word(w, OP)
        pair = emit.effect(f"cmpxchg ptr {place}, i64 0, i64 {access + 1} acq_rel monotonic")
        mine = emit.effect(f"extractvalue {{ i64, i1 }} {pair}, 1")
        first, after = emit.fresh("first"), emit.fresh("after")
        emit.branch(mine, first, after)
        emit.label(first)
        for word, text in ((PROGRAM, self.program), (ADDRESS, address), (LANE, lane)):
            emit.do(f"store i64 {text}, ptr {self.word(w, word)}")
        emit.jump(after)
        emit.label(after)
        emit.do(f"store atomic i64 1, ptr {self.word(w, STOP)} monotonic, align 8")
        self._stop_launch(w)

    def _stop_launch(self, w: Writer) -> None:
        """End programs that wait for others, too: see devices/stops.py for the launch's block.

        One that nobody owns is shared by all launches that found none free.
        """
        emit = w.emit
        owner_at = emit.effect(f"getelementptr i64, ptr {w.block}, i64 2")
        owner = emit.effect(f"load i64, ptr {owner_at}")
        owned = emit.effect(f"icmp ne i64 {owner}, 0")
        bit = emit.effect(f"zext i1 {owned} to i64")
        emit.effect(f"atomicrmw or ptr {w.block}, i64 {bit} monotonic")


@CPU.lower(CheckAccess)
def check_access(w: Writer, op: CheckAccess) -> None:
    guards = w.guards
    if guards is None:
        return
    w.flush()
    size = pointee_of(op.pointers.type).itemsize
    storages = guards.storages(op)
    if not shape_of(op.pointers.type):
        with w.body(0):
            _check_lane(w, op, (), "0", size, storages)
        return
    if not w.plan.has_bounds(op.pointers):
        _check_lanes(w, op, size, storages)
        return
    emit = w.emit
    low, high, _ = tile_bounds(w, op.pointers)
    inside = "false"
    for start, end in storages:
        after = emit.pure(f"icmp sge i64 {low}, {start}")
        before = emit.pure(f"icmp sle i64 {high}, {end}")
        inside = emit.bitwise("or", "i1", inside, emit.bitwise("and", "i1", after, before))

    def lane_by_lane() -> list[tuple[str, str]]:
        _check_lanes(w, op, size, storages)
        return []

    w.either(inside, list, lane_by_lane)


class _LaneCheck(Sink):
    """Leaves in scratch memory the first live lane outside of the storages, and its address."""

    def __init__(
        self, op: CheckAccess, found: tuple[str, str], size: int, storages: list[tuple[str, str]]
    ) -> None:
        roots = (op.pointers,) if op.mask is None else (op.mask, op.pointers)
        super().__init__(op, shape_of(op.pointers.type), roots)
        self.check = op
        self.lanes = 16
        self.mask = op.mask
        self.found = found
        self.size = size
        self.storages = storages

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        check, lanes, emit = self.check, w.lanes, w.emit
        mask = w.chunk(check.mask, point) if check.mask is not None else None
        if mask is not None and mask.text == "false":
            return []
        address = lane_addresses(w, check.pointers, point)
        a = w.arithmetic(lanes)
        emit.at(check)
        bad = _outside(w, address, lanes, self.size, self.storages)
        if mask is not None and mask.text != "true":
            bad = a.binary("and", "i1", bad, w.widened(mask, "i1", lanes))
        some = bad
        if lanes:
            name = f"llvm.vector.reduce.or.v{lanes}i1"
            emit.declare(name, f"declare i1 @{name}(<{lanes} x i1>)")
            some = emit.effect(f"call i1 @{name}(<{lanes} x i1> {bad})")
        wrong, fine = emit.fresh("wrong"), emit.fresh("fine")
        emit.branch(some, wrong, fine)
        with emit.scope():
            emit.label(wrong)
            self._note(w, point, bad, address)
            emit.jump(fine)
        emit.label(fine)
        return []

    def _note(self, w: Writer, point: Point, bad: str, address: str) -> None:
        """Write down the first lane of a chunk that is wrong, unless one before it is known."""
        emit, lanes = w.emit, w.lanes
        lane, step = "0", 0
        for coordinate, extent in zip(point, self.shape, strict=True):
            lane = emit.add("i64", emit.mul("i64", lane, str(extent)), coordinate.text)
            step = step * extent + (coordinate.kind == "lanes")
        if lanes:
            bits, name = f"i{lanes}", f"llvm.cttz.i{lanes}"
            word = emit.pure(f"bitcast <{lanes} x i1> {bad} to {bits}")
            first = emit.call(bits, name, f"{bits} {word}, i1 true", f"{bits}, i1")
            if lanes != 64:
                first = emit.pure(f"{'zext' if lanes < 64 else 'trunc'} {bits} {first} to i64")
            address = emit.pure(f"extractelement <{lanes} x i64> {address}, i64 {first}")
            lane = emit.add("i64", lane, emit.mul("i64", first, str(step)))
        before = emit.effect(f"load i64, ptr {self.found[0]}, align 8")
        sooner = emit.effect(f"icmp ult i64 {lane}, {before}")
        for place, new in zip(self.found, (lane, address), strict=True):
            old = emit.effect(f"load i64, ptr {place}, align 8")
            chosen = emit.effect(f"select i1 {sooner}, i64 {new}, i64 {old}")
            emit.do(f"store i64 {chosen}, ptr {place}, align 8")


def lane_addresses(w: Writer, pointers: Value, point: Point) -> str:
    """Return the address of every lane."""
    return w.widened(w.chunk(pointers, point), "i64", w.lanes)


def _outside(
    w: Writer, address: str, lanes: int, size: int, storages: Sequence[tuple[str, str]]
) -> str:
    """Return whether lanes lie in no storage with all their bytes."""
    emit, a = w.emit, w.arithmetic(lanes)
    outside: str | None = None
    for start, end in storages:
        room = emit.sub("i64", emit.sub("i64", end, start), str(size - 1))
        room = w.arithmetic(0).intrinsic("smax", "i64", [room, "0"])
        offset = a.binary("sub", "i64", address, a.spread(start, "i64"))
        here = a.compare("icmp uge", "i64", offset, a.spread(room, "i64"))
        outside = here if outside is None else a.binary("and", "i1", outside, here)
    return outside or a.spread("true", "i1")


def _check_lanes(w: Writer, op: CheckAccess, size: int, storages: list[tuple[str, str]]) -> None:
    """Check all live lanes at once; the program ends at the first one that is wrong.

    Lanes that may lead anywhere are then looked at one by one: the first may be right after all.
    """
    emit, guards = w.emit, w.guards
    assert guards is not None
    with w.temporary():
        found = w.reserve(8), w.reserve(8)
        for place in found:
            emit.do(f"store i64 -1, ptr {place}, align 8")
        w.compact = True
        schedule(w, _LaneCheck(op, found, size, storages))
        w.flush()
        w.compact = False
        emit.at(op)
        lane, address = (emit.effect(f"load i64, ptr {place}, align 8") for place in found)
    fine = emit.effect(f"icmp eq i64 {lane}, -1")
    if not op.open:
        guards.fail_unless(w, op, fine, address, lane)
        return

    def search() -> list[tuple[str, str]]:
        shape = shape_of(op.pointers.type)

        def one(point: list[Coordinate]) -> None:
            lane = "0"
            for coordinate, extent in zip(point, shape, strict=True):
                lane = emit.add("i64", emit.mul("i64", lane, str(extent)), coordinate.text)
            with w.body(0):
                _check_lane(w, op, tuple(point), lane, size, storages)

        nested(w, shape, None, one)
        return []

    w.either(fine, list, search)


def _check_lane(
    w: Writer,
    op: CheckAccess,
    point: Point,
    lane: str,
    size: int,
    storages: Sequence[tuple[str, str]],
) -> None:
    """Check one lane; the program ends there if it is wrong."""
    emit, guards = w.emit, w.guards
    assert guards is not None
    on = w.chunk(op.mask, point).text if op.mask is not None else "true"
    address = address_of(w, op.pointers, point).text
    emit.at(op)
    outside = _outside(w, address, 0, size, storages)
    bad = emit.bitwise("and", "i1", outside, on)
    fine = emit.bitwise("xor", "i1", bad, "true")
    if not op.open:
        guards.fail_unless(w, op, fine, address, lane)
        return

    def ask() -> list[tuple[str, str]]:
        right = WRITE if op.writes else READ
        known = emit.effect(
            f"call i1 @mapped(ptr {guards.block}, i64 {address}, i64 {size}, i64 {right})"
        )
        if op.writes:  # where an argument can be read, and not be written, no other right counts
            apart = _outside(w, address, 0, 1, guards.readable())
            known = emit.bitwise("and", "i1", known, apart)
        guards.fail_unless(w, op, known, address, lane)
        return []

    w.either(fine, list, ask)
