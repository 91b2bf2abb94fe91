"""Calls: tl functions, device functions (inlined), and the Python built-ins a kernel may use."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from workbench.frontend.activation import (
    POISON,
    RESULT,
    RETURN,
    Activation,
    PoisonError,
    Session,
    Site,
    suggestion,
    unsupported,
)
from workbench.frontend.expressions import evaluate_each
from workbench.frontend.python_functions import PYTHON, call_now, call_python, is_compile_time
from workbench.frontend.syntax import comes_to_its_end
from workbench.frontend.words import of_function
from workbench.language.aggregates import Aggregate
from workbench.language.constexprs import is_tuple, unwrap
from workbench.language.core import builtin
from workbench.language.extra.libdevice import LIBRARY
from workbench.language.table import BUILTINS, HIDDEN
from workbench.language.values import (
    describe,
    describe_type,
    kind_of,
    static,
    tensor,
)
from workbench.source import (
    ArgumentError,
    CompileError,
    KernelSource,
    KernelTypeError,
    UnsupportedSyntaxError,
    kernel_source,
    limit_of,
)
from workbench.source.given import a

MAX_DEPTH = limit_of("calls")
#: What inlining a function costs beside what is in it.
_CALL_STEPS = 20
_SOURCES: WeakKeyDictionary[Any, KernelSource] = WeakKeyDictionary()
_BUILTINS: WeakKeyDictionary[Any, Callable[..., Any]] = WeakKeyDictionary()


def lower_call(act: Activation, node: ast.Call) -> Any:
    """Return the value of a call."""
    for keyword in node.keywords:
        if keyword.arg is None:
            raise unsupported(
                act, "**kwargs in a call", keyword.value, "write each argument out, name=value"
            )
    inner = [a.value if isinstance(a, ast.Starred) else a for a in node.args]
    function, *values = evaluate_each(act, [node.func, *inner, *(k.value for k in node.keywords)])
    args: list[Any] = []
    for argument, value in zip(node.args, values, strict=False):
        if not isinstance(argument, ast.Starred):
            args.append(value)
        elif is_tuple(value):
            args.extend(value)
        else:
            raise act.error(
                KernelTypeError,
                f"'*' needs a tuple, got {describe(value)}",
                argument,
                hint="a tuple is taken apart: f(*(a, b)); a block is one argument",
            )
    named = values[len(node.args) :]
    kwargs = {str(k.arg): value for k, value in zip(node.keywords, named, strict=True)}
    act.at(node)
    return call(act, function, args, kwargs, node)


def call(
    act: Activation, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> Any:
    """Return what a function, a builtin or an object that can be called returns."""
    if isinstance(function, Aggregate):
        args, function = [function, *args], function.__operators__.get("__call__", function)
    function = _ours(unwrap(function))
    if isinstance(function, types.MethodType) and isinstance(function.__self__, Aggregate):
        args, function = [function.__self__, *args], function.__func__
    if isinstance(function, types.FunctionType):
        function = _library_builtin(function)
    inner = getattr(function, "__func__", function)
    row = getattr(inner, "__signature_row__", None)
    if row is not None:
        check_call(act, row, function is not inner, args, kwargs, node)
        return function(*args, **kwargs)
    source = source_of(function)
    if source is not None:
        return inline(act, source, args, kwargs, node)
    if isinstance(function, types.BuiltinFunctionType | type) and function in PYTHON:
        return call_python(act, function, args, kwargs, node)
    if is_compile_time(function):
        return call_now(act, function, args, kwargs, node)
    named = getattr(node, "func", None)
    raise act.error(
        UnsupportedSyntaxError,
        f"'{ast.unparse(getattr(node, 'func', node))}' cannot be called in a kernel: "
        f"it is {a(kind_of(function))}",
        node,
        hint=of_function(getattr(function, "__name__", "") or getattr(named, "attr", ""))
        or "a kernel calls tl functions, device functions and a few Python built-ins",
    )


def _library_builtin(function: types.FunctionType) -> Any:
    """Return a function that expects a hidden argument as the builtin it is meant to be."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if HIDDEN.isdisjoint(names) or hasattr(function, "__signature_row__"):
        return function
    known = _BUILTINS.get(function)
    if known is None:
        known = _BUILTINS[function] = builtin(function)
    return known


def _ours(function: Any) -> Any:
    """Return our function for one of an installed Triton, by its name."""
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", "")
    alias = getattr(function, "__device_name__", None)
    if alias is not None:
        return BUILTINS[alias]
    if module.partition(".")[0] == "triton":
        if module.endswith((".libdevice", ".math")) and name in LIBRARY:
            return LIBRARY[name]
        return BUILTINS.get(name, getattr(function, "fn", function))
    return function


#: Parameters of functions that older versions of Triton had -> what to write.
_FORMER_PARAMETERS = {
    ("dot", "trans_a"): "write tl.dot(tl.trans(a), b)",
    ("dot", "trans_b"): "write tl.dot(a, tl.trans(b))",
    ("load", "is_volatile"): "write volatile=True",
    ("sort", "ascending"): "write descending=True for the other order",
}


def check_call(
    act: Activation, row: Any, bound: bool, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> None:
    """Raise ArgumentError for a call that a tl function's signature does not fit."""
    names = row.parameters
    given = len(args) + bound
    skip = 1 if bound else 0
    if given > len(names) and not row.variadic:
        raise act.error(
            ArgumentError,
            f"{row.name} takes at most {len(names) - skip} arguments, got {len(args)}",
            node,
            hint=f"its signature is {row.text()}",
        )
    for name in kwargs:
        if name not in names and name not in HIDDEN and not row.keywords:
            raise act.error(
                ArgumentError,
                f"{row.name} has no parameter '{name}'",
                node,
                hint=_FORMER_PARAMETERS.get((row.name, name))
                or suggestion(name, names)
                or f"its signature is {row.text()}",
            )
        if name in names[: min(given, len(names))] and not row.variadic:
            raise act.error(
                ArgumentError, f"{row.name} got '{name}' twice", node, hint="give it once"
            )
    missing = [n for n in names[given : row.required] if n not in kwargs]
    if missing:
        raise act.error(
            ArgumentError,
            f"{row.name} is missing {', '.join(repr(m) for m in missing)}",
            node,
            hint=f"its signature is {row.text()}",
        )


# -- device functions -----------------------------------------------------------------------
def source_of(function: Any) -> KernelSource | None:
    """Return the source of a device function: a jit object, or a plain Python function."""
    source = getattr(function, "kernel_source", None)
    if isinstance(source, KernelSource):
        return source
    if not isinstance(function, types.FunctionType) or is_compile_time(function):
        return None
    known = _SOURCES.get(function)
    if known is None:
        known = _SOURCES[function] = kernel_source(function)
    return known


def inline(
    act: Activation,
    source: KernelSource,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: ast.AST,
) -> Any:
    """Return what a device function returns, its ops inserted here."""
    from workbench.frontend.statements import flag, lower_block

    session = act.session
    place = act.span(node)
    calls = (
        *act.calls,
        type(place)(place.file, place.line, place.column, place.end_line, place.end_column),
    )
    inner = Activation(session, source, calls)
    _bind(act, inner, source, args, kwargs, node)
    if session.depth >= MAX_DEPTH:
        raise act.error(
            CompileError,
            f"'{source.name}' is called {MAX_DEPTH} levels deep",
            node,
            hint="recursion must end by a constexpr condition; use a loop instead",
            code="K218",
        )
    session.spend(_CALL_STEPS, act, node)
    errors = len(session.errors)
    session.depth += 1
    try:
        inner.scope[RETURN] = flag(False)
        lower_block(inner, source.tree.body)
    finally:
        session.depth -= 1
        session.builder.span = place
    if len(session.errors) > errors:
        raise PoisonError
    value = inner.scope.get(RESULT)
    if value is POISON:
        raise PoisonError
    body = source.tree.body
    everywhere = value is None or inner.scope[RETURN].constant is True
    if not everywhere and comes_to_its_end(body, inner.taken):
        # Where no return was reached, the value is a filling that nobody may look at.
        raise inner.error(
            KernelTypeError,
            f"Return type mismatch: {source.name} returns {describe_type(value)} on one path, "
            "and nothing where its end is reached",
            body[-1],
            hint="end it with a return of the same type",
        )
    return value


def _bind(
    act: Activation,
    inner: Activation,
    source: KernelSource,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    node: ast.AST,
) -> None:
    """Give a device function's parameters their values."""
    spec = source.tree.args
    rest = spec.vararg.arg if spec.vararg is not None else None
    if spec.kwarg is not None:
        raise unsupported(
            act,
            f"**{spec.kwarg.arg} of {source.name}",
            node,
            "name each parameter; *args takes any number by position",
        )
    parameters = [p for p in source.parameters if p.name != rest]
    positional = len(spec.posonlyargs) + len(spec.args)
    words = ", ".join(p.name for p in parameters)
    if len(args) > positional and rest is None:
        raise act.error(
            ArgumentError,
            f"{source.name} takes {positional} arguments ({words}), got {len(args)}",
            node,
            hint="leave out what is too much, or give the function a parameter for it",
        )
    values = dict(zip([p.name for p in parameters], args[:positional], strict=False))
    if rest is not None:
        inner.scope[rest] = tuple(args[positional:])
    for name, value in kwargs.items():
        if name in values or all(p.name != name for p in parameters):
            twice = "got '{}' twice" if name in values else "has no parameter '{}'"
            raise act.error(
                ArgumentError,
                f"{source.name} {twice.format(name)}",
                node,
                hint=suggestion(name, [p.name for p in parameters]),
            )
        values[name] = value
    for parameter in parameters:
        if parameter.name not in values:
            if parameter.required:
                raise act.error(
                    ArgumentError,
                    f"{source.name} is missing '{parameter.name}'",
                    node,
                    hint=f"its parameters are ({words})",
                )
            values[parameter.name] = unwrap(parameter.default)
        value = values[parameter.name]
        if parameter.is_constexpr:
            value = _constexpr(inner, parameter.name, value)
        inner.scope[parameter.name] = value


def _constexpr(inner: Activation, name: str, value: Any) -> Any:
    """Return the compile-time value for a constexpr parameter, or the tensor that was given.

    As in Triton the annotation of a device function's parameter only says what callers mean: a
    run-time value goes through, and is refused where a compile-time one is needed.
    """
    what = f"'{name}' of {inner.source.name}"
    if _has_tensor(value):
        inner.session.remark(f"{what} is annotated as a constexpr, it got a run-time value")
        return value
    inner.constexprs.add(name)
    return static(value, what)


def _has_tensor(value: Any) -> bool:
    """Say whether something is, or holds, a value that is not known at compile time."""
    if is_tuple(value):
        return any(_has_tensor(item) for item in value)
    return isinstance(value, tensor) and (value.constant is None or bool(value.shape))


def call_function(session: Session) -> Callable[[Any, Sequence[Any]], Any]:
    """Return what tl functions call a user's combine function with."""

    def call(function: Any, args: Sequence[Any]) -> Any:
        function = _ours(unwrap(function))
        row = getattr(function, "__signature_row__", None)
        if row is not None:
            if len(args) < row.required or (len(args) > len(row.parameters) and not row.variadic):
                raise ArgumentError(
                    f"{row.name} does not combine {len(args)} values: it is {row.text()}",
                    hint="write a device function of two values for each tensor, those of the left "
                    "elements first",
                )
            return function(*args)
        source = source_of(function)
        if source is None:
            raise KernelTypeError(
                f"a combine function must be a device function, got {kind_of(function)}",
                hint="write it as a function of scalars, e.g. def add(a, b): return a + b",
            )
        span = session.builder.span
        outer = Activation(session, source, span.calls if span is not None else ())
        node = Site(span) if span is not None else source.tree
        return inline(outer, source, args, {}, node)

    return call
