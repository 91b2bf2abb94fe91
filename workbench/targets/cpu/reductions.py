"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.ir import Block, Op, Scalar, Value, element_of, shape_of
from workbench.ops import If, Reduce, Scan, combine_function
from workbench.targets.cpu.chunks import (
    Chunk,
    Coordinate,
    Point,
    register_type,
    uniform,
    vector,
)
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.sinks import Copy, Part, Sink
from workbench.targets.cpu.statements import write_block
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Buffer, Writer


class Reduction(Sink):
    """Combines all elements along an axis; a vector of partial results is combined at the end.

    A reduction by max keeps -inf where every element is NaN: the partial results start there.
    """

    def __init__(self, w: Writer, op: Reduce) -> None:
        super().__init__(op, shape_of(op.inputs[0].type), op.inputs)
        self.block: Block = op.combine
        self.axis = op.axis
        self.results = op.results
        self.elements = [element_of(v.type) for v in op.inputs]
        self.buffers: list[Buffer] = [w.allocate(r) for r in op.results if shape_of(r.type)]
        self.row = combine_function(op.combine)

    def types(self, w: Writer, lanes: int) -> list[str]:
        """Return the types of the partial results."""
        return [vector(register_type(e), lanes) for e in self.elements]

    def carried(self, w: Writer, lanes: int) -> list[tuple[str, str]] | None:
        row, element = self.row, self.elements[0]
        if row is None or row.identity is None or not isinstance(element, Scalar):
            return None
        start = w.number(row.identity(element), element)
        return [
            (self.types(w, lanes)[0], w.arithmetic(lanes).spread(start, register_type(element)))
        ]

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        lanes = w.lanes
        texts = [
            w.widened(w.chunk(v, point), register_type(element_of(v.type)), lanes)
            for v in self.roots
        ]
        w.emit.at(self.op)
        if carried is None:
            return texts
        if self.row is not None and self.row.name in ("max", "min"):
            return [self._extreme(w, carried[0], texts[0], lanes)]
        return self.combined(w, carried, texts, lanes)

    def _extreme(self, w: Writer, held: str, text: str, lanes: int) -> str:
        """Keep the larger (smaller): a comparison with NaN fails, so NaN loses for free."""
        element = self.elements[0]
        assert isinstance(element, Scalar)
        assert self.row is not None
        a, type = w.arithmetic(lanes), register_type(element)
        if not element.is_float:
            return self.combined(w, [held], [text], lanes)[0]
        how = "fcmp ogt" if self.row.name == "max" else "fcmp olt"
        return a.select(a.compare(how, type, text, held), text, held, type)

    def combined(self, w: Writer, left: list[str], right: list[str], lanes: int) -> list[str]:
        if _has_branches(self.block):
            if lanes:
                return self._combined_by_lane(w, left, right, lanes)
            return _combined_apart(w, self.block, [*left, *right])
        outer = w.lanes
        w.lanes = lanes
        chunks = w.combine(self.block, [Chunk(text, lanes) for text in (*left, *right)])
        w.lanes = outer
        return [
            w.widened(chunk, register_type(element), lanes)
            for chunk, element in zip(chunks, self.elements, strict=True)
        ]

    def _combined_by_lane(
        self, w: Writer, left: list[str], right: list[str], lanes: int
    ) -> list[str]:
        totals = ["poison"] * len(left)
        types = self.types(w, lanes)
        for lane in range(lanes):
            parts = [
                w.emit.pure(f"extractelement {type} {text}, i64 {lane}")
                for type, text in zip((*types, *types), (*left, *right), strict=True)
            ]
            found = self.combined(w, parts[: len(left)], parts[len(left) :], 0)
            totals = [
                w.emit.pure(f"insertelement {type} {total}, {register_type(e)} {one}, i64 {lane}")
                for type, total, one, e in zip(types, totals, found, self.elements, strict=True)
            ]
        return totals

    def _across_lanes(self, w: Writer, texts: list[str], lanes: int) -> list[str]:
        """Fold a vector of partial results into one, halving it."""
        left_over: list[list[str]] = []
        while lanes > 1:
            types = self.types(w, lanes)
            half = lanes // 2
            if lanes % 2:
                left_over.append(
                    [
                        w.emit.pure(f"extractelement {type} {text}, i64 {lanes - 1}")
                        for type, text in zip(types, texts, strict=True)
                    ]
                )
            halves = [
                [_part(w, type, text, start, half) for type, text in zip(types, texts, strict=True)]
                for start in (0, half)
            ]
            texts = self.combined(w, halves[0], halves[1], half if half > 1 else 0)
            lanes = half
        for parts in left_over:
            texts = self.combined(w, texts, parts, 0)
        return texts

    def finish(self, w: Writer, point: Point, parts: list[Part], *, lanes_along: bool) -> None:
        w.emit.at(self.op)
        if lanes_along:
            singles = [self._across_lanes(w, texts, lanes) for texts, lanes in parts]
            texts = singles[0]
            for other in singles[1:]:
                texts = self.combined(w, texts, other, 0)
            lanes = 0
        else:
            texts, lanes = parts[0]
        assert self.axis is not None
        place = point[: self.axis] + point[self.axis + 1 :]
        for result, text, buffer in zip(
            self.results, texts, self.buffers or [None] * len(texts), strict=True
        ):
            if buffer is None:
                w.scalars[result] = text
            else:
                w.write(buffer, place, Chunk(text, lanes))

    def publish(self, w: Writer) -> None:
        """Let others read the results."""
        for result, buffer in zip(self.results, self.buffers, strict=False):
            w.buffers[result] = buffer


def _part(w: Writer, type: str, text: str, start: int, count: int) -> str:
    if count == 1:
        return w.emit.pure(f"extractelement {type} {text}, i64 {start}")
    order = ", ".join(f"i32 {start + i}" for i in range(count))
    return w.emit.pure(f"shufflevector {type} {text}, {type} poison, <{count} x i32> <{order}>")


def _combined_apart(w: Writer, block: Block, texts: Sequence[str]) -> list[str]:
    """Run a combine region that has control flow on scalars, as the body of a kernel is written."""
    with w.temporary(), w.body(0):
        for argument, text in zip(block.arguments, texts, strict=True):
            w.scalars[argument] = text
        write_block(w, block)
        return [w.scalar(value) for value in block.yields]


def _has_branches(block: Block) -> bool:
    return any(isinstance(op, If) or op.regions for op in block.ops)


@CPU.lower(Reduce)
def reduce(w: Writer, op: Reduce) -> None:
    """Schedule a reduction; in exact mode floats are combined in the interpreter's order."""
    shape = shape_of(op.inputs[0].type)
    floats = any(getattr(element_of(v.type), "is_float", False) for v in op.inputs)
    row = combine_function(op.combine)
    reorders = row is None or row.name not in ("max", "min")
    if w.exact and floats and reorders and shape[op.axis] > 2:
        _reduce_in_order(w, op)
        return
    schedule(w, Reduction(w, op))


def kept(w: Writer, values: tuple[Value, ...], op: Op) -> list[Buffer]:
    """Write tiles to scratch memory of their own and return where."""
    buffers = [w.allocate(v) for v in values]
    w.flush()
    for value, buffer in zip(values, buffers, strict=True):
        schedule(w, Copy(value, buffer, op))
    w.flush()
    return buffers


def nested(
    w: Writer, shape: tuple[int, ...], skip: int | None, body: Callable[[list[Coordinate]], None]
) -> None:
    """Run body(point) over all axes (but one), element by element."""

    def level(axis: int, point: list[Coordinate]) -> None:
        if axis == len(shape):
            body(point)
        elif axis == skip or shape[axis] == 1:
            level(axis + 1, [*point, uniform("0")])
        else:
            w.loop(
                "0", str(shape[axis]), 1,
                lambda i, _: level(axis + 1, [*point, uniform(i)]),
            )  # fmt: skip

    level(0, [])


def _reduce_in_order(w: Writer, op: Reduce) -> None:
    """Combine neighbours, halving the axis each time, as the interpreter does."""
    shape, axis = shape_of(op.inputs[0].type), op.axis
    reduction = Reduction(w, op)
    with w.temporary():
        buffers = kept(w, op.inputs, op)
        extent = shape[axis]
        while extent > 1:
            _halve(w, reduction, buffers, shape, axis, extent)
            extent = extent // 2 + extent % 2

        def give(point: list[Coordinate]) -> None:
            with w.body(0):
                texts = [w.read(b, tuple(point)).text for b in buffers]
                reduction.finish(w, tuple(point), [(texts, 0)], lanes_along=True)

        nested(w, shape, axis, give)
    reduction.publish(w)


def _halve(
    w: Writer, reduction: Reduction, buffers: list[Buffer], shape: tuple[int, ...], axis: int,
    extent: int,
) -> None:  # fmt: skip
    def column(point: list[Coordinate]) -> None:
        def at(text: str) -> Point:
            place = list(point)
            place[axis] = uniform(text)
            return tuple(place)

        def pair(i: str, _: list[str]) -> None:
            with w.body(0):
                twice = w.emit.shift("shl", "i64", i, 1)
                next_one = w.emit.add("i64", twice, "1")
                left = [w.read(b, at(twice)).text for b in buffers]
                right = [w.read(b, at(next_one)).text for b in buffers]
                for buffer, text in zip(
                    buffers, reduction.combined(w, left, right, 0), strict=True
                ):
                    w.write(buffer, at(i), Chunk(text, 0))

        w.loop("0", str(extent // 2), 1, pair)
        if extent % 2:
            with w.body(0):
                for buffer in buffers:
                    w.write(buffer, at(str(extent // 2)), w.read(buffer, at(str(extent - 1))))

    nested(w, shape, axis, column)


@CPU.lower(Scan)
def scan(w: Writer, op: Scan) -> None:
    """Run along the axis once per column, combining as it goes."""
    shape, axis = shape_of(op.inputs[0].type), op.axis
    results = [w.allocate(r) for r in op.results]
    with w.temporary():
        inputs = kept(w, op.inputs, op)
        types = [register_type(element_of(v.type)) for v in op.inputs]
        extent = shape[axis]

        def column(point: list[Coordinate]) -> None:
            def at(text: str) -> Point:
                place = list(point)
                place[axis] = uniform(text)
                return tuple(place)

            def place_of(i: str) -> Point:
                return at(w.emit.sub("i64", str(extent - 1), i) if op.reverse else i)

            with w.body(0):
                first = place_of("0")
                start = [w.read(b, first).text for b in inputs]
                for buffer, text in zip(results, start, strict=True):
                    w.write(buffer, first, Chunk(text, 0))

            def step(i: str, held: list[str]) -> list[str]:
                with w.body(0):
                    here = place_of(i)
                    items = [w.read(b, here) for b in inputs]
                    if _has_branches(op.combine):
                        texts = [*held, *(item.text for item in items)]
                        chunks = [Chunk(t, 0) for t in _combined_apart(w, op.combine, texts)]
                    else:
                        chunks = w.combine(op.combine, [*(Chunk(h, 0) for h in held), *items])
                    for buffer, chunk in zip(results, chunks, strict=True):
                        w.write(buffer, here, chunk)
                    return [chunk.text for chunk in chunks]

            w.loop("1", str(extent), 1, step, list(zip(types, start, strict=True)))

        nested(w, shape, axis, column)
    for result, buffer in zip(op.results, results, strict=True):
        w.buffers[result] = buffer
