"""Classes whose instances are several values at once: `@tl.core._aggregate`.

@tl.core._aggregate
class Range:
    start: tl.tensor
    stop: tl.tensor

    def __init__(self, start, stop):
        self.start = start
        self.stop = stop

    @triton.jit
    def length(self):
        return self.stop - self.start

An instance is a tuple of its fields, so it goes through branches, loops and calls like one; its
own `__getitem__`, `__add__` and the like are kept aside and only kernels see them. The constructor
runs while the kernel is compiled, on an object that has the methods already; methods are device
functions, or builtins where they have a parameter `_semantic`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from workbench.language.constexprs import constexpr, unwrap


class Aggregate(tuple[Any, ...]):
    """Base of all aggregates: a tuple whose items are the declared fields, in order."""

    __slots__ = ()
    __aggregate__ = True
    _fields: tuple[str, ...] = ()
    #: Special methods by name: in the class itself they would change what a tuple does.
    __operators__: Mapping[str, Any] = {}

    @classmethod
    def _make(cls, items: Iterable[Any]) -> Aggregate:
        return _tuple(cls, items)

    def __repr__(self) -> str:
        words = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({words})"


class _Field:
    """Reads one field of an instance."""

    def __init__(self, place: int) -> None:
        self.place = place

    def __get__(self, instance: Aggregate | None, owner: type) -> Any:
        return self if instance is None else instance[self.place]


class _Method:
    """Binds a device function that is no plain Python function to an instance."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Aggregate | None, owner: type) -> Any:
        return self.function if instance is None else types.MethodType(self.function, instance)


def _tuple(made: type[Aggregate], items: Iterable[Any]) -> Aggregate:
    return tuple[Any, ...].__new__(made, items)


def aggregate(cls: type, hidden: Callable[[Callable[..., Any]], dict[str, Any]]) -> type[Aggregate]:
    """Return a class of tuples for a class that declares fields by annotations.

    `hidden` says what a constructor gets in parameters that authors do not write.
    """
    annotations = inspect.get_annotations(cls)
    names = tuple(annotations)
    constants = {n for n in names if "constexpr" in str(annotations[n])}
    constructor = cls.__dict__.get("__init__")

    def new(made: type[Aggregate], *args: Any, **kwargs: Any) -> Aggregate:
        held = object.__new__(cast("Any", cls))
        if constructor is not None:
            function = getattr(constructor, "fn", constructor)
            function(held, *args, **{**hidden(function), **kwargs})
        else:
            for name, value in zip(names, args, strict=False):
                setattr(held, name, value)
            for name, value in kwargs.items():
                setattr(held, name, value)
        missing = [name for name in names if name not in vars(held)]
        if missing:
            raise TypeError(f"{cls.__name__} leaves {', '.join(missing)} without a value")
        values = [getattr(held, n) for n in names]
        return _tuple(
            made,
            [
                constexpr(v) if n in constants else unwrap(v)
                for n, v in zip(names, values, strict=True)
            ],
        )

    space: dict[str, Any] = {
        name: value if isinstance(value, types.FunctionType | staticmethod | property) else
        _Method(value) if hasattr(value, "kernel_source") else value
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__", "__init__", "__annotations__")
    }  # fmt: skip
    special = {name: space.pop(name) for name in list(space) if _is_operator(name, space[name])}
    space |= {name: _Field(place) for place, name in enumerate(names)}
    space |= {"__new__": new, "_fields": names, "__slots__": (), "__doc__": cls.__doc__}
    space["__operators__"] = {name: getattr(f, "function", f) for name, f in special.items()}
    return type(cls.__name__, (Aggregate,), space)


def _is_operator(name: str, value: Any) -> bool:
    return (
        name.startswith("__")
        and name.endswith("__")
        and (callable(value) or isinstance(value, _Method))
    )


__all__ = ["Aggregate", "aggregate"]
