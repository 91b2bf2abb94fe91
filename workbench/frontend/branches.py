"""Where two ways through the program meet: `if` statements and conditional expressions.

Both branches are lowered with scopes of their own; then every name that either changed is
reconciled: the same value stays, tensors of one type become a result of the `if`, and a name that
only one branch assigned has no value afterwards. How a branch was left (break, continue, return)
is a hidden int1 variable like any other, so leaving early needs no rule of its own here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    POISON,
    RESULT,
    RETURN,
    Activation,
    Deferred,
    Unbound,
)
from workbench.ir import Block, Op, Value, tile
from workbench.language.constexprs import is_tuple, like
from workbench.language.dtypes import int1, int32, int64
from workbench.language.shapes import operand
from workbench.language.values import (
    describe_type,
    is_number,
    kind_of,
    tensor,
    to_tensor,
)
from workbench.ops import Bitcast, Constant, If, Select, Yield
from workbench.source import KernelError, KernelTypeError, Note, ShapeError

FLAGS = (BREAK, CONTINUE, RETURN)
#: As many pure ops as a conditional expression may compute in vain.
_CHEAP = 4
_MISSING = Unbound("has no value")


@dataclass
class Slot:
    """One tensor that both branches give: its two sources and the tensor it becomes."""

    then: tensor
    otherwise: tensor
    result: tensor
    exact: bool


@contextmanager
def writing(act: Activation, ops: list[Op]) -> Generator[None]:
    """Append to a block that was written before."""
    with act.builder.block(ops):
        yield


class Merge:
    """Reconciles the values that two branches leave behind."""

    def __init__(self, act: Activation, then_ops: list[Op], else_ops: list[Op]) -> None:
        self.act = act
        self.then_ops = then_ops
        self.else_ops = else_ops
        self.slots: list[Slot] = []

    def unify(self, name: str, a: Any, b: Any, node: ast.AST) -> Any:
        """Return what a name holds after branches in which it holds `a` and `b`."""
        if a is b:
            return a
        if a is POISON or b is POISON:
            return POISON
        if isinstance(a, Unbound) or isinstance(b, Unbound):
            return self._one_sided(name, a, b, node)
        if isinstance(a, Deferred):
            a = self._made(a, self.then_ops)
        if isinstance(b, Deferred):
            b = self._made(b, self.else_ops)
        if is_tuple(a) and is_tuple(b) and len(a) == len(b):
            items = [self.unify(name, x, y, node) for x, y in zip(a, b, strict=True)]
            return like(a, items)
        if _is_run_time(a) and _is_run_time(b):
            return self._slot(name, to_tensor(a), to_tensor(b), node)
        if type(a) is type(b) and a == b:
            return a
        raise self._differs(name, a, b, node)

    def _made(self, value: Deferred, ops: list[Op]) -> tensor:
        with writing(self.act, ops):
            return value.make()

    def _one_sided(self, name: str, a: Any, b: Any, node: ast.AST) -> Any:
        given = b if isinstance(a, Unbound) else a
        if name == RESULT and not isinstance(given, Unbound):
            # The side without a value goes on; what it gives here is never looked at.
            return self.unify(
                name, *((zero_of(given), b) if given is b else (a, zero_of(given))), node
            )
        if isinstance(given, Unbound):
            return given
        line = self.act.places[name].line if name in self.act.places else self.act.span(node).line
        return Unbound(
            f"is assigned in only one branch (line {line})",
            "assign it before the 'if', or in both branches",
        )

    def _slot(self, name: str, a: tensor, b: tensor, node: ast.AST) -> tensor:
        same_number = a.constant is not None and a.constant == b.constant
        if same_number and a.dtype == b.dtype and a.shape == b.shape:
            return a
        if a.dtype != b.dtype or a.shape != b.shape:
            raise self._differs(name, a, b, node)
        exact = a.dtype == int32 and self.act.session.state.exact_index
        exact = exact and (
            a.is_exact or b.is_exact or (a.constant is not None and b.constant is not None)
        )
        result = tensor(None, a.dtype, a.shape, None, name if name.isidentifier() else "")
        self.slots.append(Slot(a, b, result, exact))
        return result

    def _differs(self, name: str, a: Any, b: Any, node: ast.AST) -> KernelError:
        shapes = isinstance(a, tensor) and isinstance(b, tensor) and a.dtype == b.dtype
        kind = ShapeError if shapes else KernelTypeError
        if name == RESULT:
            shown = "Return type mismatch: the result"
        elif name:
            shown = f"Mismatched type for {name}: it"
        else:
            shown = "Ternary expression with dynamic condition has inconsistent type: it"
        return self.act.error(
            kind,
            f"{shown} differs between the branches, {describe_type(a)} and {describe_type(b)}",
            node,
            hint="give it the same type and shape in both, e.g. with .to(...) or tl.full",
        )

    def finish(self) -> tuple[Block, Block]:
        """Write what both branches yield; returns the blocks."""
        with writing(self.act, self.then_ops):
            values = tuple(_given(s.then, s) for s in self.slots)
            self.act.builder.insert(Yield(values))
        with writing(self.act, self.else_ops):
            values = tuple(_given(s.otherwise, s) for s in self.slots)
            self.act.builder.insert(Yield(values))
        return Block((), tuple(self.then_ops)), Block((), tuple(self.else_ops))

    def bind(self, results: tuple[Value, ...]) -> None:
        """Give the merged tensors their values."""
        for slot, value in zip(self.slots, results, strict=True):
            slot.result.bind(value)


def _given(value: tensor, slot: Slot) -> Value:
    return operand(value, slot.result.dtype, slot.result.shape, exact=slot.exact)


def _is_run_time(value: Any) -> bool:
    return isinstance(value, tensor) or is_number(value)


def zero_of(value: Any) -> Any:
    """Return a value of the same type that nobody looks at; run-time parts become zeros."""
    if is_tuple(value):
        items = [zero_of(item) for item in value]
        return like(value, items)
    if isinstance(value, tensor):
        return _Zero(value.dtype, value.shape)
    return value


class _Zero(tensor):
    """A zero whose op is built in the block that needs it."""

    __slots__ = ()

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(None, dtype, shape, None if dtype.is_ptr() else 0)

    @property
    def value(self) -> Value:
        return self.stored()

    def stored(self) -> Value:
        from workbench.language.state import current

        builder = current().builder
        if not self.dtype.is_ptr():
            return super().stored()
        zero = builder.add(Constant(0, tile(self.shape, int64.element)))
        return builder.add(Bitcast(zero, self.dtype.element))


# -- statements -----------------------------------------------------------------------------
def lower_if(
    act: Activation,
    test: tensor,
    then: Callable[[], None],
    otherwise: Callable[[], None],
    node: ast.AST,
    end: ast.AST,
) -> None:
    """Lower a run-time `if`; `end` is the last statement that the branches cover."""
    span = act.span(node)
    before = act.scope
    then_ops, then_scope = _branch(act, then, before)
    else_ops, else_scope = _branch(act, otherwise, before)
    act.scope = dict(before)
    act.builder.span = span
    merge = Merge(act, then_ops, else_ops)
    _reconcile(act, merge, then_scope, else_scope, node, end)
    blocks = merge.finish()
    act.builder.span = span
    op = act.builder.insert(If(test.value, *blocks))
    merge.bind(op.results)


def _branch(
    act: Activation, body: Callable[[], None], before: dict[str, Any]
) -> tuple[list[Op], dict[str, Any]]:
    act.scope = dict(before)
    try:
        with act.builder.block() as ops:
            body()
        return ops, act.scope
    finally:
        act.scope = before


def _reconcile(
    act: Activation,
    merge: Merge,
    then_scope: dict[str, Any],
    else_scope: dict[str, Any],
    node: ast.AST,
    end: ast.AST,
) -> None:
    before = act.scope
    then_left, else_left = _has_left(then_scope), _has_left(else_scope)
    for name in dict.fromkeys([*then_scope, *else_scope]):
        a, b = then_scope.get(name, _MISSING), else_scope.get(name, _MISSING)
        old = before.get(name, _MISSING)
        if a is old and b is old:
            continue
        hidden = name in FLAGS or name == RESULT
        if name in act.unread and not _same_flag(a, b):
            continue
        if not hidden:
            if then_left and else_left:
                continue
            if then_left or else_left:
                a, b = _of_living(a, b, then_left)
        before[name] = value = merge.unify(name, a, b, node)
        if not hidden and not act.is_read_after(name, end):
            _drop(merge, value)


def _same_flag(a: Any, b: Any) -> bool:
    known = isinstance(a, tensor) and isinstance(b, tensor) and a.constant is not None
    return known and a.constant == b.constant


def _has_left(scope: dict[str, Any]) -> bool:
    flag = scope.get(RETURN)
    return isinstance(flag, tensor) and flag.constant is True


def _of_living(a: Any, b: Any, then_left: bool) -> tuple[Any, Any]:
    """One branch has returned: what it holds is never read, so it takes the other's type."""
    dead, living = (a, b) if then_left else (b, a)
    same = (
        isinstance(dead, tensor)
        and isinstance(living, tensor)
        and dead.dtype == living.dtype
        and dead.shape == living.shape
    )
    if not same and not isinstance(living, Unbound | Deferred):
        dead = zero_of(living)
    return (dead, living) if then_left else (living, dead)


def _drop(merge: Merge, value: Any) -> None:
    """Yield nothing for a name that is never read again (its types were checked)."""
    items = value if is_tuple(value) else (value,)
    for item in items:
        merge.slots = [s for s in merge.slots if s.result is not item]


# -- expressions ----------------------------------------------------------------------------
def choose(
    act: Activation,
    test: tensor,
    then: Callable[[], Any],
    otherwise: Callable[[], Any],
    node: ast.AST,
) -> Any:
    """Return `x if test else y`: a select where both are cheap scalars, else an `if`."""
    with act.builder.block() as then_ops:
        a = then()
    with act.builder.block() as else_ops:
        b = otherwise()
    act.at(node)
    merge = Merge(act, then_ops, else_ops)
    result = merge.unify("", a, b, node)
    if _is_cheap(then_ops) and _is_cheap(else_ops) and not any(s.result.shape for s in merge.slots):
        act.builder.ops.extend([*then_ops, *else_ops])
        for slot in merge.slots:
            sides = _given(slot.then, slot), _given(slot.otherwise, slot)
            slot.result.bind(act.builder.add(Select(test.value, *sides)))
        return result
    blocks = merge.finish()
    op = act.builder.insert(If(test.value, *blocks))
    merge.bind(op.results)
    return result


def _is_cheap(ops: list[Op]) -> bool:
    return len(ops) <= _CHEAP and all(op.pure and not op.regions for op in ops)


__all__ = ["FLAGS", "Merge", "Note", "choose", "int1", "kind_of", "lower_if", "writing", "zero_of"]
