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
functions, or builtins where they have a parameter `_semantic`. A value in the class body is a
field's default; an aggregate may inherit from aggregates: their fields come first (Triton 3.8), and
a constructor that one of them has is its own, too, unless it has another.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.language.constexprs import constexpr, unwrap


class Aggregate(tuple[Any, ...]):
    """Base of all aggregates: a tuple whose items are the declared fields, in order."""

    __slots__ = ()
    __aggregate__ = True
    _fields: tuple[str, ...] = ()
    #: Special methods by name: in the class itself they would change what a tuple does.
    __operators__: Mapping[str, Any] = {}
    #: Fields with their annotations, and with their values in the class body; and the class of
    #: what a constructor fills.
    __declared__: Mapping[str, Any] = {}
    __defaults__: Mapping[str, Any] = {}
    __draft__: type = object
    #: What an author wrote to fill one; None: fields are given in their order.
    __fill__: Callable[..., None] | None = None

    @classmethod
    def _make(cls, items: Iterable[Any]) -> Aggregate:
        return _tuple(cls, items)

    def __repr__(self) -> str:
        words = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({words})"


class _Field:
    """Reads one field of an instance."""

    def __init__(self, place: int, name: str) -> None:
        self.place = place
        self.name = name

    def __get__(self, instance: Aggregate | None, owner: type) -> Any:
        return self if instance is None else instance[self.place]

    def __set__(self, instance: Aggregate, value: Any) -> None:
        raise AttributeError(
            f"cannot assign to field '{self.name}' on immutable aggregate "
            f"{type(instance).__name__}; make another one"
        )


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
    bases = _bases(cls)
    annotations = {n: word for base in reversed(bases) for n, word in base.__declared__.items()}
    annotations |= inspect.get_annotations(cls)
    names = tuple(annotations)
    constants = {n for n in names if "constexpr" in str(annotations[n])}
    defaults = {n: value for base in reversed(bases) for n, value in base.__defaults__.items()}
    own = vars(cls)
    defaults |= {n: own[n] for n in annotations if n in own}
    # What a constructor fills: an object of a class that is no tuple, with the methods.
    draft: Any = type(cls.__name__, tuple(base.__draft__ for base in bases), _body(cls))
    written = own.get("__init__")
    if written is None:
        fill = next((base.__fill__ for base in bases if base.__fill__ is not None), None)
    else:
        fill = _filling(getattr(written, "fn", written), draft, hidden)

    def place(held: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in _given(cls.__name__, names, defaults, args, kwargs).items():
            setattr(held, name, value)

    draft.__init__ = place if fill is None else fill

    def new(made: type[Aggregate], *args: Any, **kwargs: Any) -> Aggregate:
        given: dict[str, Any] = {**defaults, **vars(draft(*args, **kwargs))}
        missing = [name for name in names if name not in given]
        if missing:
            raise TypeError(f"{cls.__name__} leaves {', '.join(missing)} without a value")
        return make(made, [given[n] for n in names])

    def make(made: type[Aggregate], items: Iterable[Any]) -> Aggregate:
        """Return one of all fields, those of constants as such."""
        pairs = zip(names, items, strict=True)
        return _tuple(made, [constexpr(v) if n in constants else unwrap(v) for n, v in pairs])

    space: dict[str, Any] = {
        name: value if isinstance(value, types.FunctionType | staticmethod | property) else
        _Method(value) if hasattr(value, "kernel_source") else value
        for name, value in _body(cls).items()
    }  # fmt: skip
    special = {name: space.pop(name) for name in list(space) if _is_operator(name, space[name])}
    space |= {name: _Field(place, name) for place, name in enumerate(names)}
    space |= {"__new__": new, "_fields": names, "__slots__": (), "__doc__": cls.__doc__}
    space["_make"] = classmethod(make)
    inherited = {n: f for base in reversed(bases) for n, f in base.__operators__.items()}
    space["__operators__"] = inherited | {
        name: getattr(f, "function", f) for name, f in special.items()
    }
    space |= {"__declared__": annotations, "__defaults__": defaults, "__draft__": draft}
    space |= {"__fill__": None if fill is None else staticmethod(fill), "__init__": _init(draft)}
    return type(cls.__name__, bases or (Aggregate,), space)


def _filling(
    function: Any, draft: type, hidden: Callable[[Callable[..., Any]], dict[str, Any]]
) -> Callable[..., None]:
    """Return a constructor that gets what authors do not write; its `super()` is the draft's."""
    captured = function.__code__.co_freevars
    if "__class__" in captured:
        cells = [
            types.CellType(draft) if name == "__class__" else cell
            for name, cell in zip(captured, function.__closure__, strict=True)
        ]
        other = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__,
            tuple(cells),
        )  # fmt: skip
        other.__kwdefaults__ = function.__kwdefaults__
        function = other

    def fill(held: Any, *args: Any, **kwargs: Any) -> None:
        function(held, *args, **{**hidden(function), **kwargs})

    return fill


def _init(draft: Any) -> Callable[..., None]:
    """Return `__init__` of the tuples: `Base.__init__(self, …)` of a constructor fills its part."""

    def init(held: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(held, Aggregate):
            draft.__init__(held, *args, **kwargs)

    return init


def _bases(cls: type) -> tuple[type[Aggregate], ...]:
    """Return the aggregates that a class inherits fields from; raises TypeError for others."""
    bases = [base for base in cls.__bases__ if base is not object]
    for base in bases:
        if not issubclass(base, Aggregate):
            raise TypeError(
                f"Aggregates can only inherit from other aggregates: {cls.__name__} inherits from "
                f"{base.__name__}, which is none (decorate it, too)"
            )
    return tuple(bases)


def _body(cls: type) -> dict[str, Any]:
    unused = ("__dict__", "__weakref__", "__init__", "__annotations__")
    return {name: value for name, value in vars(cls).items() if name not in unused}


def _given(
    name: str,
    fields: tuple[str, ...],
    defaults: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what a call of a class without a constructor gives each field."""
    called = f"{name}({', '.join(fields)})"
    if len(args) > len(fields):
        raise TypeError(f"{called} takes {len(fields)} values but {len(args)} were given")
    placed = dict(zip(fields, args, strict=False))
    for key in kwargs:
        if key not in fields:
            raise TypeError(f"{called} got an unexpected keyword argument '{key}'")
        if key in placed:
            raise TypeError(f"{called} got multiple values for argument '{key}'")
    return {**defaults, **placed, **kwargs}


def _is_operator(name: str, value: Any) -> bool:
    return (
        name.startswith("__")
        and name.endswith("__")
        and (callable(value) or isinstance(value, _Method))
    )


__all__ = ["Aggregate", "aggregate"]
