"""Settles at compile time what intervals and divisors of exact integers decide."""

from __future__ import annotations

from workbench.analysis.affine import Affine
from workbench.analysis.ranges import FULL32, Interval, value_intervals
from workbench.ir import I32, I64, INDEX, Builder, Module, Op, Value, element_of, rebuild
from workbench.ops import Cast, Constant, Elementwise
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of


def use_intervals(module: Module, remarks: Remarks) -> Module:
    """Decide comparisons and remainders, drop truncations to 32 bits that change nothing.

    What is left of a number by one that divides it is 0: of an extent that the launch knows to be
    a multiple of 16, by 2.

    Before:
        %1 = tile.program_id {axis = 0} : index
        %0 = tile.constant {value = 0, type = index} : index
        %2 = tile.ge [%1, %0] : i1
        %3 = tile.cast %1 {to = i32} : i32
        %4 = tile.cast %3 {to = i64} : i64
    After:
        %1 = tile.program_id {axis = 0} : index
        %2 = tile.constant {value = True, type = i1} : i1
        %4 = tile.cast %1 {to = i64} : i64

    Keeps: every result. An index that stays an exact integer has an affine form, one that went
    through an i32 has none.
    """
    if not any(_may_apply(op) for op in module.walk()):
        return module
    # Not under the launch fact: that is asked of the IR that the passes leave, the same for both.
    intervals = value_intervals(module, narrow=False)
    divided = any(_divisor_of(op) for op in module.walk())
    facts = Affine(module) if divided else None
    original = {op.id: op for op in module.walk()}
    decided = remainders = 0

    def rewrite(op: Op, builder: Builder) -> Op | Value | None:
        nonlocal decided, remainders
        before = original.get(op.id, op)
        if isinstance(op, Elementwise) and isinstance(before, Elementwise):
            if facts is not None and _leaves_nothing(before, facts):
                remainders += 1
                return Constant(0, op.result.type)
            known = _decided(before, intervals)
            if known is None:
                return None
            decided += 1
            return Constant(known, op.result.type)
        if isinstance(op, Cast) and isinstance(before, Cast):
            return _without_truncation(op, before, intervals)
        return None

    found = rebuild(module, rewrite)
    if decided:
        remarks.note(None, f"{decided} comparisons are decided by the intervals of their operands")
    if remainders:
        remarks.note(None, f"{remainders} remainders are 0, of what the divisor is known to divide")
    return found


def _may_apply(op: Op) -> bool:
    if isinstance(op, Elementwise):
        compares = op.row.compares and element_of(op.inputs[0].type) == INDEX
        return compares or _divisor_of(op) > 0
    return isinstance(op, Cast) and isinstance(op.source.op, Cast)


def _divisor_of(op: Op) -> int:
    """Return the number of which an op of exact integers gives the remainder; 0: it is no such."""
    if not isinstance(op, Elementwise) or op.function != "rem":
        return 0
    if element_of(op.result.type) != INDEX:
        return 0
    return max(0, constant_of(op.inputs[1]) or 0)


def _leaves_nothing(op: Elementwise, facts: Affine) -> bool:
    divisor = _divisor_of(op)
    form = facts.form(op.inputs[0]) if divisor else None
    return form is not None and facts.divisor(form) % divisor == 0


def _decided(op: Elementwise, intervals: dict[Value, Interval]) -> bool | None:
    """Return what a comparison of exact integers always gives, None if it depends."""
    if not op.row.compares or element_of(op.inputs[0].type) != INDEX:
        return None
    a, b = (intervals.get(value) for value in op.inputs)
    if a is None or b is None:
        return None
    match op.function:
        case "lt" | "ge":
            less = True if a[1] < b[0] else False if a[0] >= b[1] else None
            return less if less is None or op.function == "lt" else not less
        case "gt" | "le":
            more = True if a[0] > b[1] else False if a[1] <= b[0] else None
            return more if more is None or op.function == "gt" else not more
        case _:
            apart = a[1] < b[0] or b[1] < a[0]
            return op.function == "ne" if apart else None


def _without_truncation(op: Cast, before: Cast, intervals: dict[Value, Interval]) -> Cast | None:
    """Widen an exact integer directly where the i32 on the way held all of it."""
    inner, old = op.source.op, before.source.op
    if not isinstance(inner, Cast) or not isinstance(old, Cast) or op.to not in (I64, INDEX):
        return None
    if inner.to != I32 or element_of(inner.source.type) != INDEX:
        return None
    interval = intervals.get(old.source)
    if interval is None or interval[0] < FULL32[0] or interval[1] > FULL32[1]:
        return None
    return Cast(inner.source, op.to)
