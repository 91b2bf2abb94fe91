"""Comparisons of sums whose registers differ by constants: the rest is subtracted once for all.

A causal mask asks of each element whether `row + 8 >= column + 16`. Rows and columns are the same
number for all registers of a thread, and what is asked is `column - row <= -8`: one comparison
with a constant, which registers on one diagonal share. Numbers of 64 bits take two instructions to
compare and two to add; the difference, cut to 32 bits, takes one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from workbench.ir import Scalar, shape_of
from workbench.ops import Elementwise
from workbench.targets.llvm.emit import Emitter, is_integer
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.short_numbers import MOST, difference_in_32, nearest_in_32

#: What has to be saved, in instructions: more than a difference and its cut to 32 bits take. Where
#: they come to the same a loop waits for the difference: decoding, whose 16 numbers of 64 bits
#: saved 16, took 1.02 to 1.03 of its time (an H200); and LLVM may count a loop by the difference,
#: which ptxas then keeps in threads: attention of D 64 by 64x64 had 31 R2UR more.
_SAVED = 16
#: How each comparison of integers is called by LLVM, of those with a sign.
_NAMES = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def compared_together(
    low: Lowering, op: Elementwise, element: Scalar, registers: Sequence[int]
) -> Callable[[int], str | None]:
    """Return what compares a register by the difference that it shares, None for one alone."""
    if not (
        shape_of(op.result.type)
        and element.kind == "int"
        and element.bits in (32, 64)
        and low.module.attributes.get("compare_together", True)
        and (element.bits == 32 or op.near)
        and len(registers) * element.bits // 32 > _SAVED
    ):
        return lambda r: None
    found: set[int] | None = None

    def register(r: int) -> str | None:
        nonlocal found
        if found is None:
            found = _shared(low, op, element, registers)
        if r not in found:
            return None
        (a, x), (b, y) = (low.pair(v, r) for v in op.inputs)
        return compare_difference(low.emit, op.function, element, b, a, x - y)

    return register


def _shared(low: Lowering, op: Elementwise, element: Scalar, registers: Sequence[int]) -> set[int]:
    """Return the registers for which differences are less work than comparisons of their own."""
    groups: dict[tuple[str, str], dict[int, tuple[int, int]]] = defaultdict(dict)
    for r in registers:
        (a, x), (b, y) = (low.pair(v, r) for v in op.inputs)
        if not (is_integer(a) and is_integer(b)) and abs(x - y) < MOST:
            groups[a, b][r] = x, y
    found = set[int]()
    for group in groups.values():
        sums = set(group.values())
        alone = len(sums) * element.bits // 32
        if len({x - y for x, y in sums}) + _SAVED < alone:
            found.update(group)
    return found


def compare_difference(
    emit: Emitter, function: str, element: Scalar, b: str, a: str, constant: int
) -> str:
    """Return an i1: whether a constant compares to b - a, of which no end of 64 bits is near.

    The constant is no end of 32 bits, so that beside what lies beyond these it compares as it does
    beside their end.
    """
    if element.bits == 32:
        difference = difference_in_32(emit, b, a)
    else:
        difference = nearest_in_32(emit, emit.sub("i64", b, a))
    return emit.pure(f"icmp {_NAMES[function]} i32 {constant}, {difference}")


__all__ = ["compare_difference", "compared_together"]
