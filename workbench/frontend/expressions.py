"""Python expressions: each becomes a value known now, or ops that compute it."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence
from typing import Any

import workbench.language as tl
from workbench.frontend.activation import Activation, PoisonError, suggestion, unsupported
from workbench.frontend.branches import choose
from workbench.frontend.words import of_member
from workbench.language import arithmetic as maths
from workbench.language.aggregates import Aggregate
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import constexpr, constexpr_type, is_tuple, unwrap
from workbench.language.control import LoopRange
from workbench.language.dtypes import dtype, int1, tuple_type
from workbench.language.former import instead_of
from workbench.language.indexing import subscript
from workbench.language.methods import MEMBERS
from workbench.language.values import (
    describe,
    is_number,
    kind_of,
    static,
    tensor,
    to_tensor,
)
from workbench.language.versions import OtherVersionError
from workbench.ops import Reshape
from workbench.source import (
    ConstexprError,
    KernelError,
    KernelTypeError,
    ShapeError,
    UnknownNameError,
    UnsupportedSyntaxError,
    limit_of,
    over_budget,
    shown,
)
from workbench.source.budgets import check_value, members
from workbench.source.evaluation import formatted

_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: maths.negative, ast.UAdd: maths.positive, ast.Invert: maths.inverted,
    ast.Not: maths.logical_not,
}  # fmt: skip
_SPECIAL: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.USub: "neg", ast.UAdd: "pos",
    ast.Invert: "invert", ast.Subscript: "getitem",
}  # fmt: skip
_WORDS: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda", ast.Dict: "a dict", ast.Set: "a set",
    ast.DictComp: "a dict comprehension", ast.SetComp: "a set comprehension",
    ast.GeneratorExp: "a generator", ast.Await: "await",
    ast.Starred: "a star", ast.Yield: "yield", ast.YieldFrom: "yield from",
}  # fmt: skip
_HINTS: dict[type[ast.expr], str] = {
    ast.Lambda: "write a function of its own outside the kernel, with @triton.jit, and call it",
    ast.Dict: "use names, a tuple, or a NamedTuple that is passed to the kernel",
    ast.Set: "use a tuple",
    ast.DictComp: "use names, a tuple, or a NamedTuple that is passed to the kernel",
    ast.SetComp: "use a tuple",
    ast.Await: "move it to the host function around the launch",
    ast.Starred: "take a tuple apart in a call, f(*t), or in a tuple, (*t, x)",
    ast.YieldFrom: "a kernel stores what it computes through a pointer argument",
    ast.Yield: "a kernel stores what it computes through a pointer argument",
    ast.GeneratorExp: "write a loop, or tl.static_range for one that is written out",
}

_LIBRARIES = (tl.extra.libdevice, tl.math)


def evaluate(act: Activation, node: ast.expr) -> Any:
    """Return the value of an expression."""
    act.session.spend(1, act, node)
    handler = _HANDLERS.get(type(node))
    if handler is None:
        word = _WORDS.get(type(node), type(node).__name__)
        raise unsupported(act, word, node, _HINTS.get(type(node)))
    value = handler(act, node)
    act.saw(node, value)
    return value


def evaluate_each(act: Activation, nodes: Sequence[ast.expr]) -> list[Any]:
    """Return the values of expressions that do not depend on each other; all errors are reported.

    Raises the first one, which is not reported twice.
    """
    found: list[Any] = []
    failed: KernelError | PoisonError | None = None
    for node in nodes:
        try:
            found.append(evaluate(act, node))
        except KernelError as error:
            act.session.report(error)
            failed = failed or error
        except PoisonError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return found


def truth(act: Activation, value: Any, node: ast.AST, what: str) -> Any:
    """Return a condition: a Python bool if it is known now, else a scalar int1 tensor."""
    if isinstance(value, tensor):
        return _run_time_truth(act, value, node, what)
    if value is None or isinstance(value, bool | int):
        return bool(value)
    raise act.error(
        KernelTypeError,
        f"the condition of '{what}' is a {kind_of(value)}, it must be a bool, an int or None",
        node,
        hint="compare it, e.g. x == 'a' or len(x) > 0",
    )


def _run_time_truth(act: Activation, value: tensor, node: ast.AST, what: str) -> Any:
    if value.constant is not None and not value.shape:
        return bool(value.constant)
    act.at(node)
    if value.shape:
        if value.numel != 1:
            raise act.error(
                ShapeError,
                f"the condition of '{what}' is a block: {describe(value)}",
                node,
                hint="use tl.where(condition, x, y) to choose element by element",
            )
        act.session.remark(f"the condition of '{what}' is a block of one element", "warning")
        value = tensor(act.builder.add(Reshape(value.value, ())), value.dtype)
    if value.dtype.is_ptr():
        act.session.remark(
            f"the condition of '{what}' is a pointer: it holds unless the address is 0", "warning"
        )
        return cast_tensor(value, int1)
    return value if value.dtype == int1 else maths.compare("!=", value, 0)


# -- leaves ---------------------------------------------------------------------------------
def _constant(act: Activation, node: ast.Constant) -> Any:
    if isinstance(node.value, bytes | complex):
        raise unsupported(
            act,
            f"a {type(node.value).__name__} literal",
            node,
            "kernels compute with numbers; pass text and bytes as arrays of tl.uint8",
        )
    act.at(node)
    return check_value(node.value)


def _name(act: Activation, node: ast.Name) -> Any:
    return act.read(node.id, node)


def _sequence(act: Activation, node: ast.Tuple | ast.List) -> Any:
    values = tuple(_items(act, node.elts))
    act.at(node)
    act.session.spend(members(values), act, node)
    return values


def _items(act: Activation, nodes: list[ast.expr]) -> list[Any]:
    """Evaluate expressions, all of them even if one fails, so that all errors are reported."""
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            inner = evaluate(act, node.value)
            if not is_tuple(inner):
                raise act.error(
                    KernelTypeError,
                    f"'*' needs a tuple, got {describe(inner)}",
                    node,
                    hint="a tuple is taken apart: (*(a, b), c); a block is one value",
                )
            values.extend(inner)
        else:
            values.append(evaluate(act, node))
    return values


def _attribute(act: Activation, node: ast.Attribute) -> Any:
    value = evaluate(act, node.value)
    if isinstance(value, tensor):
        return _tensor_attribute(act, value, node)
    if isinstance(value, types.ModuleType):
        return _module_attribute(act, value, node)
    act.guard(value)
    if node.attr == "value" and not hasattr(value, "value"):
        return value
    if is_number(value) and node.attr in MEMBERS:
        act.at(node)
        if node.attr == "type":  # as good as the value; `dtype` says what it is beside tensors
            return constexpr_type(value)
        act.session.state.superset(f".{node.attr} of a number known at compile time")
        return getattr(to_tensor(value), node.attr)
    try:
        return unwrap(getattr(value, node.attr))
    except AttributeError:
        if is_tuple(value) and node.attr == "type":
            return _type_of(value)
        names = [n for n in dir(value) if not n.startswith("_")]
        other = of_member(node.attr) if is_tuple(value) else None
        raise act.error(
            UnknownNameError,
            f"a {kind_of(value)} has no attribute '{node.attr}'",
            node,
            hint=other or suggestion(node.attr, names, ".") or _without_it(value),
        ) from None


def _without_it(value: Any) -> str:
    if value is None:
        return "ask first: if x is not None (an argument that is left out may be None)"
    return "use what Python's dir() lists of it"


def _type_of(value: Any) -> Any:
    """Return the type of a value, as Triton says it."""
    if isinstance(value, tensor):
        return value.type
    if is_tuple(value) and not isinstance(value, Aggregate):
        return tuple_type([_type_of(item) for item in value], getattr(value, "_fields", None))
    return constexpr_type(value)


def _tensor_attribute(act: Activation, value: tensor, node: ast.Attribute) -> Any:
    if node.attr not in MEMBERS:
        raise act.error(
            UnknownNameError,
            f"a tensor has no attribute '{node.attr}'",
            node,
            hint=of_member(node.attr) or suggestion(node.attr, MEMBERS, "."),
        )
    act.at(node)
    return getattr(value, node.attr)


def _module_attribute(act: Activation, module: types.ModuleType, node: ast.Attribute) -> Any:
    name, root = node.attr, module.__name__.partition(".")[0]
    if root == "triton":
        module = _our_module(module)
    try:
        value = unwrap(getattr(module, name))
    except AttributeError as error:
        raise _no_member(act, module, node, error) from None
    act.guard(value)
    return value


def _our_module(module: types.ModuleType) -> types.ModuleType:
    """Return our module for one of an installed Triton: names are resolved, never run."""
    if module.__name__ == "triton":
        return tl
    head, found, rest = module.__name__.partition("triton.language")
    if head or not found:
        return module
    ours: types.ModuleType | None = tl
    for name in rest.split(".")[1:]:
        ours = getattr(ours, name, None)
    return ours if isinstance(ours, types.ModuleType) else tl


def _no_member(
    act: Activation, module: types.ModuleType, node: ast.Attribute, error: AttributeError
) -> UnknownNameError:
    shown = ast.unparse(node.value)
    other = str(error) if isinstance(error, OtherVersionError) else None
    if module is tl or module in _LIBRARIES:
        known = module.__all__
    else:
        known = [n for n in vars(module) if not n.startswith("_")]
    return act.error(
        UnknownNameError,
        f"'{shown}' has no function '{node.attr}'",
        node,
        hint=other or _instead(module, node.attr) or suggestion(node.attr, known, f"{shown}."),
    )


def _instead(module: types.ModuleType, name: str) -> str:
    """Return what to write for a name that an older Triton, a library or a sister module has."""
    path = module.__name__.replace("workbench.language", "tl", 1)
    found = instead_of(path, name)
    if not found and module is tl and name in tl.extra.libdevice.__all__:
        return f"write libdevice.{name}, `from triton.language.extra import libdevice`"
    return found


# -- operators ------------------------------------------------------------------------------
def operator_of(value: Any, op: ast.AST) -> Any:
    """Return the method by which an aggregate defines an operator, None if it does not."""
    if not isinstance(value, Aggregate):
        return None
    return value.__operators__.get(f"__{_SPECIAL.get(type(op))}__")


def _binary(act: Activation, node: ast.BinOp) -> Any:
    a, b = evaluate_each(act, (node.left, node.right))
    return binary(act, node.op, a, b, node)


def binary(act: Activation, op: ast.operator | ast.cmpop, a: Any, b: Any, node: ast.AST) -> Any:
    """Return `a op b`; an aggregate on the left says itself what its operators mean."""
    act.at(node)
    special = operator_of(a, op)
    if special is None:
        return maths.binary(_SYMBOLS[type(op)], a, b)
    return _call_special(act, special, [a, b], node)


def _call_special(act: Activation, function: Any, args: list[Any], node: ast.AST) -> Any:
    from workbench.frontend.calls import call

    return call(act, function, args, {}, node)


def _unary(act: Activation, node: ast.UnaryOp) -> Any:
    value = evaluate(act, node.operand)
    act.at(node)
    special = operator_of(value, node.op)
    if special is not None:
        return _call_special(act, special, [value], node)
    if not isinstance(value, tensor) and not isinstance(node.op, ast.Not) and not is_number(value):
        raise KernelTypeError(
            f"this operator does not take {describe(value)}", hint="pass a number or a tensor there"
        )
    return _UNARY[type(node.op)](value)


def _bool(act: Activation, node: ast.BoolOp) -> Any:
    """`and`, `or`: values known now short-circuit, run-time ones do not (rule 9)."""
    word = "and" if isinstance(node.op, ast.And) else "or"
    result = evaluate(act, node.values[0])
    for operand in node.values[1:]:
        if not isinstance(result, tensor):
            if bool(result) == (word == "or"):
                return result
            result = evaluate(act, operand)
            continue
        other = evaluate(act, operand)
        act.at(node)
        result = maths.logical(word, result, other)
    return result


def _compare(act: Activation, node: ast.Compare) -> Any:
    left = evaluate(act, node.left)
    result: Any = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(act, right_node)
        act.at(node)
        one = _compare_once(act, op, left, right, node)
        if result is None:
            result = one
        elif isinstance(result, tensor) or isinstance(one, tensor):
            result = maths.logical("and", result, one)
        else:
            result = result and one
        if not isinstance(result, tensor) and not result:
            return result
        left = right
    if len(node.ops) > 1 and isinstance(result, tensor):
        act.session.state.superset("a chained comparison; write (a < b) & (b < c)")
    return result


def _compare_once(act: Activation, op: ast.cmpop, a: Any, b: Any, node: ast.Compare) -> Any:
    if isinstance(op, ast.Is | ast.IsNot):
        same = a is b or (not isinstance(a, tensor) and type(a) is type(b) and a == b)
        return same == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        known = [static(v, "an operand of 'in'") for v in (a, b)]
        try:
            return (known[0] in known[1]) == isinstance(op, ast.In)
        except TypeError as error:
            raise act.error(
                KernelTypeError,
                f"'in' does not take {describe(b)}",
                node,
                hint="it looks into a tuple or a string known at compile time",
            ) from error
    return binary(act, op, a, b, node)


def _conditional(act: Activation, node: ast.IfExp) -> Any:
    test = truth(act, evaluate(act, node.test), node.test, "if")
    if isinstance(test, bool):
        return evaluate(act, node.body if test else node.orelse)
    return choose(
        act,
        test,
        lambda: evaluate(act, node.body),
        lambda: evaluate(act, node.orelse),
        node,
    )


def _named(act: Activation, node: ast.NamedExpr) -> Any:
    from workbench.frontend.statements import assign

    value = evaluate(act, node.value)
    act.at(node)
    act.session.state.superset("an assignment inside an expression")
    assign(act, node.target, value, node)
    return act.read(node.target.id, node)


# -- subscripts -----------------------------------------------------------------------------
def _subscript(act: Activation, node: ast.Subscript) -> Any:
    value = evaluate(act, node.value)
    key = _key(act, node.slice)
    act.at(node)
    if isinstance(value, tensor):
        return subscript(value, key, ast.unparse(node.slice))
    special = operator_of(value, node)
    if special is not None:
        return _call_special(act, special, [value, key], node)
    if is_tuple(value) or isinstance(value, str):
        try:
            return value[static(key, "an index")]
        except (IndexError, TypeError) as error:
            message = f"{describe(value)}[{shown(key)}]: {error}"
            hint = None
            if isinstance(error, IndexError):
                hint = f"it has {len(value)} items: {ast.unparse(node.value)}"
                if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
                    hint += "; how long an array is comes as an argument"
            raise act.error(KernelTypeError, message, node, hint=hint) from error
    launched = "a kernel calls device functions, f(...); launches are made outside of it"
    raise act.error(
        UnsupportedSyntaxError, f"{describe(value)} cannot be indexed", node,
        hint=launched if hasattr(value, "kernel_source") else "index a tuple or a tensor",
    )  # fmt: skip


def _key(act: Activation, node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else static(evaluate(act, p), "a slice") for p in parts))
    if isinstance(node, ast.Tuple):
        return tuple(_key(act, item) for item in node.elts)
    return evaluate(act, node)


# -- text and comprehensions ----------------------------------------------------------------
def _joined(act: Activation, node: ast.JoinedStr) -> str:
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            value = evaluate(act, part.value)
            act.at(part.value)
            if isinstance(value, tensor) and value.constant is None:
                raise act.error(
                    ConstexprError,
                    "an f-string can show only values known at compile time",
                    part.value,
                    hint='tl.device_print("x =", x) shows what a value is when the kernel runs',
                )
            value = static(value, "a value in an f-string")
            form = (
                _joined(act, part.format_spec)
                if isinstance(part.format_spec, ast.JoinedStr)
                else ""
            )
            text = repr(value) if part.conversion == ord("r") else value
            act.at(part.value)
            try:
                parts.append(formatted(text, form))
            except (TypeError, ValueError) as error:
                message = f"an f-string cannot show {describe(value)} so: {error}"
                raise act.error(
                    ConstexprError,
                    message,
                    part.value,
                    hint="leave the format out, or use one of Python's for it",
                ) from error
    act.at(node)
    return check_value("".join(parts))


def _list_comprehension(act: Activation, node: ast.ListComp) -> tuple[Any, ...]:
    if len(node.generators) != 1 or node.generators[0].is_async:
        raise unsupported(
            act,
            "a comprehension with several loops",
            node,
            "write one comprehension per loop, or a tl.static_range loop",
        )
    generator = node.generators[0]
    items = evaluate(act, generator.iter)
    if not is_tuple(items):
        found = "a range" if isinstance(items, LoopRange) else describe(items)
        raise act.error(
            UnsupportedSyntaxError,
            f"a comprehension needs a tuple, got {found}",
            generator.iter,
            hint="write the tuple out, e.g. for k in (0, 1, 2), or a tl.static_range loop",
        )
    from workbench.frontend.statements import assign

    if len(items) > limit_of("rounds"):
        raise over_budget("rounds", "this comprehension goes round", len(items), act.span(node))
    before = dict(act.scope)
    results: list[Any] = []
    for item in items:
        assign(act, generator.target, item, node, weak=True)
        tests = [truth(act, evaluate(act, test), test, "if") for test in generator.ifs]
        if any(not isinstance(test, bool) for test in tests):
            raise act.error(
                ConstexprError,
                "a comprehension's condition must be constexpr",
                node,
                hint="choose among run-time values with tl.where, or an if in a loop",
            )
        if all(tests):
            results.append(evaluate(act, node.elt))
    act.scope = before
    return tuple(results)


def _call(act: Activation, node: ast.Call) -> Any:
    from workbench.frontend.calls import lower_call

    return lower_call(act, node)


_HANDLERS: dict[type[ast.expr], Callable[[Activation, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.NamedExpr: _named,
    ast.Subscript: _subscript,
    ast.JoinedStr: _joined,
    ast.ListComp: _list_comprehension,
    ast.Call: _call,
}

__all__ = ["PoisonError", "binary", "constexpr", "dtype", "evaluate", "evaluate_each", "truth"]
