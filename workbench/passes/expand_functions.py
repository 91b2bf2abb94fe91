"""Writes functions that a target does not have in terms of those that it has."""

from __future__ import annotations

from workbench.ir import F32, F64, Builder, Module, Op, Scalar, Value, element_of, rebuild
from workbench.ops import Cast, Elementwise
from workbench.passes.formulas import FORMULAS
from workbench.passes.formulas.terms import Native, terms_for
from workbench.passes.manager import Remarks


def expand_functions(module: Module, remarks: Remarks, native: Native) -> Module:
    """Replace elementwise functions by formulas where `native(function, element)` is false.

    Before:
        %1 = tile.hypot [%a, %b] : f32
    After:
        %2 = tile.abs [%a] : f32
        ...
        %1 = tile.select %8, %inf, %7 : f32

    Keeps: results to within the formulas' errors. Functions of 16 and 8 bits are computed in f32.
    """

    def missing(op: Op) -> bool:
        if not isinstance(op, Elementwise) or op.function not in FORMULAS:
            return False
        element = element_of(op.inputs[0].type)
        return isinstance(element, Scalar) and element.is_float and not native(op.function, element)

    found = {op.function for op in module.walk() if missing(op) and isinstance(op, Elementwise)}
    if not found:
        return module
    remarks.note(None, f"computed by formulas: {', '.join(sorted(found))}")

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if not missing(op) or not isinstance(op, Elementwise):
            return None
        element = element_of(op.inputs[0].type)
        assert isinstance(element, Scalar)
        if element in (F32, F64):
            terms = terms_for(builder, op.inputs[0], native)
            return FORMULAS[op.function](terms, *op.inputs)
        wide = [builder.add(Cast(value, F32)) for value in op.inputs]
        terms = terms_for(builder, wide[0], native)
        return builder.add(Cast(terms.call(op.function, *wide), element))

    return rebuild(module, rewrite)
