"""Loops whose end is not known on entry: `while`, and `for` that may be left early.

Break and return are carried flags: the condition looks at them first, so that nothing the author
wrote is evaluated after the loop was left.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    RESULT,
    RETURN,
    Activation,
    Unbound,
    unsupported,
)
from workbench.frontend.branches import zero_of
from workbench.frontend.carried import Carried, Slot, carry, finish, lower_round, prune, restore
from workbench.frontend.counting import (
    Counting,
    carry_target,
    counter_tensor,
    following,
    goes_on,
    variable,
)
from workbench.frontend.expressions import evaluate, truth
from workbench.frontend.syntax import Effects, effects
from workbench.ir import Block, Value, element_of
from workbench.language import arithmetic as maths
from workbench.language.control import LoopCondition
from workbench.language.dtypes import int1
from workbench.language.shapes import operand
from workbench.language.values import (
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import If, While, Yield

#: Loops whose condition names values, written without.
_TESTED_WITHIN: WeakKeyDictionary[ast.While, ast.While] = WeakKeyDictionary()


def lower_while(act: Activation, node: ast.While) -> None:
    """Lower a `while`; its condition sees the carried values."""
    if node.orelse:
        raise unsupported(
            act, "while ... else", node.orelse[0], "put the 'else' part after the loop"
        )
    if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node.test)):
        node = _with_test_in_body(node)
    does = effects(node.body, prune(act))
    carried = carry(act, node, does, None, frozenset())

    hints: list[tuple[str, Any]] = []

    def more() -> Any:
        found = evaluate(act, node.test)
        if isinstance(found, LoopCondition):
            hints[:] = found.hints
            found = found.test
        return truth(act, found, node.test, "while")

    _while(act, node, does, carried, more, lambda: None, lambda: None, hints)


def _with_test_in_body(node: ast.While) -> ast.While:
    """Return `while True: if test: pass else: break; ...`: what the test names is carried, too."""
    found = _TESTED_WITHIN.get(node)
    if found is None:
        asked = ast.If(node.test, [ast.Pass()], [ast.Break()])
        found = ast.While(ast.Constant(True), [asked, *node.body], [])
        for made in (*asked.body, *asked.orelse, asked, found.test):
            ast.copy_location(made, node.test)
        _TESTED_WITHIN[node] = ast.copy_location(found, node)
    return found


def lower_left_early(
    act: Activation, node: ast.For, counting: Counting, does: Effects, old: Any
) -> None:
    """Lower a `for` with break or return as a `while` over its counter and flags."""
    target = variable(node)
    counter = f"<counter {act.loops}>"
    carried = carry(act, node, does, target, frozenset({target}))
    keeps = act.is_read_after(target, node)
    if keeps:
        carry_target(act, carried, target, counting, old)
    carried.add(counter, counting.lower, even=True)
    if counting.dtype != counting.lower.dtype:
        carried.slots[-1] = _counter_slot(counter, counting)
        carried.entries[counter] = carried.slots[-1]

    def more() -> tensor:
        return goes_on(act.scope[counter], counting)

    def begin() -> None:
        act.scope[target] = counter_tensor(act.scope[counter].value, counting.dtype, target)

    def end() -> None:
        act.scope[counter] = following(act.builder, act.scope[counter], counting)

    _while(act, node, does, carried, more, begin, end)
    del act.scope[counter]
    if not keeps:
        act.scope[target] = Unbound("has no value after this loop")


def _counter_slot(name: str, counting: Counting) -> Slot:
    init = counting.value(counting.lower)
    return Slot(name, counting.dtype, (), element_of(init.type), init)


def _while(
    act: Activation,
    node: ast.For | ast.While,
    does: Effects,
    carried: Carried,
    more: Callable[[], Any],
    begin: Callable[[], None],
    end: Callable[[], None],
    hints: Sequence[tuple[str, Any]] = (),
) -> None:
    from workbench.frontend.statements import flag

    if does.breaks:
        carried.add(BREAK, flag(False), even=False)
    if does.returns:
        carried.add(RETURN, flag(False), even=False)
        if not act.is_kernel:
            _carry_result(act, node, carried, begin)
    before = act.scope
    act.at(node)
    with act.builder.block() as test_ops:
        test_arguments = carried.arguments()
        act.scope = dict(before)
        carried.bind(test_arguments)
        test = _go_on(act, node, more)
        act.builder.insert(Yield((operand(test, int1, ()),)))
    act.scope = before
    with act.builder.block() as ops:
        arguments = carried.arguments()
        wraps = _with_end(carried, end)
        values = lower_round(act, node, wraps, arguments, begin)
        act.at(node)
        act.builder.insert(Yield(values))
    act.scope = before
    act.at(node)
    inits = tuple(slot.init for slot in carried.slots)
    op = act.builder.insert(
        While(
            inits,
            Block(test_arguments, tuple(test_ops)),
            Block(arguments, tuple(ops)),
            hints=tuple(hints),
        )
    )
    flags = act.scope.get(BREAK), act.scope.get(CONTINUE)
    target = variable(node) if isinstance(node, ast.For) else None
    finish(act, node, does, carried, op, target)
    restore(act, flags)


def _with_end(carried: Carried, end: Callable[[], None]) -> Carried:
    """Return the carried names with something done before they are yielded."""

    class Ending(Carried):
        def yields(self) -> tuple[Value, ...]:
            end()
            return super().yields()

    ending = Ending(carried.act, carried.node)
    ending.slots, ending.entries = carried.slots, carried.entries
    ending.places = carried.places
    return ending


def _go_on(act: Activation, node: ast.stmt, more: Callable[[], Any]) -> tensor:
    """Return whether there is another round; the condition is not evaluated after a break."""
    flags = [
        act.scope[n] for n in (BREAK, RETURN) if n in act.scope and act.scope[n].constant is None
    ]
    act.at(node)
    if not flags:
        return to_tensor(more())
    gone = flags[0] if len(flags) == 1 else maths.arithmetic("|", *flags)
    stays = maths.logical_not(gone)
    with act.builder.block() as then_ops:
        test = to_tensor(more())
        if test.constant is None:
            act.builder.insert(Yield((test.value,)))
    if test.constant is True:
        return stays
    if test.constant is False:
        return test
    if all(op.pure and not op.regions for op in then_ops):
        act.builder.ops.extend(then_ops[:-1])
        return maths.arithmetic("&", stays, test)
    with act.builder.block() as else_ops:
        act.builder.insert(Yield((operand(False, int1, ()),)))
    act.at(node)
    op = act.builder.insert(If(stays.value, Block((), tuple(then_ops)), Block((), tuple(else_ops))))
    return wrap(op.results[0], int1)


def _carry_result(
    act: Activation, node: ast.For | ast.While, carried: Carried, begin: Callable[[], None]
) -> None:
    """Carry what the function returns from inside the loop; its type shows in a trial run."""
    known = act.session.results.get((act, node))
    if known is not None:
        act.at(node)
        carried.add(RESULT, known, even=False)
        return
    before, next_id = act.scope, act.builder.next_id
    errors, remarks = len(act.session.errors), len(act.session.remarks.items)
    with act.builder.block():
        trial = carried.arguments()
        act.scope = dict(before)
        try:
            lower_round(act, node, _Trial(carried), trial, begin)
            found = act.scope.get(RESULT)
        finally:
            act.scope = before
            act.builder.next_id = next_id
            del act.session.errors[errors:]
            del act.session.remarks.items[remarks:]
    if found is not None and not isinstance(found, Unbound):
        act.at(node)
        # Loops around this one are tried too: each would try all within it again.
        zero = act.session.results[act, node] = zero_of(found)
        carried.add(RESULT, zero, even=False)


class _Trial(Carried):
    """Carried names of a round that is lowered only to learn a type."""

    def __init__(self, carried: Carried) -> None:
        super().__init__(carried.act, carried.node)
        self.slots, self.entries = carried.slots, carried.entries

    def yields(self) -> tuple[Value, ...]:
        return ()
