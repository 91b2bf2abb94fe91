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

An instance is a tuple of its fields, so it goes through branches, loops and calls like one. The
constructor runs while the kernel is compiled; methods are device functions.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from typing import Any

from workbench.language.constexprs import constexpr, unwrap


class Aggregate(tuple[Any, ...]):
    """Base of all aggregates: a tuple whose items are the declared fields, in order."""

    __slots__ = ()
    __aggregate__ = True
    _fields: tuple[str, ...] = ()

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


class _Fields:
    """What `self` is while a constructor runs."""


def _tuple(made: type[Aggregate], items: Iterable[Any]) -> Aggregate:
    return tuple[Any, ...].__new__(made, items)


def aggregate(cls: type) -> type[Aggregate]:
    """Return a class of tuples for a class that declares fields by annotations."""
    annotations = inspect.get_annotations(cls)
    names = tuple(annotations)
    constants = {n for n in names if "constexpr" in str(annotations[n])}
    constructor = cls.__dict__.get("__init__")

    def new(made: type[Aggregate], *args: Any, **kwargs: Any) -> Aggregate:
        held = _Fields()
        if constructor is not None:
            getattr(constructor, "fn", constructor)(held, *args, **kwargs)
        else:
            for name, value in zip(names, args, strict=False):
                setattr(held, name, value)
            for name, value in kwargs.items():
                setattr(held, name, value)
        missing = [name for name in names if not hasattr(held, name)]
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
    space |= {name: _Field(place) for place, name in enumerate(names)}
    space |= {"__new__": new, "_fields": names, "__slots__": (), "__doc__": cls.__doc__}
    return type(cls.__name__, (Aggregate,), space)


__all__ = ["Aggregate", "aggregate"]
