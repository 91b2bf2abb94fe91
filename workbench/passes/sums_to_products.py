"""Sums of products of two tiles that are broadcast against each other become matrix products."""

from __future__ import annotations

from workbench.ir import BF16, F16, F32, Builder, Module, Op, Value, element_of, rebuild, shape_of
from workbench.ops import (
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    ExpandDims,
    Reduce,
    Transpose,
    combine_function,
)
from workbench.passes.manager import Remarks

#: The least of both axes of the result, and of the one that is summed, that tensor cores are worth.
_LEAST, _LEAST_SUMMED = 8, 16


def multiply_broadcast_tiles(module: Module, remarks: Remarks) -> Module:
    """Write a sum of products of numbers of 16 bits, each with each of another tile, as a dot.

    Before:
        %a = tile.splat %h {shape = (16, 32)} : tile<16x32xf16>
        %b = tile.splat %h {shape = (32, 16)} : tile<32x16xf16>
        %f = tile.cast %a {to = f32} : tile<16x32xf32>
        %g = tile.cast %b {to = f32} : tile<32x16xf32>
        %1 = tile.expand_dims %f {axis = 2} : tile<16x32x1xf32>
        %2 = tile.broadcast %1 {shape = (16, 32, 16)} : tile<16x32x16xf32>
        %3 = tile.expand_dims %g {axis = 0} : tile<1x32x16xf32>
        %4 = tile.broadcast %3 {shape = (16, 32, 16)} : tile<16x32x16xf32>
        %5 = tile.mul [%2, %4] : tile<16x32x16xf32>
        %7 = tile.reduce [%5] {axis = 1} {
        ^(%u: f32, %v: f32):
          %6 = tile.add [%u, %v] : f32
          tile.yield [%6]
        } : tile<16x16xf32>
    After:
        %a = tile.splat %h {shape = (16, 32)} : tile<16x32xf16>
        %b = tile.splat %h {shape = (32, 16)} : tile<32x16xf16>
        %8 = tile.constant {value = 0.0, type = tile<16x16xf32>} : tile<16x16xf32>
        %7 = tile.dot %a, %b, %8 : tile<16x16xf32>

    Needs: f32 that were f16 or bf16, whose products are exact in f32, and no `exact`.
    Keeps: every product; they are added up in another order.
    """
    if module.attributes.get("exact"):
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        found = _factors(op) if isinstance(op, Reduce) else None
        if found is None:
            return None
        remarks.note(op, "a sum of products, each number with each of another tile: a dot")
        a, b = (builder.add(Transpose(v, (1, 0))) if turned else v for v, turned in found)
        (result,) = op.results
        zero = builder.add(Constant(0.0, result.type))
        return builder.add(Dot(a, b, zero), result.hint)

    if not any(isinstance(op, Reduce) and _factors(op) for op in module.walk()):
        return module
    return rebuild(module, rewrite)


def _factors(op: Reduce) -> tuple[tuple[Value, bool], tuple[Value, bool]] | None:
    """Return both operands of the dot, each with whether it is to be transposed."""
    function, made = combine_function(op.combine), op.inputs[0].op
    if len(op.inputs) != 1 or function is None or function.name != "add":
        return None
    shape, axis = shape_of(op.inputs[0].type), op.axis
    if len(shape) != 3 or element_of(op.inputs[0].type) != F32:
        return None
    if not isinstance(made, Elementwise) or made.function != "mul":
        return None
    first, second = (d for d in range(3) if d != axis)
    if min(shape[first], shape[second]) < _LEAST or shape[axis] < _LEAST_SUMMED:
        return None
    found = dict[int, Value]()
    for value in made.inputs:
        if (tile := _without_axis(value)) is not None:
            found[tile[1]] = tile[0]
    if found.keys() != {first, second}:
        return None
    a, b = found[second], found[first]
    if element_of(a.type) != element_of(b.type):
        return None
    return (a, axis < first), (b, second < axis)


def _without_axis(value: Value) -> tuple[Value, int] | None:
    """Return the tile of two axes and 16 bits that a value repeats along another one, and which."""
    shape, gone, narrow = shape_of(value.type), list[int](), False
    while isinstance(op := value.op, Broadcast | ExpandDims | Cast):
        if isinstance(op, ExpandDims):
            gone.append(op.axis)
        if isinstance(op, Cast):  # only one: another would round
            if narrow or element_of(op.source.type) not in (F16, BF16):
                return None
            narrow = True
        value = op.source
        if narrow and len(gone) == 1:
            break
    if not narrow or len(gone) != 1:
        return None
    same = shape_of(value.type) == tuple(e for d, e in enumerate(shape) if d != gone[0])
    return (value, gone[0]) if same else None


__all__ = ["multiply_broadcast_tiles"]
