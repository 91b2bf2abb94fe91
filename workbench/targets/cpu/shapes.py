"""Shapes: where in its operand an element of the result lies. Nothing is moved."""

from __future__ import annotations

from math import prod

from workbench.ir import element_of, shape_of
from workbench.ops import (
    Broadcast,
    Concatenate,
    ConvertLayout,
    ExpandDims,
    Join,
    Reshape,
    Splat,
    Split,
    Transpose,
)
from workbench.targets.cpu.chunks import ZERO, Chunk, Coordinate, Point, register_type, uniform
from workbench.targets.cpu.table import CHUNKS
from workbench.targets.cpu.writer import Writer


@CHUNKS.lower(Splat)
def splat(w: Writer, op: Splat, point: Point, index: int) -> Chunk:
    return w.chunk(op.source)


@CHUNKS.lower(Broadcast)
def broadcast(w: Writer, op: Broadcast, point: Point, index: int) -> Chunk:
    source = shape_of(op.source.type)
    place = tuple(ZERO if n == 1 else c for n, c in zip(source, point, strict=True))
    return w.chunk(op.source, place)


@CHUNKS.lower(ExpandDims)
def expand_dims(w: Writer, op: ExpandDims, point: Point, index: int) -> Chunk:
    return w.chunk(op.source, point[: op.axis] + point[op.axis + 1 :])


@CHUNKS.lower(Transpose)
def transpose(w: Writer, op: Transpose, point: Point, index: int) -> Chunk:
    place = [ZERO] * len(point)
    for target, source in enumerate(op.order):
        place[source] = point[target]
    return w.chunk(op.source, tuple(place))


@CHUNKS.lower(ConvertLayout)
def convert_layout(w: Writer, op: ConvertLayout, point: Point, index: int) -> Chunk:
    return w.chunk(op.source, point)


@CHUNKS.lower(Reshape)
def reshape(w: Writer, op: Reshape, point: Point, index: int) -> Chunk:
    """Count in row-major order and back, keeping axes that both shapes have as they are."""
    source, target = shape_of(op.source.type), op.shape
    place: list[Coordinate] = []
    i = j = 0
    while i < len(source):
        # The smallest runs of axes with the same number of elements on both sides.
        i_end, j_end = i + 1, min(j + 1, len(target))
        have, want = source[i], prod(target[j:j_end])
        while have != want:
            if have < want:
                have, i_end = have * source[i_end], i_end + 1
            else:
                want, j_end = want * target[j_end], j_end + 1
        place += _regroup(w, point[j:j_end], target[j:j_end], source[i:i_end])
        i, j = i_end, j_end
    return w.chunk(op.source, tuple(place))


def _regroup(
    w: Writer, point: Point, have: tuple[int, ...], want: tuple[int, ...]
) -> list[Coordinate]:
    """Return coordinates under the shape `want` of the elements at a point under `have`."""
    big = [n for n in want if n != 1]
    moving = [c for c, n in zip(point, have, strict=True) if n != 1]
    if big == [n for n in have if n != 1]:
        rest = iter(moving)
        return [ZERO if n == 1 else next(rest) for n in want]
    emit = w.emit
    if all(c.kind == "uniform" for c in moving):
        flat = "0"
        for coordinate, n in zip(point, have, strict=True):
            flat = emit.add("i64", emit.mul("i64", flat, str(n)), coordinate.text)
        return _unflatten(w, flat, want)
    last = [d for d, n in enumerate(have) if n != 1][-1]
    inner = [n for n in want if n != 1][-1]
    if all(c.kind == "uniform" for d, c in enumerate(point) if d != last and have[d] != 1):
        found = _keep_lanes(w, point, have, want, last, inner)
        if found is not None:
            return found
    a = w.arithmetic(w.lanes)
    flat = a.integer(0, "i32")
    for coordinate, n in zip(point, have, strict=True):
        flat = a.binary("mul", "i32", flat, a.integer(n, "i32"))
        flat = a.binary("add", "i32", flat, as_vector(w, coordinate))
    places: list[Coordinate] = []
    for n in reversed(want):
        part = emit.pure(f"urem {a.type('i32')} {flat}, {a.integer(n, 'i32')}")
        flat = emit.pure(f"udiv {a.type('i32')} {flat}, {a.integer(n, 'i32')}")
        places.append(ZERO if n == 1 else Coordinate("vector", part))
    return places[::-1]


def _keep_lanes(
    w: Writer, point: Point, have: tuple[int, ...], want: tuple[int, ...], last: int, inner: int
) -> list[Coordinate] | None:
    """Keep neighbours as neighbours where no vector can straddle rows of the wanted shape."""
    lanes, own = w.lanes, have[last]
    starts_whole = own % lanes == 0 and inner % lanes == 0
    if point[last].kind != "lanes" or not (own == inner or starts_whole):
        return None
    flat = "0"
    for coordinate, n in zip(point, have, strict=True):
        flat = w.emit.add("i64", w.emit.mul("i64", flat, str(n)), coordinate.text)
    places = _unflatten(w, flat, want)
    at = [d for d, n in enumerate(want) if n != 1][-1]
    places[at] = Coordinate("lanes", places[at].text)
    return places


def _unflatten(w: Writer, flat: str, want: tuple[int, ...]) -> list[Coordinate]:
    places: list[Coordinate] = []
    for n in reversed(want):
        if n == 1:
            places.append(ZERO)
            continue
        if flat.isdigit():
            places.append(uniform(str(int(flat) % n)))
            flat = str(int(flat) // n)
            continue
        places.append(uniform(w.emit.pure(f"urem i64 {flat}, {n}")))
        flat = w.emit.pure(f"udiv i64 {flat}, {n}")
    return places[::-1]


def as_vector(w: Writer, coordinate: Coordinate) -> str:
    """Return a coordinate as a vector of i32."""
    a = w.arithmetic(w.lanes)
    if coordinate.kind == "vector":
        return coordinate.text
    base = a.spread(w.emit.trunc(coordinate.text, "i64", "i32"), "i32")
    return base if coordinate.kind == "uniform" else a.binary("add", "i32", base, a.iota("i32"))


@CHUNKS.lower(Join)
def join(w: Writer, op: Join, point: Point, index: int) -> Chunk:
    *rest, last = point
    chunks = [w.chunk(v, tuple(rest)) for v in (op.first, op.second)]
    return _choose(w, last, "0", chunks, element_type(op))


@CHUNKS.lower(Split)
def split(w: Writer, op: Split, point: Point, index: int) -> Chunk:
    return w.chunk(op.source, (*point, uniform(str(index))))


@CHUNKS.lower(Concatenate)
def concatenate(w: Writer, op: Concatenate, point: Point, index: int) -> Chunk:
    (place,) = point
    count = shape_of(op.first.type)[0]
    before, after = _clamped(w, place, "smin", count - 1, 0), _clamped(w, place, "smax", 0, count)
    chunks = [w.chunk(op.first, (before,)), w.chunk(op.second, (after,))]
    return _choose(w, place, str(count - 1), chunks, element_type(op))


def element_type(op: Join | Concatenate) -> str:
    """Return the register type of the operands."""
    return register_type(element_of(op.first.type))


def _clamped(w: Writer, place: Coordinate, how: str, bound: int, less: int) -> Coordinate:
    if place.kind == "uniform":
        moved = w.emit.add("i64", place.text, str(-less))
        return uniform(w.arithmetic(0).intrinsic(how, "i64", [moved, str(bound)]))
    a = w.arithmetic(w.lanes)
    moved = a.binary("add", "i32", as_vector(w, place), a.integer(-less, "i32"))
    return Coordinate("vector", a.intrinsic(how, "i32", [moved, a.integer(bound, "i32")]))


def _choose(w: Writer, place: Coordinate, last: str, chunks: list[Chunk], type: str) -> Chunk:
    """Return the first chunk where the coordinate is at most `last`, the second elsewhere."""
    lanes = w.lanes if place.kind != "uniform" else max(c.lanes for c in chunks)
    if place.kind == "uniform":
        if place.text.isdigit():
            return chunks[0] if int(place.text) <= int(last) else chunks[1]
        on = w.arithmetic(lanes).spread(w.emit.pure(f"icmp sle i64 {place.text}, {last}"), "i1")
    else:
        a = w.arithmetic(lanes)
        on = a.compare("icmp sle", "i32", as_vector(w, place), a.integer(int(last), "i32"))
    first, second = (w.widened(c, type, lanes) for c in chunks)
    return Chunk(w.arithmetic(lanes).select(on, first, second, type), lanes)
