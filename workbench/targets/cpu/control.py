"""Control flow: scalars go round in registers, tiles in scratch memory.

A tile that a loop carries in closed form (pointers that advance by a stride) is not kept at all:
its affine form gives it. A carried tile whose next value is computed element by element from
itself is overwritten in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from workbench.ir import Block, Op, Scalar, Value, element_of, shape_of
from workbench.ops import Dot, For, If, Map, While, count_rounds
from workbench.passes.rules.known import constant_of
from workbench.targets.cpu.chunks import Chunk, Coordinate, register_type
from workbench.targets.cpu.functions import apply_function
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.reads import identity, tile_reads
from workbench.targets.cpu.reductions import kept, nested
from workbench.targets.cpu.sinks import Copy
from workbench.targets.cpu.statements import write_block
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Buffer, Writer

_INDEX = Scalar("index", "index", 64)

#: A loop that computes so many elements takes some milliseconds: nobody needs to stop it.
QUICK = 1 << 22


@dataclass
class Carried:
    """What a loop carries: scalars by position, tiles by position with their memory."""

    scalars: list[int] = field(default_factory=list[int])
    tiles: dict[int, Buffer] = field(default_factory=dict[int, "Buffer"])


def _classify(w: Writer, inits: Sequence[Value], arguments: Sequence[Value], op: Op) -> Carried:
    """Decide how each carried value goes round, and write the tiles' first values."""
    carried = Carried()
    for number, argument in enumerate(arguments):
        if not shape_of(argument.type):
            carried.scalars.append(number)
        elif w.affine.form(argument) is None:
            carried.tiles[number] = w.allocate(argument)
    for number, buffer in carried.tiles.items():
        schedule(w, Copy(inits[number], buffer, op))
    w.flush()
    return carried


def _pairs(w: Writer, carried: Carried, values: Sequence[Value]) -> list[tuple[str, str]]:
    return [
        (register_type(element_of(values[n].type)), w.scalar(values[n])) for n in carried.scalars
    ]


def _bind(w: Writer, carried: Carried, values: Sequence[Value], texts: Sequence[str]) -> None:
    for number, text in zip(carried.scalars, texts, strict=True):
        w.scalars[values[number]] = text
    for number, buffer in carried.tiles.items():
        w.buffers[values[number]] = buffer


def _yield(
    w: Writer, carried: Carried, arguments: Sequence[Value], yields: Sequence[Value], op: Op
) -> list[str]:
    """Write the tiles' next values to their memory; return the scalars' next texts."""
    moves = {
        n: (yields[n], buffer)
        for n, buffer in carried.tiles.items()
        if w.buffers.get(yields[n]) is not buffer
    }
    owners = {arguments[n]: n for n in carried.tiles}
    readers: dict[int, set[tuple[int, bool]]] = {n: set() for n in moves}
    for n, (value, _) in moves.items():
        tile_reads(w, value, identity(value), owners, readers[n])
    read_elsewhere = {reader for m in moves for reader, _ in readers[m] if reader != m}
    late: list[tuple[Buffer, Value, Buffer]] = []
    with w.temporary():
        for n, (value, buffer) in moves.items():
            own = all(same for reader, same in readers[n] if reader == n)
            others = n in read_elsewhere
            if own and not others:
                schedule(w, Copy(value, buffer, op))
                w.flush()
            else:
                aside = w.allocate(value)
                schedule(w, Copy(value, aside, op))
                w.flush()
                late.append((aside, value, buffer))
        for aside, value, buffer in late:
            before = w.buffers.get(value)
            w.buffers[value] = aside
            schedule(w, Copy(value, buffer, op))
            w.flush()
            if before is None:
                del w.buffers[value]
            else:
                w.buffers[value] = before
        return [w.scalar(yields[n]) for n in carried.scalars]


def _i64(w: Writer, value: Value) -> str:
    element = element_of(value.type)
    signed = isinstance(element, Scalar) and element.is_signed
    type = register_type(element)
    return (w.emit.sext if signed else w.emit.zext)(w.scalar(value), type, "i64")


def _trip_count(w: Writer, lower: str, upper: str, step: str) -> str:
    """Return how often the body of range(lower, upper, step) runs."""
    emit, a = w.emit, w.arithmetic(0)
    if step.lstrip("-").isdigit():
        by = int(step)
        if by == 0:
            return "0"
        distance = emit.sub("i64", upper, lower) if by > 0 else emit.sub("i64", lower, upper)
        raised = emit.add("i64", distance, str(abs(by) - 1))
        if raised.lstrip("-").isdigit():
            return str(max(0, int(raised) // abs(by)))
        positive = a.intrinsic("smax", "i64", [raised, "0"])
        return positive if abs(by) == 1 else emit.pure(f"udiv i64 {positive}, {abs(by)}")
    down = emit.pure(f"icmp slt i64 {step}, 0")
    forward, backward = emit.sub("i64", upper, lower), emit.sub("i64", lower, upper)
    distance = a.select(down, backward, forward, "i64")
    size = a.intrinsic("abs", "i64", [step], "i1 false")
    raised = emit.sub("i64", emit.add("i64", distance, size), "1")
    positive = a.intrinsic("smax", "i64", [raised, "0"])
    return apply_function(a, "div", _INDEX, [positive, size])


def _trip_count_of_all(w: Writer, op: For, lower: str, upper: str, step: str) -> str:
    """Return what `_trip_count` does, of bounds whose distance may not fit with a sign.

    (last - first - 1) // |step| + 1 where first < last, else 0.
    """
    emit, a = w.emit, w.arithmetic(0)
    element = element_of(op.lower.type)
    assert isinstance(element, Scalar)
    down = "false"
    if element.is_signed:
        down = emit.pure(f"icmp slt i64 {step}, 0")
    first, last = a.select(down, upper, lower, "i64"), a.select(down, lower, upper, "i64")
    size = a.select(down, emit.sub("i64", "0", step), step, "i64")
    any_ = emit.pure(f"icmp {'s' if element.is_signed else 'u'}lt i64 {first}, {last}")
    way = emit.sub("i64", emit.sub("i64", last, first), "1")
    rounds = emit.add("i64", emit.pure(f"udiv i64 {way}, {size}"), "1")
    return a.select(any_, rounds, "0", "i64")


def work_of(block: Block) -> int:
    """Return about how many elements are computed where each loop of unknown length runs once."""
    work = 0
    for op in block.ops:
        shapes = [shape_of(value.type) for value in (*op.results, *op.operands)]
        own = max((prod(shape) for shape in shapes), default=1)
        if isinstance(op, Dot):
            own *= shape_of(op.operands[0].type)[-1]
        inner = sum(work_of(region) for region in op.regions)
        work += own + inner * (_known_trips(op) if isinstance(op, For) else 1)
    return work


def _known_trips(op: For) -> int:
    lower, upper, step = (constant_of(value) for value in (op.lower, op.upper, op.step))
    if lower is None or upper is None or not step:
        return 1
    return count_rounds(int(lower), int(upper), int(step))


@CPU.lower(For)
def lower_for(w: Writer, op: For) -> None:
    w.flush()
    counter, *arguments = op.body.arguments
    lower, upper, step = (_i64(w, v) for v in (op.lower, op.upper, op.step))
    wraps = op.may_wrap and element_of(op.lower.type).bits > 32
    count = (
        _trip_count_of_all(w, op, lower, upper, step)
        if wraps
        else _trip_count(w, lower, upper, step)
    )
    carried = _classify(w, op.inits, arguments, op)
    w.emit.at(op)
    type = register_type(element_of(counter.type))
    long = not count.isdigit() or int(count) * work_of(op.body) > QUICK

    def body(trip: str, texts: list[str]) -> list[str]:
        if long:
            w.look_for_stop()
        w.trips[counter] = trip
        moved = w.emit.add("i64", lower, w.emit.mul("i64", trip, step))
        w.scalars[counter] = w.emit.trunc(moved, "i64", type)
        _bind(w, carried, arguments, texts)
        new = _region(w, op, op.body, carried, arguments)
        w.emit.at(op)
        return new

    hoists = not op.keeps_invariants
    names = w.loop("0", count, 1, body, _pairs(w, carried, op.inits), hoists=hoists)
    w.counts[counter] = count
    _bind(w, carried, op.results, names)


def _region(
    w: Writer, op: Op, block: Block, carried: Carried, arguments: Sequence[Value]
) -> list[str]:
    with w.temporary(), w.body(0):
        write_block(w, block)
        w.flush()
        return _yield(w, carried, arguments, block.yields, op)


@CPU.lower(While)
def lower_while(w: Writer, op: While) -> None:
    w.flush()
    emit = w.emit
    carried = _classify(w, op.inits, op.body.arguments, op)
    pairs = _pairs(w, carried, op.inits)
    emit.at(op)
    with emit.loop(hoists=not op.keeps_invariants):
        before = emit.block
        head, inside, after = emit.fresh("head"), emit.fresh("body"), emit.fresh("exit")
        emit.jump(head)
        emit.label(head)
        names = [emit.phi(type, [(text, before)]) for type, text in pairs]
        _bind(w, carried, op.condition.arguments, names)
        _bind(w, carried, op.body.arguments, names)
        with w.temporary(), w.body(0):
            write_block(w, op.condition)
            w.flush()
            go = w.scalar(op.condition.yields[0])
        emit.at(op)
        emit.branch(go, inside, after)
        emit.label(inside)
        w.look_for_stop()
        if op.id in w.waiting:
            w.tell_of_waiting()
        new = _region(w, op, op.body, carried, op.body.arguments)
        last = emit.block
        emit.at(op)
        emit.jump(head)
        for name, (type, text), following in zip(names, pairs, new, strict=True):
            emit.patch(name, f"phi {type} [ {text}, %{before} ], [ {following}, %{last} ]")
        emit.label(after)
    _bind(w, carried, op.results, names)


@CPU.lower(If)
def lower_if(w: Writer, op: If) -> None:
    w.flush()
    condition = w.scalar(op.condition)
    carried = Carried()
    for number, result in enumerate(op.results):
        if shape_of(result.type):
            carried.tiles[number] = w.allocate(result)
        else:
            carried.scalars.append(number)

    def side(block: Block) -> list[tuple[str, str]]:
        with w.temporary(), w.body(0):
            write_block(w, block)
            w.flush()
            for number, buffer in carried.tiles.items():
                schedule(w, Copy(block.yields[number], buffer, op))
                w.flush()
            found = _pairs(w, carried, block.yields)
        w.emit.at(op)
        return found

    w.emit.at(op)
    names = w.either(condition, lambda: side(op.then), lambda: side(op.otherwise))
    _bind(w, carried, op.results, names)


@CPU.lower(Map)
def lower_map(w: Writer, op: Map) -> None:
    """Run the body for one element after the other."""
    shape = shape_of(op.inputs[0].type)
    results = [w.allocate(r) for r in op.results]
    with w.temporary():
        inputs = kept(w, op.inputs, op)

        def element(point: list[Coordinate]) -> None:
            place = tuple(point)
            with w.temporary(), w.body(0):
                for argument, buffer in zip(op.body.arguments, inputs, strict=True):
                    w.scalars[argument] = w.read(buffer, place).text
                write_block(w, op.body)
                w.flush()
                for buffer, value in zip(results, op.body.yields, strict=True):
                    w.write(buffer, place, Chunk(w.scalar(value), 0))

        nested(w, shape, None, element)
    for result, buffer in zip(op.results, results, strict=True):
        w.buffers[result] = buffer
