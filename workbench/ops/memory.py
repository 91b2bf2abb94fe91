"""Addresses and global memory."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

import numpy as np

from workbench.ir import (
    NONE,
    SEEN_OUTSIDE,
    Array,
    Effects,
    Frame,
    Op,
    Pointer,
    Scalar,
    Type,
    Value,
    attribute,
    element_of,
    reads,
    shape_of,
    with_element,
    writes,
)
from workbench.ops.numbers import round_to
from workbench.source import KernelTypeError, ShapeError

LoadCache = Literal["", "ca", "cg", "cv"]
StoreCache = Literal["", "wb", "cg", "cs", "wt"]
Eviction = Literal["", "evict_first", "evict_last", "evict_normal"]


class AddPointer(Op, mnemonic="tile.add_pointer", effects=NONE, exact=True, pointwise=True):
    """Pointers moved by whole elements; offsets are signed (unsigned types: zero-extended).

    %2 = tile.add_pointer %0, %1 : tile<4xptr<f32>>
    """

    pointer: Value
    offset: Value

    def infer(self) -> Type:
        return self.pointer.type

    def verify(self) -> None:
        if shape_of(self.pointer.type) != shape_of(self.offset.type):
            raise ShapeError(
                f"a {self.pointer.type} moved by a {self.offset.type}: the shapes differ", self.span
            )
        if not isinstance(element_of(self.pointer.type), Pointer):
            raise KernelTypeError(f"{self.pointer.type} holds no pointers", self.span)

    def interpret(self, frame: Frame) -> Array:
        pointee = pointee_of(self.pointer.type)
        return frame[self.pointer] + frame[self.offset].astype(np.int64) * pointee.itemsize


class Load(Op, mnemonic="tile.load", exact=True):
    """Read one element through each pointer; masked-off lanes read `other`, or 0.

    pointers[S], mask[S] of i1, other[S]  ->  [S] of the pointee type. A masked-off pointer is
    never dereferenced, so it may point anywhere. `volatile` forbids merging and reordering; `box`
    says that the author accessed a whole box of an array (block pointers, descriptors).

        %3 = tile.load %0 mask %1 other %2 : tile<4xf32>
    """

    pointers: Value
    mask: Value | None = None
    other: Value | None = None
    cache: LoadCache = attribute(default="")
    eviction: Eviction = attribute(default="")
    volatile: bool = attribute(default=False)
    box: bool = attribute(default=False)

    def infer(self) -> Type:
        return with_element(self.pointers.type, pointee_of(self.pointers.type))

    def verify(self) -> None:
        _verify_access(self, self.mask, self.other)

    def own_effects(self) -> Effects:
        if self.volatile:
            return (reads("global", self.pointers, "relaxed", "sys"),)
        return (reads("global", self.pointers),)

    def interpret(self, frame: Frame) -> Array:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        loaded = frame.read(self, frame[self.pointers], live, element)
        return np.where(live, loaded, frame.get(self.other, round_to(0, element)))

    def where_on(self, masks: Container[Value]) -> Op:
        on = self.mask is not None and self.mask in masks
        return self.changed(mask=None, other=None) if on else self


class Store(Op, mnemonic="tile.store", exact=True):
    """Write one element through each pointer whose mask holds.

    tile.store %0, %1 mask %2
    """

    pointers: Value
    value: Value
    mask: Value | None = None
    cache: StoreCache = attribute(default="")
    eviction: Eviction = attribute(default="")
    box: bool = attribute(default=False)

    def verify(self) -> None:
        _verify_access(self, self.mask, self.value)
        element = element_of(self.pointers.type)
        if isinstance(element, Pointer) and element.constant:
            raise KernelTypeError(
                "store through a pointer to constant memory", self.span,
                hint="drop tl.const (or the 'k' of '*k…') from the parameter's annotation",
            )  # fmt: skip

    def own_effects(self) -> Effects:
        return (writes("global", self.pointers),)

    def interpret(self, frame: Frame) -> None:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        frame.write(self, frame[self.pointers], live, frame[self.value], element)

    def where_on(self, masks: Container[Value]) -> Op:
        on = self.mask is not None and self.mask in masks
        return self.changed(mask=None) if on else self


class CheckAccess(Op, mnemonic="tile.check_access", effects=SEEN_OUTSIDE):
    """End the launch where a live lane of the access that follows leaves the memory it may touch.

    `roots` are the parameters whose storage the pointers may belong to; `open` says that they were
    read from memory or made of integers, and may lead into any argument's storage, or into memory
    of the process with the right that is needed (`writes`). `access` is the id of the access in the
    kernel as it was written.

        tile.check_access %0 mask %2 {access = 7, roots = ("x",)}
    """

    pointers: Value
    mask: Value | None = None
    access: int = attribute(default=0)
    writes: bool = attribute(default=False)
    roots: tuple[str, ...] = attribute(default=())
    open: bool = attribute(default=False)

    def verify(self) -> None:
        _verify_access(self, self.mask, None)

    def interpret(self, frame: Frame) -> None:
        element = pointee_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape_of(self.pointers.type))
        frame.check(self, frame[self.pointers], live, element)


def pointee_of(type: Type) -> Scalar | Pointer:
    """Return what pointers of a tile or a scalar pointer point at."""
    element = element_of(type)
    if not isinstance(element, Pointer):
        raise KernelTypeError(f"{type} holds no pointers")
    return element.pointee


def _verify_access(op: Op, mask: Value | None, value: Value | None) -> None:
    pointers: Value = op.operands[0]
    if not isinstance(element_of(pointers.type), Pointer):
        raise KernelTypeError(
            f"{op.name} through a {pointers.type}, which holds no pointers", op.span
        )
    for other in (mask, value):
        if other is not None and shape_of(other.type) != shape_of(pointers.type):
            raise ShapeError(
                f"{op.name} through {pointers.type} got a {other.type}",
                op.span,
                hint="widen it first, e.g. mask[:, None]",
            )
    if value is not None and element_of(value.type) != pointee_of(pointers.type):
        raise KernelTypeError(
            f"{op.name} through {pointers.type} got values of type {element_of(value.type)}",
            op.span,
        )
