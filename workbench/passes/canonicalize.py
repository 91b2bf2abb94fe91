"""Simplifies op by op: constants, algebra, and uniform or repeated values written as such."""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Value, rebuild
from workbench.passes.manager import Remarks
from workbench.passes.rules import RULES, RuleTable


def canonicalize(module: Module, remarks: Remarks, rules: RuleTable = RULES) -> Module:
    """Fold constants, drop operations that change nothing, and keep uniform values uniform.

    A tile whose elements are all equal is written as a splat of a scalar, a tile repeated along an
    axis as a broadcast of the smaller one, so that later work happens once instead of per element.

    Before:
        %1 = tile.splat %x {shape = (4,)} : tile<4xf32>
        %2 = tile.splat %y {shape = (4,)} : tile<4xf32>
        %3 = tile.add [%1, %2] : tile<4xf32>
    After:
        %4 = tile.add [%x, %y] : f32
        %3 = tile.splat %4 {shape = (4,)} : tile<4xf32>

    Keeps: every result bit for bit. Which rule (`passes/rules/`) was applied at which op is
    recorded.
    """

    def rewrite(op: Op, builder: Builder) -> Op | Value | tuple[Value, ...] | None:
        for rule in rules.about(op):
            done = rule.rewrite(op, builder)
            if done is not None:
                remarks.applied(rule, op)
                return done
        return None

    return rebuild(module, rewrite)
