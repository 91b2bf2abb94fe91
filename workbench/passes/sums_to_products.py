"""Sums of products of two tiles that are broadcast against each other become matrix products."""

from __future__ import annotations

from collections import Counter
from math import prod

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
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Remarks

#: The least of both axes of the result, and of the one that is summed, that a dot is worth.
_LEAST, _LEAST_SUMMED = 8, 16
#: The least sums of a thread for which its products of f32 come from shared memory: with 16 they
#: take 8 to 27 % less time on an H100, with 8 the same, with 4 a fifth more.
_LEAST_SUMS, _LANES = 16, 32


def multiply_broadcast_tiles(module: Module, remarks: Remarks) -> Module:
    """Write a sum of products of numbers, each with each of another tile, as a dot.

    Products of f32 that were 16 bits are exact in f32, whoever multiplies. Others are
    multiply-adds of f32 ("ieee") as the sum's are, of operands in shared memory; never of tf32,
    which only who writes a dot asks for.

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

    Needs: no `exact`; of f32 that were not 16 bits, that multiply-adds are allowed and that nobody
    else reads the products.
    Keeps: every product, or its part in a multiply-add; they are added up in another order.
    """
    if module.attributes.get("exact"):
        return module
    threads = _LANES * int(module.attributes.get("num_warps", 4))
    readers = Counter(v for op in module.walk() for v in op.operands)
    #: Of whose products nothing else is made: what is computed all the same is added up there.
    alone = {op.id for op in module.walk() if isinstance(op, Reduce) and readers[op.inputs[0]] == 1}

    def pays(op: Op) -> bool:
        fused = bool(module.attributes.get("enable_fp_fusion", True)) and op.id in alone
        return fused and prod(shape_of(op.results[0].type)) >= _LEAST_SUMS * threads

    def factors(op: Op) -> tuple[_Factor, _Factor] | None:
        found = _factors(op) if isinstance(op, Reduce) else None
        return found if found and (_narrow(*found) or pays(op)) else None

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if (found := factors(op)) is None:
            return None
        (result,) = op.results
        tiles = [v for v, _ in found]
        if _narrow(*found):
            remarks.note(op, "a sum of products, each number with each of another tile: a dot")
            precision, nothing = "tf32", 0.0
        else:
            text = "a sum of products of f32, each number with each of another tile: a dot of f32"
            hint = 'tl.dot(a, b, input_precision="tf32") multiplies 10 bits of each on tensor cores'
            remarks.note(op, f"{text}; {hint}")
            tiles = [v if element_of(v.type) == F32 else builder.add(Cast(v, F32)) for v in tiles]
            precision, nothing = "ieee", -0.0  # what is added to a -0.0 and leaves it one
        zero = builder.add(Constant(nothing, result.type))
        a, b = (
            builder.add(Transpose(v, (1, 0))) if turned else v
            for v, (_, turned) in zip(tiles, found, strict=True)
        )
        return builder.add(Dot(a, b, zero, precision=precision), result.hint)

    if not any(factors(op) for op in module.walk()):
        return module
    return drop_dead(rebuild(module, rewrite), Remarks())


#: A tile of two axes, and whether it is to be transposed.
_Factor = tuple[Value, bool]


def _narrow(a: _Factor, b: _Factor) -> bool:
    """Say whether products are those of 16-bit floats of one type."""
    return element_of(a[0].type) == element_of(b[0].type) in (F16, BF16)


def _factors(op: Reduce) -> tuple[_Factor, _Factor] | None:
    """Return both operands of the dot."""
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
    return (found[second], axis < first), (found[first], second < axis)


def _without_axis(value: Value) -> tuple[Value, int] | None:
    """Return the tile of two axes that a value of f32 repeats along another one, and which.

    Of f32, or of f16 or bf16 where that is what was cast.
    """
    shape, gone, narrow = shape_of(value.type), list[int](), False
    while isinstance(op := value.op, Broadcast | ExpandDims | Cast):
        if isinstance(op, Cast):
            if narrow or element_of(op.source.type) not in (F16, BF16):
                break  # another would round, and what was no float of 16 bits stays f32
            narrow = True
        elif gone:
            break
        elif isinstance(op, ExpandDims):
            gone.append(op.axis)
        value = op.source
    same = [shape_of(value.type) == tuple(e for d, e in enumerate(shape) if d != g) for g in gone]
    return (value, gone[0]) if same == [True] else None


__all__ = ["multiply_broadcast_tiles"]
