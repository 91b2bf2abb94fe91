"""Values known at compile time: `tl.constexpr`, whose arithmetic happens in Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, cast

from workbench.source.evaluation import OPERATORS


class constexpr_type:
    """The type of a value known at compile time: the value itself tells types apart."""

    __compile_time__ = True

    def __init__(self, value: Any) -> None:
        self.value = value

    def mangle(self) -> str:
        """Return a text for names of specialised functions."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


class constexpr:
    """A value known at compile time; arithmetic on it happens in Python.

    >>> N = constexpr(4)
    >>> (N * 2 + 1).value
    9
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = value
        while isinstance(self.value, constexpr):
            self.value = self.value.value

    @property
    def type(self) -> constexpr_type:
        """The type, which is as good as the value."""
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash((constexpr, self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that is held."""
        return self.value(*args, **kwargs)

    def __getitem__(self, key: Any) -> constexpr:
        return constexpr(self.value[unwrap(key)])

    def logical_and(self, other: Any) -> constexpr:
        """Return `self and other`."""
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        """Return `self or other`."""
        return constexpr(self.value or unwrap(other))


def _add_operators() -> None:
    """Give constexpr Python's operators, each computing on the values that are held."""

    def binary(function: Callable[[Any, Any], Any], *, reflected: bool = False) -> Any:
        def apply(self: constexpr, other: Any) -> constexpr:
            a, b = self.value, unwrap(other)
            return constexpr(function(b, a) if reflected else function(a, b))

        return apply

    def unary(function: Callable[[Any], Any]) -> Any:
        def apply(self: constexpr) -> constexpr:
            return constexpr(function(self.value))

        return apply

    arithmetic = {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
        "pow": "**", "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
    }  # fmt: skip
    for name, symbol in arithmetic.items():
        function = OPERATORS[symbol]
        setattr(constexpr, f"__{name}__", binary(function))
        setattr(constexpr, f"__r{name}__", binary(function, reflected=True))
    for name in ["lt", "le", "gt", "ge", "eq", "ne"]:
        setattr(constexpr, f"__{name}__", binary(getattr(operator, f"__{name}__")))
    for name in ["neg", "pos", "invert"]:
        setattr(constexpr, f"__{name}__", unary(getattr(operator, f"__{name}__")))


_add_operators()


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """Say whether a value is a tuple, a namedtuple included."""
    return isinstance(value, tuple)


def like(original: tuple[Any, ...], items: Sequence[Any]) -> tuple[Any, ...]:
    """Return items as a tuple of the same class if that is a namedtuple, else as a plain one."""
    make = getattr(type(original), "_make", None)
    return make(items) if make is not None else tuple(items)


def unwrap(value: Any) -> Any:
    """Return a constexpr's value, through tuples; anything else as it is."""
    if isinstance(value, constexpr):
        return value.value
    if is_tuple(value):
        return like(value, [unwrap(item) for item in value])
    if isinstance(value, list):
        return tuple(unwrap(item) for item in cast("list[Any]", value))
    return value
