"""Functions of a cell that was not run, as the front end takes kernels."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.frontend.activation import POISON
from workbench.frontend.observing import may_run
from workbench.magics.body import device_functions, last_entry
from workbench.magics.while_typing.known import UnknownError, carefully
from workbench.source import KernelSource

_KERNEL_DECORATORS = {"jit", "kernel", "autotune", "heuristics"}


class Written:
    """What stands for a function that is written and does not exist: enough of one for inlining."""

    __closure__ = None

    def __init__(self, node: ast.FunctionDef, file: str, lines: list[str], names: Any) -> None:
        self.__name__ = node.name
        self.__signature__ = _signature(node, names)
        first, last = node.lineno, node.end_lineno or node.lineno
        text = "\n".join([lines[first - 1][node.col_offset :], *lines[first:last]]) + "\n"
        function: Any = self
        self.kernel_source = KernelSource(
            node.name, text, file, first, node.col_offset, function, names
        )

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Refuse: nobody runs what is only written."""
        raise TypeError(f"{self.__name__} is only looked at")


def _signature(node: ast.FunctionDef, names: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature; defaults that cannot be told are unknown values."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    defaults += given.defaults
    kinds = inspect.Parameter
    found = [
        _parameter(argument, default, names, kinds.POSITIONAL_OR_KEYWORD)
        for argument, default in zip(positional, defaults, strict=True)
    ]
    if given.vararg is not None:
        found.append(_parameter(given.vararg, None, names, kinds.VAR_POSITIONAL))
    found += [
        _parameter(argument, default, names, kinds.KEYWORD_ONLY)
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return inspect.Signature(found)


def _parameter(
    argument: ast.arg, default: ast.expr | None, names: Mapping[str, Any], kind: Any
) -> inspect.Parameter:
    value: Any = inspect.Parameter.empty
    if default is not None:
        try:
            value = carefully(default, names)
        except UnknownError:
            value = POISON
        value = POISON if may_run(value) else value
    note: Any = inspect.Parameter.empty
    if argument.annotation is not None:
        note = ast.unparse(argument.annotation)
    return inspect.Parameter(argument.arg, kind, default=value, annotation=note)


def bind_functions(tree: ast.Module, text: str, file: str, names: dict[str, Any]) -> None:
    """Let the functions that a cell defines mean what is written, or nothing that is known."""
    lines = text.split("\n")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = (
                Written(node, file, lines, names)
                if kernel_like(node) or not node.decorator_list
                else POISON
            )


def decorators_of(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the last word of each decorator's name, with the decorator."""
    for decorator in node.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(named, ast.Attribute | ast.Name):
            yield named.attr if isinstance(named, ast.Attribute) else named.id, decorator


def kernel_like(node: ast.FunctionDef) -> bool:
    """Say whether a function is decorated as a kernel or device function."""
    return any(word in _KERNEL_DECORATORS for word, _ in decorators_of(node))


def kernels_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the functions of a cell that would be kernel objects once it ran."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    decorated = {name: node for name, node in functions.items() if kernel_like(node)}
    return decorated or {name: functions[name] for name in device_functions(tree)}


def entry_of(tree: ast.Module, wanted: str | None) -> ast.FunctionDef | None:
    """Return the kernel that a cell's options are about; None if there is none."""
    kernels = kernels_of(tree)
    if wanted is not None:
        return kernels.get(wanted)
    last = last_entry(tree, kernels)
    if last is not None:
        return kernels[last]
    return list(kernels.values())[-1] if kernels else None


def others_of(tree: ast.Module, entry: ast.FunctionDef | None) -> list[ast.FunctionDef]:
    """Return the further functions that are decorated: others may be the host's."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [
        node
        for node in functions
        if node is not entry and kernel_like(node) and not (node.args.vararg or node.args.kwarg)
    ]
