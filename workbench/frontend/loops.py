"""`for` loops: unrolled ones, and run-time ones with a counter.

A run-time loop carries exactly the names that its body assigns and that had a value before. A
`for` that may be left early (break, return) becomes a `while` over its counter and flags.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    Activation,
    Deferred,
    Unbound,
    unsupported,
)
from workbench.frontend.branches import lower_if
from workbench.frontend.carried import carry, finish, lower_round, prune, restore
from workbench.frontend.counting import (
    carry_target,
    counter_tensor,
    counting_of,
    last_value,
    variable,
)
from workbench.frontend.expressions import evaluate
from workbench.frontend.syntax import effects
from workbench.frontend.whiles import lower_left_early
from workbench.ir import Block, Value
from workbench.language import arithmetic as maths
from workbench.language.constexprs import is_tuple
from workbench.language.control import LoopRange
from workbench.language.values import (
    describe,
    tensor,
)
from workbench.ops import For, Yield
from workbench.source import UnsupportedSyntaxError, limit_of, over_budget


def lower_for(act: Activation, node: ast.For) -> None:
    """Lower a `for` over range, tl.range, tl.static_range or a tuple."""
    if node.orelse:
        raise unsupported(act, "for ... else", node.orelse[0], "put the 'else' part after the loop")
    over = evaluate(act, node.iter)
    if is_tuple(over):
        act.at(node.iter)
        act.session.state.superset("a loop over a tuple; write tl.static_range over its indices")
        _unrolled(act, node, over)
        return
    if not isinstance(over, LoopRange):
        raise act.error(
            UnsupportedSyntaxError,
            f"a loop runs over range, tl.range, tl.static_range or a tuple, not {describe(over)}",
            node.iter,
            hint="a tile is computed with as a whole, or reduced, e.g. tl.sum(x, axis=0)"
            if isinstance(over, tensor) and over.shape
            else "write e.g. for i in range(n)",
        )
    if over.unrolled:
        _unrolled(act, node, range(over.lower, over.upper, over.step))
        return
    if not isinstance(node.target, ast.Name):
        raise act.error(
            UnsupportedSyntaxError,
            "a loop over a range has one variable",
            node.target,
            hint="take it apart in the body: i, j = n // 4, n % 4",
        )
    _run_time_for(act, node, over)


def _unrolled(act: Activation, node: ast.For, items: Sequence[Any]) -> None:
    """Lower the body once per item; what follows a run-time break stands under a guard."""
    from workbench.frontend.statements import assign, flag, left, lower_block

    count = _count(items)
    if count > limit_of("rounds"):
        raise over_budget("rounds", "this loop is unrolled into", count, act.span(node.iter))
    outer = act.scope.get(BREAK), act.scope.get(CONTINUE)
    unread, act.unread = act.unread, frozenset((CONTINUE,))
    act.loops += 1

    def rounds(start: int) -> None:
        for number in range(start, count):
            act.session.spend(1, act, node)
            act.scope[CONTINUE] = flag(False)
            assign(act, node.target, items[number], node, weak=True)
            lower_block(act, node.body)
            act.scope[CONTINUE] = flag(False)
            gone = left(act)
            if gone is True:
                return
            if isinstance(gone, tensor) and number + 1 < count:
                act.at(node)
                stays = maths.logical_not(gone)
                lower_if(act, stays, partial(rounds, number + 1), lambda: None, node, node)
                return

    act.scope[BREAK] = flag(False)
    try:
        rounds(0)
    finally:
        act.loops -= 1
        act.unread = unread
        restore(act, outer)


def _count(items: Sequence[Any]) -> int:
    """Return how many items there are: len() of a range is limited to 64 bits."""
    if not isinstance(items, range):
        return len(items)
    span = items.stop - items.start
    return max(0, -(-span // items.step))


def _run_time_for(act: Activation, node: ast.For, over: LoopRange) -> None:
    target = variable(node)
    does = effects(node.body, prune(act))
    act.at(node.iter)
    counting = counting_of(act, node, over)
    lower, upper, step = (
        counting.value(b) for b in (counting.lower, counting.upper, counting.step)
    )
    reassigned = target in does.names
    old = act.scope.get(target, Unbound("has no value"))
    if does.breaks or does.returns:
        _answer_hints_of_a_while(act, over)
        lower_left_early(act, node, counting, does, old)
        return
    carried = carry(act, node, does, target, frozenset({target}))
    keeps = reassigned and act.is_read_after(target, node)
    if keeps:
        carry_target(act, carried, target, counting, old)
    counter = Value(lower.type, target)

    def body() -> None:
        act.scope[target] = counter_tensor(counter, counting.dtype, target)
        act.saw(node.target, act.scope[target])

    before = act.scope
    with act.builder.block() as ops:
        arguments = carried.arguments()
        values = lower_round(act, node, carried, arguments, body)
        act.at(node)
        act.builder.insert(Yield(values))
    act.scope = before
    act.at(node)
    op = act.builder.insert(
        For(
            lower,
            upper,
            step,
            tuple(slot.init for slot in carried.slots),
            Block((counter, *arguments), tuple(ops)),
            stages=over.stages,
            hints=over.hints,
        )
    )
    finish(act, node, does, carried, op, target)
    if not keeps:
        act.scope[target] = Deferred(lambda: last_value(act, counting, old))


def _answer_hints_of_a_while(act: Activation, over: LoopRange) -> None:
    """Say that a loop which may be left early, a `while` from here on, obeys no hint."""
    given = [*over.hints, *([("num_stages", over.stages)] if over.stages is not None else [])]
    for name, value in given:
        act.session.remark(f"{name}={value} is not obeyed: the loop may be left early", "missed")
