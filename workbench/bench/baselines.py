"""What a kernel is timed against: known words, and expressions of the user.

What cannot run is skipped with a reason, never an error: the kernel itself is what was asked for.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.bench.subject import Subject, call_by_name
from workbench.source import parsed_expression

PRODUCTS = {"matmul", "mm", "bmm", "addmm", "einsum", "linear"}


@dataclass(frozen=True, slots=True)
class Competitor:
    """A baseline for one point: something to call, or why there is nothing."""

    name: str
    call: Callable[[], object] | None = None
    error: str | None = None


def expression_call(
    name: str, text: str, namespace: Mapping[str, Any], subject: Subject
) -> Competitor:
    """Return the baseline that evaluates an expression over the arguments of a launch.

    A callable value is called by name, as a reference is. The expression is run once, so that a
    failing one is known before anything is timed.
    """
    scope = {**namespace, **subject.names()}
    try:
        call = eval(compile(f"lambda: ({text.strip()}\n)", f"<baseline {name}>", "eval"), scope)
        first = call()
        if isinstance(first, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
            names = subject.names()
            return Competitor(name, lambda: call_by_name(first, names))
    except Exception as error:
        return Competitor(name, error=f"{type(error).__name__}: {_first_line(error)}")
    return Competitor(name, call)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def is_product(text: str) -> bool:
    """Whether an expression contains a matrix product."""
    try:
        tree = parsed_expression(text.strip())
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.MatMult):
            return True
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if name in PRODUCTS:
            return True
    return False


def known_call(
    word: str,
    check: str | None,
    namespace: Mapping[str, Any],
    subject: Subject,
    previous: Callable[[Subject], Callable[[], object] | None],
) -> Competitor:
    """Return the baseline that one of the words torch, cublas, triton and self stands for."""
    match word:
        case "torch" if check is None:
            return Competitor(word, error="--baseline torch needs --check with an expression")
        case "torch":
            return expression_call(word, check or "", namespace, subject)
        case "cublas" if check is None or not is_product(check):
            return Competitor("cublas", error="the --check expression is no matrix product")
        case "cublas" if not subject.gpu:
            return Competitor("cublas", error="runs on a GPU only")
        case "cublas":
            return expression_call("cublas", check or "", namespace, subject)
        case "self":
            call = previous(subject)
            if call is None:
                return Competitor("self", error="no earlier result of this kernel")
            return Competitor("previous", call)
        case _:
            return triton_call(subject)


def triton_call(subject: Subject) -> Competitor:
    """Return the baseline that runs the same source under an installed Triton."""
    try:
        import triton  # type: ignore[import-not-found]
    except ImportError:
        return Competitor("triton", error="not installed")
    if not subject.gpu:
        return Competitor("triton", error="runs on a GPU only")
    source = getattr(subject.compiled, "source", None)
    function = getattr(source, "function", None)
    if not isinstance(function, types.FunctionType):
        return Competitor("triton", error="the kernel's function is not at hand")
    try:
        peer = _under_triton(function, triton, {})
        arguments = {**subject.arguments, **subject.constants, **subject.settings}

        def call() -> None:
            peer[subject.grid](**arguments)

        call()
    except Exception as error:
        return Competitor("triton", error=f"{type(error).__name__}: {_first_line(error)}")
    return Competitor("triton", call)


def _under_triton(function: types.FunctionType, triton: Any, done: dict[int, Any]) -> Any:
    """Return a function as Triton's kernel object, its captured names bound to Triton's."""
    if id(function) in done:
        return done[id(function)]
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        value: Any = scope.get(name)
        module = getattr(value, "__name__", "")
        if name == "triton" or module == "workbench.triton":
            scope[name] = triton
        elif module in ("workbench.language", "workbench.triton.language"):
            scope[name] = triton.language
        elif isinstance(inner := getattr(value, "fn", None), types.FunctionType):
            scope[name] = _under_triton(inner, triton, done)
    scope.setdefault("tl", triton.language)
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__annotations__ = {
        name: triton.language.constexpr if "constexpr" in str(note) else note
        for name, note in function.__annotations__.items()
    }
    copy.__module__ = function.__module__
    done[id(function)] = triton.jit(copy)
    return done[id(function)]
