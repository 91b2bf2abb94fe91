"""Odd objects by seed: classes that inherit from anything and whose special methods raise.

Whatever stands under a name of a kernel, keys and launches may not run its code.
"""

from __future__ import annotations

import collections
import enum
import functools
import random
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np


class Odd(BaseException):
    """Raised by whatever should not have been called; no `except Exception` catches it."""


#: What objects are asked for. `__del__` and what makes objects are left alone.
METHODS = (
    "__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__bool__", "__len__", "__iter__",
    "__getattr__", "__getattribute__", "__call__", "__getitem__", "__setitem__", "__contains__",
    "__index__", "__int__", "__float__", "__reduce__", "__reduce_ex__", "__format__", "__next__",
    "__lt__", "__get__", "__buffer__", "__dir__", "__sizeof__", "__getstate__", "__bytes__",
    "keys", "items", "values", "tobytes", "data_ptr", "bit_length", "append",
)  # fmt: skip
PROPERTIES = (
    "__class__", "__dict__", "__module__", "__qualname__", "__name__", "__doc__", "__wrapped__",
    "value", "kernel_source", "text_source", "__compile_time__", "fn", "dtype", "shape",
    "__dataclass_fields__", "__slots__", "__array_interface__", "__func__", "__self__", "_value_",
)  # fmt: skip
OF_CLASSES = (
    "__repr__", "__eq__", "__hash__", "__getattr__", "__getattribute__", "__instancecheck__",
    "__subclasscheck__", "__iter__", "__len__", "__bool__", "__call__", "__dir__",
)  # fmt: skip
BASES: tuple[type, ...] = (
    object, object, object, int, str, float, bytes, tuple, list, dict, set, frozenset,
    bytearray, collections.deque, Exception, np.ndarray, types.SimpleNamespace, functools.partial,
)  # fmt: skip
NAMES = ("Odd", "constexpr", "tensor", "JITFunction", "dtype", "int", "Enum")


def _raises(*_args: Any, **_given: Any) -> Any:
    raise Odd


def odd(seed: int) -> Any:
    """Return the odd object of a seed."""
    choose = random.Random(seed)
    special: list[Callable[[random.Random], Any]] = [
        _proxy, _dead_proxy, _holding_itself, _member, _function, _array, _strange_dict, _plain
    ]  # fmt: skip
    if seed % 4 == 0:
        return choose.choice(special)(choose)
    return _instance(choose)


def _class(choose: random.Random, base: type) -> type:
    body: dict[str, Any] = {}
    for name in choose.sample(METHODS, choose.randint(1, 12)):
        body[name] = _raises
    for name in choose.sample(PROPERTIES, choose.randint(0, 5)):
        if name != "__slots__":
            body[name] = property(_raises)
    if base is object and choose.random() < 0.3:
        body["__slots__"] = ("one", "other")
        body.pop("__dict__", None)
    body.pop("__qualname__", None)
    meta: type = type(base)
    if choose.random() < 0.4:
        names = choose.sample(OF_CLASSES, choose.randint(1, 5))
        meta = type("Meta", (meta,), dict.fromkeys(names, _raises))
    made = type.__new__(meta, choose.choice(NAMES), (base,), body)
    return choose.choice([made, made, type.__new__(meta, "Inner", (made,), {})])


def _instance(choose: random.Random) -> Any:
    base = choose.choice(BASES)
    made = _class(choose, base)
    given: tuple[Any, ...] = {
        np.ndarray: (3,), functools.partial: (len,), int: (7,), float: (0.5,)
    }.get(base, ())  # fmt: skip
    try:
        found = base.__new__(made, *given)
    except Odd:  # it asks the class
        return made
    for name in ("one", "n"):
        try:
            object.__setattr__(found, name, choose.choice([1, "text", found, made]))
        except AttributeError:
            break
    return choose.choice([found, found, found, made, [found], {"key": found}, (found, made)])


class _Plain:
    pass


def _proxy(choose: random.Random) -> Any:
    held = _Plain()
    _kept.append(held)
    return weakref.proxy(held)


_kept: list[Any] = []


def _dead_proxy(choose: random.Random) -> Any:
    return weakref.proxy(_Plain())


def _holding_itself(choose: random.Random) -> Any:
    held: list[Any] = []
    held += [held, {"held": held}, (held,)]
    return held


def _member(choose: random.Random) -> Any:
    class Member(enum.Enum):
        A = 1
        B = "text"

        def __repr__(self) -> str:
            raise Odd

    return choose.choice([Member.A, Member, [Member.B]])


def _function(choose: random.Random) -> Any:
    made: Any = choose.choice(
        [eval("lambda: nothing"), lambda: _kept, _raises, functools.cache(len)]
    )
    if choose.random() < 0.5 and type(made) is types.FunctionType and made is not _raises:
        odd_one: Any = made
        odd_one.__module__ = choose.choice([None, 3, "workbench.nothing"])
        odd_one.__wrapped__ = made  # its own: unwrapping would not end
    return made


def _array(choose: random.Random) -> Any:
    held = np.empty(2, object)
    held[0], held[1] = held, _instance(choose)
    return choose.choice([held, held.dtype, np.float32(1), np.zeros(0), np.zeros((2, 3)).T])


def _strange_dict(choose: random.Random) -> Any:
    held = _Plain()
    names: dict[Any, Any] = vars(held)
    names.update({3: 4, None: held})
    return choose.choice([held, type(held), vars(held), iter([held]), (n for n in ())])


def _plain(choose: random.Random) -> Any:
    return choose.choice([types.ModuleType("odd"), super(_Plain, _Plain()), ..., slice(_kept, 1),
                          memoryview(b"1"), "\ud800", float("nan"), 1 << 90_000])  # fmt: skip
