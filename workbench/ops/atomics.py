"""Read-modify-write of global memory, indivisible with respect to all other atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from workbench.ir import (
    Array,
    Frame,
    Op,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    with_element,
)
from workbench.ops.memory import pointee_of
from workbench.ops.numbers import round_to
from workbench.source import KernelTypeError, ShapeError

Order = Literal["relaxed", "acquire", "release", "acq_rel"]
Scope = Literal["cta", "gpu", "sys"]
AtomicFunction = Literal["add", "max", "min", "and", "or", "xor", "exchange"]
_FUNCTIONS: dict[AtomicFunction, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "max": np.fmax,
    "min": np.fmin,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda _, new: new,
}


class AtomicUpdate(Op, mnemonic="tile.atomic", pure=False):
    """Replace *p by function(*p, value) at once and give the old value (0 where masked off).

    %2 = tile.atomic %0, %1 {function = "add"} : tile<4xf32>
    """

    pointers: Value
    value: Value
    mask: Value | None = None
    function: AtomicFunction = attribute(default="add")
    order: Order = attribute(default="acq_rel")
    scope: Scope = attribute(default="gpu")

    def infer(self) -> Type:
        return with_element(self.pointers.type, pointee_of(self.pointers.type))

    def verify(self) -> None:
        _verify(self, self.pointers, self.value)

    def interpret(self, frame: Frame) -> Array:
        element = pointee_of(self.pointers.type)
        shape = shape_of(self.pointers.type)
        addresses = np.broadcast_to(frame[self.pointers], shape).ravel()
        live = np.broadcast_to(frame.get(self.mask, True), shape).ravel()
        values = np.broadcast_to(frame[self.value], shape).ravel()
        old = round_to(np.zeros(addresses.shape), element)
        for i in np.flatnonzero(live):
            one, on = addresses[i : i + 1], live[i : i + 1]
            old[i] = frame.read(self, one, on, element)[0]
            with np.errstate(all="ignore"):
                new = _FUNCTIONS[self.function](old[i : i + 1], values[i : i + 1])
            frame.write(self, one, on, round_to(new, element), element)
        return old.reshape(shape)


class AtomicCompareExchange(Op, mnemonic="tile.atomic_cas", pure=False):
    """Replace *p by value where it equals `expected`; give the old value.

    %3 = tile.atomic_cas %0, %1, %2 : i32
    """

    pointers: Value
    expected: Value
    value: Value
    order: Order = attribute(default="acq_rel")
    scope: Scope = attribute(default="gpu")

    def infer(self) -> Type:
        return with_element(self.pointers.type, pointee_of(self.pointers.type))

    def verify(self) -> None:
        _verify(self, self.pointers, self.value)
        _verify(self, self.pointers, self.expected)

    def interpret(self, frame: Frame) -> Array:
        element = pointee_of(self.pointers.type)
        shape = shape_of(self.pointers.type)
        addresses = np.broadcast_to(frame[self.pointers], shape).ravel()
        expected = np.broadcast_to(frame[self.expected], shape).ravel()
        values = np.broadcast_to(frame[self.value], shape).ravel()
        old = round_to(np.zeros(addresses.shape), element)
        for i in range(addresses.size):
            one = addresses[i : i + 1]
            old[i] = frame.read(self, one, np.ones(1, bool), element)[0]
            same = np.asarray([old[i] == expected[i]])
            frame.write(self, one, same, values[i : i + 1], element)
        return old.reshape(shape)


def _verify(op: Op, pointers: Value, value: Value) -> None:
    if shape_of(pointers.type) != shape_of(value.type):
        raise ShapeError(f"{op.name} through {pointers.type} got a {value.type}", op.span)
    if element_of(value.type) != pointee_of(pointers.type):
        raise KernelTypeError(
            f"{op.name} through {pointers.type} got values of type {element_of(value.type)}",
            op.span,
        )
