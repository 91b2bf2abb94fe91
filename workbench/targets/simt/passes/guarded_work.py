"""A kernel whose work stands in a branch, behind an early return for example, without the branch.

    if no rows are left:         runs = rows are left
        return                   q = load p if runs
    q = load p                   for i in first … (last if runs else first):
    for i in first … last:           ...
        ...                      store s if runs
    store s

Warps part at the top of a kernel (roles.py), and a producer's loop is one that its consumers have,
too. A program that returned early goes through what is left: it touches nothing, in no rounds.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import I1, Block, Builder, Module, Op, Value, layout_of, shape_of
from workbench.ops import Constant, Elementwise, Select, Splat, counted
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
        return loop.changed(upper=builder.add(Select(runs, loop.upper, loop.lower)))
    access = None if op.pure else rules.access_of(op)
    if access is None:
        return op
    shape, mask = shape_of(access.pointers.type), runs
    if shape:
        layout = layout_of(access.pointers.type)
        mask = builder.add(Splat(runs, shape, layouts=(layout,)))
    if access.mask is not None:
        mask = builder.add(Elementwise("and", (mask, access.mask)))
    return access.under(mask)


__all__ = ["without_branch"]
