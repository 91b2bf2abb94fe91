"""Matrix products: packed operands, accumulators in registers.

A is copied so that one row's elements (or one column's) lie side by side, B into panels of two
registers' width. A block of 8 rows by 2 registers (6 by 2 with AVX2) then stays in registers for
the whole inner axis: each step loads two vectors of B, broadcasts one number of A per row, and
issues rows * 2 fused multiply-adds (tests/bench/cpu.py; taller and wider blocks gain nothing).
Operands are widened to the accumulator's type while they are packed, so every element type takes
this way, and every extent: the last panel is as narrow as it must be, row blocks are near-equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import (
    F32,
    F64,
    I32,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import (
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    ExpandDims,
    Reshape,
    Splat,
    Transpose,
    Yield,
)
from workbench.passes.manager import Remarks
from workbench.targets.cpu.chunks import (
    Chunk,
    Coordinate,
    Point,
    register_bytes,
    register_type,
    vector,
)
from workbench.targets.cpu.lanes import REGISTERS
from workbench.targets.cpu.nests import Group, Nest, schedule
from workbench.targets.cpu.numbers import convert
from workbench.targets.cpu.reads import identity, tile_reads
from workbench.targets.cpu.reductions import nested
from workbench.targets.cpu.sinks import Copy, Sink
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Buffer, Writer

#: Steps of the inner axis per round of its loop.
_UNROLL = 2


class Pack(Sink):
    """Writes an operand, widened, to where the products read it.

    `panel` 0: row-major, or column-major where the lanes run along the rows. Else panels of that
    many columns, one after the other, each with its rows one after the other.
    """

    matrix = True

    def __init__(self, w: Writer, op: Op, value: Value, to: Scalar, panel: int) -> None:
        super().__init__(op, shape_of(value.type), (value,))
        self.value = value
        self.to = to
        self.panel = panel
        self.lanes = REGISTERS * w.register_bytes // register_bytes(to)
        self.by_column = False
        size = register_bytes(to)
        rows, columns = self.shape[-2:]
        self.base = w.reserve(rows * columns * size)

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        chunk = w.chunk(self.value, point)
        source = element_of(self.value.type)
        assert isinstance(source, Scalar)
        w.emit.at(self.op)
        text = convert(w.arithmetic(chunk.lanes), chunk.text, source, self.to)
        self._write(w, point[-2], point[-1], Chunk(text, chunk.lanes))
        return []

    def _write(self, w: Writer, row: Coordinate, column: Coordinate, chunk: Chunk) -> None:
        lanes = w.lanes
        type, size = register_type(self.to), register_bytes(self.to)
        first, step = self._offset(w, row, column)
        offset = w.emit.mul("i64", first, str(size))
        place = w.emit.pure(f"getelementptr i8, ptr {self.base}, i64 {offset}")
        text = w.widened(chunk, type, lanes)
        if not lanes or step == "1":
            w.emit.do(f"store {vector(type, lanes)} {text}, ptr {place}, align {size}")
            return
        a = w.arithmetic(lanes)
        offsets = a.binary("mul", "i64", a.iota("i64"), a.spread(step, "i64"))
        places = w.emit.pure(f"getelementptr {type}, ptr {place}, <{lanes} x i64> {offsets}")
        w.scatter(type, lanes, places, text, None, size)

    def _offset(self, w: Writer, row: Coordinate, column: Coordinate) -> tuple[str, str]:
        """Return the place of the first lane, in elements, and the distance of the lanes."""
        emit = w.emit
        rows, columns = self.shape[-2:]
        if not self.panel:
            major, minor, width = (column, row, rows) if self.by_column else (row, column, columns)
            first = emit.add("i64", emit.mul("i64", major.text, str(width)), minor.text)
            return first, "1" if minor.kind == "lanes" else str(width)
        whole = columns // self.panel * self.panel
        if column.text.isdigit():
            start = int(column.text) // self.panel * self.panel
            base, inner = str(start), str(int(column.text) - start)
            width = str(self.panel if start < whole else columns - whole)
        else:
            number = emit.pure(f"udiv i64 {column.text}, {self.panel}")
            base = emit.mul("i64", number, str(self.panel))
            inner = emit.sub("i64", column.text, base)
            width = str(self.panel)
            if whole < columns:
                last = emit.pure(f"icmp uge i64 {column.text}, {whole}")
                width = w.arithmetic(0).select(last, str(columns - whole), width, "i64")
        first = emit.add("i64", emit.mul("i64", base, str(rows)), inner)
        first = emit.add("i64", first, emit.mul("i64", row.text, width))
        return first, "1" if column.kind == "lanes" else width


@dataclass(frozen=True, slots=True)
class Operand:
    """A packed A: element (m, k) lies at base + m * row + k * step, in elements."""

    base: str
    row: int
    step: int


def _compute_type(op: Dot) -> Scalar:
    element = element_of(op.accumulator.type)
    if element == F64:
        return F64
    return F32 if getattr(element, "is_float", False) else I32


@CPU.lower(Dot)
def dot(w: Writer, op: Dot) -> None:
    to = _compute_type(op)
    element = element_of(op.accumulator.type)
    result = op.results[0]
    zero = _is_zero(op.accumulator)
    in_place = _place_of_carried(w, op)
    buffer = in_place or w.allocate(result)
    same = element == to
    w.flush()
    with w.temporary():
        work = buffer if same else Buffer(
            w.reserve(_size(buffer.shape) * register_bytes(to)), buffer.shape, to
        )  # fmt: skip
        if not zero:
            own = in_place is not None and w.buffers.get(op.accumulator) is in_place
            if not (own and same):
                schedule(w, _Widen(op, op.accumulator, work, to))
                w.flush()
        shape = shape_of(op.a.type)
        if len(shape) == 3:
            nested(w, (shape[0],), None, lambda point: _product(w, op, work, to, zero, point[0]))
        else:
            _product(w, op, work, to, zero, None)
        if not same:
            schedule(w, _Narrow(op, result, work, buffer, to))
            w.flush()
    w.buffers[result] = buffer


def multiply_operands(module: Module, remarks: Remarks) -> Module:
    """Multiply operands by the factors of a product's sums: they are widened anyway.

    Needs: nothing. Keeps: results, but for where they are rounded.
    """
    del remarks

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if not isinstance(op, Dot) or op.factors is None:
            return None
        (depth, columns), runs = shape_of(op.b.type), shape_of(op.factors.type)[1]
        a, b = (builder.add(Cast(value, to=F32)) for value in (op.a, op.b))
        turned = builder.add(ExpandDims(builder.add(Transpose(op.factors, order=(1, 0))), axis=1))
        wide = builder.add(Broadcast(turned, shape=(runs, op.run, columns)))
        factors = builder.add(Reshape(wide, shape=(depth, columns)))
        product = builder.add(Elementwise("mul", (b, factors)))
        return builder.add(Dot(a, product, op.accumulator, precision="ieee"), op.result.hint)

    return rebuild(module, rewrite)


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _is_zero(value: Value) -> bool:
    op = value.op
    if isinstance(op, Splat):
        op = op.source.op
    return isinstance(op, Constant) and op.value == 0


def _place_of_carried(w: Writer, op: Dot) -> Buffer | None:
    """Return the memory of the carried tile that this product becomes, if it may be overwritten.

    That is so where the result is only yielded, and the tile it replaces is read by nothing but
    this product's accumulator, element by element.
    """
    users = w.plan.users.get(op.results[0], [])
    if len(users) != 1 or not isinstance(users[0], Yield):
        return None
    loop = w.plan.parent(users[0])
    if loop is None or not loop.regions or op not in loop.regions[-1].ops:
        return None
    number = users[0].operands.index(op.results[0])
    if users[0].operands.count(op.results[0]) != 1:
        return None
    arguments = loop.regions[-1].arguments
    argument = arguments[number - len(users[0].operands)] if arguments else None
    buffer = w.buffers.get(argument) if argument is not None else None
    if argument is None or buffer is None or w.plan.sinks(argument) - {op}:
        return None
    found: set[tuple[int, bool]] = set()
    tile_reads(w, op.accumulator, identity(op.accumulator), {argument: 0}, found)
    for operand in (op.a, op.b):
        other: set[tuple[int, bool]] = set()
        tile_reads(w, operand, None, {argument: 0}, other)
        if other:
            return None
    return buffer if all(same for _, same in found) else None


class _Widen(Copy):
    """Writes the accumulator in the type it is summed in."""

    def __init__(self, op: Op, value: Value, buffer: Buffer, to: Scalar) -> None:
        super().__init__(value, buffer, op)
        self.to = to

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        chunk = w.chunk(self.value, point)
        source = element_of(self.value.type)
        assert isinstance(source, Scalar)
        text = convert(w.arithmetic(chunk.lanes), chunk.text, source, self.to)
        w.write(self.buffer, point, Chunk(text, chunk.lanes))
        return []


class _Narrow(Copy):
    """Rounds the sums to the result's type."""

    def __init__(self, op: Op, value: Value, work: Buffer, buffer: Buffer, to: Scalar) -> None:
        super().__init__(value, buffer, op)
        self.work = work
        self.to = to
        self.roots = ()

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        chunk = w.read(self.work, point)
        target = element_of(self.value.type)
        assert isinstance(target, Scalar)
        text = convert(w.arithmetic(chunk.lanes), chunk.text, self.to, target)
        w.write(self.buffer, point, Chunk(text, chunk.lanes))
        return []


def _product(
    w: Writer, op: Dot, work: Buffer, to: Scalar, zero: bool, batch: Coordinate | None
) -> None:
    rows, depth = shape_of(op.a.type)[-2:]
    columns = shape_of(op.b.type)[-1]
    lanes = w.register_bytes // register_bytes(to)
    panel = REGISTERS * lanes
    with w.temporary():
        a = _packed_rows(w, op, to, batch)
        b = Pack(w, op, op.b, to, panel)
        _write_pack(w, b, batch)
        w.emit.at(op)
        base = work.base
        if batch is not None:
            offset = w.emit.mul("i64", batch.text, str(rows * columns * register_bytes(to)))
            base = w.emit.pure(f"getelementptr i8, ptr {base}, i64 {offset}")
        block = _Block(w, to, a, b.base, base, columns, depth, zero)
        whole = columns // panel * panel

        def over_rows(column: str, width: int) -> None:
            start = 0
            for height, count in _heights(rows, 8 if w.register_bytes == 64 else 6):
                block.repeat(start, height, count, column, width)
                start += height * count

        if whole:
            w.loop("0", str(whole), panel, lambda n, _: over_rows(n, panel))
        if whole < columns:
            over_rows(str(whole), columns - whole)


def _packed_rows(w: Writer, op: Dot, to: Scalar, batch: Coordinate | None) -> Operand:
    rows, depth = shape_of(op.a.type)[-2:]
    kept = w.buffers.get(op.a)
    if kept is not None and batch is None and kept.element == to:
        return Operand(kept.base, depth, 1)
    pack = Pack(w, op, op.a, to, 0)
    _write_pack(w, pack, batch)
    return Operand(pack.base, 1, rows) if pack.by_column else Operand(pack.base, depth, 1)


def _write_pack(w: Writer, pack: Pack, batch: Coordinate | None) -> None:
    with w.body(0):
        nest = Nest(w, Group(pack))
        pack.by_column = nest.axis == len(pack.shape) - 2
        nest.write(batch)


def _heights(rows: int, most: int) -> list[tuple[int, int]]:
    """Cut rows into near-equal blocks: (height, how many), at most two heights."""
    blocks = -(-rows // most)
    tall, extra = rows // blocks, rows % blocks
    found = [(tall + 1, extra), (tall, blocks - extra)]
    return [(height, count) for height, count in found if count and height]


@dataclass(frozen=True, slots=True)
class _Block:
    """Writes register blocks of one product."""

    w: Writer
    to: Scalar
    a: Operand
    b: str
    c: str
    columns: int
    depth: int
    zero: bool

    def repeat(self, start: int, height: int, count: int, column: str, width: int) -> None:
        """Write `count` blocks below each other."""
        if count == 1:
            self.write(str(start), height, column, width)
            return
        self.w.loop(
            str(start), str(start + height * count), height,
            lambda m, _: self.write(m, height, column, width),
        )  # fmt: skip

    def _at(self, base: str, elements: str) -> str:
        offset = self.w.emit.mul("i64", elements, str(register_bytes(self.to)))
        if offset == "0":
            return base
        return self.w.emit.pure(f"getelementptr i8, ptr {base}, i64 {offset}")

    def write(self, row: str, height: int, column: str, width: int) -> None:
        w, emit = self.w, self.w.emit
        type, size = register_type(self.to), register_bytes(self.to)
        lanes = w.register_bytes // size
        pieces = [(start, min(lanes, width - start)) for start in range(0, width, lanes)]
        corner = emit.add("i64", emit.mul("i64", row, str(self.columns)), column)
        c = self._at(self.c, corner)
        panel = self._at(self.b, emit.mul("i64", column, str(self.depth)))
        a = self._at(self.a.base, emit.mul("i64", row, str(self.a.row)))
        kinds = [vector(type, n) for _, n in pieces]
        places = [
            self._at(c, str(m * self.columns + start)) for m in range(height) for start, _ in pieces
        ]
        if self.zero:
            starts = ["zeroinitializer"] * len(places)
        else:
            starts = [
                emit.effect(f"load {kinds[j % len(pieces)]}, ptr {place}, align {size}")
                for j, place in enumerate(places)
            ]
        carried = [(kinds[j % len(pieces)], text) for j, text in enumerate(starts)]

        def step(k: str, sums: list[str], count: int) -> list[str]:
            sums = list(sums)
            b_row = self._at(panel, emit.mul("i64", k, str(width)))
            a_column = self._at(a, emit.mul("i64", k, str(self.a.step)))
            for u in range(count):
                rights = [
                    emit.effect(
                        f"load {kind}, ptr {self._at(b_row, str(u * width + start))}, align {size}"
                    )
                    for kind, (start, _) in zip(kinds, pieces, strict=True)
                ]
                for m in range(height):
                    place = self._at(a_column, str(m * self.a.row + u * self.a.step))
                    one = emit.effect(f"load {type}, ptr {place}, align {size}")
                    for j, (_, n) in enumerate(pieces):
                        number = m * len(pieces) + j
                        sums[number] = self._add(n, type, one, rights[j], sums[number])
            return sums

        depth = self.depth // _UNROLL * _UNROLL
        sums = [text for _, text in carried]
        if depth > 0:
            sums = w.loop("0", str(depth), _UNROLL, lambda k, s: step(k, s, _UNROLL), carried)
        if depth < self.depth:
            sums = step(str(depth), sums, self.depth - depth)
        for j, (place, text) in enumerate(zip(places, sums, strict=True)):
            emit.do(f"store {kinds[j % len(pieces)]} {text}, ptr {place}, align {size}")

    def _add(self, lanes: int, type: str, one: str, right: str, total: str) -> str:
        a = self.w.arithmetic(lanes)
        spread = a.spread(one, type)
        if type in ("float", "double"):
            return a.fma(spread, right, total, type)
        return a.binary("add", type, total, a.binary("mul", type, spread, right))
