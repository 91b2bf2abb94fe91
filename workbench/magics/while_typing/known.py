"""What the names of a cell hold, as far as that can be said without running anything.

`carefully` evaluates expressions over plain values, arrays' shapes and our own functions alone;
whatever else an expression asks for is unknown.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from workbench.frontend.activation import POISON
from workbench.frontend.observing import is_odd_tuple, may_run
from workbench.language.constexprs import constexpr, unwrap
from workbench.magics.body import bound_names
from workbench.source import KernelError
from workbench.source.evaluation import OPERATORS
from workbench.triton import cdiv, next_power_of_2

OURS = "workbench.triton"
_SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**",
}  # fmt: skip
_NUMBERS = (int, float, bool)
_MOST_ITEMS = 1000
_PROPERTIES = ("shape", "ndim", "dtype", "size", "itemsize")
_METHODS = ("size", "stride", "numel", "dim", "element_size", "data_ptr", "contiguous")
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    cdiv: cdiv, next_power_of_2: next_power_of_2, len: len, min: min, max: max, abs: abs, int: int,
    float: float,
}  # fmt: skip


class UnknownError(Exception):
    """A value that cannot be told without running something."""


def carefully(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression; raises UnknownError where that might run anything."""
    try:
        return _value(node, names)
    except UnknownError:
        raise
    except (Exception, KernelError) as error:
        raise UnknownError from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return _named(name, names)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            found = [_value(item, names) for item in items]
            return tuple(found) if isinstance(node, ast.Tuple) else found
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SYMBOLS:
            a, b = _number(_value(left, names)), _number(_value(right, names))
            return OPERATORS[_SYMBOLS[type(op)]](a, b)
        case ast.Subscript(value=inner, slice=index):
            whole, place = _value(inner, names), _value(index, names)
            if not _is_listed(whole) or type(place) is not int:
                raise UnknownError
            return whole[place]
        case ast.Attribute(value=inner, attr=name):
            return _attribute(_value(inner, names), name)
        case ast.Call():
            return _called(node, names)
        case _:
            raise UnknownError


def _named(name: str, names: Mapping[str, Any]) -> Any:
    builtins: Any = names.get("__builtins__")
    space: Any = builtins if isinstance(builtins, dict) else vars(builtins) if builtins else {}
    value = names[name] if name in names else space.get(name, POISON)
    if value is POISON:
        raise UnknownError
    return value


def _number(value: Any) -> Any:
    if type(value) not in _NUMBERS:
        raise UnknownError
    return value


def _is_listed(value: Any) -> bool:
    kind = type(value)
    return kind is list or (isinstance(value, tuple) and not is_odd_tuple(kind))


def _attribute(value: Any, name: str) -> Any:
    if is_array(value) and name in _PROPERTIES:
        found = getattr(value, name)
        return tuple(int(extent) for extent in found) if name == "shape" else found
    if type(value).__name__ == "module" and not may_run(value):
        return vars(value)[name] if name in vars(value) else _of_ours(value, name)
    raise UnknownError


def _of_ours(module: Any, name: str) -> Any:
    if not module.__name__.startswith("workbench."):
        raise UnknownError
    return getattr(module, name)


def _called(node: ast.Call, names: Mapping[str, Any]) -> Any:
    if node.keywords:
        raise UnknownError
    args = [_value(argument, names) for argument in node.args]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        owner, name = _value(node.func.value, names), node.func.attr
        if is_array(owner) and not isinstance(getattr(type(owner), name, None), property):
            return owner if name == "contiguous" else getattr(owner, name)(*map(_number, args))
    function = _value(node.func, names)
    if function is constexpr:
        return constexpr(*args)
    if isinstance(function, type) and function not in (int, float):
        raise UnknownError
    known = None if may_run(function) else _FUNCTIONS.get(function)
    if known is None:
        raise UnknownError
    if known is len and len(args) == 1 and (_is_listed(args[0]) or is_array(args[0])):
        return len(args[0])
    if len(args) == 1 and _is_listed(args[0]) and len(args[0]) <= _MOST_ITEMS:
        args = args[0]
    return known(*map(_number, args))


def is_array(value: Any) -> bool:
    """Say whether a value is a torch tensor or a NumPy array, of no class derived from them."""
    kind = type(value)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and kind is numpy.ndarray:
        return True
    return torch is not None and kind in (torch.Tensor, torch.nn.Parameter)


# -- names that a cell binds ------------------------------------------------------------------
def names_of(tree: ast.Module, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names mean in a cell: the notebook's, and those that the cell itself binds.

    What a cell's statement gives a name is found out where that takes no running; else the name
    keeps what it holds from an earlier run, and is unknown if it never held anything.
    """
    names = dict(namespace)
    annotations = dict(names.get("__annotations__") or {})
    for name in bound_names(tree):
        names.setdefault(name, POISON)
    for statement in tree.body:
        match statement:
            case ast.Import() | ast.ImportFrom(level=0):
                names |= _imported(statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _assign(name, value, names)
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=note, value=ast.expr() as value
            ):
                annotations[name] = ast.unparse(note)
                _assign(name, value, names)
            case _:
                pass
    names["__annotations__"] = annotations
    return names


def _assign(name: str, value: ast.expr, names: dict[str, Any]) -> None:
    try:
        names[name] = carefully(value, names)
    except UnknownError:
        if type(unwrap(names.get(name))) in (*_NUMBERS, str):  # what it was may not be what it is
            names[name] = POISON


def _imported(statement: ast.Import | ast.ImportFrom) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            module = _module(statement.module or "")
            bound: Any = vars(module).get(alias.name, POISON) if module is not None else POISON
            if bound is POISON:
                bound = _module(f"{statement.module}.{alias.name}") or POISON
            found[alias.asname or alias.name] = bound
        else:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            found[alias.asname or whole] = _module(whole) or POISON
    return found


def _module(name: str) -> Any:
    """Return a module that is there already; ours for Triton's."""
    root = name.partition(".")[0]
    if root != "triton":
        return sys.modules.get(name)
    try:
        return importlib.import_module(OURS + name.removeprefix("triton"))
    except ImportError:
        return None
