"""Python statements: assignments, branches, ways out, and recovery after an error.

A list of statements is lowered front to back. What follows an `if` that may leave the loop or the
function is lowered inside the branch that stays (or under a guard), so that control flow in the IR
is structured whatever the author wrote.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from workbench.frontend.activation import (
    BREAK,
    CONTINUE,
    POISON,
    RESULT,
    RETURN,
    Activation,
    PoisonError,
    unsupported,
)
from workbench.frontend.branches import FLAGS, lower_if
from workbench.frontend.expressions import binary, evaluate, truth
from workbench.frontend.loops import lower_for
from workbench.frontend.syntax import effects, leaves
from workbench.frontend.whiles import lower_while
from workbench.language import arithmetic as maths
from workbench.language import debug
from workbench.language.constexprs import is_tuple, like
from workbench.language.dtypes import int1
from workbench.language.values import (
    describe,
    is_number,
    static,
    tensor,
    to_tensor,
)
from workbench.source import (
    CompileError,
    ConstexprError,
    KernelError,
    KernelTypeError,
    StaticAssertError,
    UnsupportedSyntaxError,
    shown,
)

_WORDS: dict[type[ast.stmt], str] = {
    ast.Try: "try", ast.TryStar: "try", ast.With: "with", ast.ClassDef: "class",
    ast.FunctionDef: "def", ast.AsyncFunctionDef: "async def", ast.AsyncFor: "async for",
    ast.AsyncWith: "async with", ast.Global: "global", ast.Nonlocal: "nonlocal", ast.Raise: "raise",
    ast.Import: "import", ast.ImportFrom: "import", ast.Delete: "del", ast.Match: "match",
}  # fmt: skip
_HINTS: dict[type[ast.stmt], str] = {
    ast.Try: "move the try block to the host function around the launch",
    ast.With: "write the body without the 'with'",
    ast.FunctionDef: "move the helper function out of the kernel; it is inlined where it is called",
    ast.ClassDef: "use a tuple or a namedtuple passed from the host",
    ast.Import: "move the import to the top of the cell",
    ast.ImportFrom: "move the import to the top of the cell",
    ast.Raise: "use tl.device_assert, or tl.static_assert for constexprs",
    ast.Match: "use if/elif/else",
    ast.Delete: "leave it out: names end with the kernel",
    ast.Global: "a kernel stores what it computes through a pointer argument",
    ast.Nonlocal: "a kernel stores what it computes through a pointer argument",
}


def flag(value: bool) -> tensor:
    """Return the hidden variable that says whether a block was left."""
    return tensor(None, int1, (), value)


def lower_block(act: Activation, statements: Sequence[ast.stmt]) -> None:
    """Lower statements; errors are reported and the names they should assign are poisoned."""
    rest = list(statements)
    unread = act.unread
    while rest:
        node = rest.pop(0)
        act.unread = frozenset() if rest else unread
        try:
            act.session.spend(1, act, node)
            if isinstance(node, ast.If):
                rest = _lower_if(act, node, rest, unread)
            else:
                _HANDLERS.get(type(node), _refuse)(act, node)
            if isinstance(
                node, ast.If | ast.For | ast.While | ast.Return | ast.Break | ast.Continue
            ):
                act.unread = unread
                rest = _after(act, rest)
        except KernelError as error:
            if isinstance(error, StaticAssertError) and error.hint is None:
                error.hint = _of_constexprs(act, node)
            act.session.report(error)
            _skip(act, node)
        except PoisonError:
            _skip(act, node)
        except RecursionError:
            act.session.report(_too_deep(act, node))
            _skip(act, node)
    act.unread = unread


def _of_constexprs(act: Activation, node: ast.stmt) -> str:
    """Say what the constexprs are that a static assertion asks about."""
    names = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    found = {name: act.scope.get(name) for name in names if name in act.constexprs}
    said = ", ".join(f"{name} = {shown(value, 40)}" for name, value in found.items())
    asked = "launch with values for which it holds"
    return f"here {said}; {asked}" if said else asked


def _too_deep(act: Activation, node: ast.stmt) -> KernelError:
    return act.error(
        UnsupportedSyntaxError, "this statement nests deeper than the compiler can follow", node,
        hint="write a long sum in several statements: s = a + b, then s = s + c",
    )  # fmt: skip


def _skip(act: Activation, node: ast.stmt) -> None:
    poison(act, node)
    if act.session.observer is not None:
        act.session.observer.skipped(act, node)


def poison(act: Activation, node: ast.stmt) -> None:
    """Mark what a failed statement should have assigned."""
    for name in effects([node]).names:
        act.scope[name] = POISON


def left(act: Activation) -> bool | tensor:
    """Return whether this block was left: a bool if known, else a condition."""
    unknown: tensor | None = None
    for name in FLAGS:
        value = act.scope.get(name)
        if value is None or value.constant is False:
            continue
        if value.constant is True:
            return True
        unknown = value if unknown is None else maths.arithmetic("|", unknown, value)
    return unknown if unknown is not None else False


def _after(act: Activation, rest: list[ast.stmt]) -> list[ast.stmt]:
    """Return what remains to be lowered after a statement that may have left the block."""
    if not rest:
        return rest
    gone = left(act)
    if gone is False:
        return rest
    if isinstance(gone, tensor):
        act.at(rest[0])
        stays = maths.logical_not(gone)
        lower_if(act, stays, lambda: lower_block(act, rest), _nothing, rest[0], rest[-1])
    return []


def _nothing() -> None:
    """The empty branch."""


# -- branches -------------------------------------------------------------------------------
def _lower_if(
    act: Activation, node: ast.If, rest: list[ast.stmt], unread: frozenset[str]
) -> list[ast.stmt]:
    """Lower an `if`; returns the statements that still follow."""
    test = truth(act, evaluate(act, node.test), node.test, "if")
    if isinstance(test, bool):
        act.taken.setdefault(node, set()).add(test)
        return [*(node.body if test else node.orelse), *rest]
    then, otherwise = list(node.body), list(node.orelse)
    stays: list[ast.stmt] = rest
    if rest and leaves(then) != leaves(otherwise):
        # One branch never comes back: what follows belongs to the other.
        (otherwise if leaves(then) else then).extend(rest)
        stays = []
    elif rest and leaves(then) and leaves(otherwise):
        stays = []
    end = rest[-1] if rest and not stays else node
    if not stays:
        act.unread = unread
    lower_if(
        act, test, lambda: lower_block(act, then), lambda: lower_block(act, otherwise), node, end
    )
    return stays


# -- assignments ----------------------------------------------------------------------------
def decay(value: Any) -> Any:
    """Return what an assignment keeps: numbers become strong constants (rule 2)."""
    if is_number(value):
        return to_tensor(value)
    if is_tuple(value):
        items = [decay(item) for item in value]
        return like(value, items)
    return value


def assign(
    act: Activation, target: ast.expr, value: Any, node: ast.AST, *, weak: bool = False
) -> None:
    """Give a target its value; `weak` keeps numbers as they are."""
    if isinstance(target, ast.Name) and target.id in act.declared:
        _assign_constexpr(act, target, value, node)
    elif isinstance(target, ast.Name):
        _assign_name(act, target.id, value if weak else decay(value), node)
        act.saw(target, act.scope[target.id])
    elif isinstance(target, ast.Tuple | ast.List):
        starred = next((one for one in target.elts if isinstance(one, ast.Starred)), None)
        if starred is not None:
            raise act.error(
                UnsupportedSyntaxError,
                f"'{ast.unparse(starred)}' cannot take the rest of the values in a kernel",
                starred,
                hint="keep the tuple under a name and take its parts: first, rest = t[0], t[1:]",
            )
        if not is_tuple(value):
            raise act.error(
                KernelTypeError,
                f"{len(target.elts)} names cannot be assigned from {describe(value)}",
                node,
                hint="only tuples are taken apart; tl.split halves a block",
            )
        if len(value) != len(target.elts):
            raise act.error(
                KernelTypeError,
                f"{len(target.elts)} names are assigned from {len(value)} values",
                node,
                hint="write as many names as there are values",
            )
        for item, part in zip(target.elts, value, strict=True):
            assign(act, item, part, node, weak=weak)
    elif isinstance(target, ast.Subscript):
        raise act.error(
            UnsupportedSyntaxError,
            "an element of a block or tuple cannot be assigned",
            target,
            hint="build a new value with tl.where, or store to memory by pointer",
        )
    else:
        raise act.error(
            UnsupportedSyntaxError,
            f"'{ast.unparse(target)}' cannot be assigned in a kernel",
            target,
            hint="values do not change: give the new one a name of its own",
        )


def _assign_name(act: Activation, name: str, value: Any, node: ast.AST) -> None:
    # From here on an ordinary variable, as in Triton; in a loop `carried.py` refuses it.
    act.constexprs.discard(name)
    if isinstance(value, tensor):
        if not value.name:
            value.name, value.place = name, act.span(node)
        known = value.known_value
        if known is not None and not known.hint:
            known.hint = name
    act.scope[name] = value
    act.places[name] = act.span(node)


def _assign(act: Activation, node: ast.Assign) -> None:
    value = evaluate(act, node.value)
    if len(node.targets) > 1:
        act.at(node)
        act.session.state.superset("an assignment to several targets")
    for target in node.targets:
        assign(act, target, value, node)


def _augmented(act: Activation, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise act.error(
            UnsupportedSyntaxError,
            f"'{ast.unparse(node.target)}' cannot be assigned in a kernel",
            node.target,
            hint="build a new value with tl.where, or store to memory by pointer"
            if isinstance(node.target, ast.Subscript)
            else "values do not change: give the new one a name of its own",
        )
    old = act.read(node.target.id, node.target)
    value = evaluate(act, node.value)
    assign(act, node.target, binary(act, node.op, old, value, node), node)


def _annotated(act: Activation, node: ast.AnnAssign) -> None:
    is_constexpr = "constexpr" in ast.unparse(node.annotation)
    if not isinstance(node.target, ast.Name):
        raise act.error(
            UnsupportedSyntaxError, "an annotation needs one name", node, hint="write x: T = value"
        )
    if node.value is None:  # a declaration: it says what later assignments make (Triton 3.8)
        if is_constexpr:
            act.declared.add(node.target.id)
        return
    value = evaluate(act, node.value)
    if not is_constexpr:
        assign(act, node.target, value, node)
        return
    act.at(node.value)
    _assign_constexpr(act, node.target, value, node)


def _assign_constexpr(act: Activation, target: ast.Name, value: Any, node: ast.AST) -> None:
    name = target.id
    if isinstance(value, tensor) and (value.constant is None or value.shape):
        # As in Triton the annotation is no check: what needs a compile-time value refuses it.
        act.session.remark(f"'{name}' is annotated as a constexpr, it got a run-time value")
        _assign_name(act, name, decay(value), node)
        act.saw(target, act.scope[name])
        return
    known = static(value, f"'{name}', annotated as constexpr,")
    place = act.span(node)
    if name in act.constexprs and act.places.get(name) != place:
        raise act.error(
            ConstexprError,
            f"'{name}' is a constexpr and cannot be assigned again",
            node,
            hint="give the new value a name of its own",
        )
    act.scope[name] = known
    act.places[name] = place
    act.constexprs.add(name)


# -- ways out -------------------------------------------------------------------------------
def _return(act: Activation, node: ast.Return) -> None:
    value = None if node.value is None else decay(evaluate(act, node.value))
    if act.is_kernel and value is not None:
        raise act.error(
            CompileError,
            "a kernel returns nothing",
            node,
            hint="store the value through a pointer argument",
            code="K212",
        )
    if act.loops:
        act.at(node)
        act.session.state.superset("a return inside a loop")
    act.scope[RETURN] = flag(True)
    act.scope[RESULT] = value


def _leave_loop(name: str) -> Callable[[Activation, ast.stmt], None]:
    word = name.strip("<>")

    def lower(act: Activation, node: ast.stmt) -> None:
        if not act.loops:
            raise act.error(
                UnsupportedSyntaxError,
                f"'{word}' stands outside a loop",
                node,
                hint="put it into a for or while loop; return leaves a function",
            )
        act.at(node)
        act.session.state.superset(f"'{word}'")
        act.scope[name] = flag(True)

    return lower


# -- the rest -------------------------------------------------------------------------------
def _expression(act: Activation, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return
    evaluate(act, node.value)
    if not isinstance(node.value, ast.Call):
        return
    wanted = getattr(evaluate(act, node.value.func), "_must_use_result", False)
    if wanted:
        why = f": {wanted}" if isinstance(wanted, str) else ""
        raise act.error(
            UnsupportedSyntaxError,
            f"the result of {ast.unparse(node.value.func)} is not used{why}",
            node,
            hint="assign it to a name",
        )


def _pass(act: Activation, node: ast.Pass) -> None:
    """Nothing to lower."""


def _assert(act: Activation, node: ast.Assert) -> None:
    test = evaluate(act, node.test)
    message = "" if node.msg is None else evaluate(act, node.msg)
    act.at(node)
    debug.device_assert(test, message or ast.unparse(node.test))


def _refuse(act: Activation, node: ast.stmt) -> None:
    word = _WORDS.get(type(node), type(node).__name__.lower())
    raise unsupported(act, word, _head(node), _HINTS.get(type(node)))


def _head(node: ast.stmt) -> ast.AST:
    """Return a node for the first line of a compound statement: the error points at that."""
    if not getattr(node, "body", None):
        return node
    line = ast.Pass()
    line.lineno = line.end_lineno = node.lineno
    line.col_offset = node.col_offset
    text = _WORDS.get(type(node), "")
    line.end_col_offset = node.col_offset + len(text) + (isinstance(node, ast.Try | ast.TryStar))
    return line


_HANDLERS: dict[type[ast.stmt], Callable[[Activation, Any], None]] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Break: _leave_loop(BREAK),
    ast.Continue: _leave_loop(CONTINUE),
    ast.Pass: _pass,
    ast.Assert: _assert,
    ast.For: lower_for,
    ast.While: lower_while,
}
