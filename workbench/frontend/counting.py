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
from workbench.ir import INDEX, U32, U64, Builder, Scalar, Value, element_of
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
from workbench.ops import Bitcast, Constant, Elementwise, Select
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


def goes_on(counter: tensor, counting: Counting) -> tensor:
    """Return whether there is a round with a counter, given that there was one before or none."""
    up, down = (maths.compare(symbol, counter, counting.upper) for symbol in "<>")
    if counting.step.constant is not None or counting.dtype.is_int_unsigned():
        return down if counting.downwards else up
    return maths.where(maths.compare(">", counting.step, 0), up, down)


def following(builder: Builder, counter: tensor, counting: Counting) -> tensor:
    """Return the next round's counter; the upper bound where its type does not hold that.

    It holds the next one if the distance to the end, without a sign, is more than a step.
    """
    moved = maths.arithmetic("+", counter, counting.step)
    element = counting.dtype.element
    if element_of(moved.value.type) == INDEX or not isinstance(element, Scalar):
        return moved
    upper, step = counting.value(counting.upper), counting.value(counting.step)
    here, unsigned = counter.value, U64 if element.bits == 64 else U32

    def far(last: Value, first: Value, size: Value) -> Value:
        distance = builder.add(Elementwise("sub", (last, first)))
        words = [
            v if element == unsigned else builder.add(Bitcast(v, unsigned))
            for v in (distance, size)
        ]
        return builder.add(Elementwise("gt", tuple(words)))

    back = builder.add(Elementwise("neg", (step,)))
    if counting.downwards:
        more = far(here, upper, back)
    elif counting.step.constant is not None or not element.is_signed:
        more = far(upper, here, step)
    else:
        rises = builder.add(Elementwise("gt", (step, builder.add(Constant(0, element)))))
        more = builder.add(Select(rises, far(upper, here, step), far(here, upper, back)))
    return wrap(builder.add(Select(more, moved.value, upper)), counting.dtype)


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
                hint="reduce it first, e.g. tl.max(x)" if bound.shape else "cast it, .to(tl.int32)",
            )
    if bounds[2].constant == 0:
        raise act.error(
            ConstexprError, "the step of a loop is 0", node.iter, hint="step by 1 or more, or back"
        )
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
