"""Order, picking and counting: tiles are written out, then worked on element by element."""

from __future__ import annotations

from math import prod

from workbench.ir import Element, Op, Scalar, Value, element_of, shape_of
from workbench.ops import Gather, Histogram, Merge, Sort
from workbench.targets.cpu.chunks import Chunk, Coordinate, Point, register_type, uniform
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.reductions import Copy, nested
from workbench.targets.cpu.table import CHUNKS, CPU
from workbench.targets.cpu.writer import Buffer, Writer


def _written(w: Writer, value: Value, op: Op) -> Buffer:
    """Write a tile to scratch memory and return where."""
    buffer = w.allocate(value)
    w.flush()
    schedule(w, Copy(value, buffer, op))
    w.flush()
    return buffer


def _address(w: Writer, base: str, place: str, size: int) -> str:
    offset = w.emit.mul("i64", place, str(size))
    return base if offset == "0" else w.emit.pure(f"getelementptr i8, ptr {base}, i64 {offset}")


class _Row:
    """Elements side by side in memory, from an address on."""

    def __init__(self, w: Writer, base: str, element: Element) -> None:
        self.w = w
        self.base = base
        self.type = register_type(element)
        self.size = int(self.type[1:]) // 8

    def get(self, place: str) -> str:
        """Return an element."""
        address = _address(self.w, self.base, place, self.size)
        return self.w.emit.effect(f"load {self.type}, ptr {address}, align {self.size}")

    def put(self, place: str, text: str) -> None:
        """Write an element."""
        address = _address(self.w, self.base, place, self.size)
        self.w.emit.do(f"store {self.type} {text}, ptr {address}, align {self.size}")


def _comes_first(w: Writer, op: Sort | Merge, a: str, b: str) -> str:
    """Return an i1: `a` may stand before `b`."""
    element = element_of(op.source.type)
    assert isinstance(element, Scalar)
    sign = "u" if element.kind == "uint" else "s"
    how = f"icmp {sign}{'ge' if op.descending else 'le'}"
    return w.arithmetic(0).compare(how, register_type(element), a, b)


def _per_row(w: Writer, op: Sort | Merge, source: Buffer, body: object) -> None:
    """Run body(address of the row, its number) for each row along the last axis."""
    shape = shape_of(op.source.type)
    rows, extent = prod(shape[:-1]), shape[-1]

    def one(number: str, _: list[str]) -> None:
        with w.body(0):
            start = w.emit.mul("i64", number, str(extent))
            body(_address(w, source.base, start, source.itemsize), number)  # type: ignore[operator]

    w.loop("0", str(rows), 1, one)


@CPU.lower(Sort)
def sort(w: Writer, op: Sort) -> None:
    """Merge runs of 1, 2, 4, ... elements, to and fro between the tile and a spare row."""
    element, extent = element_of(op.source.type), shape_of(op.source.type)[-1]
    result = w.allocate(op.result)
    with w.temporary():
        source = _written(w, op.source, op)
        spare = w.reserve(extent * source.itemsize)

        def row(base: str, number: str) -> None:
            one, other = _Row(w, base, element), _Row(w, spare, element)
            width = 1
            while width < extent:
                _merge_runs(w, op, one, other, width)
                one, other = other, one
                width *= 2
            place = w.emit.mul("i64", number, str(op.kept))
            target = _Row(w, _address(w, result.base, place, result.itemsize), element)
            w.loop("0", str(op.kept), 1, lambda i, _: target.put(i, one.get(i)))

        _per_row(w, op, source, row)
    w.buffers[op.result] = result


def _merge_runs(w: Writer, op: Sort, source: _Row, target: _Row, width: int) -> None:
    """Merge each two neighbouring runs of `width` elements of the source into the target."""
    emit, a = w.emit, w.arithmetic(0)
    extent = shape_of(op.source.type)[-1]

    def least(x: str, y: int) -> str:
        return a.intrinsic("smin", "i64", [x, str(y)])

    def pair(start: str, _: list[str]) -> None:
        middle = least(emit.add("i64", start, str(width)), extent)
        end = least(emit.add("i64", start, str(2 * width)), extent)

        def step(place: str, carried: list[str]) -> list[str]:
            i, j = carried
            left, right = source.get(i), source.get(least(j, extent - 1))
            more = emit.pure(f"icmp slt i64 {i}, {middle}")
            over = emit.pure(f"icmp sge i64 {j}, {end}")
            either = emit.pure(f"or i1 {over}, {_comes_first(w, op, left, right)}")
            take = emit.pure(f"and i1 {more}, {either}")
            target.put(place, a.select(take, left, right, source.type))
            one = emit.zext(take, "i1", "i64")
            return [emit.add("i64", i, one), emit.add("i64", j, emit.sub("i64", "1", one))]

        w.loop(start, end, 1, step, [("i64", start), ("i64", middle)])

    w.loop("0", str(extent), 2 * width, pair)


@CPU.lower(Merge)
def merge(w: Writer, op: Merge) -> None:
    """Exchange at half the extent, a quarter, ..., 1."""
    element, extent = element_of(op.source.type), shape_of(op.source.type)[-1]
    result = _written(w, op.source, op)

    def row(base: str, number: str) -> None:
        del number
        held = _Row(w, base, element)
        a, emit = w.arithmetic(0), w.emit
        distance = extent // 2
        while distance:
            step = distance

            def exchange(i: str, _: list[str], step: int = step) -> None:
                low = emit.pure(f"and i64 {i}, {step - 1}")
                first = emit.pure(f"sub i64 {emit.shift('shl', 'i64', i, 1)}, {low}")
                second = emit.add("i64", first, str(step))
                x, y = held.get(first), held.get(second)
                right = _comes_first(w, op, x, y)
                held.put(first, a.select(right, x, y, held.type))
                held.put(second, a.select(right, y, x, held.type))

            w.loop("0", str(extent // 2), 1, exchange)
            distance //= 2

    _per_row(w, op, result, row)
    w.buffers[op.result] = result


@CHUNKS.lower(Gather)
def gather(w: Writer, op: Gather, point: Point, index: int) -> Chunk:
    """Ask the source for the elements at the index; one outside the axis stands for the last."""
    del index
    places = w.chunk(op.index, point)
    element = element_of(op.index.type)
    assert isinstance(element, Scalar)
    w.emit.at(op)
    a, type = w.arithmetic(places.lanes), register_type(element)
    wide = "i64" if type == "i64" else "i32"
    text = a.cast("zext" if element.kind == "uint" else "sext", places.text, type, wide)
    last = shape_of(op.source.type)[op.axis] - 1
    text = a.intrinsic("umin", wide, [text, a.integer(last, wide)])
    if places.lanes:
        place = Coordinate("vector", a.cast("trunc", text, wide, "i32"))
    else:
        place = uniform(a.cast("zext", text, wide, "i64"))
    return w.chunk(op.source, (*point[: op.axis], place, *point[op.axis + 1 :]))


@CPU.lower(Histogram)
def histogram(w: Writer, op: Histogram) -> None:
    """Count in memory."""
    w.flush()
    emit, result = w.emit, w.allocate(op.result)
    element = element_of(op.source.type)
    assert isinstance(element, Scalar)
    type = register_type(element)
    counts = _Row(w, result.base, element_of(op.result.type))
    w.loop("0", str(op.bins), 1, lambda i, _: counts.put(i, "0"))

    def one(point: list[Coordinate]) -> None:
        with w.body(0):
            place = tuple(point)
            value = w.chunk(op.source, place).text
            on = "true" if op.mask is None else w.chunk(op.mask, place).text
            emit.at(op)
            widen = emit.zext if element.kind == "uint" else emit.sext
            wide = widen(value, type, "i64")
            inside = emit.pure(f"icmp ult i64 {wide}, {op.bins}")
            counted = emit.pure(f"and i1 {inside}, {on}")
            # What is not counted adds 0 to the first counter.
            bin_ = w.arithmetic(0).select(counted, wide, "0", "i64")
            one = emit.zext(counted, "i1", "i32")
            counts.put(bin_, emit.effect(f"add i32 {counts.get(bin_)}, {one}"))

    nested(w, shape_of(op.source.type), None, one)
    w.buffers[op.result] = result


__all__ = ["gather", "histogram", "merge", "sort"]
