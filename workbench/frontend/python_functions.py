"""The Python built-ins a kernel may call, and functions that run at compile time."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import workbench.language as tl
from workbench.frontend.activation import Activation, PoisonError
from workbench.frontend.observing import is_ours
from workbench.frontend.words import of_function
from workbench.language.aggregates import Aggregate
from workbench.language.constexprs import constexpr, is_tuple, unwrap
from workbench.language.control import LoopRange
from workbench.language.dtypes import dtype
from workbench.language.values import (
    describe,
    is_number,
    static,
    tensor,
)
from workbench.source import ArgumentError, ConstexprError, KernelTypeError, ResourceError, shown
from workbench.source.evaluation import called

Lower = Callable[[Activation, list[Any], ast.AST], Any]
MANY = 1000


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """How a call of a Python built-in is lowered, and how many arguments it takes."""

    lower: Lower
    fewest: int = 1
    most: int = 1


def is_compile_time(function: Any) -> bool:
    """Say whether a function is run while compiling, on values known then."""
    if getattr(function, "__compile_time__", False):
        return True
    if getattr(function, "__module__", None) == "math":
        return True
    if isinstance(function, types.BuiltinMethodType | types.MethodType):
        return isinstance(function.__self__, str | dtype)
    return is_named_tuple(function)


def is_named_tuple(function: Any) -> bool:
    """Say whether a callable is a namedtuple's class."""
    return isinstance(function, type) and tuple in function.__mro__ and hasattr(function, "_make")


def call_now(
    act: Activation, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> Any:
    """Call a Python function now; its arguments must be known, a namedtuple's need not be."""
    if act.session.observer is not None and not _is_known(function):
        raise PoisonError
    name = getattr(function, "__name__", "function")
    if not is_named_tuple(function):
        try:
            args = [static(a, f"an argument of {name}") for a in args]
            kwargs = {k: static(v, f"'{k}' of {name}") for k, v in kwargs.items()}
        except ConstexprError as error:
            error.hint = of_function(name) or error.hint
            raise
    try:
        found = called(function, args, kwargs)
        # An aggregate keeps its constexpr fields as such.
        return found if isinstance(found, Aggregate) else unwrap(found)
    except ResourceError:
        raise
    except Exception as error:
        raise act.error(
            ConstexprError,
            f"{name} failed at compile time: {error}",
            node,
            hint="it runs as Python when the kernel is compiled: check what it is given",
        ) from error


def _is_known(function: Any) -> bool:
    """Say whether a function that is run now is none of the user's own."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, str | dtype) or is_ours(function)


def call_python(
    act: Activation, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.AST
) -> Any:
    """Lower a call of a built-in in the table."""
    row = PYTHON[function]
    if kwargs and function is constexpr:
        args, kwargs = [*args, *kwargs.values()], {}
    name = function.__name__
    if kwargs:
        raise act.error(
            ArgumentError,
            f"{name} takes no '{next(iter(kwargs))}' in a kernel",
            node,
            hint="give its arguments by position alone",
        )
    if not row.fewest <= len(args) <= row.most:
        wanted = str(row.fewest) if row.fewest == row.most else f"{row.fewest} to {row.most}"
        raise act.error(
            ArgumentError,
            f"{name} takes {wanted} arguments by position, got {len(args)}",
            node,
            hint="leave out what is too much; tl.range takes hints by name",
        )
    return row.lower(act, args, node)


def _folded(function: Callable[..., Any]) -> Lower:
    return lambda act, args, node: call_now(act, function, args, {}, node)


def _length(act: Activation, args: list[Any], node: ast.AST) -> Any:
    value = args[0]
    if is_tuple(value) or isinstance(value, str):
        return len(value)
    if isinstance(value, tensor) and value.shape:
        return value.shape[0]
    raise act.error(
        KernelTypeError,
        f"len needs a tuple or a block, got {describe(value)}",
        node,
        hint="how long an array is comes as an argument",
    )


def _number(kind: type) -> Lower:
    def lower(act: Activation, args: list[Any], node: ast.AST) -> Any:
        value = args[0]
        if isinstance(value, tensor) and value.constant is None:
            raise act.error(
                ConstexprError,
                f"{kind.__name__}() needs a compile-time value, got {describe(value)}",
                node,
                hint="convert a run-time value with .to(tl.int32), .to(tl.float32), ...",
            )
        return call_now(act, kind, args, {}, node)

    return lower


def _range(act: Activation, args: list[Any], node: ast.AST) -> LoopRange:
    return tl.range(*args)


def _extreme(name: str) -> Lower:
    python = getattr(builtins, name)
    device = tl.maximum if name == "max" else tl.minimum

    def lower(act: Activation, args: list[Any], node: ast.AST) -> Any:
        values = list(args[0]) if len(args) == 1 and is_tuple(args[0]) else args
        if not values:
            raise act.error(
                ArgumentError,
                f"{name} of nothing",
                node,
                hint="give it two or more numbers, or a tuple that is not empty",
            )
        if len(args) == 1 and isinstance(values[0], tensor) and not is_tuple(args[0]):
            # Python's function of one sequence is its largest item, Triton refuses it as well.
            raise act.error(
                ArgumentError,
                f"{name} needs at least 2 values, got {describe(values[0])}",
                node,
                hint=f"tl.{name}(x, axis=0) reduces a block",
            )
        result = values[0]
        for value in values[1:]:
            numbers = is_number(result) and is_number(value)
            result = python(result, value) if numbers else device(result, value)
        return result

    return lower


def _isinstance(act: Activation, args: list[Any], node: ast.AST) -> bool:
    value, kinds = args
    kinds = kinds if is_tuple(kinds) else (kinds,)
    weak = not isinstance(value, tensor | tuple)
    return any(
        isinstance(value, k) or (k is constexpr and weak) for k in kinds if isinstance(k, type)
    )


def _getattr(act: Activation, args: list[Any], node: ast.AST) -> Any:
    name = _attribute_name(act, args[1], node)
    act.guard(args[0])
    try:
        return unwrap(getattr(args[0], name, *args[2:]))
    except AttributeError as error:
        module = isinstance(args[0], types.ModuleType)
        missing = f"{describe(args[0])} has no '{name}'"
        message = f"getattr: {error if module else missing}"
        raise act.error(
            KernelTypeError,
            message,
            node,
            hint="ask first: hasattr(x, name), or give a third argument",
        ) from error


def _hasattr(act: Activation, args: list[Any], node: ast.AST) -> bool:
    act.guard(args[0])
    return hasattr(args[0], _attribute_name(act, args[1], node))


def _attribute_name(act: Activation, value: Any, node: ast.AST) -> str:
    name = static(value, "an attribute's name")
    if not isinstance(name, str):
        raise act.error(
            KernelTypeError,
            f"an attribute's name is a string, not {shown(name)}",
            node,
            hint="write it in quotes",
        )
    return name


def _print(act: Activation, args: list[Any], node: ast.AST) -> None:
    named = bool(args) and isinstance(args[0], str)
    tl.device_print(args[0] if named else "", *(args[1:] if named else args))


def _tuple(act: Activation, args: list[Any], node: ast.AST) -> tuple[Any, ...]:
    if args and not is_tuple(args[0]):
        raise act.error(
            KernelTypeError,
            f"tuple needs a tuple, got {describe(args[0])}",
            node,
            hint="write a tuple out: (a, b)",
        )
    return args[0] if args else ()


def _constexpr(act: Activation, args: list[Any], node: ast.AST) -> Any:
    return static(args[0], "the value of tl.constexpr")


PYTHON: dict[Any, PythonFunction] = {
    builtins.len: PythonFunction(_length),
    builtins.int: PythonFunction(_number(int)),
    builtins.float: PythonFunction(_number(float)),
    builtins.bool: PythonFunction(_number(bool)),
    builtins.str: PythonFunction(_folded(str)),
    builtins.round: PythonFunction(_folded(round), 1, 2),
    builtins.range: PythonFunction(_range, 1, 3),
    builtins.max: PythonFunction(_extreme("max"), 1, MANY),
    builtins.min: PythonFunction(_extreme("min"), 1, MANY),
    builtins.abs: PythonFunction(lambda act, args, node: tl.abs(args[0])),
    builtins.isinstance: PythonFunction(_isinstance, 2, 2),
    builtins.getattr: PythonFunction(_getattr, 2, 3),
    builtins.hasattr: PythonFunction(_hasattr, 2, 2),
    builtins.print: PythonFunction(_print, 0, MANY),
    builtins.tuple: PythonFunction(_tuple, 0, 1),
    constexpr: PythonFunction(_constexpr),
    tl.dtype: PythonFunction(_folded(tl.dtype)),
    tl.pointer_type: PythonFunction(_folded(tl.pointer_type), 1, 3),
}
