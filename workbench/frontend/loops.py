"""Loops: which names are carried and as what, unrolling, and loops that can be left early.

A run-time loop carries exactly the names that its body assigns and that had a value before. An
int32 among them is carried as `index` where it advances evenly (its value has a closed form), and
as `i32`, truncated every round, where it does not (LANGUAGE.md, rule 18).

A `for` that may be left early (break, return) becomes a `while` over its counter and a flag.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    RESULT,
    RETURN,
    Activation,
    Deferred,
    Unbound,
    unsupported,
)
from workbench.frontend.branches import lower_if, zero_of
from workbench.frontend.expressions import evaluate, truth
from workbench.frontend.syntax import Effects, advances_evenly, effects, last_assignment
from workbench.ir import INDEX, Block, Element, Op, Value, tile
from workbench.language import arithmetic as maths
from workbench.language.control import LoopRange
from workbench.language.dtypes import dtype, float32, int1, int32
from workbench.language.promotion import promote
from workbench.language.shapes import operand
from workbench.language.values import describe, describe_type, is_number, tensor, to_tensor, wrap
from workbench.ops import Elementwise, For, If, While, Yield
from workbench.source import (
    ConstexprError,
    KernelError,
    KernelTypeError,
    Note,
    ShapeError,
    Span,
    UnsupportedSyntaxError,
)


@dataclass
class Slot:
    """One carried tensor: its type, what it starts from, and the name it belongs to."""

    name: str
    dtype: dtype
    shape: tuple[int, ...]
    element: Element
    init: Value

    def argument(self) -> Value:
        return Value(self.init.type, self.name if self.name.isidentifier() else "")


class Carried:
    """The names that go round a loop, each a tensor or a tuple of tensors."""

    def __init__(self, act: Activation, body: Sequence[ast.stmt], node: ast.stmt) -> None:
        self.act = act
        self.body = body
        self.node = node
        self.slots: list[Slot] = []
        self.entries: dict[str, Any] = {}
        self.places: dict[str, Span | None] = {}

    def add(self, name: str, value: Any, *, even: bool) -> None:
        """Carry a name that holds `value` on entry."""
        self.places[name] = self.act.places.get(name)
        self.entries[name] = self._leaves(name, value, even)

    def _leaves(self, name: str, value: Any, even: bool) -> Any:
        if isinstance(value, Deferred):
            value = value.make()
        if isinstance(value, tuple):
            items = [self._leaves(name, item, even) for item in value]
            return tuple(items) if type(value) is tuple else type(value)(*items)
        if is_number(value):
            if name in self.act.constexprs:
                raise self.act.error(
                    ConstexprError,
                    f"'{name}' is a constexpr and cannot be assigned in a loop",
                    last_assignment(self.body, name) or self.node,
                    hint="copy it to a variable before the loop",
                )
            value = to_tensor(value)
        if not isinstance(value, tensor):
            return value
        exact = even and value.dtype == int32 and self.act.session.state.exact_index
        element = INDEX if exact else value.dtype.element
        init = operand(value, value.dtype, value.shape, exact=exact)
        slot = Slot(name, value.dtype, value.shape, element, init)
        self.slots.append(slot)
        return slot

    def arguments(self) -> tuple[Value, ...]:
        """Return fresh block arguments, one per slot."""
        return tuple(slot.argument() for slot in self.slots)

    def bind(self, values: Sequence[Value]) -> None:
        """Let the carried names hold these values."""
        given = iter(values)

        def leaf(entry: Any) -> Any:
            if isinstance(entry, Slot):
                made = wrap(next(given), entry.dtype)
                made.name = entry.name if entry.name.isidentifier() else ""
                return made
            if isinstance(entry, tuple):
                items = [leaf(item) for item in entry]
                return tuple(items) if type(entry) is tuple else type(entry)(*items)
            return entry

        for name, entry in self.entries.items():
            self.act.scope[name] = leaf(entry)

    def yields(self) -> tuple[Value, ...]:
        """Return what the names hold at the end of the body, in the carried types."""
        values: list[Value] = []
        for name, entry in self.entries.items():
            self._collect(name, entry, self.act.scope.get(name), values)
        return tuple(values)

    def _collect(self, name: str, entry: Any, value: Any, values: list[Value]) -> None:
        if isinstance(entry, tuple) and isinstance(value, tuple) and len(entry) == len(value):
            for inner, item in zip(entry, value, strict=True):
                self._collect(name, inner, item, values)
        elif isinstance(entry, Slot):
            values.append(self._checked(name, entry, value))
        elif entry is not value and entry != value:
            raise self._changed(name, describe_type(entry), value)

    def _checked(self, name: str, slot: Slot, value: Any) -> Value:
        if isinstance(value, Deferred):
            value = value.make()
        if is_number(value):
            value = to_tensor(value)
        if value is None and name == RESULT:
            value = zero_of(wrap(slot.init, slot.dtype))
        if not isinstance(value, tensor) or value.dtype != slot.dtype or value.shape != slot.shape:
            raise self._changed(name, describe_type(wrap(slot.init, slot.dtype)), value)
        self.act.at(last_assignment(self.body, name) or self.node)
        return operand(value, slot.dtype, slot.shape, exact=slot.element is INDEX)

    def _changed(self, name: str, before: str, value: Any) -> KernelError:
        place = self.places.get(name)
        node = last_assignment(self.body, name) or self.node
        if isinstance(value, Unbound):
            return self.act.error(
                KernelTypeError, f"'{name}' {value.reason}", node, hint=value.hint
            )
        after = describe_type(value)
        shape_only = isinstance(value, tensor) and before.split(" ")[0] == str(value.dtype)
        what = "shape" if shape_only else "type"
        return self.act.error(
            ShapeError if shape_only else KernelTypeError,
            f"'{name}' changes its {what} in the loop: {before} on entry, {after} after one round",
            node,
            notes=[] if place is None else [Note(f"{name} is {before} before the loop", place)],
            hint=_other_start(value),
        )


def _other_start(value: Any) -> str:
    """Return how to start a carried name so that its type stays."""
    if not isinstance(value, tensor):
        return "give the name one type, before and in the loop"
    spelling = value.dtype.spelling
    if value.shape:
        return f"start it as tl.zeros({value.shape}, {spelling}), or keep its type in the loop"
    start = "0.0" if value.dtype == float32 else f"tl.full((), 0, {spelling})"
    return f"start it as {start}, or keep its type in the loop with .to(...)"


# -- for ------------------------------------------------------------------------------------
def lower_for(act: Activation, node: ast.For) -> None:
    """Lower a `for` over range, tl.range, tl.static_range or a tuple."""
    if node.orelse:
        raise unsupported(act, "for ... else", node.orelse[0], "put the 'else' part after the loop")
    over = evaluate(act, node.iter)
    if isinstance(over, tuple):
        act.at(node.iter)
        act.session.state.superset("a loop over a tuple; write tl.static_range over its indices")
        _unrolled(act, node, over)
        return
    if not isinstance(over, LoopRange):
        raise act.error(
            UnsupportedSyntaxError,
            f"a loop runs over range, tl.range, tl.static_range or a tuple, not {describe(over)}",
            node.iter,
        )
    if over.unrolled:
        _unrolled(act, node, range(over.lower, over.upper, over.step))
        return
    if not isinstance(node.target, ast.Name):
        raise act.error(UnsupportedSyntaxError, "a loop over a range has one variable", node.target)
    _run_time_for(act, node, over)


def _unrolled(act: Activation, node: ast.For, items: Sequence[Any]) -> None:
    """Lower the body once per item; what follows a run-time break stands under a guard."""
    from workbench.frontend.statements import assign, flag, left, lower_block

    outer = act.scope.get(BREAK), act.scope.get(CONTINUE)
    unread, act.unread = act.unread, frozenset((CONTINUE,))
    act.loops += 1

    def rounds(start: int) -> None:
        for number in range(start, len(items)):
            act.scope[CONTINUE] = flag(False)
            assign(act, node.target, items[number], node, weak=True)
            lower_block(act, node.body)
            act.scope[CONTINUE] = flag(False)
            gone = left(act)
            if gone is True:
                return
            if isinstance(gone, tensor) and number + 1 < len(items):
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
        _restore(act, outer)


def _restore(act: Activation, flags: tuple[Any, Any]) -> None:
    for name, value in zip((BREAK, CONTINUE), flags, strict=True):
        if value is None:
            act.scope.pop(name, None)
        else:
            act.scope[name] = value


@dataclass
class Counting:
    """The bounds of a run-time loop, in its counter's type."""

    dtype: dtype
    lower: tensor
    upper: tensor
    step: tensor

    @property
    def downwards(self) -> bool:
        return self.step.constant is not None and self.step.constant < 0

    def value(self, bound: tensor) -> Value:
        return operand(bound, self.dtype, (), exact=True)


def _counting(act: Activation, node: ast.For, over: LoopRange) -> Counting:
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


def _prune(act: Activation) -> Callable[[ast.If], Sequence[ast.stmt] | None]:
    """Return a test for branches that are not compiled because their condition is known."""

    def taken(node: ast.If) -> Sequence[ast.stmt] | None:
        for inner in ast.walk(node.test):
            if isinstance(inner, ast.Name):
                known = act.scope.get(inner.id)
                if known is None and inner.id in act.scope:
                    continue
                if known is None or isinstance(known, tensor | Unbound | Deferred):
                    return None
            elif isinstance(inner, ast.Call | ast.NamedExpr):
                return None
        try:
            test = evaluate(act, node.test)
        except Exception:
            return None
        if isinstance(test, tensor):
            return None
        return node.body if test else node.orelse

    return taken


def _carry(
    act: Activation,
    node: ast.For | ast.While,
    does: Effects,
    target: str | None,
    skip: frozenset[str],
) -> Carried:
    """Return the names that go round, with their values on entry."""
    carried = Carried(act, node.body, node)
    changing = frozenset(does.names) | ({target} if target else set())
    for name in does.names:
        if name in skip or name not in act.scope or isinstance(act.scope[name], Unbound):
            continue
        act.at(node)
        even = advances_evenly(node.body, name, changing)
        carried.add(name, act.read(name, node), even=even)
    return carried


def _run_time_for(act: Activation, node: ast.For, over: LoopRange) -> None:
    target: str = node.target.id  # type: ignore[attr-defined]
    does = effects(node.body, _prune(act))
    act.at(node.iter)
    counting = _counting(act, node, over)
    lower, upper, step = (
        counting.value(b) for b in (counting.lower, counting.upper, counting.step)
    )
    reassigned = target in does.names
    old = act.scope.get(target, Unbound("has no value"))
    if does.breaks or does.returns:
        _left_early(act, node, counting, does, old)
        return
    carried = _carry(act, node, does, target, frozenset({target}))
    keeps = reassigned and act.is_read_after(target, node)
    if keeps:
        _carry_target(act, carried, target, counting, old)
    counter = Value(lower.type, target)

    def body() -> None:
        act.scope[target] = _counter(counter, counting.dtype, target)

    before = act.scope
    with act.builder.block() as ops:
        arguments = carried.arguments()
        values = _round(act, node, carried, arguments, body)
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
    _finish(act, node, does, carried, op, target)
    if not keeps:
        act.scope[target] = Deferred(lambda: _last_value(act, counting, old))


def _counter(value: Value, to: dtype, name: str) -> tensor:
    made = wrap(value, to)
    made.name = name
    return made


def _carry_target(
    act: Activation, carried: Carried, target: str, counting: Counting, old: Any
) -> None:
    """The loop variable is assigned in the body and read afterwards: carry it too."""
    act.session.state.superset("the loop variable after its loop")
    usable = isinstance(old, tensor) and old.dtype == counting.dtype and not old.shape
    carried.add(target, old if usable else counting.lower, even=True)


def _round(
    act: Activation,
    node: ast.For | ast.While,
    carried: Carried,
    arguments: tuple[Value, ...],
    begin: Callable[[], None],
) -> tuple[Value, ...]:
    """Lower one round into the block being written; returns what it carries on."""
    from workbench.frontend.statements import flag, lower_block

    act.scope = dict(act.scope)
    carried.bind(arguments)
    begin()
    act.scope[CONTINUE] = flag(False)
    if BREAK not in carried.entries:
        act.scope[BREAK] = flag(False)
    act.loops += 1
    unread, act.unread = act.unread, frozenset((CONTINUE,))
    try:
        lower_block(act, node.body)
    finally:
        act.loops -= 1
        act.unread = unread
    return carried.yields()


def _finish(
    act: Activation,
    node: ast.For | ast.While,
    does: Effects,
    carried: Carried,
    op: Op,
    target: str | None,
) -> None:
    """Bind what the loop gives back; names born in it have no value afterwards."""
    act.scope = dict(act.scope)
    for name in does.names:
        if name not in carried.entries and name != target:
            place = last_assignment(node.body, name)
            line = act.span(place).line if place is not None else act.span(node).line
            act.scope[name] = Unbound(
                f"is assigned only inside the loop (line {line})", "give it a value before the loop"
            )
    results = op.results[-len(carried.slots) :] if carried.slots else ()
    for slot, value in zip(carried.slots, results, strict=True):
        if slot.name.isidentifier() and not value.hint:
            value.hint = slot.name
    carried.bind(results)


def _last_value(act: Activation, counting: Counting, old: Any) -> tensor:
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


# -- loops that are left early --------------------------------------------------------------
def _left_early(
    act: Activation, node: ast.For, counting: Counting, does: Effects, old: Any
) -> None:
    """Lower a `for` with break or return as a `while` over its counter and flags."""
    target: str = node.target.id  # type: ignore[attr-defined]
    counter = f"<counter {act.loops}>"
    carried = _carry(act, node, does, target, frozenset({target}))
    keeps = act.is_read_after(target, node)
    if keeps:
        _carry_target(act, carried, target, counting, old)
    carried.add(counter, counting.lower, even=True)
    if counting.dtype != counting.lower.dtype:
        carried.slots[-1] = _counter_slot(counter, counting)
        carried.entries[counter] = carried.slots[-1]

    def more() -> tensor:
        return maths.compare(">" if counting.downwards else "<", act.scope[counter], counting.upper)

    def begin() -> None:
        act.scope[target] = _counter(act.scope[counter].value, counting.dtype, target)

    def end() -> None:
        act.scope[counter] = maths.arithmetic("+", act.scope[counter], counting.step)

    _while(act, node, does, carried, more, begin, end)
    del act.scope[counter]
    if not keeps:
        act.scope[target] = Unbound("has no value after this loop")


def _counter_slot(name: str, counting: Counting) -> Slot:
    init = counting.value(counting.lower)
    return Slot(name, counting.dtype, (), init.type, init)  # type: ignore[arg-type]


def lower_while(act: Activation, node: ast.While) -> None:
    """Lower a `while`; its condition sees the carried values."""
    if node.orelse:
        raise unsupported(
            act, "while ... else", node.orelse[0], "put the 'else' part after the loop"
        )
    does = effects(node.body, _prune(act))
    carried = _carry(act, node, does, None, frozenset())

    def more() -> Any:
        return truth(act, evaluate(act, node.test), node.test, "while")

    _while(act, node, does, carried, more, lambda: None, lambda: None)


def _while(
    act: Activation,
    node: ast.For | ast.While,
    does: Effects,
    carried: Carried,
    more: Callable[[], Any],
    begin: Callable[[], None],
    end: Callable[[], None],
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
        values = _round(act, node, wraps, arguments, begin)
        act.at(node)
        act.builder.insert(Yield(values))
    act.scope = before
    act.at(node)
    inits = tuple(slot.init for slot in carried.slots)
    op = act.builder.insert(
        While(inits, Block(test_arguments, tuple(test_ops)), Block(arguments, tuple(ops)))
    )
    flags = act.scope.get(BREAK), act.scope.get(CONTINUE)
    target = node.target.id if isinstance(node, ast.For) else None  # type: ignore[attr-defined]
    _finish(act, node, does, carried, op, target)
    _restore(act, flags)


def _with_end(carried: Carried, end: Callable[[], None]) -> Carried:
    """Return the carried names with something done before they are yielded."""

    class Ending(Carried):
        def yields(self) -> tuple[Value, ...]:
            end()
            return super().yields()

    ending = Ending(carried.act, carried.body, carried.node)
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
    if all(isinstance(op, Elementwise | Yield) or (op.pure and not op.regions) for op in then_ops):
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
    before, next_id = act.scope, act.builder.next_id
    errors, remarks = len(act.session.errors), len(act.session.remarks.items)
    with act.builder.block():
        trial = carried.arguments()
        act.scope = dict(before)
        try:
            _round(act, node, _Trial(carried), trial, begin)
            found = act.scope.get(RESULT)
        finally:
            act.scope = before
            act.builder.next_id = next_id
            del act.session.errors[errors:]
            del act.session.remarks.items[remarks:]
    if found is not None and not isinstance(found, Unbound):
        act.at(node)
        carried.add(RESULT, zero_of(found), even=False)


class _Trial(Carried):
    """Carried names of a round that is lowered only to learn a type."""

    def __init__(self, carried: Carried) -> None:
        super().__init__(carried.act, carried.body, carried.node)
        self.slots, self.entries = carried.slots, carried.entries

    def yields(self) -> tuple[Value, ...]:
        return ()


__all__ = ["INDEX", "lower_for", "lower_while", "tile"]
