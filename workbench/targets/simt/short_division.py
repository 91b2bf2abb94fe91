"""Divisions of 64 bits that a division of 32 bits does for.

Chips divide numbers of 64 bits by a subroutine: some 75 instructions for quotients, as many again
for remainders, and a branch around each call. Indices that may exceed 32 bits are divided by each
other, or divide what has 32 bits, more often than they are large.
"""

from __future__ import annotations

from workbench.ir import I64, INDEX, Scalar, Value, element_of
from workbench.ops import Cast, Constant, Elementwise
from workbench.targets.llvm.emit import Emitter, is_integer
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.short_numbers import LEAST, MOST, nearest_in_32


def short_quotient(low: Lowering, op: Elementwise, inputs: list[str]) -> str | None:
    """Return a quotient or remainder of 64 bits, None where 32 bits may not tell it.

    They do of two numbers that have 32 bits each, and where what is divided is near enough to 0
    (`Elementwise.near`): by a number that exceeds 32 bits it gives 0 and is left as it is, and so
    it is by the nearest number that does not.
    """
    if element_of(op.result.type) != I64 or not low.module.attributes.get("short_division", True):
        return None
    a, b = op.inputs
    fits = _has_32_bits(b)
    if not op.near and not (fits and _has_32_bits(a)):
        return None
    x, y = inputs
    if is_integer(y) and (abs(int(y)).bit_count() < 2 or not _within(int(y))):
        return None  # a shift, or what no launch divides by
    counts = op.near and all(map(low.affine.not_negative, op.inputs))
    emit = low.emit
    y = emit.trunc(y, "i64", "i32") if fits or is_integer(y) else nearest_in_32(emit, y)
    return divided_in_32(emit, op.function, x, y, near=op.near, counts=counts)


def divided_in_32(
    emit: Emitter, function: str, a: str, b: str, *, near: bool, counts: bool
) -> str:  # fmt: skip
    """Divide a number of 64 bits that fits 32 by an i32, as i64; by zero 0, and all is left.

    `near` says that the first is nearer to 0 than 2^31 - 1: only -2^31 / -1 exceeds 32 bits.
    `counts` says that neither is negative.
    """
    x, y = emit.trunc(a, "i64", "i32"), b
    sign, widened = ("u", emit.zext) if counts else ("s", emit.sext)
    if is_integer(y):
        return widened(emit.pure(f"{sign}{function} i32 {x}, {y}"), "i32", "i64")
    zero = emit.pure(f"icmp eq i32 {y}, 0")
    safe = emit.pure(f"select i1 {zero}, i32 1, i32 {y}")
    if near:
        found = emit.pure(f"{sign}{function} i32 {x}, {safe}")
        given = "0" if function == "div" else x
        return widened(emit.pure(f"select i1 {zero}, i32 {given}, i32 {found}"), "i32", "i64")
    minus = emit.pure(f"icmp eq i32 {y}, -1")
    safe = emit.pure(f"select i1 {minus}, i32 1, i32 {safe}")
    found = emit.sext(emit.pure(f"s{function} i32 {x}, {safe}"), "i32", "i64")
    if function == "rem":  # by 1 nothing is left, as by -1
        return emit.pure(f"select i1 {zero}, i64 {a}, i64 {found}")
    found = emit.pure(f"select i1 {minus}, i64 {emit.sub('i64', '0', a)}, i64 {found}")
    return emit.pure(f"select i1 {zero}, i64 0, i64 {found}")


def _within(number: int) -> bool:
    return LEAST <= number <= MOST


def _has_32_bits(value: Value) -> bool:
    """Say whether a number of 64 bits is made of one of 32, or of a constant of so many."""
    op = value.op
    while op is not None and op.moves:
        op = op.operands[0].op
    if isinstance(op, Constant):
        return _within(int(op.value))
    if not isinstance(op, Cast):
        return False
    element = element_of(op.source.type)
    if not isinstance(element, Scalar) or not element.is_integer or element == INDEX:
        return False
    return element.bits - (element.kind == "int") < 32


__all__ = ["divided_in_32", "short_quotient"]
