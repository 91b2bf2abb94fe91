"""The bounds and the variable of a run-time `for`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from workbench.frontend.activation import (
    Activation,
    Deferred,
)
from workbench.frontend.carried import Carried
from workbench.ir import Value
from workbench.language import arithmetic as maths
from workbench.language.control import LoopRange
from workbench.language.dtypes import dtype, int32
from workbench.language.promotion import promote
from workbench.language.shapes import operand
from workbench.language.values import (
    describe,
    tensor,
    to_tensor,
    wrap,
)
from workbench.source import (
    ConstexprError,
    KernelTypeError,
)


@dataclass
class Counting:
    """The bounds of a run-time loop, in its counter's type."""

    dtype: dtype
    lower: tensor
    upper: tensor
    step: tensor

    @property
    def downwards(self) -> bool:
        """Whether the loop is known to count down."""
        return self.step.constant is not None and self.step.constant < 0

    def value(self, bound: tensor) -> Value:
        """Return a bound in the counter's type."""
        return operand(bound, self.dtype, (), exact=True)


def variable(node: ast.For) -> str:
    """Return the loop variable's name."""
    assert isinstance(node.target, ast.Name)
    return node.target.id


def counting_of(act: Activation, node: ast.For, over: LoopRange) -> Counting:
    """Return the bounds of a range, checked."""
    bounds = [to_tensor(v) for v in (over.lower, over.upper, over.step)]
    for bound, word in zip(bounds, ("lower bound", "upper bound", "step"), strict=True):
        if bound.shape or not bound.dtype.is_int():
            raise act.error(
                KernelTypeError,
                f"the {word} of a loop must be an integer scalar, got {describe(bound)}",
                node.iter,
            )
    if bounds[2].constant == 0:
        raise act.error(ConstexprError, "the step of a loop is 0", node.iter)
    to = promote(promote(bounds[0].dtype, bounds[1].dtype, "range"), bounds[2].dtype, "range")
    if to.int_bitwidth < 32:
        to = int32
    return Counting(to, *bounds)


def counter_tensor(value: Value, to: dtype, name: str) -> tensor:
    """Return the loop variable as the body sees it."""
    made = wrap(value, to)
    made.name = name
    return made


def carry_target(
    act: Activation, carried: Carried, target: str, counting: Counting, old: Any
) -> None:
    """Carry the loop variable too: the body assigns it, or the loop may be left early."""
    act.session.state.superset("the loop variable after its loop")
    usable = isinstance(old, tensor) and old.dtype == counting.dtype and not old.shape
    carried.add(target, old if usable else counting.lower, even=True)


def last_value(act: Activation, counting: Counting, old: Any) -> tensor:
    """Return the loop variable after its loop: its last value, or the old one if it never ran."""
    act.session.state.superset("the loop variable after its loop")
    lower, upper, step = counting.lower, counting.upper, counting.step
    span = maths.arithmetic("-", upper, lower)
    one = maths.negative(to_tensor(1)) if counting.downwards else 1
    rounds = maths.arithmetic(
        "//", maths.arithmetic("-", maths.arithmetic("+", span, step), one), step
    )
    last = maths.arithmetic(
        "+", lower, maths.arithmetic("*", maths.arithmetic("-", rounds, 1), step)
    )
    if isinstance(old, Deferred):
        old = old.make()
    if isinstance(old, tensor) and old.dtype == last.dtype and not old.shape:
        return maths.where(maths.compare(">", rounds, 0), last, old)
    return last
