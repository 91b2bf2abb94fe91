"""A kernel whose work stands in a branch, behind an early return for example, without the branch.

    if no rows are left:         runs = rows are left
        return                   q = load p if runs
    q = load p                   for i in first … (last if runs else first):
    for i in first … last:           ...
        ...                      store s if runs
    store s

Warps part at the top of a kernel (roles.py), and a producer's loop is one that its consumers have,
too. A program that returned early goes through what is left: it touches nothing, in no rounds.

What the author promises in the branch, and what only fits there, need not hold in such a program.
Of promises accesses alone are made wider, and all of these are off. That a number fits 64 bits is
the author's affair where it is computed: where its operands do not tell, the flag is left behind,
or LLVM could conclude from a quotient by it that the program runs. (32 bits are proven for all
programs of the launch, whatever branches they take: ranges.py.) Bounds of loops are selected, each:
from what was not loaded, in steps of it, a loop might go on.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.analysis.digits import as_anywhere
from workbench.ir import (
    I1,
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    layout_of,
    shape_of,
)
from workbench.ops import Constant, Elementwise, For, Select, Splat, counted
from workbench.passes.rules import constant_of
from workbench.targets.simt.passes.rounds import reading_from
from workbench.targets.simt.rules import Device, RuleTable


def without_branch(module: Module, chip: Device) -> Module | None:
    """Return a kernel whose last op is a branch with all the work as one that does it under masks.

    None if its last op is none, or something in it can be put under no mask. Keeps: every value
    that is stored.
    """
    if len(module.body.ops) < 2 or not _is_branch(module.body.ops[-2]):
        return None
    *before, branch, end = module.body.ops
    work, nothing = branch.regions
    otherwise = len(work.ops) == 1
    if otherwise:
        work, nothing = nothing, work
    if len(nothing.ops) > 1 or not all(_may_stand_outside(op, chip.rules) for op in work.ops[:-1]):
        return None
    builder = Builder(module.next_id)
    builder.span, builder.origins = branch.span, (branch.id,)
    with builder.block() as ops:
        (runs,) = branch.decided_by()
        if otherwise:
            runs = builder.add(Elementwise("xor", (runs, builder.add(Constant(1, I1)))), "runs")
        values: dict[Value, Value] = {}
        for op in work.ops[:-1]:
            new = _under(reading_from(op, values), runs, builder, chip.rules)
            builder.insert(new)
            if new is not op:
                values.update(zip(op.results, new.results, strict=True))
    body = Block((), (*before, *ops, end))
    return replace(module, body=body, next_id=builder.next_id)


def _is_branch(op: Op) -> bool:
    """Say whether an op does what is in the first of two regions where a number is on, or else."""
    once = not (op.repeats or op.side_by_side or op.results)
    return once and len(op.regions) == 2 and len(op.decided_by()) == 1


def _may_stand_outside(op: Op, rules: RuleTable) -> bool:
    """Say whether an op does nothing where a mask, or its number of rounds, says so."""
    if op.pure or counted(op):
        return True
    plain = all(effect.order == "plain" for effect in op.own_effects())
    return plain and not op.regions and rules.access_of(op) is not None


def _under(op: Op, runs: Value, builder: Builder, rules: RuleTable) -> Op:
    builder.span, builder.origins = op.span, (op.id,)
    if loop := counted(op):
        return _counting(loop, runs, builder)
    access = None if op.pure else rules.access_of(op)
    if access is None:
        return as_anywhere(op)
    shape, mask = shape_of(access.pointers.type), runs
    if shape:
        layout = layout_of(access.pointers.type)
        mask = builder.add(Splat(runs, shape, layouts=(layout,)))
    if access.mask is not None:
        mask = builder.add(Elementwise("and", (mask, access.mask)))
    return access.under(mask)


def _counting(loop: For, runs: Value, builder: Builder) -> For:
    """Return a loop without rounds where the work is not done, whatever its bounds are there."""

    def bound(value: Value, otherwise: Value) -> Value:
        known = constant_of(value) is not None or value is otherwise
        return value if known else builder.add(Select(runs, value, otherwise))

    element = element_of(loop.lower.type)
    assert isinstance(element, Scalar)
    step = loop.step
    if constant_of(step) is None:
        step = bound(step, builder.add(Constant(1, element)))
    lower = loop.lower
    if constant_of(lower) is None:
        lower = bound(lower, builder.add(Constant(0, element)))
    upper = builder.add(Select(runs, loop.upper, lower))
    return loop.changed(lower=lower, upper=upper, step=step)


__all__ = ["without_branch"]
