"""The function being written: values known so far, chunks of tiles, scratch memory.

`chunk(value, point)` is the heart: it gives the elements of a tile at a point by asking the rule
of the op that makes it, which asks for chunks of its operands in turn. A chunk asked for twice
within one loop body is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Form
from workbench.ir import Block, Element, Module, Op, Value, element_of, shape_of
from workbench.ops.numbers import round_to
from workbench.source import TargetError
from workbench.targets.cpu.arithmetic import Arithmetic
from workbench.targets.cpu.chunks import (
    ZERO,
    Chunk,
    Coordinate,
    Point,
    register_bytes,
    register_type,
    suffix,
    uniform,
    vector,
)
from workbench.targets.cpu.planning import Plan
from workbench.targets.cpu.table import CHUNKS, STATEMENTS
from workbench.targets.llvm.emit import Emitter, float_literal

#: Bytes at the start of a thread's scratch memory that masked-off scalar accesses may touch.
DUMMY_BYTES = 64
#: The block that a stopped launch ends in, and what says that a branch is hardly ever not taken.
STOPPED = "stopped"
LIKELY = "!3"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tile in scratch memory, row-major, in register types (i1 as bytes)."""

    base: str
    shape: tuple[int, ...]
    element: Element

    @property
    def itemsize(self) -> int:
        return register_bytes(self.element)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances in elements between neighbours along each axis."""
        return tuple(prod(self.shape[d + 1 :]) for d in range(len(self.shape)))


class Pending(Protocol):
    """A loop that waits for more to share it before it is written."""

    def feeds(self, w: Writer, value: Value) -> bool:
        """Say whether a value needs what the loop will have computed."""
        ...

    def write(self, w: Writer) -> None:
        """Write the loop and hand out its results."""
        ...


class Guards(Protocol):
    """The guard block of a launch (guards.py)."""

    block: str
    open: bool

    def storages(self, op: Any) -> list[tuple[str, str]]:
        """Return (start, end) of the storages that an access may touch."""
        ...

    def readable(self) -> list[tuple[str, str]]:
        """Return (start, end) of all storages."""
        ...

    def start_program(self, w: Writer, program: str) -> None:
        """Write what ends the code before a program where the launch is to stop."""
        ...

    def end_program(self, w: Writer, program: str) -> None:
        """Note that a program has ended."""
        ...

    def end(self, w: Writer) -> None:
        """Count the programs that have ended."""
        ...

    def fail_unless(self, w: Writer, op: Any, fine: str, address: str, lane: str) -> None:
        """End the launch where an access (i1 `fine` is false) is wrong."""
        ...


class Writer:
    """Writes one kernel; see the top of this file.

    `lanes` is the width of the loop body being written (0: none), `known` holds masks that are
    all on or all off in it, `bound` the chunks that stand for the arguments of a combine region.
    `closed_form` gives a point of a value that no memory holds, from its affine form.
    """

    def __init__(
        self,
        module: Module,
        affine: Affine,
        plan: Plan,
        register_bits: int,
        closed_form: Callable[[Writer, Value, Point], Chunk],
    ) -> None:
        self.module = module
        self.affine = affine
        self.plan = plan
        self.closed_form = closed_form
        self.register_bytes = register_bits // 8
        self.emit = Emitter()
        self.exact = bool(module.attributes.get("exact"))
        fusion = module.attributes.get("enable_fp_fusion")
        self.contract = fusion is not False and not self.exact
        self.lanes = 0
        self.scalars: dict[Value, str] = {}
        self.buffers: dict[Value, Buffer] = {}
        self.known: dict[Value, bool] = {}
        self.bound: dict[Value, Chunk] = {}
        #: By loop counter: the number of the iteration, and how many there were.
        self.trips: dict[Value, str] = {}
        self.counts: dict[Value, str] = {}
        self.pids: tuple[str, ...] = ()
        self.grid: tuple[str, ...] = ()
        self.memo: dict[tuple[Value, Point], Chunk] = {}
        self.pending: Pending | None = None
        self.scratch_bytes = DUMMY_BYTES
        self._used_bytes = DUMMY_BYTES
        self.prints = False
        self.asserts = False
        #: Short code instead of fast code: what is written now hardly ever runs.
        self.compact = False
        #: Stores past the caches: whether the processor has them, are written now, were written.
        self.has_streams = False
        self.streaming = False
        self.streamed = False
        #: What checks of addresses read; None where the code has none.
        self.guards: Guards | None = None
        #: The address of the launch's block (devices/stops.py), and where a stopped launch goes.
        self.block = ""
        self.stops = False
        #: Loops (by id) that wait for other programs, and the address of the launch's crew.
        self.waiting: set[int] = set()
        self.crew = ""
        #: The debug attachment of the function, known once its place is.
        self.debug = ""

    @cached_property
    def _tiles(self) -> Affine:
        return Affine(self.module, tiles=True)

    def counts_up(self, pointers: Value, axis: int) -> bool:
        """Say whether neighbours along an axis lie side by side, whatever the tile's rows are."""
        form = self._tiles.form(pointers)
        if form is None:
            return False
        moving = {m: c for m, c in form.terms.items() if any(axis in atom.axes for atom in m)}
        return Form(moving) == self._tiles.coordinate(axis)

    # -- scalars and chunks ---------------------------------------------------------------
    def arithmetic(self, lanes: int) -> Arithmetic:
        """Return the instruction words for a width."""
        return Arithmetic(self.emit, lanes, self.contract, self.register_bytes == 64)

    def scalar(self, value: Value) -> str:
        """Return the text of a scalar value."""
        if value not in self.scalars:
            self.settle([value])
        return self.scalars[value]

    def chunk(self, value: Value, point: Point = ()) -> Chunk:
        """Return the elements of a value at a point."""
        bound = self.bound.get(value)
        if bound is not None:
            return bound
        if not shape_of(value.type):
            return Chunk(self.scalar(value), 0)
        known = self.known.get(value)
        if known is not None:
            return Chunk("true" if known else "false", 0)
        key = (value, point)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._compute(value, point)
        return found

    def _compute(self, value: Value, point: Point) -> Chunk:
        buffer = self.buffers.get(value)
        if buffer is not None:
            return self.read(buffer, point)
        if value.op is None or STATEMENTS.rule(type(value.op)) is not None:
            # Carried by a loop as a closed form: nothing keeps it.
            return self.closed_form(self, value, point)
        return self.apply(value.op, point, value.index)

    def apply(self, op: Op, point: Point, index: int) -> Chunk:
        """Return the elements of an op's result at a point, by the op's rule."""
        rule = CHUNKS.rule(type(op))
        if rule is None:
            raise TargetError(f"the CPU target has no rule for {op.name}", op.span)
        found: Chunk = rule(self, op, point, index)
        return found

    def widened(self, chunk: Chunk, type: str, lanes: int) -> str:
        """Return a chunk as text of exactly `lanes` lanes."""
        return (
            chunk.text if chunk.lanes == lanes else self.arithmetic(lanes).spread(chunk.text, type)
        )

    def together(self, values: Sequence[Value], point: Point) -> tuple[list[str], int]:
        """Return the chunks of several values, widened to a common width."""
        chunks = [self.chunk(value, point) for value in values]
        lanes = max((chunk.lanes for chunk in chunks), default=0)
        texts = [
            self.widened(chunk, register_type(element_of(value.type)), lanes)
            for chunk, value in zip(chunks, values, strict=True)
        ]
        return texts, lanes

    def number(self, value: float | int | bool, element: Element) -> str:
        """Return a literal of an element's register type."""
        type = register_type(element)
        if type in ("float", "double", "half"):
            return float_literal(float(round_to(value, element)), type)  # type: ignore[arg-type]
        if type == "i1":
            return "true" if value else "false"
        bits = int(type[1:])
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)

    @contextmanager
    def body(self, lanes: int) -> Generator[None]:
        """Write a loop body of a width: chunks computed inside are not known outside."""
        memo, width = self.memo, self.lanes
        self.memo, self.lanes = {}, lanes
        try:
            yield
        finally:
            self.memo, self.lanes = memo, width

    def combine(self, block: Block, arguments: Sequence[Chunk]) -> list[Chunk]:
        """Run a combine region on chunks."""
        outer = self.bound
        self.bound = {**outer, **dict(zip(block.arguments, arguments, strict=True))}
        for op in block.ops[:-1]:
            self.emit.at(op)
            for result in op.results:
                self.bound[result] = self.apply(op, (), result.index)
        found = [self.chunk(value) for value in block.yields]
        self.bound = outer
        return found

    # -- the loop that is not written yet ---------------------------------------------------
    def settle(self, values: Sequence[Value]) -> None:
        """Write the pending loop if one of the values needs its results."""
        if self.pending is not None and any(self.pending.feeds(self, v) for v in values):
            self.flush()

    def flush(self) -> None:
        """Write the pending loop."""
        group, self.pending = self.pending, None
        if group is not None:
            group.write(self)

    # -- scratch memory -------------------------------------------------------------------
    def reserve(self, size: int) -> str:
        """Return the address of `size` fresh bytes, aligned to a cache line."""
        offset = self._used_bytes
        self._used_bytes += -(-size // 64) * 64
        self.scratch_bytes = max(self.scratch_bytes, self._used_bytes)
        return self.emit.pure(f"getelementptr i8, ptr %scratch, i64 {offset}")

    def allocate(self, value: Value) -> Buffer:
        """Return scratch memory for a tile."""
        shape, element = shape_of(value.type), element_of(value.type)
        base = self.reserve(prod(shape) * register_bytes(element))
        return Buffer(base, shape, element)

    @contextmanager
    def temporary(self) -> Generator[None]:
        """Give back what is reserved inside."""
        used = self._used_bytes
        try:
            yield
        finally:
            self._used_bytes = used

    def place(self, buffer: Buffer, point: Point) -> tuple[str, str | None]:
        """Return the address of a point's first element, and the offsets of its lanes.

        The offsets are a vector of i32 counted in elements; None: the lanes lie side by side.
        """
        a = self.arithmetic(0)
        flat, moving, single = "0", None, None
        for coordinate, stride in zip(point, buffer.strides, strict=True):
            if coordinate.kind != "vector":
                flat = self.emit.add(
                    "i64", flat, self.emit.mul("i64", coordinate.text, str(stride))
                )
            if coordinate.kind == "lanes" and stride == 1:
                single = coordinate
            elif coordinate.kind != "uniform":
                w = self.arithmetic(self.lanes)
                part = coordinate.text if coordinate.kind == "vector" else w.iota("i32")
                part = w.binary("mul", "i32", part, w.integer(stride, "i32"))
                moving = part if moving is None else w.binary("add", "i32", moving, part)
        if moving is not None and single is not None:
            w = self.arithmetic(self.lanes)
            moving = w.binary("add", "i32", moving, w.iota("i32"))
        address = buffer.base
        if flat != "0":
            size = a.binary("mul", "i64", flat, str(buffer.itemsize))
            address = self.emit.pure(f"getelementptr i8, ptr {address}, i64 {size}")
        return address, moving

    def read(self, buffer: Buffer, point: Point) -> Chunk:
        """Return a point of a kept tile."""
        type = register_type(buffer.element)
        stored = "i8" if type == "i1" else type
        address, moving = self.place(buffer, point)
        lanes = self.lanes if any(c.kind != "uniform" for c in point) else 0
        if moving is None:
            text = self.emit.effect(
                f"load {vector(stored, lanes)}, ptr {address}, align {buffer.itemsize}"
            )
        else:
            text = self.gather(stored, lanes, self.spread_addresses(address, stored, moving), None)
        if type == "i1":
            w = self.arithmetic(lanes)
            text = w.compare("icmp ne", "i8", text, w.integer(0, "i8"))
        return Chunk(text, lanes)

    def write(self, buffer: Buffer, point: Point, chunk: Chunk) -> None:
        """Store a chunk at a point of a kept tile."""
        type = register_type(buffer.element)
        lanes = self.lanes if any(c.kind != "uniform" for c in point) else 0
        text = self.widened(chunk, type, lanes)
        stored = "i8" if type == "i1" else type
        text = self.arithmetic(lanes).cast("zext", text, type, stored) if type == "i1" else text
        address, moving = self.place(buffer, point)
        if moving is None:
            self.emit.do(
                f"store {vector(stored, lanes)} {text}, ptr {address}, align {buffer.itemsize}"
            )
        else:
            self.scatter(stored, lanes, self.spread_addresses(address, stored, moving), text, None)

    def spread_addresses(self, address: str, type: str, offsets: str) -> str:
        """Return a vector of addresses: one base, offsets in elements."""
        return self.emit.pure(
            f"getelementptr {type}, ptr {address}, <{self.lanes} x i32> {offsets}"
        )

    def gather(
        self, type: str, lanes: int, addresses: str, mask: str | None, other: str | None = None,
        align: int = 1,
    ) -> str:  # fmt: skip
        """Return what lies at a vector of addresses."""
        kind, pointers, bits = vector(type, lanes), f"<{lanes} x ptr>", f"<{lanes} x i1>"
        name = f"llvm.masked.gather.{suffix(type, lanes)}.v{lanes}p0"
        self.emit.declare(name, f"declare {kind} @{name}({pointers}, {bits}, {kind})")
        return self.emit.effect(
            f"call {kind} @{name}({pointers} align {align} {addresses}, "
            f"{bits} {mask or 'splat (i1 true)'}, {kind} {other or 'poison'})"
        )

    def scatter(
        self, type: str, lanes: int, addresses: str, text: str, mask: str | None, align: int = 1
    ) -> None:
        """Store to a vector of addresses."""
        kind, pointers, bits = vector(type, lanes), f"<{lanes} x ptr>", f"<{lanes} x i1>"
        name = f"llvm.masked.scatter.{suffix(type, lanes)}.v{lanes}p0"
        self.emit.declare(name, f"declare void @{name}({kind}, {pointers}, {bits})")
        self.emit.do(
            f"call void @{name}({kind} {text}, {pointers} align {align} {addresses}, "
            f"{bits} {mask or 'splat (i1 true)'})"
        )

    # -- control flow ---------------------------------------------------------------------
    def loop(
        self,
        start: str,
        stop: str,
        step: int,
        body: Callable[[str, list[str]], Sequence[str] | None],
        carried: Sequence[tuple[str, str]] = (),
        *,
        hoists: bool = True,
    ) -> list[str]:
        """Write `for i in range(start, stop, step)`; carried (type, text) pairs go round.

        `body(i, carried)` writes the body and returns the next carried texts.
        """
        emit = self.emit
        with emit.loop(hoists=hoists):
            before = emit.block
            head, inside, after = emit.fresh("head"), emit.fresh("body"), emit.fresh("exit")
            emit.jump(head)
            emit.label(head)
            counter = emit.phi("i64", [(start, before)])
            names = [emit.phi(type, [(text, before)]) for type, text in carried]
            emit.branch(emit.pure(f"icmp slt i64 {counter}, {stop}"), inside, after)
            emit.label(inside)
            new = body(counter, names) or ()
            following = emit.pure(f"add nsw i64 {counter}, {step}")
            last = emit.block
            emit.jump(head)
            emit.patch(counter, f"phi i64 [ {start}, %{before} ], [ {following}, %{last} ]")
            for name, (type, text), following in zip(names, carried, new, strict=True):
                emit.patch(name, f"phi {type} [ {text}, %{before} ], [ {following}, %{last} ]")
            emit.label(after)
        return names

    def look_for_stop(self) -> None:
        """Leave the function here if the launch is to stop: once per round of what may be long.

        The words of the block are described in devices/stops.py.
        """
        emit = self.emit
        asked, on = emit.fresh("asked"), emit.fresh("on")
        self.stops = True
        before = emit.current
        emit.at(None)
        stop = emit.effect(f"load atomic i64, ptr {self.block} monotonic, align 8")
        going = emit.effect(f"icmp eq i64 {stop}, 0")
        emit.do(f"br i1 {going}, label %{on}, label %{asked}, !prof {LIKELY}")
        emit.label(asked)
        place = emit.effect(f"getelementptr i64, ptr {self.block}, i64 1")
        poll = emit.effect(f"load ptr, ptr {place}, align 8")
        said = emit.effect(f"call i32 {poll}(ptr {self.block}) cold")
        again = emit.effect(f"icmp eq i32 {said}, 0")
        emit.do(f"br i1 {again}, label %{on}, label %{STOPPED}, !prof {LIKELY}")
        emit.label(on)
        emit.current = before

    def tell_of_waiting(self) -> None:
        """Let other programs go on: once per round of a loop that waits for them.

        The words of the crew are described in devices/together.py.
        """
        emit = self.emit
        before = emit.current
        emit.at(None)
        waited = emit.effect(f"load ptr, ptr {self.crew}, align 8")
        emit.do(f"call void {waited}(ptr {self.crew})")
        emit.current = before

    def either(
        self, condition: str, then: Callable[[], Sequence[tuple[str, str]]],
        otherwise: Callable[[], Sequence[tuple[str, str]]],
    ) -> list[str]:  # fmt: skip
        """Write an if; both sides return (type, text) pairs, which are joined."""
        emit = self.emit
        yes, no, join = emit.fresh("then"), emit.fresh("else"), emit.fresh("join")
        emit.branch(condition, yes, no)
        sides: list[tuple[Sequence[tuple[str, str]], str]] = []
        for label, side in ((yes, then), (no, otherwise)):
            with emit.scope():
                emit.label(label)
                memo = dict(self.memo)
                found = side()
                self.memo = memo
                sides.append((found, emit.block))
                emit.jump(join)
        emit.label(join)
        (first, first_block), (second, second_block) = sides
        return [
            emit.phi(type, [(x, first_block), (y, second_block)])
            for (type, x), (_, y) in zip(first, second, strict=True)
        ]


def origin(shape: tuple[int, ...]) -> Point:
    """Return the point of the first element."""
    return (ZERO,) * len(shape)


__all__ = ["Buffer", "Coordinate", "Writer", "origin", "uniform"]
