"""Checks of GPU IR against the tables that code generation reads."""

from __future__ import annotations

from workbench.analysis.memory import Memory
from workbench.ir import (
    InvalidModuleError,
    Module,
    Op,
    Tile,
    Value,
    layout_of,
    verify_module,
    walk,
)
from workbench.layouts import LinearLayout
from workbench.targets.simt.ops import Roles
from workbench.targets.simt.rules import Device, Flow, Layouts, Setting


def verify_layouts(module: Module, chip: Device) -> None:
    """Raise InvalidModuleError unless every op's operands have the layouts that its rule takes.

    Needs: layouts. An op of which the chip's table of rules says nothing is an error as well.
    """
    verify_module(module)
    _check_roles(module, chip)
    _check_programs(module)
    on = Setting(module, chip)
    known: set[Value] = set()
    for op in module.walk():
        rule = chip.rules.layout_rule(op)
        values = (*op.operands, *op.results, *(a for r in op.regions for a in r.arguments))
        tiled = False
        for value in values:
            if isinstance(value.type, Tile):
                tiled = True
                if value not in known:
                    known.add(value)
                    _check_tile(op, value, on)
        if tiled:
            _check_op(op, rule(op, on))


def _check_roles(module: Module, chip: Device) -> None:
    """Warps part once, at top level, where all of them still do the same, and know no tiles."""
    roles = [op for op in module.walk() if isinstance(op, Roles)]
    if not roles:
        return
    if len(roles) > 1 or roles[0] not in module.body.ops:
        raise InvalidModuleError(f"{roles[-1]!r}: warps part once, at the top level of a kernel")
    memory = Memory(module)
    for op in module.body.ops:
        if op is roles[0] or op.ends_block:
            continue
        tiled = any(isinstance(v.type, Tile) for v in op.operands)
        alone = all(e.space == "shared" or not (e.reads or e.writes) for e in op.effects())
        scratch = chip.rules.scratch_of(op, chip, module.attributes["num_warps"], True)
        alone = alone or memory.may_repeat(op)
        if scratch.bytes or not (op.pure or (alone and not tiled)):
            raise InvalidModuleError(
                f"{op!r} at {op.span} stands beside {roles[0]!r}: a producer would do it too"
            )


def _check_programs(module: Module) -> None:
    """Where blocks take several programs, what is one's own stands in what is run for each."""
    each = [op for op in module.walk() if op.per_program]
    inside = [inner for op in each for region in op.regions for inner in walk(region)]
    mine = {inner.id for inner in inside}
    for op in module.walk() if each else ():
        if op.names_block or (op.of_program and op.id not in mine):
            raise InvalidModuleError(
                f"{op!r} at {op.span} stands outside of what is run for each program"
            )
        if op.per_program and op.id in mine:
            raise InvalidModuleError(f"{op!r}: each program is run once, not within another")


def _check_tile(op: Op, value: Value, on: Setting) -> None:
    layout = layout_of(value.type)
    if layout is None:
        raise InvalidModuleError(f"{op!r} at {op.span}: {value!r} has no layout")
    assert isinstance(value.type, Tile)
    if layout.shape != value.type.shape:
        raise InvalidModuleError(
            f"{op!r} at {op.span}: {value!r} has a layout for the shape {layout.shape}"
        )
    for threads, count in (("lane", on.lanes), ("warp", on.num_warps)):
        found = layout.size(threads)
        if found != count:
            raise InvalidModuleError(
                f"{op!r} at {op.span}: {value!r} lies on {found} {threads}s of {count}"
            )


def _check_op(op: Op, plan: Layouts) -> None:
    if plan.flow is not None:
        _check_flow(op, plan.flow)
        return
    if plan.becomes is not None:
        raise InvalidModuleError(f"{op!r} at {op.span} is no op of GPU IR: assign-layouts left it")
    layout = _working(op, plan)
    if layout is None:
        return
    if plan.fixed and plan.offers is not None and layout not in plan.offers():
        raise InvalidModuleError(f"{op!r} at {op.span} does not work in the layout {layout}")
    for operand, along in zip(op.operands, plan.operands, strict=True):
        if along is not None and isinstance(operand.type, Tile):
            _check_equal(op, operand, along.need(layout))
    if plan.own is not None:
        for result, give in zip(op.results, plan.results, strict=True):
            if isinstance(result.type, Tile):
                _check_equal(op, result, give(layout))


def _working(op: Op, plan: Layouts) -> LinearLayout | None:
    """Return the layout in which an op works: its own is told by what it takes."""
    if plan.work is not None:
        return layout_of(plan.work.type)
    if plan.own is None:
        return None
    for operand, along in zip(op.operands, plan.operands, strict=True):
        held = layout_of(operand.type)
        if held is not None and along is not None and along.give is not None:
            return along.give(held)
    return None


def _check_equal(op: Op, value: Value, wanted: LinearLayout | None) -> None:
    if layout_of(value.type) != wanted:
        raise InvalidModuleError(
            f"{op!r} at {op.span}: {value!r} must have the layout {wanted or 'of no tile'}"
        )


def _check_flow(op: Op, flow: Flow) -> None:
    for group in flow.together:
        for value in group[1:]:
            _check_equal(op, value, layout_of(group[0].type))
    fed = [(op.operands, flow.operands)]
    fed += [(region.yields, to) for region, to in zip(op.regions, flow.yields, strict=True)]
    for values, results in fed:
        for value, result in zip(values, results, strict=True):
            if result is not None:
                _check_equal(op, value, layout_of(result.type))


__all__ = ["verify_layouts"]
