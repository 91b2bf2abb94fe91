"""Read-modify-write of global memory, indivisible with respect to all other atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from workbench.ir import (
    Array,
    Effect,
    Effects,
    Frame,
    Op,
    Scope,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    with_element,
)
from workbench.ops.functions import larger, smaller
from workbench.ops.memory import pointee_of
from workbench.ops.numbers import round_to
from workbench.source import KernelTypeError, ShapeError

AtomicOrder = Literal["relaxed", "acquire", "release", "acq_rel"]
AtomicFunction = Literal["add", "max", "min", "and", "or", "xor", "exchange"]
_FUNCTIONS: dict[AtomicFunction, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "max": larger,
    "min": smaller,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda _, new: new,
}


class AtomicUpdate(Op, mnemonic="tile.atomic"):
    """Replace *p by function(*p, value) at once and give the old value (0 where masked off).

    %2 = tile.atomic %0, %1 {function = "add"} : tile<4xf32>
    """

    pointers: Value
    value: Value
    mask: Value | None = None
    function: AtomicFunction = attribute(default="add")
    order: AtomicOrder = attribute(default="acq_rel")
    scope: Scope = attribute(default="gpu")

    def infer(self) -> Type:
        return with_element(self.pointers.type, pointee_of(self.pointers.type))

    def verify(self) -> None:
        _verify(self, self.pointers, self.value)

    def own_effects(self) -> Effects:
        return _update_of(self.pointers, self.order, self.scope)

    def commutes(self, other: Op) -> bool:
        return (
            isinstance(other, AtomicUpdate)
            and other.function == self.function != "exchange"
            and pointee_of(other.pointers.type) == pointee_of(self.pointers.type)
        )

    def roundings(self) -> int:
        return 1 if self.function == "add" else 0

    def interpret(self, frame: Frame) -> Array:
        element = pointee_of(self.pointers.type)
        shape = shape_of(self.pointers.type)
        addresses = np.broadcast_to(frame[self.pointers], shape).ravel()
        live = np.broadcast_to(frame.get(self.mask, True), shape).ravel()
        values = np.broadcast_to(frame[self.value], shape).ravel()
        old = round_to(np.zeros(addresses.shape), element)
        for lanes in _in_turn(addresses, live):
            places, on = addresses[lanes], live[lanes]
            before = frame.read(self, places, on, element)
            with np.errstate(all="ignore"):
                new = _FUNCTIONS[self.function](before, values[lanes])
            frame.write(self, places, on, round_to(new, element), element)
            old[lanes] = before
        return old.reshape(shape)


class AtomicCompareExchange(Op, mnemonic="tile.atomic_cas", exact=True):
    """Replace *p by value where it equals `expected`; give the old value.

    %3 = tile.atomic_cas %0, %1, %2 : i32
    """

    pointers: Value
    expected: Value
    value: Value
    order: AtomicOrder = attribute(default="acq_rel")
    scope: Scope = attribute(default="gpu")

    def infer(self) -> Type:
        return with_element(self.pointers.type, pointee_of(self.pointers.type))

    def verify(self) -> None:
        _verify(self, self.pointers, self.value)
        _verify(self, self.pointers, self.expected)

    def own_effects(self) -> Effects:
        return _update_of(self.pointers, self.order, self.scope)

    def interpret(self, frame: Frame) -> Array:
        element = pointee_of(self.pointers.type)
        shape = shape_of(self.pointers.type)
        addresses = np.broadcast_to(frame[self.pointers], shape).ravel()
        expected = np.broadcast_to(frame[self.expected], shape).ravel()
        values = np.broadcast_to(frame[self.value], shape).ravel()
        old = round_to(np.zeros(addresses.shape), element)
        for lanes in _in_turn(addresses, np.ones(addresses.shape, bool)):
            places = addresses[lanes]
            old[lanes] = frame.read(self, places, np.ones(places.shape, bool), element)
            same = old[lanes] == expected[lanes]
            frame.write(self, places, same, values[lanes], element)
        return old.reshape(shape)


def _in_turn(addresses: Array, live: Array) -> Iterator[Array | slice]:
    """Yield lanes that go to different places at a time; those of one place in their order."""
    order = np.argsort(addresses, kind="stable")
    order = order[live[order]]
    places = addresses[order]
    again = places[1:] == places[:-1]
    if not again.any():
        yield slice(None)
        return
    starts = np.flatnonzero(np.concatenate(([True], ~again)))
    lengths = np.diff(np.concatenate((starts, [len(places)])))
    turns = np.arange(len(places)) - np.repeat(starts, lengths)
    for turn in range(int(turns.max()) + 1):
        yield np.sort(order[turns == turn])


def _update_of(pointers: Value, order: AtomicOrder, scope: Scope) -> Effects:
    return (Effect("global", True, True, pointers, order, scope),)


def _verify(op: Op, pointers: Value, value: Value) -> None:
    if shape_of(pointers.type) != shape_of(value.type):
        raise ShapeError(f"{op.name} through {pointers.type} got a {value.type}", op.span)
    if element_of(value.type) != pointee_of(pointers.type):
        raise KernelTypeError(
            f"{op.name} through {pointers.type} got values of type {element_of(value.type)}",
            op.span,
        )
