"""Arithmetic on 8-bit floats, for targets that have none."""

from __future__ import annotations

from workbench.ir import (
    F32,
    F64,
    I32,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    rebuild,
    with_element,
)
from workbench.ops import Bitcast, Cast, Constant, Elementwise, Select
from workbench.ops.numbers import compute_element, round_to
from workbench.ops.small_floats import SMALL_FLOATS
from workbench.passes.manager import Remarks

#: What targets may approximate in f32, as what is exact for operands of so few bits: quotients of
#: e5m2 have up to 33 bits before the point, which a remainder needs all.
_EXACTLY = {"div": ("div_rn", F32), "rem": ("rem", F64)}


def widen_small_floats(module: Module, remarks: Remarks) -> Module:
    """Compute functions of 8-bit floats in the type that holds them, each rounded as a cast is.

    Before:
        %1 = tile.add [%small, %tiny] : f8e4m3
    After:
        %2 = tile.cast %small {to = f32} : f32
        %3 = tile.cast %tiny {to = f32} : f32
        %4 = tile.add [%2, %3] : f32
        %1 = tile.cast %4 {to = f8e4m3} : f8e4m3

    Keeps: results, bit for bit. Nothing is rounded after a comparison, and the larger or smaller
    of two is one of them: a rounding would make the largest finite number of an infinity.
    """
    found = {element for op in module.walk() if (element := _small_float(op)) is not None}
    if not found:
        return module
    names = ", ".join(sorted(map(str, found)))
    remarks.note(None, f"arithmetic on {names} is computed in f32 and rounded after each function")

    def rewrite(op: Op, builder: Builder) -> Value | None:
        element = _small_float(op)
        if element is None or not isinstance(op, Elementwise):
            return None
        name, to = _EXACTLY.get(op.function, (op.function, compute_element(element)))
        wide = [_widened(builder, value, to) for value in op.inputs]
        result = builder.add(Elementwise(name, tuple(wide)))
        if op.row.compares:
            return result
        if op.row.chooses:
            return _chosen(builder, result, wide, op.inputs)
        return builder.add(Cast(result, element))

    return rebuild(module, rewrite)


def _small_float(op: Op) -> Scalar | None:
    """Return the 8-bit float that an op computes in, None for any other op."""
    element = element_of(op.inputs[0].type) if isinstance(op, Elementwise) else None
    return element if isinstance(element, Scalar) and element in SMALL_FLOATS else None


def _chosen(
    builder: Builder, result: Value, wide: list[Value], operands: tuple[Value, ...]
) -> Value:
    """Return the first of two operands where it has the result's bits or is NaN, or the second."""
    have, found = (builder.add(Bitcast(value, I32)) for value in (wide[0], result))
    first = builder.add(Elementwise("eq", (have, found)))
    lost = builder.add(Elementwise("ne", (wide[0], wide[0])))
    both_lost = builder.add(Elementwise("ne", (result, result)))
    lost = builder.add(Elementwise("and", (lost, both_lost)))
    first = builder.add(Elementwise("or", (first, lost)))
    return builder.add(Select(first, *operands))


def _widened(builder: Builder, value: Value, to: Scalar) -> Value:
    """Return a value in a wider type; what is known at compile time needs no instruction."""
    known, element = value.op, element_of(value.type)
    if isinstance(known, Constant):
        number = round_to(known.value, element).item()
        return builder.add(Constant(number, with_element(value.type, to)))
    return builder.add(Cast(value, to))
