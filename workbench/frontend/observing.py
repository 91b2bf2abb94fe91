"""Looking at a kernel that somebody still writes: who watches, what may be done, what is left out.

Such a kernel is lowered like any other, but for its code nobody asks. Nothing of the user's runs:
what could run code of somebody's own (`may_run`) is unknown, as arguments without a type are, and
what depends on it is skipped. Of skipped statements names and calls are checked all the same.
"""

from __future__ import annotations

import ast
import collections
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workbench.language.constexprs import constexpr
from workbench.source import KernelError

if TYPE_CHECKING:
    from workbench.frontend.activation import Activation


class _Pair(NamedTuple):
    one: int


def _class_of(value: object) -> Any:
    return type(value)


_PLAIN = (int, float, bool, str, type(None))
_KNOWN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_OURS = ("workbench", "triton")
#: Tuples in tuples, and items of one, that are looked through.
_DEEPEST, _MOST_ITEMS = 4, 1000
#: What reading an attribute gives without running anything but Python's own.
_READ_PLAINLY: tuple[type, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, _class_of(vars(_Pair)["one"]),
)  # fmt: skip
_OF_COLLECTIONS: Any = vars(collections)
#: How attributes of a tuple are read that has no way of its own.
_READS: Any = vars(tuple)["__getattribute__"]


class Observer(Protocol):
    """Who watches a kernel being lowered."""

    def spend(self) -> None:
        """Note a step; raises ErrorLimitError when the look has taken long enough."""
        ...

    def saw(self, act: Activation, node: ast.AST, value: Any) -> None:
        """Note what an expression, a name that is assigned or a parameter holds."""
        ...

    def skipped(self, act: Activation, node: ast.stmt) -> None:
        """Note a statement that could not be lowered to its end."""
        ...


def may_run(value: Any, deep: int = _DEEPEST) -> bool:
    """Say whether using a value runs code of somebody else than Python and us.

    Reading an attribute may, and so may an operator, a call, a comparison, of an object of a class
    that the user wrote. Long or deep tuples are not looked through: they may hold such an object.
    """
    while _class_of(value) is constexpr:
        value = value.value
    kind = _class_of(value)
    if kind is types.ModuleType and "__getattr__" in vars(value):
        return not is_ours(value)
    if kind is type:  # a class without a metaclass of its own: nothing is made of it here
        return not is_ours(value) and _reads_run(value)
    listed = kind is list or (tuple in kind.__mro__ and kind.__getattribute__ is _READS)
    if listed:
        if kind is not list and is_odd_tuple(kind):
            return True
        if not deep or len(value) > _MOST_ITEMS:
            return True
        return any(may_run(item, deep - 1) for item in value)
    return not (kind in _PLAIN or kind in _KNOWN or is_ours(kind))


def is_odd_tuple(kind: type) -> bool:
    """Say whether a class of tuples has operators or attributes of the user's own."""
    if kind is tuple or is_ours(kind):
        return False
    own = kind.__mro__[: kind.__mro__.index(tuple)]
    operators = [
        value
        for each in own
        for name, value in vars(each).items()
        if name.startswith("__") and name not in ("__new__", "__init__", "__init_subclass__")
    ]
    return (
        len(own) + 2 != len(kind.__mro__)
        or _reads_run(kind, of_values=True)
        # Those of a NamedTuple are Python's.
        or any(
            _class_of(value) is types.FunctionType and value.__globals__ is not _OF_COLLECTIONS
            for value in operators
        )
    )


def _reads_run(kind: type, *, of_values: bool = False) -> bool:
    """Say whether reading an attribute of a class, or of its values, may run the user's code."""
    harmless = _READ_PLAINLY if of_values else (*_READ_PLAINLY, property)
    for each in kind.__mro__:
        if is_ours(each):
            continue
        for value in vars(each).values():
            inner = _class_of(value)
            if inner in (classmethod, staticmethod):
                inner = _class_of(value.__func__)
            if hasattr(inner, "__get__") and inner not in harmless:
                return True
    return False


def is_ours(what: Any) -> bool:
    """Say whether a class, function or module is part of us, of Triton, or of Python's math."""
    name = what.__name__ if isinstance(what, types.ModuleType) else what.__module__
    root = str(name).partition(".")[0]
    return root in _OURS or root in ("math", "builtins")


def check_unlowered(act: Activation, node: ast.AST) -> Iterator[tuple[KernelError, bool]]:
    """Yield what is wrong with a skipped statement whatever its values are, and whether it counts.

    That are names that nobody has, and calls of tl functions that their signatures do not fit. What
    stands under a condition that is unknown may never be reached: it does not count.
    """
    local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_stored(n)}
    local |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    yield from _check(act, node, local, counts=True)


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _check(
    act: Activation, node: ast.AST, local: set[str], *, counts: bool
) -> Iterator[tuple[KernelError, bool]]:
    if isinstance(node, ast.If | ast.IfExp):
        yield from _check(act, node.test, local, counts=counts)
        others = [child for child in ast.iter_child_nodes(node) if child is not node.test]
        for child in others:
            yield from _check(act, child, local, counts=False)
        return
    if isinstance(node, ast.Attribute | ast.Name) and _is_path(node, local):
        error = _wrong_path(act, node)
        if error is not None:
            yield error, counts
        return
    if isinstance(node, ast.Call):
        error = _wrong_call(act, node, local)
        if error is not None:
            yield error, counts
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield from _check(act, child, local, counts=counts)


def _is_path(node: ast.expr, local: set[str]) -> bool:
    """Say whether an expression is a name, or attributes of one, from outside the statement."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and not _is_stored(node) and node.id not in local


def _wrong_path(act: Activation, node: ast.expr) -> KernelError | None:
    from workbench.frontend.activation import PoisonError
    from workbench.frontend.expressions import evaluate

    try:
        evaluate(act, node)
    except PoisonError:
        return None
    except KernelError as error:
        return error.at(act.span(node))
    return None


def _wrong_call(act: Activation, node: ast.Call, local: set[str]) -> KernelError | None:
    from workbench.frontend.activation import PoisonError
    from workbench.frontend.calls import check_call
    from workbench.frontend.expressions import evaluate

    named = [keyword.arg for keyword in node.keywords]
    if any(isinstance(argument, ast.Starred) for argument in node.args) or None in named:
        return None
    if not _is_path(node.func, local):
        return None
    try:
        function = evaluate(act, node.func)
        inner = getattr(function, "__func__", function)
        row = getattr(inner, "__signature_row__", None)
        if row is not None:
            given = {str(name): None for name in named}
            check_call(act, row, function is not inner, list(node.args), given, node)
    except PoisonError:
        return None
    except KernelError as error:
        return error.at(act.span(node)) if error.code == "K220" else None
    return None
