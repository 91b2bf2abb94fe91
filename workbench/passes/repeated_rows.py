"""Rows that a product has several times, and whose results are added up, are multiplied once."""

from __future__ import annotations

from collections import Counter
from math import prod

from workbench.analysis.products import repeated
from workbench.ir import Builder, Module, Op, Tile, Value, element_of, rebuild, shape_of
from workbench.ops import Constant, Dot, Elementwise, Reduce, Reshape, combine_function
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of


def multiply_rows_once(module: Module, remarks: Remarks) -> Module:
    """Write the sum over copies of a product's rows as a multiple of the product of one of each.

    Authors repeat rows until there are as many as Triton's products ask for.

    Before:
        %a = tile.splat %x {shape = (8, 16)} : tile<8x16xf32>
        %b = tile.splat %y {shape = (16, 16)} : tile<16x16xf32>
        %1 = tile.expand_dims %a {axis = 1} : tile<8x1x16xf32>
        %2 = tile.broadcast %1 {shape = (8, 2, 16)} : tile<8x2x16xf32>
        %3 = tile.reshape %2 {shape = (16, 16)} : tile<16x16xf32>
        %z = tile.constant {value = 0.0, type = tile<16x16xf32>} : tile<16x16xf32>
        %4 = tile.dot %3, %b, %z : tile<16x16xf32>
        %5 = tile.reshape %4 {shape = (8, 2, 16)} : tile<8x2x16xf32>
        %7 = tile.reduce [%5] {axis = 1} {
        ^(%u: f32, %v: f32):
          %6 = tile.add [%u, %v] : f32
          tile.yield [%6]
        } : tile<8x16xf32>
    After:
        %a = tile.splat %x {shape = (8, 16)} : tile<8x16xf32>
        %b = tile.splat %y {shape = (16, 16)} : tile<16x16xf32>
        %8 = tile.constant {value = 0.0, type = tile<8x16xf32>} : tile<8x16xf32>
        %9 = tile.dot %a, %b, %8 : tile<8x16xf32>
        %10 = tile.constant {value = 2.0, type = tile<8x16xf32>} : tile<8x16xf32>
        %7 = tile.mul [%9, %10] : tile<8x16xf32>

    Needs: a power of two of copies, which lie behind one another; a product that is used once and
    starts at zero.
    Keeps: every result; equal floats are doubled without rounding.
    """
    uses = Counter(value for op in module.walk() for value in op.operands)
    found = {
        op.id
        for op in module.walk()
        if isinstance(op, Reduce) and _is_used_once(op, uses) and _product_of_copies(op)
    }
    if not found:
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if op.id not in found or not isinstance(op, Reduce):
            return None
        product = _product_of_copies(op)
        assert product is not None
        dot, rows, copies = product
        shape = (*shape_of(rows.type)[:-1], shape_of(dot.result.type)[-1])
        type = Tile(shape, element_of(dot.result.type))
        zero = builder.add(Constant(0.0, type))
        limit = dot.imprecise_limit
        once = builder.add(
            Dot(rows, dot.b, zero, precision=dot.precision, imprecise_limit=limit), dot.result.hint
        )
        remarks.note(op, f"rows that were repeated {copies} times are multiplied once")
        factor = builder.add(Constant(float(copies), type))
        total = builder.add(Elementwise("mul", (once, factor)))
        (result,) = op.results
        if shape_of(result.type) == shape:
            return total
        return builder.add(Reshape(total, shape_of(result.type)), result.hint)

    return rebuild(module, rewrite)


def _is_used_once(op: Reduce, uses: Counter[Value]) -> bool:
    apart = op.inputs[0].op
    return isinstance(apart, Reshape) and uses[apart.result] == uses[apart.source] == 1


def _product_of_copies(op: Reduce) -> tuple[Dot, Value, int] | None:
    """Return the product, the rows that it has several times, and how often, if op sums copies."""
    function = combine_function(op.combine)
    if len(op.inputs) != 1 or function is None or function.name != "add":
        return None
    apart = op.inputs[0].op
    dot = apart.source.op if isinstance(apart, Reshape) else None
    if not isinstance(apart, Reshape) or not isinstance(dot, Dot) or dot.factors is not None:
        return None
    shape, copied, axis = shape_of(apart.result.type), dot.a.op, op.axis
    copies = shape[axis]
    if copies & (copies - 1) or prod(shape[axis + 1 :]) != shape_of(dot.result.type)[-1]:
        return None
    if constant_of(dot.accumulator) != 0:
        return None
    if not element_of(dot.result.type).is_float or not isinstance(copied, Reshape):
        return None
    rows = repeated(copied, len(shape_of(dot.a.type)) - 2)
    if rows is None or shape_of(dot.a.type)[-2] != copies * shape_of(rows.type)[-2]:
        return None
    return dot, rows, copies
