"""Rules of control flow."""

from __future__ import annotations

from workbench.ir import Builder, Value, clone_into
from workbench.ops import For, If, count_rounds
from workbench.passes.rules.known import constant_of
from workbench.passes.rules.rule import Rule


def _never_runs(op: For, builder: Builder) -> tuple[Value, ...] | None:
    lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
    if None not in (lower, upper, step) and not range(lower, upper, step):
        return op.inits
    return None


def _runs_once(op: For, builder: Builder) -> tuple[Value, ...] | None:
    """Whatever is aligned or constant in the only round is seen where the counter is a number.

    Hints go with the loop: there are no rounds that they could be about.
    """
    lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
    if None in (lower, upper, step) or count_rounds(lower, upper, step) != 1:
        return None
    return clone_into(
        op.body, dict(zip(op.body.arguments, (op.lower, *op.inits), strict=True)), builder
    )


def _is_decided(op: If, builder: Builder) -> tuple[Value, ...] | None:
    condition = constant_of(op.condition)
    if condition is None:
        return None
    return clone_into(op.then if condition else op.otherwise, {}, builder)


RULES: tuple[Rule, ...] = (
    Rule("loop-never-runs", "loop(5, 1, 1, x) = x", "x: f32", For, _never_runs),
    Rule("loop-runs-once", "loop(2, 5, 3, x) = x + x", "x: f32", For, _runs_once),
    Rule("if-is-decided", "branch(True, x) = x + x", "x: f32", If, _is_decided),
)
