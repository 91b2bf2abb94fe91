"""Kernels as bytes for another process: by value, so that it imports nothing of the user's.

A kernel from a notebook, from `exec` or from a script without a main guard cannot be imported
elsewhere. What is sent is its text, its code object and whatever its names mean; modules are sent
by name, and only those that its text mentions.
"""

from __future__ import annotations

import importlib
import io
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

from workbench.language.versions import redirected
from workbench.runtime.callables import ConstexprFunction
from workbench.runtime.jit import JITFunction
from workbench.source import KernelSource, undisturbed
from workbench.source.mentioned import names_of


class ShippingError(Exception):
    """A kernel that cannot be sent to another process; it is compiled in this one."""


def dumps(value: Any) -> bytes:
    """Return a value with kernels in it as bytes; raises ShippingError."""
    buffer = io.BytesIO()
    try:
        ValuePickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ShippingError(str(error)) from error
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Return what `dumps` was given."""
    return pickle.loads(data)


#: Tells a process that runs for this one under which version `import triton` gives our modules.
_AS_TRITON = "WORKBENCH_AS_TRITON"


def environment() -> dict[str, str]:
    """Return the environment of a process that imports what this one has imported."""
    paths = [path for path in sys.path if path] or [os.getcwd()]  # noqa: PTH109
    found = {**undisturbed.environment(), "PYTHONPATH": os.pathsep.join(paths)}
    found.pop(_AS_TRITON, None)
    version = redirected()
    return found if version is None else {**found, _AS_TRITON: version}


def enter() -> None:
    """Make `import triton` mean what it means in the process that started this one.

    The names of Triton stand above the runtime, which meets them only here and by name.
    """
    version = os.environ.pop(_AS_TRITON, None)
    if version is not None:
        install = importlib.import_module("workbench.triton.installing").as_triton
        install(version=version, force=True)


class ValuePickler(pickle.Pickler):
    """Pickles functions and kernels by value, modules by name."""

    def reducer_override(self, value: Any) -> Any:
        """Say how a value is pickled that needs help."""
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.FunctionType):
            return _reduce_function(value)
        if isinstance(value, JITFunction | ConstexprFunction):
            return reduce_callable(value)
        if isinstance(value, KernelSource):
            return _reduce_source(value)
        return NotImplemented


def _is_installed(module: str) -> bool:
    """Say whether another process finds a module without running code of the user's."""
    root = module.partition(".")[0]
    return root == "workbench" or (root in sys.stdlib_module_names and root != "__main__")


def _reduce_function(function: types.FunctionType) -> Any:
    if _is_installed(function.__module__ or ""):
        return NotImplemented
    code = function.__code__
    cells = [_cell_value(cell) for cell in function.__closure__ or ()]
    state = {
        "globals": _globals_of(function),
        "cells": cells,
        "defaults": function.__defaults__,
        "keyword_defaults": function.__kwdefaults__,
        "annotations": function.__annotations__,
        "qualname": function.__qualname__,
    }
    made = marshal.dumps(code), function.__name__, function.__module__, len(cells)
    return _empty_function, made, state, None, None, _fill_function


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """Return what the names that a function's code mentions stand for in its module."""
    space = function.__globals__
    return {name: space[name] for name in sorted(set(names_of(function.__code__))) if name in space}


def captured_values(function: types.FunctionType) -> dict[str, Any]:
    """Return what a function takes from outside itself, by name: of its module, and of closures."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    held = {name: _cell_value(cell) for name, cell in cells}
    return {**_globals_of(function), **held}


_NO_VALUE = "<no value>"


def _cell_value(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _NO_VALUE


def _empty_function(code: bytes, name: str, module: str, cells: int) -> types.FunctionType:
    space = {"__name__": module, "__builtins__": __builtins__}
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), space, name, None, closure)


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, value in zip(function.__closure__ or (), state["cells"], strict=True):
        if value is not _NO_VALUE and value != _NO_VALUE:
            cell.cell_contents = value
    function.__defaults__ = state["defaults"]
    function.__kwdefaults__ = state["keyword_defaults"]
    function.__annotations__ = state["annotations"]
    function.__qualname__ = state["qualname"]


def _reduce_source(source: KernelSource) -> Any:
    place = source.text, source.file, source.first_line, source.indent, source.edited
    state = source.name, place, source.function
    return _empty_source, (), state, None, None, _fill_source


def _empty_source() -> KernelSource:
    return KernelSource.__new__(KernelSource)


def _fill_source(source: KernelSource, state: tuple[str, tuple[Any, ...], Any]) -> None:
    name, (text, file, first_line, indent, edited), function = state
    # The dataclass is not frozen; a cycle may have looked at it before it was filled.
    source.__init__(name, text, file, first_line, indent, function, function.__globals__, edited)


_OPTIONS = (
    "version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline",
)  # fmt: skip


def reduce_callable(value: JITFunction[Any] | ConstexprFunction) -> Any:
    """Return what a kernel object is pickled as by value."""
    options = {name: getattr(value, name) for name in _OPTIONS if hasattr(value, name)}
    kind = JITFunction if isinstance(value, JITFunction) else ConstexprFunction
    state = value.fn, value.text_source, options
    return _empty_callable, (kind,), state, None, None, _fill_callable


def _empty_callable(kind: type[JITFunction[Any] | ConstexprFunction]) -> Any:
    return object.__new__(kind)


def _fill_callable(value: Any, state: tuple[Callable[..., Any], KernelSource, Any]) -> None:
    fn, source, options = state
    value.__init__(fn, **options)
    value._source = source
