"""Atomics: one element after the other, in row-major order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.ir import Scalar, element_of, shape_of
from workbench.ops import AtomicCompareExchange, AtomicUpdate
from workbench.ops.memory import pointee_of
from workbench.targets.cpu.addresses import address_of
from workbench.targets.cpu.chunks import (
    Chunk,
    Coordinate,
    Point,
    memory_type,
    register_type,
)
from workbench.targets.cpu.functions import apply_function
from workbench.targets.cpu.memory import alignment
from workbench.targets.cpu.numbers import from_memory, to_memory
from workbench.targets.cpu.reductions import nested
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Writer

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_INTEGER = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


def _each(w: Writer, op: Any, change: Callable[[Point], str]) -> None:
    """Run `change` on every element whose mask is on; its results become the op's result."""
    w.flush()
    result = op.results[0]
    shape = shape_of(result.type)
    type = register_type(element_of(result.type))
    element = element_of(result.type)
    buffer = w.allocate(result) if shape and result in w.plan.users else None

    def one(point: list[Coordinate]) -> None:
        with w.body(0):
            place: Point = tuple(point)
            mask = getattr(op, "mask", None)
            on = w.chunk(mask, place).text if mask is not None else "true"
            w.emit.at(op)
            if on == "true":
                text = change(place)
            else:
                zero = w.number(0, element)
                text = w.either(
                    on, lambda: [(type, change(place))], lambda: [(type, zero)]
                )[0]  # fmt: skip
            if buffer is not None:
                w.write(buffer, place, Chunk(text, 0))
            elif not shape:
                w.scalars[result] = text

    nested(w, shape, None, one)
    if buffer is not None:
        w.buffers[result] = buffer


def _place(w: Writer, op: Any, point: Point) -> str:
    address = address_of(w, op.pointers, point).text
    return w.emit.pure(f"inttoptr i64 {address} to ptr")


@CPU.lower(AtomicUpdate)
def atomic_update(w: Writer, op: AtomicUpdate) -> None:
    element = pointee_of(op.pointers.type)
    stored = memory_type(element)
    order = _ORDERS[op.order]
    a = w.arithmetic(0)

    def change(point: Point) -> str:
        place = _place(w, op, point)
        value = w.chunk(op.value, point).text
        w.emit.at(op)
        word = _instruction(op, element)
        if word is None:
            return _update_by_exchange(w, op, place, value, element)
        text = w.emit.effect(
            f"atomicrmw {word} ptr {place}, {stored} {to_memory(a, value, element)} {order}, "
            f"align {alignment(stored)}"
        )
        return from_memory(a, text, element)

    _each(w, op, change)


def _instruction(op: AtomicUpdate, element: Any) -> str | None:
    """Return the atomicrmw operation, None where there is none for the type."""
    if op.function == "exchange":
        return "xchg"
    if isinstance(element, Scalar) and element.is_float:
        return "fadd" if op.function == "add" and element.bits >= 32 else None
    if op.function in ("max", "min"):
        signed = isinstance(element, Scalar) and element.kind in ("int", "index")
        return op.function if signed else f"u{op.function}"
    return _INTEGER[op.function]


def _update_by_exchange(w: Writer, op: AtomicUpdate, place: str, value: str, element: Any) -> str:
    """Compare and exchange until nobody came between."""
    emit, a = w.emit, w.arithmetic(0)
    stored = memory_type(element)
    bits = stored if stored[0] == "i" else f"i{element.bits}"
    align, order = alignment(stored), _ORDERS[op.order]
    with emit.loop():
        before = emit.block
        first = emit.effect(f"load atomic {bits}, ptr {place} monotonic, align {align}")
        again, done = emit.fresh("again"), emit.fresh("done")
        emit.jump(again)
        emit.label(again)
        seen = emit.phi(bits, [(first, before)])
        old = from_memory(a, a.cast("bitcast", seen, bits, stored), element)
        new = apply_function(a, op.function, element, [old, value])
        written = a.cast("bitcast", to_memory(a, new, element), stored, bits)
        pair = emit.effect(
            f"cmpxchg ptr {place}, {bits} {seen}, {bits} {written} {order} monotonic, align {align}"
        )
        found = emit.pure(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        good = emit.pure(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
        emit.patch(seen, f"phi {bits} [ {first}, %{before} ], [ {found}, %{emit.block} ]")
        emit.branch(good, done, again)
        emit.label(done)
    return old


@CPU.lower(AtomicCompareExchange)
def atomic_compare_exchange(w: Writer, op: AtomicCompareExchange) -> None:
    element = pointee_of(op.pointers.type)
    stored = memory_type(element)
    bits = stored if stored[0] == "i" else f"i{element.bits}"
    order = _ORDERS[op.order]
    failure = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
    a = w.arithmetic(0)

    def change(point: Point) -> str:
        place = _place(w, op, point)
        texts = [
            a.cast("bitcast", to_memory(a, w.chunk(v, point).text, element), stored, bits)
            for v in (op.expected, op.value)
        ]
        w.emit.at(op)
        pair = w.emit.effect(
            f"cmpxchg ptr {place}, {bits} {texts[0]}, {bits} {texts[1]} {order} {failure}, "
            f"align {alignment(stored)}"
        )
        old = w.emit.pure(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        return from_memory(a, a.cast("bitcast", old, bits, stored), element)

    _each(w, op, change)
