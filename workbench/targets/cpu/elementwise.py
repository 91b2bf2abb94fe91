"""Constants, counting, elementwise functions and casts."""

from __future__ import annotations

from workbench.ir import Scalar, element_of
from workbench.ops import Bitcast, Cast, Constant, Elementwise, Iota, Select
from workbench.targets.cpu.chunks import Chunk, Point, register_type
from workbench.targets.cpu.functions import apply_function
from workbench.targets.cpu.numbers import convert, from_bits, to_bits
from workbench.targets.cpu.table import CHUNKS
from workbench.targets.cpu.writer import Writer


@CHUNKS.lower(Constant)
def constant(w: Writer, op: Constant, point: Point, index: int) -> Chunk:
    return Chunk(w.number(op.value, element_of(op.type)), 0)


@CHUNKS.lower(Iota)
def iota(w: Writer, op: Iota, point: Point, index: int) -> Chunk:
    (coordinate,) = point
    type = register_type(op.type.element)
    if coordinate.kind == "uniform":
        text = w.arithmetic(0).cast("trunc", coordinate.text, "i64", type)
        return Chunk(w.emit.add(type, text, str(op.start)), 0)
    a = w.arithmetic(w.lanes)
    if coordinate.kind == "vector":
        word = "sext" if type == "i64" else "trunc"
        text = a.cast(word, coordinate.text, "i32", type)
        return Chunk(a.binary("add", type, text, a.integer(op.start, type)), w.lanes)
    base = w.emit.add("i64", coordinate.text, str(op.start))
    base = w.emit.trunc(base, "i64", type)
    return Chunk(a.binary("add", type, a.spread(base, type), a.iota(type)), w.lanes)


@CHUNKS.lower(Elementwise)
def elementwise(w: Writer, op: Elementwise, point: Point, index: int) -> Chunk:
    texts, lanes = w.together(op.inputs, point)
    element = element_of(op.inputs[0].type)
    assert isinstance(element, Scalar)
    w.emit.at(op)
    return Chunk(apply_function(w.arithmetic(lanes), op.function, element, texts), lanes)


@CHUNKS.lower(Select)
def select(w: Writer, op: Select, point: Point, index: int) -> Chunk:
    condition = w.chunk(op.condition, point)
    if condition.text in ("true", "false"):
        return w.chunk(op.then if condition.text == "true" else op.otherwise, point)
    (then, otherwise), lanes = w.together((op.then, op.otherwise), point)
    type = register_type(element_of(op.then.type))
    w.emit.at(op)
    if condition.lanes and not lanes:
        lanes = condition.lanes
        a = w.arithmetic(lanes)
        then, otherwise = a.spread(then, type), a.spread(otherwise, type)
    a = w.arithmetic(lanes)
    chosen = w.widened(condition, "i1", lanes)
    return Chunk(a.select(chosen, then, otherwise, type), lanes)


@CHUNKS.lower(Cast)
def cast(w: Writer, op: Cast, point: Point, index: int) -> Chunk:
    chunk = w.chunk(op.source, point)
    source = element_of(op.source.type)
    assert isinstance(source, Scalar)
    w.emit.at(op)
    a = w.arithmetic(chunk.lanes)
    return Chunk(convert(a, chunk.text, source, op.to, op.rounding), chunk.lanes)


@CHUNKS.lower(Bitcast)
def bitcast(w: Writer, op: Bitcast, point: Point, index: int) -> Chunk:
    chunk = w.chunk(op.source, point)
    w.emit.at(op)
    a = w.arithmetic(chunk.lanes)
    bits = to_bits(a, chunk.text, element_of(op.source.type))
    return Chunk(from_bits(a, bits, op.to), chunk.lanes)
