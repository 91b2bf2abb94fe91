"""What launchers know constants by, where equal ones may make different code."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast
from weakref import WeakKeyDictionary

from workbench.source.captures import describe_value
from workbench.source.looking import nan_text


def exact_key(value: Any) -> Any:
    """Return what is equal only for constants that make the same code: 1 is neither 1.0 nor True.

    >>> exact_key((1, -0.0)) == exact_key((1.0, 0.0))
    False
    """
    try:
        return _exact(value)
    except Exception:  # it holds itself, or its class has odd ways
        return value.__class__, describe_value(value)


def _exact(value: Any) -> Any:
    kind = value.__class__
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if kind is float:
        return kind, float.hex(value) if value == value else nan_text(value)
    if isinstance(value, tuple):
        return kind, *_exact_items(cast("tuple[Any, ...]", value))
    if kind.__name__ == "constexpr":
        return kind, _exact(value.value)
    if (parts := _PARTS.get(kind)) is not None:
        return kind, *parts(value)
    if kind.__eq__ is object.__eq__ or kind in _ALIKE or _is_alike(kind, value):
        return kind, value
    if kind.__module__ == "numpy" and (number := _plain_number(value)) is not None:
        return kind, number.__class__, _exact(number)
    fields = _fields_alone(kind)
    if fields is not None and (held := value.__dict__).keys() == fields:
        return kind, *map(_exact, held.values()), *held
    return kind, describe_value(value)


def _exact_items(items: Sequence[Any]) -> Sequence[Any]:
    """Return the keys of several values; of numbers and texts by loops that run in C.

    >>> _exact_items((1, True))
    ((<class 'int'>, <class 'bool'>), (1, True))
    """
    kinds = tuple(map(type, items))
    if _TOLD_BY_KIND.issuperset(kinds):
        return kinds, tuple(items)
    return [_exact(item) for item in items]


def _of_dict(held: dict[Any, Any]) -> tuple[Any, ...]:
    """Return keys and values, in their order: code may go by that."""
    return tuple(_exact_items(tuple(held))), tuple(_exact_items(tuple(held.values())))


def _of_set(held: frozenset[Any] | set[Any]) -> tuple[Any, ...]:
    return (frozenset(map(_exact, held)),)


#: Equal ones of these, of one class, are the same.
_TOLD_BY_KIND = frozenset({int, bool, str, type(None)})
_ALIKE = frozenset({datetime.timedelta, datetime.date})
#: By class, whatever inherits left out: the keys of what such values are made of.
_PARTS: dict[type, Callable[[Any], Sequence[Any]]] = {
    list: lambda held: _exact_items(held),
    dict: _of_dict,
    set: _of_set,
    frozenset: _of_set,
    slice: lambda held: _exact_items((held.start, held.stop, held.step)),
}


def _is_alike(kind: type, value: Any) -> bool:
    """Say the same of a value of a library's class; nothing is imported for that."""
    if kind.__module__ == "workbench.language.dtypes":
        return True
    if kind.__module__ == "torch" and kind.__name__ == "device":
        return not kind.__flags__ & _HEAP
    dtype = kind.__module__ == "numpy.dtypes"
    return dtype and value.names is None is value.subdtype and value.metadata is None


def _plain_number(value: Any) -> Any:
    """Return what tells a NumPy scalar apart; None for one that is more than its `item()`."""
    try:
        kind = value.dtype.kind
        if kind in "mM":  # equal ones may count different units
            return value.dtype.str, int(value.view("i8"))
        return value.item() if kind in "biuf" and value.dtype.itemsize <= 8 else None
    except Exception:  # no scalar
        return None


#: By class: what `_fields_alone` found.
_fields: WeakKeyDictionary[type, frozenset[str] | None] = WeakKeyDictionary()


def _fields_alone(kind: type) -> frozenset[str] | None:
    """Return the fields of a frozen dataclass that is compared as `dataclass` made it; else None.

    Where an object's dict holds these, and slots hold nothing, they are all that there is to it.
    """
    try:
        return _fields[kind]
    except (KeyError, TypeError):
        pass
    own = vars(kind)
    made = own.get("__dataclass_params__")
    found = None
    if made is not None and made.frozen and made.eq and _is_generated(own.get("__eq__")):
        slots = any(vars(one).get("__slots__") for one in kind.__mro__)
        builtin = any(one is not object and not one.__flags__ & _HEAP for one in kind.__mro__)
        if not slots and not builtin and kind.__getattribute__ is object.__getattribute__:
            found = frozenset(field.name for field in dataclasses.fields(kind))
    with suppress(TypeError):
        _fields[kind] = found
    return found


#: Flag of classes that Python code made.
_HEAP = 1 << 9


def _is_generated(method: Any) -> bool:
    return getattr(getattr(method, "__code__", None), "co_filename", "") == "<string>"
