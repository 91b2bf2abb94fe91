"""Rules of pointers: uniform offsets are gathered next to the base, once for all elements."""

from __future__ import annotations

from workbench.ir import INDEX, Builder, Op, Value, element_of, shape_of
from workbench.ops import AddPointer, Elementwise, Splat
from workbench.passes.rules.known import constant_of, scalar_of
from workbench.passes.rules.rule import Rule


def _plus_zero(op: AddPointer, builder: Builder) -> Value | None:
    return op.pointer if constant_of(op.offset) == 0 else None


def _uniform_offset(op: AddPointer, builder: Builder) -> Op | None:
    base = op.pointer.op
    if not isinstance(base, Splat):
        return None
    offset = scalar_of(op.offset, builder)
    if offset is None:
        return None
    return Splat(builder.add(AddPointer(base.source, offset)), base.shape)


def _uniform_offset_first(op: AddPointer, builder: Builder) -> Op | None:
    inner, shape = op.pointer.op, shape_of(op.pointer.type)
    if not shape or not isinstance(inner, AddPointer) or not isinstance(inner.pointer.op, Splat):
        return None
    offset = scalar_of(op.offset, builder)
    if offset is None:
        return None
    base = builder.add(AddPointer(inner.pointer.op.source, offset))
    return AddPointer(builder.add(Splat(base, shape)), inner.offset)


def _joined_offsets(op: AddPointer, builder: Builder) -> Op | None:
    inner = op.pointer.op
    if not isinstance(inner, AddPointer) or not isinstance(inner.pointer.op, Splat):
        return None
    if not element_of(op.offset.type) == element_of(inner.offset.type) == INDEX:
        return None
    return AddPointer(inner.pointer, builder.add(Elementwise("add", (inner.offset, op.offset))))


def _uniform_part(op: AddPointer, builder: Builder) -> Op | None:
    base, offset = op.pointer.op, op.offset.op
    if not isinstance(base, Splat) or not isinstance(offset, Elementwise):
        return None
    # Only exact integers may be added in another order.
    if offset.function != "add" or element_of(op.offset.type) != INDEX:
        return None
    for one, other in (offset.inputs, offset.inputs[::-1]):
        if isinstance(one.op, Splat):
            moved = builder.add(AddPointer(base.source, one.op.source))
            return AddPointer(builder.add(Splat(moved, base.shape)), other)
    return None


RULES: tuple[Rule, ...] = (
    Rule("pointer-plus-zero", "p + 0 = p", "p: ptr<f32>", AddPointer, _plus_zero),
    Rule("offset-before-splat", "splat(p) + splat(i) = splat(p + i)", "p: ptr<f32>, i: index",
         AddPointer, _uniform_offset),
    Rule("uniform-offset-first", "(splat(p) + x) + splat(i) = splat(p + i) + x",
         "p: ptr<f32>, i: index, x: tile<4xindex>", AddPointer, _uniform_offset_first),
    Rule("join-offsets", "(splat(p) + x) + y = splat(p) + (x + y)",
         "p: ptr<f32>, x: tile<4xindex>, y: tile<4xindex>", AddPointer, _joined_offsets),
    Rule("uniform-part-first", "splat(p) + (splat(i) + x) = splat(p + i) + x",
         "p: ptr<f32>, i: index, x: tile<4xindex>", AddPointer, _uniform_part),
)  # fmt: skip
