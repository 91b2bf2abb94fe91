"""What goes round a run-time loop: tensors and tuples of tensors, each of one type.

An int32 is carried as `index` where it advances evenly (its value has a closed form), and as
`i32`, truncated every round, where it does not (language/README.md, rule 18).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    POISON,
    RESULT,
    Activation,
    Deferred,
    PoisonError,
    Unbound,
)
from workbench.frontend.branches import zero_of
from workbench.frontend.expressions import evaluate
from workbench.frontend.syntax import Assignments, Effects, advances_evenly
from workbench.ir import INDEX, Element, Op, Value
from workbench.language.block_pointers import BlockPointer
from workbench.language.constexprs import is_tuple, like
from workbench.language.descriptors import tensor_descriptor
from workbench.language.dtypes import dtype, float32, int32
from workbench.language.shapes import operand
from workbench.language.values import (
    describe_type,
    is_number,
    tensor,
    to_tensor,
    wrap,
)
from workbench.source import (
    ConstexprError,
    KernelError,
    KernelTypeError,
    Note,
    ShapeError,
    Span,
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
        """Return a fresh block argument for it."""
        return Value(self.init.type, self.name if self.name.isidentifier() else "")


class Carried:
    """The names that go round a loop, each a tensor or a tuple of tensors."""

    def __init__(self, act: Activation, node: ast.For | ast.While) -> None:
        self.act = act
        self.node = node
        self.assigned = assignments(act, node)
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
        if is_tuple(value):
            # Where a block pointer stands is index arithmetic, whatever moves it.
            even = even or isinstance(value, BlockPointer | tensor_descriptor)
            items = [self._leaves(name, item, even) for item in value]
            return like(value, items)
        if is_number(value):
            if name in self.act.constexprs:
                raise self.act.error(
                    ConstexprError,
                    f"'{name}' is a constexpr and cannot be assigned in a loop",
                    self.assigned.last.get(name, self.node),
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
            if is_tuple(entry):
                items = [leaf(item) for item in entry]
                return like(entry, items)
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
        if value is POISON:  # what went wrong with it was said where it did
            raise PoisonError
        if is_tuple(entry) and is_tuple(value) and len(entry) == len(value):
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
        self.act.at(self.assigned.last.get(name, self.node))
        return operand(value, slot.dtype, slot.shape, exact=slot.element is INDEX)

    def _changed(self, name: str, before: str, value: Any) -> KernelError:
        place = self.places.get(name)
        node = self.assigned.last.get(name, self.node)
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


def assignments(act: Activation, node: ast.For | ast.While) -> Assignments:
    """Return who assigns what in a loop."""
    known = act.session.assignments.get(node)
    if known is None:
        known = act.session.assignments[node] = Assignments(node.body)
    return known


def carry(
    act: Activation,
    node: ast.For | ast.While,
    does: Effects,
    target: str | None,
    skip: frozenset[str],
) -> Carried:
    """Return the names that go round, with their values on entry."""
    carried = Carried(act, node)
    changing = frozenset(does.names if target is None else (*does.names, target))
    for name in does.names:
        if name in skip or name not in act.scope or isinstance(act.scope[name], Unbound):
            continue
        act.at(node)
        steps = carried.assigned.touching.get(name, ())
        even = advances_evenly(steps, name, changing)
        carried.add(name, act.read(name, node), even=even)
    return carried


def prune(act: Activation) -> Callable[[ast.If], Sequence[ast.stmt] | None]:
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


def lower_round(
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


def finish(
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
            line = act.span(carried.assigned.last.get(name, node)).line
            act.scope[name] = Unbound(
                f"is assigned only inside the loop (line {line})", "give it a value before the loop"
            )
    results = op.results[-len(carried.slots) :] if carried.slots else ()
    for slot, value in zip(carried.slots, results, strict=True):
        if slot.name.isidentifier() and not value.hint:
            value.hint = slot.name
    carried.bind(results)


def restore(act: Activation, flags: tuple[Any, Any]) -> None:
    """Give break and continue back what they held for the loop outside."""
    for name, value in zip((BREAK, CONTINUE), flags, strict=True):
        if value is None:
            act.scope.pop(name, None)
        else:
            act.scope[name] = value
