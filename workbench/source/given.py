"""Checks of what people give to functions: K105 and K220, TypeErrors, say what was expected."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from workbench.source.budgets import shown
from workbench.source.errors import ArgumentError, OptionError

P = ParamSpec("P")
R = TypeVar("R")


class WrongKindError(OptionError, TypeError):
    """A value of a kind that a function does not take."""

    code = "K105"


def wrong_kind(what: str, value: Any, hint: str) -> WrongKindError:
    """Return the error for a value; `what` is a sentence that says what is expected."""
    found = f"{shown(value)} ({a(type(value).__name__)})" if value is not None else "None"
    return WrongKindError(f"{what}, got {found}", hint=hint)


def a(noun: str) -> str:
    """Return a noun with its article.

    >>> a("int")
    'an int'
    """
    return f"{'an' if noun[:1] in 'AEIOUaeiou' else 'a'} {noun}"


def told(name: str, elsewhere: Callable[[str], str | None] = lambda _: None) -> Any:
    """Have calls of a function with wrong arguments raise K220, which says what it takes.

    Args:
        name: what people call it.
        elsewhere: says of a keyword where else it is given, None if nowhere.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> R:
            try:
                return function(*args, **given)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # its own code does that
                raise misused(name, function, given, str(error), elsewhere) from None

        return called

    return decorate


def misused(
    name: str,
    function: Callable[..., Any],
    given: Mapping[str, Any],
    said: str,
    elsewhere: Callable[[str], str | None] = lambda _: None,
) -> ArgumentError:
    """Return the error for a call that a function does not take; `said` are Python's words."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    known = [p.name for p in parameters]
    takes = f"{name} takes {', '.join(map(_declared, parameters))}"
    word = next((word for word in given if word not in known), None)
    if word is None:
        words = said[said.find("()") + 2 :].replace(" missing", " is missing", 1)
        return ArgumentError(f"{name}{words}", hint=takes)
    where = elsewhere(word)
    close = [] if where else difflib.get_close_matches(word[:100], known, n=1)
    better = f"; did you mean {close[0]}?" if close else ""
    return ArgumentError(f"{name} has no option '{word}'{better}", hint=where or takes)


def _declared(parameter: inspect.Parameter) -> str:
    required = parameter.default is parameter.empty
    return parameter.name if required else f"{parameter.name}={shown(parameter.default, 40)}"


def instance(value: Any, kind: Any, what: str, hint: str) -> Any:
    """Return a value of a class or union; raises K105 for any other."""
    if not isinstance(value, kind):
        raise wrong_kind(what, value, hint)
    return value


def function(value: Any, what: str, hint: str) -> Callable[..., Any]:
    """Return something that can be called; raises K105 for anything else."""
    if not callable(value):
        raise wrong_kind(what, value, hint)
    return value


def from_environment(name: str, least: int) -> int | None:
    """Return the count that an environment variable gives; None where it is not set or empty.

    Raises OptionError K137 for anything but a whole number from `least` on.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise OptionError(
            f"{name} is a whole number from {least} on, got {shown(text)}",
            hint=f"set it to one, or unset it: os.environ.pop({name!r})",
            code="K137",
        )
    return int(text)


def several(value: Any, what: str, hint: str, kinds: type | tuple[type, ...] = object) -> list[Any]:
    """Return the items of a sequence, all of the given classes; raises K105 for anything else."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong_kind(what, value, hint)
    try:
        items: list[Any] = list(cast("Any", value))
    except Exception as error:
        raise wrong_kind(what, value, hint) from error
    for item in items:
        if not isinstance(item, kinds):
            raise wrong_kind(what, item, hint)
    return items


def by_name(value: Any, what: str, hint: str) -> dict[str, Any]:
    """Return a mapping from names as a dict; raises K105 for anything else."""
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) for name in cast("Any", value)
    ):
        raise wrong_kind(what, value, hint)
    return dict(cast("Any", value))


def plain_number(value: Any) -> Any:
    """Turn a NumPy scalar into Python's."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value
