"""What a kernel function takes from outside itself: other device functions, and plain values.

Both belong to the identity of a compilation. Names are read from the code object, so nothing is
parsed. Of a module counts what is looked up on it, and everything of a name that the code mentions
where the module itself goes somewhere: that costs at most a recompile and never a stale result.
"""

from __future__ import annotations

import ast
import dis
import types
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, cast, runtime_checkable

from workbench.source.budgets import exact_text
from workbench.source.errors import KernelError
from workbench.source.kernels import KernelSource, kernel_source

_OURS = ("workbench", "triton")


@dataclass(slots=True)
class Captures:
    """All device functions that a kernel can reach (itself first) and the values they read.

    `values` holds (where, text) pairs that are equal where the values are; `guards` holds
    (namespace, name, object): as long as every name still means that very object, nothing changed.
    """

    sources: list[KernelSource] = field(default_factory=list[KernelSource])
    values: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    guards: list[tuple[Mapping[str, Any], str, Any]] = field(
        default_factory=list[tuple[Mapping[str, Any], str, Any]]
    )

    def unchanged(self) -> bool:
        """Say whether every captured name still means what it meant."""
        return all(space.get(name) is value for space, name, value in self.guards)


def captures(source: KernelSource) -> Captures:
    """Return what a kernel reaches, in an order that depends on the program text alone."""
    found = Captures()
    _visit(source, found, set())
    return found


def _visit(source: KernelSource, found: Captures, seen: set[int]) -> None:
    if id(source.function) in seen:
        return
    seen.add(id(source.function))
    found.sources.append(source)
    code = source.function.__code__
    closure = _Cells(source.function)
    attributes = tuple(names_of(code))
    if source.edited:
        attributes += tuple(_names_in_text(source))
    for name in attributes:
        space: Mapping[str, Any] = closure if name in closure else source.names
        if name not in space:
            continue
        value = space[name]
        if isinstance(value, types.ModuleType):
            if _is_ours(value):
                continue
            chains = None if source.edited else set(chains_of(code, name))
            where = f"{source.name}.{name}"
            if chains is None or () in chains:  # the module itself goes somewhere
                _visit_module(where, value, attributes, found, seen)
            else:
                for chain in sorted(chains):
                    _visit_chain(where, value, chain, attributes, found, seen)
        else:
            found.guards.append((space, name, value))
            _record(f"{source.name}.{name}", value, found, seen)


def _is_ours(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] in _OURS


def _visit_module(
    where: str, module: types.ModuleType, names: tuple[str, ...], found: Captures, seen: set[int]
) -> None:
    if _is_ours(module):
        return
    space = vars(module)
    for name in names:
        if name in space and not isinstance(space[name], types.ModuleType):
            found.guards.append((space, name, space[name]))
            _record(f"{where}.{name}", space[name], found, seen)


def _visit_chain(
    where: str,
    module: types.ModuleType,
    chain: tuple[str, ...],
    names: tuple[str, ...],
    found: Captures,
    seen: set[int],
) -> None:
    """Record what `module.a.b` means: the modules on the way, and the first thing that is none."""
    if _is_ours(module):
        return
    space, name = vars(module), chain[0]
    if name not in space:
        return
    value = space[name]
    found.guards.append((space, name, value))
    where = f"{where}.{name}"
    if not isinstance(value, types.ModuleType):
        _record(where, value, found, seen)
    elif len(chain) > 1:
        _visit_chain(where, value, chain[1:], names, found, seen)
    else:
        _visit_module(where, value, names, found, seen)


def _record(where: str, value: Any, found: Captures, seen: set[int]) -> None:
    inner = getattr(value, "kernel_source", None)
    if isinstance(inner, KernelSource):
        found.values.append((where, f"device function {inner.name}"))
        _visit(inner, found, seen)
    elif isinstance(value, types.FunctionType):
        _record_function(where, value, found, seen)
    else:
        found.values.append((where, describe_value(value)))


def _record_function(
    where: str, function: types.FunctionType, found: Captures, seen: set[int]
) -> None:
    found.values.append((where, f"function {function.__module__}.{function.__qualname__}"))
    if (function.__module__ or "").partition(".")[0] in _OURS:
        return
    try:
        _visit(kernel_source(function), found, seen)
    except KernelError:
        code = function.__code__
        found.values.append((where, f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"))


def describe_value(value: Any) -> str:
    """Return a text that is the same for equal compile-time values, also in another process."""
    match value:
        case int() if value.bit_length() > 4096:
            return exact_text(value)
        case None | bool() | int() | float() | complex() | str() | bytes():
            return repr(value)
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return f"{type(items).__qualname__}({', '.join(map(describe_value, items))})"
        case type() | types.BuiltinFunctionType():
            return f"{value.__module__}.{value.__qualname__}"
        case types.FunctionType() | _Kernel():
            return _describe_function(value)
        case _ if hasattr(value, "value") and type(value).__name__ == "constexpr":
            return f"constexpr({describe_value(value.value)})"
        case _:
            kind = cast("type[Any]", type(value))
            name = f"{kind.__module__}.{kind.__qualname__}"
            if kind.__repr__ is object.__repr__:
                return name
            try:
                return f"{name}:{value!r}"
            except Exception:  # whatever its own code does
                return f"{name} {id(value)}"


def functions_in(value: Any) -> Iterator[Any]:
    """Yield the device functions that a compile-time value is or holds."""
    if isinstance(value, tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from functions_in(item)
    elif isinstance(value, types.FunctionType | _Kernel):
        yield value
    elif type(value).__name__ == "constexpr":
        yield from functions_in(value.value)


def captures_of(function: Any) -> Captures:
    """Return what a device function reaches; nothing where its text cannot be read."""
    try:
        own = isinstance(function, types.FunctionType)
        return captures(kernel_source(function) if own else function.kernel_source)
    except KernelError:
        return Captures()


@runtime_checkable
class _Kernel(Protocol):
    """What `jit` makes of a function, seen from here."""

    kernel_source: KernelSource


#: Functions that are being described: one may reach itself through a value that holds it.
_described: ContextVar[frozenset[int]] = ContextVar("described", default=frozenset())


def _describe_function(function: Any) -> str:
    """Return a text that changes with the function's text and with everything it reaches."""
    name = f"device function {function.__module__}.{getattr(function, '__qualname__', '')}"
    around = _described.get()
    if id(function) in around:
        return name
    try:
        _described.set(around | {id(function)})
        found = captures_of(function)
    finally:
        _described.set(around)
    if not found.sources:
        code = function.__code__
        return f"{name} {code.co_code.hex()} {code.co_consts} {id(function)}"
    parts = [source.text for source in found.sources]
    parts += [f"{where} {value}" for where, value in found.values]
    return f"{name} {sha256(chr(10).join(parts).encode()).hexdigest()}"


def names_of(code: types.CodeType) -> Iterator[str]:
    """Yield every name that a code object, or one within it, looks up outside itself."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


def chains_of(code: types.CodeType, name: str) -> Iterator[tuple[str, ...]]:
    """Yield the attributes that code looks up on an outer name, `a.b` of `name.a.b` as a tuple.

    The empty tuple stands for a use of the name by itself.
    """
    chain: list[str] | None = None
    # Constants are told as texts otherwise, and a text may be too long to be made.
    plain = code.replace(co_consts=(None,) * len(code.co_consts))
    for step in dis.get_instructions(plain):
        if chain is not None:
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                chain.append(step.argval)
                continue
            if step.opname in ("CACHE", "PUSH_NULL"):
                continue
            yield tuple(chain)
            chain = None
        if step.argval == name and step.opname in _LOADS:
            chain = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from chains_of(constant, name)


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")


def _names_in_text(source: KernelSource) -> list[str]:
    """Return the names of a text that is not the code object's, each once and sorted."""
    try:
        nodes = list(ast.walk(source.tree))
    except SyntaxError:  # said where it is compiled
        return []
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return sorted(found | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


class _Cells(Mapping[str, Any]):
    """A function's captured variables by name, read when asked; empty cells are left out."""

    def __init__(self, function: Any) -> None:
        self._cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )

    def __getitem__(self, name: str) -> Any:
        try:
            return self._cells[name].cell_contents
        except ValueError as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._cells if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
