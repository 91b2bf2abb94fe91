"""Products of f32 in parts that tensor cores read: tf32x3, bf16x3, bf16x6."""

from __future__ import annotations

from workbench.ir import (
    BF16,
    F32,
    I32,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import Bitcast, Cast, Constant, Dot, Elementwise
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of

#: precision -> type of a part, parts, which products of parts are added up, the smallest first
_SPLITS: dict[str, tuple[Scalar, int, tuple[tuple[int, int], ...]]] = {
    "tf32x3": (F32, 2, ((1, 0), (0, 1), (0, 0))),
    "bf16x3": (BF16, 2, ((1, 0), (0, 1), (0, 0))),
    "bf16x6": (BF16, 3, ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))),
}
#: The largest finite number of a type, and half a unit in the last place that tf32 has.
_LARGEST = {F32: float.fromhex("0x1.ffcp127"), BF16: float.fromhex("0x1.fep127")}
_HALF, _KEPT = 0x1000, -0x2000
#: How much of K an instruction takes, by type.
_TAKES = {F32: 8, BF16: 16}


def split_operands(module: Module, remarks: Remarks) -> Module:
    """Write a product whose f32 operands are asked for in parts as products of those parts.

    Before:
        %a = tile.splat %x {shape = (16, 16)} : tile<16x16xf32>
        %c = tile.constant {value = 0.0, type = tile<16x16xf32>} : tile<16x16xf32>
        %d = tile.dot %a, %a, %c {precision = "bf16x3"} : tile<16x16xf32>
    After:
        %a = tile.splat %x {shape = (16, 16)} : tile<16x16xf32>
        %c = tile.constant {value = 0.0, type = tile<16x16xf32>} : tile<16x16xf32>
        %1 = tile.constant {value = 3.3895313892515355e+38, type = tile<16x16xf32>} : tile<16x16xf32>
        %2 = tile.constant {value = -3.3895313892515355e+38, type = tile<16x16xf32>} : tile<16x16xf32>
        %3 = tile.min [%a, %1] : tile<16x16xf32>
        %4 = tile.max [%3, %2] : tile<16x16xf32>
        %5 = tile.cast %4 {to = bf16} : tile<16x16xbf16>
        %6 = tile.cast %5 {to = f32} : tile<16x16xf32>
        %7 = tile.sub [%a, %6] : tile<16x16xf32>
        %8 = tile.cast %7 {to = bf16} : tile<16x16xbf16>
        %z = tile.constant {value = 0.0, type = tile<16x16xf32>} : tile<16x16xf32>
        %9 = tile.dot %8, %5, %z : tile<16x16xf32>
        %10 = tile.dot %5, %8, %9 : tile<16x16xf32>
        %d = tile.dot %5, %5, %10 : tile<16x16xf32>

    A first part is the nearest number that is not infinite, so that what is left of an infinity is
    one, of a NaN a NaN: no product of parts is infinity times a 0 that the operand is not.
    What was summed before is added behind them: a tensor core cuts what it adds to a large sum,
    2,048 terms were off by 2**-16 so, whatever the parts (an H100).

    Needs: as much of K as an instruction takes, and no `exact`.
    Keeps: the product up to what the parts do not hold.
    """  # noqa: E501
    if module.attributes.get("exact") or not any(
        isinstance(op, Dot) and _split_of(op) for op in module.walk()
    ):
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        found = _split_of(op) if isinstance(op, Dot) else None
        if found is None:
            return None
        assert isinstance(op, Dot)
        kind, count, products = found
        name = "tf32" if kind == F32 else str(kind)
        remarks.note(op, f"{op.precision}: {len(products)} products of parts in {name}")
        a = _parts(op.a, kind, count, builder)
        b = a if op.b is op.a else _parts(op.b, kind, count, builder)
        total = builder.add(Constant(0.0, op.accumulator.type))
        for left, right in products:
            total = builder.add(Dot(a[left], b[right], total), op.result.hint)
        if constant_of(op.accumulator) == 0:
            return total
        return builder.add(Elementwise("add", (op.accumulator, total)), op.result.hint)

    return rebuild(module, rewrite)


def _split_of(op: Dot) -> tuple[Scalar, int, tuple[tuple[int, int], ...]] | None:
    """Return what a product is split into; None if it is none of f32 in parts, or none fits."""
    found = _SPLITS.get(op.precision)
    operands = {element_of(value.type) for value in (op.a, op.b, op.accumulator)}
    if found is None or op.factors is not None or operands != {F32}:
        return None
    return found if 1 << (shape_of(op.a.type)[-1] - 1).bit_length() >= _TAKES[found[0]] else None


def _parts(value: Value, kind: Scalar, count: int, builder: Builder) -> list[Value]:
    """Return parts whose sum is a value, each as near as its type holds to what is left."""
    found: list[Value] = []
    left = value
    for number in range(count):
        last = number == count - 1
        if last:
            part = left if kind == F32 else builder.add(Cast(left, kind))
        else:
            part = _rounded(left, kind, builder)
        found.append(part)
        if not last:
            wide = part if kind == F32 else builder.add(Cast(part, F32))
            left = builder.add(Elementwise("sub", (left, wide)))
    return found


def _rounded(value: Value, kind: Scalar, builder: Builder) -> Value:
    """Return the nearest finite number of a type."""
    limit = _LARGEST[kind]
    most, least = (builder.add(Constant(bound, value.type)) for bound in (limit, -limit))
    value = builder.add(Elementwise("max", (builder.add(Elementwise("min", (value, most))), least)))
    if kind != F32:
        return builder.add(Cast(value, kind))
    # tf32 has the exponent of f32 and 10 bits of its mantissa: half of what the last one counts is
    # added, what is below it goes.
    bits = builder.add(Bitcast(value, I32))
    half, kept = (builder.add(Constant(word, bits.type)) for word in (_HALF, _KEPT))
    bits = builder.add(Elementwise("add", (bits, half)))
    bits = builder.add(Elementwise("and", (bits, kept)))
    return builder.add(Bitcast(bits, F32))


__all__ = ["split_operands"]
