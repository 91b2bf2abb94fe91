"""What a kernel function takes from outside itself: other device functions, and plain values.

Both belong to the identity of a compilation. Names are read from the code object, so nothing is
parsed. Of a module or a class counts what is looked up on it, and everything of a name that the
code mentions where it goes somewhere itself; of an object that shows nothing of itself count its
attributes, of a list what is in it. That costs at most a recompile and never a stale result.
"""

from __future__ import annotations

import ast
import dis
import enum
import functools
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from operator import itemgetter
from typing import Any, cast

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
    _Walk(found).visit(source)
    return found


class _Walk:
    """Writes down what one thing after the other reaches, each once."""

    def __init__(self, found: Captures) -> None:
        self.found = found
        #: What has been looked at, by id: where it was met, and the thing itself, which stays.
        self._seen: dict[int, tuple[str, Any]] = {}

    def visit(self, source: KernelSource) -> None:
        """Write down a function's text, its defaults, and what its names mean."""
        if id(source.function) in self._seen:
            return
        self._seen[id(source.function)] = source.name, source.function
        self.found.sources.append(source)
        if hasattr(source.function, "__wrapped__"):  # what can be read is what it wraps
            self.found.values.append((source.name, _code_text(source.function.__code__)))
        # pytest writes assertions anew, by names that no text has (@pytest_ar).
        names = tuple(n for n in names_of(source.function.__code__) if n.isidentifier())
        if source.edited:
            names += tuple(_names_in_text(source))
        self._visit_names(source.name, source.function, source.names, names, edited=source.edited)

    def _visit_names(
        self, where: str, function: Any, scope: Mapping[str, Any], names: tuple[str, ...],
        *, edited: bool = False,
    ) -> None:  # fmt: skip
        code, closure = function.__code__, _Cells(function)
        named: dict[str, Any] = function.__kwdefaults__ or {}
        defaults: tuple[Any, ...] = (*(function.__defaults__ or ()), *named.items())
        if defaults:
            self.record(f"{where} defaults", defaults, names)
        for name in names:
            space: Mapping[str, Any] = closure if name in closure else scope
            if name not in space:
                continue
            value = space[name]
            chains = None if edited or not _has_names(value) else set(chains_of(code, name))
            if not isinstance(value, types.ModuleType):
                self.found.guards.append((space, name, value))
            if _is_ours(value):
                if not isinstance(value, types.ModuleType):
                    self.record(f"{where}.{name}", value, names)
            elif chains is None or () in chains:  # the thing itself goes somewhere
                self.record(f"{where}.{name}", value, names)
            else:
                for chain in sorted(chains):
                    self._visit_chain(f"{where}.{name}", value, chain, names)

    def _visit_chain(
        self, where: str, holder: Any, chain: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        """Record what `holder.a.b` means: modules and classes on the way, and what is neither."""
        if _is_ours(holder):
            return
        name, *rest = chain
        found = _member(holder, name)
        if found is None:
            return
        space, value = found
        self.found.guards.append((space, name, value))
        where = f"{where}.{name}"
        if rest and _has_names(value):
            self._visit_chain(where, value, tuple(rest), names)
        else:
            self.record(where, value, names)

    def record(self, where: str, value: Any, names: Sequence[str] | None) -> None:
        """Write down what a value is and reaches; `names`: what may be looked up on it, None: all.

        Of what has names (modules, classes) those count alone, and what these look up in turn.
        """
        inner = _source_of(value)
        if isinstance(value, types.ModuleType):
            for name in () if _is_ours(value) or names is None else names:
                if name in vars(value) and not isinstance(vars(value)[name], types.ModuleType):
                    self.found.guards.append((vars(value), name, vars(value)[name]))
                    self.record(f"{where}.{name}", vars(value)[name], names)
        elif isinstance(value, type):
            self.found.values.append((where, _name_of_type(value)))
            self._visit_class(where, value, names)
        elif isinstance(inner, KernelSource):
            self.found.values.append((where, f"device function {inner.name}"))
            self.visit(inner)
        elif isinstance(value, types.FunctionType):
            self._record_function(where, value)
        elif type(value).__name__ == "constexpr" and hasattr(value, "value"):
            self.found.values.append((where, "constexpr"))
            self.record(where, value.value, names)
        elif (parts := _parts(value)) is not None:
            self._record_parts(where, value, parts)
        else:
            self._watch(value)
            self.found.values.append((where, describe_value(value)))

    def _watch(self, value: Any) -> None:
        """Guard what may be changed in place."""
        if hasattr(value, "__setitem__"):
            contents = _Contents(value)
            self.found.guards.append((contents, "contents", contents["contents"]))

    def _record_function(self, where: str, function: types.FunctionType) -> None:
        name = f"function {function.__module__}.{function.__qualname__}"
        self.found.values.append((where, name))
        if (function.__module__ or "").partition(".")[0] in _OURS or id(function) in self._seen:
            return
        try:
            self.visit(kernel_source(function))
        except KernelError:
            self._seen[id(function)] = where, function
            code = function.__code__
            self.found.values.append((where, _code_text(code)))
            self._visit_names(where, function, function.__globals__, tuple(names_of(code)))

    def _visit_class(self, where: str, kind: type, names: Sequence[str] | None) -> None:
        """Record members of a class, and what those that are functions look up on it."""
        if names is None:
            names = [n for one in kind.__mro__ if _is_users(one) for n in vars(one) if n[0] != "_"]
        work, done = [*_MAKING, *names], set[str]()
        while work:
            name = work.pop()
            found = None if name in done else _member(kind, name)
            done.add(name)
            if found is None:
                continue
            space, value = found
            self.found.guards.append((space, name, value))
            if id(value) not in self._seen:
                self.record(f"{where}.{name}", value, names)
            for function in _functions_of(value):
                work += names_of(function.__code__)

    def _record_parts(self, where: str, value: Any, parts: Sequence[tuple[str, Any]]) -> None:
        made = cast("type[Any]", type(value))
        kind, before = _name_of_type(made), self._seen.get(id(value))
        if before is not None and made is not tuple:
            self.found.values.append((where, f"{kind} as {before[0]}"))
            return
        if len(self._seen) > _MOST_PARTS:  # too much to tell: it is never what it was
            self.found.values.append((where, f"{kind} {next(_COUNT)}"))
            return
        self._seen[id(value)] = where, value
        self.found.values.append((where, f"{kind} of {len(parts)}"))
        attributes = getattr(value, "__dict__", {})
        if isinstance(value, list | dict | set):  # what is in them has guards of its own
            items = _Items(cast("list[Any]", value), tuple(_items_of(value)))
            self.found.guards.append((items, "items", items.before))
        for name, part in parts:
            if name in attributes and attributes[name] is part:
                self.found.guards.append((attributes, name, part))
            self.record(f"{where}.{name}", part, None)
        if _is_users(made):
            self._visit_class(f"{where}.__class__", made, None)


#: What runs where an object of a class is made.
_MAKING = ("__init__", "__new__", "__post_init__", "__call__", "__getattr__")
#: The most things that a value may hold which is described by what it holds.
_MOST_PARTS = 20_000
_COUNT = count()


def _is_ours(value: Any) -> bool:
    """Say whether a module, or a class, is part of what compiles: its files' times are in keys."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _OURS
    return isinstance(value, type) and value.__module__.partition(".")[0] in _OURS


def _has_names(value: Any) -> bool:
    return isinstance(value, types.ModuleType | type)


def _is_users(kind: Any) -> bool:
    """Say whether this is a class made by a `class` statement, of nobody who never changes it."""
    if not isinstance(kind, type) or not kind.__flags__ & _HEAP:
        return False
    top = kind.__module__.partition(".")[0]
    return top not in _OURS and top not in _NEVER_CHANGES


#: The flag of types that are made while a program runs.
_HEAP = 1 << 9
_NEVER_CHANGES = sys.stdlib_module_names - {"__main__", "builtins"}


def _member(holder: Any, name: str) -> tuple[Mapping[str, Any], Any] | None:
    """Return what holds a name of a module or a class, and what stands there."""
    if isinstance(holder, types.ModuleType):
        spaces: list[Mapping[str, Any]] = [vars(holder)]
    else:
        spaces = [_Members(one) for one in holder.__mro__ if _is_users(one)]
    return next(((space, space[name]) for space in spaces if name in space), None)


def _functions_of(value: Any) -> list[Any]:
    """Return the Python functions that a member of a class stands for."""
    if isinstance(value, property):
        found = [value.fget]
    else:
        inner = getattr(value, "__func__", value)
        found = [getattr(inner, "fn", inner)]
    return [one for one in found if isinstance(one, types.FunctionType)]


def _code_text(code: types.CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _name_of_type(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _source_of(value: Any) -> Any:
    """Return the text of a device function, or of one that runs at compile time, as data."""
    try:
        if getattr(cast("type[Any]", type(value)), "__compile_time__", False):
            return getattr(value, "text_source", None)
        return getattr(value, "kernel_source", None)
    except Exception:  # a kernel that cannot be read, an object that answers as it likes
        return None


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return what a value is made of, by names; None where its own text says what it is."""
    match value:
        case enum.Enum():
            return None
        case list() | tuple():
            return [(str(n), item) for n, item in enumerate(cast("Sequence[Any]", value))]
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return [(describe_value(key), item) for key, item in items]
        case set() | frozenset():
            items = sorted(
                ((describe_value(v), v) for v in cast("set[Any]", value)), key=itemgetter(0)
            )
            return [(str(n), item) for n, (_, item) in enumerate(items)]
        case staticmethod() | classmethod():
            return [("__func__", cast("Any", value).__func__)]
        case property():
            return [("fget", value.fget)]
        case types.MethodType():
            return [("__func__", value.__func__), ("__self__", value.__self__)]
        case functools.partial():
            made = cast("functools.partial[Any]", value)
            return [("func", made.func), ("args", made.args), ("keywords", made.keywords)]
        case type() | types.FunctionType() | types.BuiltinFunctionType() | types.ModuleType():
            return None
        case _:
            return _attributes(value)


def _attributes(value: Any) -> list[tuple[str, Any]] | None:
    """Return the attributes of an object that shows nothing of them, or of a data class."""
    kind = cast("type[Any]", type(value))
    if getattr(kind, "__compile_time__", False):
        if hasattr(value, "fn"):
            return [("fn", value.fn)]
        return [("instance", value.instance), ("function", value.function)]
    if kind.__module__.partition(".")[0] in _OURS:
        return None
    if kind.__repr__ is not object.__repr__ and not hasattr(kind, "__dataclass_fields__"):
        return None
    slots = [
        name
        for one in kind.__mro__
        for name in _texts(vars(one).get("__slots__", ()))
        if hasattr(value, name)
    ]
    found = {name: getattr(value, name) for name in slots}
    return sorted({**found, **getattr(value, "__dict__", {})}.items())


def _texts(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@dataclass(frozen=True, slots=True)
class _Contents(Mapping[str, Any]):
    """What guards a list, a dict or an array: the one name stands for what is in it at the time."""

    held: Any

    def __getitem__(self, name: str) -> Any:
        return sys.intern(describe_value(self.held))

    def __iter__(self) -> Iterator[str]:
        return iter(("contents",))

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False)
class _Items(Mapping[str, Any]):
    """What guards a list, a dict or a set: the one name stands for its items, if they are others.

    Only these are looked at, not what they hold in turn: a launch asks at each time.
    """

    held: Any
    before: tuple[Any, ...]

    def __getitem__(self, name: str) -> Any:
        now = tuple(_items_of(self.held))
        same = len(now) == len(self.before) and all(map(_is_same, now, self.before))
        return self.before if same else now

    def __iter__(self) -> Iterator[str]:
        return iter(("items",))

    def __len__(self) -> int:
        return 1


def _items_of(value: Any) -> Iterator[Any]:
    yield from value
    if isinstance(value, dict):
        yield from cast("dict[Any, Any]", value).values()


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (
        type(one) is type(other) and type(one) in (int, float, bool, str) and one == other
    )


@dataclass(frozen=True, slots=True)
class _Members(Mapping[str, Any]):
    """What stands in a class itself, as of when it is asked."""

    held: type

    def __getitem__(self, name: str) -> Any:
        return vars(self.held)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self.held))

    def __len__(self) -> int:
        return len(vars(self.held))


def guard_key(guard: tuple[Mapping[str, Any], str, Any]) -> tuple[int, str, int]:
    """Return what is the same for guards of one name that stand for one object, made twice."""
    space, name, value = guard
    return id(getattr(space, "held", space)), name, id(value)


def describe_value(value: Any) -> str:
    """Return a text that is the same for equal compile-time values, also in another process."""
    match value:
        case enum.Enum():
            name = f"{_name_of_type(type(value))}.{value.name}"
            return f"{name}={describe_value(cast('Any', value).value)}"
        case int() if value.bit_length() > 4096:
            return exact_text(value)
        case None | bool() | int() | float() | complex() | str() | bytes():
            return repr(value)
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return f"{type(items).__qualname__}({', '.join(map(describe_value, items))})"
        case type() | types.BuiltinFunctionType():
            held = f" {_described_by_parts(value)}" if _is_users(value) else ""
            return f"{value.__module__}.{value.__qualname__}{held}"
        case _ if isinstance(value, types.FunctionType) or _is_kernel(value):
            return _describe_function(value)
        case _ if hasattr(value, "value") and type(value).__name__ == "constexpr":
            return f"constexpr({describe_value(value.value)})"
        case _:
            kind = cast("type[Any]", type(value))
            name = _name_of_type(kind)
            if _parts(value) is not None:
                return f"{name} {_described_by_parts(value)}"
            return f"{name}{_told(value)}"


def _told(value: Any) -> str:
    """Return what a value's own code says that it is."""
    if hasattr(cast("type[Any]", type(value)), "_repr_mimebundle_"):
        return f" {id(value)}"  # its text may be a trace, which would be printed for that
    try:
        held = sha256(value.tobytes()).hexdigest() if hasattr(value, "tobytes") else ""
        return f":{value!r}{held}"
    except Exception:  # whatever its own code does
        return f" {id(value)}"


def _described_by_parts(value: Any) -> str:
    """Return a text that changes with all that a value holds and reaches."""
    around = _described.get()
    if id(value) in around:
        return "itself"
    try:
        _described.set(around | {id(value)})
        return _text_of(captures_of_value(value))
    finally:
        _described.set(around)


def captures_of_value(value: Any) -> Captures:
    """Return what a compile-time value reaches."""
    found = Captures()
    _Walk(found).record("", value, None)
    return found


def _text_of(found: Captures) -> str:
    parts = [source.text for source in found.sources]
    parts += [f"{where} {value}" for where, value in found.values]
    return sha256("\n".join(parts).encode()).hexdigest()


def reaching(value: Any) -> Iterator[Any]:
    """Yield what a compile-time value is or holds that may come to mean something else."""
    if isinstance(value, tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from reaching(item)
    elif isinstance(value, types.FunctionType) or _is_kernel(value):
        yield value
    elif type(value).__name__ == "constexpr":
        yield from reaching(value.value)
    elif _is_users(value) or (_is_users(type(value)) and _parts(value) is not None):
        yield value


def captures_of(value: Any) -> Captures:
    """Return what a device function, or what else `reaching` yields, reaches.

    Nothing where a function's text cannot be read.
    """
    try:
        if isinstance(value, types.FunctionType):
            return captures(kernel_source(value))
        return captures(value.kernel_source) if _is_kernel(value) else captures_of_value(value)
    except KernelError:
        return Captures()


def _is_kernel(value: Any) -> bool:
    """Say whether this is what `jit` makes of a function; not an object that has any attribute."""
    try:
        return isinstance(getattr(value, "kernel_source", None), KernelSource)
    except KernelError:  # one whose text cannot be read
        return True
    except Exception:  # an object that answers as it likes
        return False


#: What is being described: it may reach itself through a value that holds it.
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
        return f"{name} {_code_text(function.__code__)} {id(function)}"
    return f"{name} {_text_of(found)}"


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
        self.held = function
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
