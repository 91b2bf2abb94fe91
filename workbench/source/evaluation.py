"""Python's operators and functions on compile-time values, within their budgets.

Each says how large its result would be before it computes it: `9**9**9` and `"a" * 10**10` are
refused at once (K406).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.source.budgets import check_integer, check_size, check_value

#: Kinds of values that have a size; Any, as nobody asks what is in them.
_SIZED: Any = (str, bytes, tuple, list)
_TUPLE: Any = tuple


def power(a: Any, b: Any) -> Any:
    """Return a ** b."""
    if isinstance(a, int) and isinstance(b, int) and b > 0 and abs(a) > 1:
        check_integer((a.bit_length() - 1) * b + 1, "the power has")
    return a**b


def shifted_left(a: Any, b: Any) -> Any:
    """Return a << b."""
    if isinstance(a, int) and isinstance(b, int) and a and b > 0:
        check_integer(a.bit_length() + b, "the shifted integer has")
    return a << b


def product(a: Any, b: Any) -> Any:
    """Return a * b: of numbers, or a text or tuple repeated."""
    for sized, count in ((a, b), (b, a)):
        if isinstance(sized, _SIZED) and isinstance(count, int):
            check_size(len(sized) * max(0, count), "the repeated value has")
            return sized * count
    if isinstance(a, int) and isinstance(b, int):
        check_integer(a.bit_length() + b.bit_length() - 1, "the product has")
    return a * b


def remainder(a: Any, b: Any) -> Any:
    """Return a % b: of numbers, or a text with values put in."""
    if isinstance(a, str | bytes):
        _check_widths(a if isinstance(a, str) else a.decode("latin-1"))
        if "*" in str(a):
            _check_numbers(b if isinstance(b, _TUPLE) else (b,))
    return check_value(a % b)


def joined(a: Any, b: Any) -> Any:
    """Return a + b: of numbers, or a text or tuple behind another."""
    return check_value(a + b)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    symbol: getattr(operator, name)
    for symbol, name in {
        "-": "sub", "/": "truediv", "//": "floordiv", "&": "and_", "|": "or_", "^": "xor",
        ">>": "rshift", "@": "matmul", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq",
        "!=": "ne",
    }.items()
} | {"+": joined, "*": product, "%": remainder, "**": power, "<<": shifted_left}  # fmt: skip


def formatted(value: Any, form: str) -> str:
    """Return format(value, form)."""
    _check_widths(form)
    return format(value, form)


def called(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return what a function gives for compile-time values.

    What functions of Python's own would make is measured first, others' afterwards.
    """
    guard = _GUARDS.get(getattr(function, "__name__", ""))
    owner = getattr(function, "__self__", None)
    ours = isinstance(owner, str) or getattr(function, "__module__", "") in ("math", "builtins")
    if guard is not None and ours:
        guard(owner, [*args, *named.values()])
    return check_value(function(*args, **named))


# -- what functions would make ----------------------------------------------------------------
def _check_widths(form: str) -> None:
    for digits in re.findall(r"\d+", form):
        check_size(int(digits) if len(digits) < 20 else 10**20, "the text has at least")


def _check_numbers(values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, int):
            check_size(value, "the text has at least")


def _widened(text: Any, args: Sequence[Any]) -> None:
    _check_numbers(args)


def _tabs(text: Any, args: Sequence[Any]) -> None:
    for size in args:
        if isinstance(size, int):
            check_size(str(text).count("\t") * size, "the text has at least")


def _put_in(text: Any, args: Sequence[Any]) -> None:
    _check_widths(str(text))
    if re.search(r"\{[^{}]*\{", str(text)):
        _check_numbers(args)
    sizes = [len(arg) for arg in args if isinstance(arg, _SIZED)]
    check_size(len(str(text)) + str(text).count("{") * max(sizes, default=0), "the text has up to")


def _replaced(text: Any, args: Sequence[Any]) -> None:
    if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        check_size(len(text) + str(text).count(args[0]) * len(args[1]), "the text has up to")


def _joined_texts(text: Any, args: Sequence[Any]) -> None:
    items: Any = args[0] if args and isinstance(args[0], _SIZED) else ()
    sizes = sum(len(item) for item in items if isinstance(item, _SIZED))
    check_size(sizes + len(text) * max(0, len(items) - 1), "the text has")


def _factorial(owner: Any, args: Sequence[Any]) -> None:
    if args and isinstance(args[0], int) and args[0] > 1:
        bits = math.lgamma(min(args[0], 10**300)) / math.log(2)
        check_integer(int(min(bits, 1e300)), "the factorial has at least")


def _chosen(owner: Any, args: Sequence[Any]) -> None:
    if len(args) == 1:
        _factorial(owner, args)
    elif all(isinstance(arg, int) for arg in args) and len(args) == 2 and args[0] >= args[1] > 0:
        few = min(args[1], args[0] - args[1])
        check_integer(few * args[0].bit_length(), "the number of ways has up to")


def _ordered(owner: Any, args: Sequence[Any]) -> None:
    if len(args) == 2 and all(isinstance(arg, int) for arg in args) and args[0] >= args[1] > 0:
        check_integer(args[1] * args[0].bit_length(), "the number of ways has up to")
    else:
        _factorial(owner, args)


def _multiplied(owner: Any, args: Sequence[Any]) -> None:
    numbers: list[Any] = [
        number for arg in args for number in (arg if isinstance(arg, _TUPLE) else (arg,))
    ]
    bits = sum(n.bit_length() for n in numbers if isinstance(n, int))
    check_integer(bits, "the product has up to")


def _rounded(owner: Any, args: Sequence[Any]) -> None:
    if len(args) == 2 and all(isinstance(arg, int) for arg in args):
        check_integer(4 * -args[1], "a number of that many digits has up to")


_GUARDS: dict[str, Callable[[Any, Sequence[Any]], None]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _widened),
    "expandtabs": _tabs, "format": _put_in, "replace": _replaced, "join": _joined_texts,
    "factorial": _factorial, "comb": _chosen, "perm": _ordered,
    "prod": _multiplied, "lcm": _multiplied, "round": _rounded,
}  # fmt: skip
