"""Checks of what people give to functions: K105, a TypeError, says what was expected."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from workbench.source.budgets import shown
from workbench.source.errors import OptionError


class WrongKindError(OptionError, TypeError):
    """A value of a kind that a function does not take."""

    code = "K105"


def wrong_kind(what: str, value: Any, hint: str) -> WrongKindError:
    """Return the error for a value; `what` is a sentence that says what is expected."""
    found = f"{shown(value)} (a {type(value).__name__})" if value is not None else "None"
    return WrongKindError(f"{what}, got {found}", hint=hint)


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
