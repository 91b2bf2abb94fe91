"""Rules of ops that move elements: of uniform tiles, and of one another."""

from __future__ import annotations

from typing import Any

from workbench.ir import Builder, Op, Value, shape_of
from workbench.ops import Broadcast, Constant, ExpandDims, Reshape, Splat, Transpose
from workbench.passes.rules.rule import Rule


def _same_shape(op: Any, builder: Builder) -> Value | None:
    same = shape_of(op.source.type) == shape_of(op.result.type)
    return op.source if same else None


def _of_constant(op: Any, builder: Builder) -> Op | None:
    source = op.source.op
    return Constant(source.value, op.result.type) if isinstance(source, Constant) else None


def _of_splat(op: Any, builder: Builder) -> Op | Value | None:
    source, shape = op.source.op, shape_of(op.result.type)
    if not isinstance(source, Splat):
        return None
    return Splat(source.source, shape) if shape else source.source


def _broadcast_twice(op: Broadcast, builder: Builder) -> Op | None:
    source = op.source.op
    return Broadcast(source.source, op.shape) if isinstance(source, Broadcast) else None


def _reshape_twice(op: Reshape, builder: Builder) -> Op | None:
    source = op.source.op
    return Reshape(source.source, op.shape) if isinstance(source, Reshape) else None


def _in_order(op: Transpose, builder: Builder) -> Value | None:
    return op.source if op.order == tuple(range(len(op.order))) else None


def _transpose_twice(op: Transpose, builder: Builder) -> Op | None:
    source = op.source.op
    if not isinstance(source, Transpose):
        return None
    return Transpose(source.source, tuple(source.order[i] for i in op.order))


_ALL = (Splat, Broadcast, ExpandDims, Reshape, Transpose)
RULES: tuple[Rule, ...] = (
    Rule("keep-shape", "reshape(x, 2, 4) = x", "x: tile<2x4xf32>",
         (Splat, Broadcast, ExpandDims, Reshape), _same_shape),
    Rule("reshape-constant", "splat(7) = 7", "", _ALL, _of_constant),
    Rule("reshape-splat", "expand_dims(splat(x), 1) = splat(x)", "x: f32", _ALL, _of_splat),
    Rule("broadcast-twice", "broadcast(broadcast(x, 1, 4)) = broadcast(x)", "x: tile<1x1xf32>",
         Broadcast, _broadcast_twice),
    Rule("reshape-twice", "reshape(reshape(x, 8), 4, 2) = reshape(x, 4, 2)", "x: tile<2x4xf32>",
         Reshape, _reshape_twice),
    Rule("transpose-in-order", "transpose(x, 0, 1) = x", "x: tile<2x4xf32>", Transpose, _in_order),
    Rule("transpose-twice", "transpose(transpose(x, 1, 2, 0), 1, 0, 2) = transpose(x, 2, 1, 0)",
         "x: tile<2x4x8xf32>", Transpose, _transpose_twice),
)  # fmt: skip
