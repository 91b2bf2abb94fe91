"""Rules of control flow."""

from __future__ import annotations

from workbench.ir import Builder, Value
from workbench.ops import For
from workbench.passes.rules.known import constant_of
from workbench.passes.rules.rule import Rule


def _never_runs(op: For, builder: Builder) -> tuple[Value, ...] | None:
    lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
    if None not in (lower, upper, step) and not range(lower, upper, step):
        return op.inits
    return None


RULES: tuple[Rule, ...] = (
    Rule("loop-never-runs", "loop(5, 1, 1, x) = x", "x: f32", For, _never_runs),
)
