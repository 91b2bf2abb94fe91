"""Settings with an environment variable: the classes that groups of settings are made of."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from workbench.source import OptionError

SetType = TypeVar("SetType")
GetType = TypeVar("GetType")
ClassType = TypeVar("ClassType")
F = TypeVar("F", bound=Callable[..., Any])

_UNSET: Any = object()
#: Whether settings made from Python are also written to the environment, for child processes.
_propagates: list[Callable[[], bool]] = [lambda: True]


def propagate_by(rule: Callable[[], bool]) -> None:
    """Say by a function whether settings made from Python go to the environment."""
    _propagates[0] = rule


class Env:
    """Assigned to a setting, makes it follow its environment variable again."""


env = Env()


def getenv(key: str, default: Any = None) -> str | None:
    """Return an environment variable."""
    return os.environ.get(key, default)


def getenv_bool(key: str, default: Any = False) -> Any:
    """Return an environment variable as a truth value."""
    text = os.environ.get(key)
    return default if text is None else truth(text)


def setenv(key: str, value: str | None) -> None:
    """Set an environment variable, or drop it (None), for child processes."""
    if not _propagates[0]():
        return
    if value is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = value


def toenv(val: Any) -> tuple[str | None] | None:
    """Return a setting as (text of a variable,), None for what has no such text."""
    if val is None:
        return (None,)
    if isinstance(val, bool):
        return ("1" if val else "0",)
    return (str(val),) if isinstance(val, int | str) else None


def truth(text: str) -> bool:
    """Return what a text says of a switch."""
    return text.strip().lower() in ("1", "true", "on", "yes", "y", "t")


class env_base(Generic[SetType, GetType]):  # noqa: N801 - Triton's names
    """A setting that follows an environment variable until it is set from Python."""

    def __init__(self, key: str, default: Any = None) -> None:
        self.key = key
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, knobs: Any, owner: type | None = None) -> Any:
        if knobs is None:
            return self
        value = knobs.__dict__.get(self.name, _UNSET)
        return self.get() if value is _UNSET else self.transform(value)

    def __set__(self, knobs: Any, value: Any) -> None:
        if isinstance(value, Env):
            self.__delete__(knobs)
            return
        knobs.__dict__[self.name] = value
        text = toenv(value)
        if text is not None:
            setenv(self.key, text[0])

    def __delete__(self, knobs: Any) -> None:
        knobs.__dict__.pop(self.name, None)

    def places(self, knobs: Any) -> tuple[tuple[dict[Any, Any], Any], ...]:
        """Return where what it says is read: dicts and keys, for whoever asks often."""
        environment: Any = os.environ
        variable = environment._data, environment.encodekey(self.key)
        return (knobs.__dict__, self.name), variable

    def read(self, text: str) -> Any:
        """Return the value that a variable's text stands for."""
        return text

    def get(self) -> Any:
        """Return the value that the environment gives."""
        text = os.environ.get(self.key)
        return self.fallback() if text is None else self.read(text)

    def fallback(self) -> Any:
        """Return the value without a variable."""
        return self.default

    def transform(self, val: Any) -> Any:
        """Return what a value set from Python reads as."""
        return val


class env_str(env_base[str, str]):  # noqa: N801 - Triton's names
    """A text."""


class env_opt_str(env_base[str | None, str | None]):  # noqa: N801 - Triton's names
    """A text, or None."""


class env_str_callable_default(env_base[str, str]):  # noqa: N801 - Triton's names
    """A text whose default is computed."""

    def __init__(self, key: str, default_factory: Callable[[], str]) -> None:
        super().__init__(key)
        self.default_factory = default_factory

    def fallback(self) -> Any:
        """Return the computed default."""
        return self.default_factory()


class env_bool(env_base[bool, bool]):  # noqa: N801 - Triton's names
    """A switch."""

    def __init__(self, key: str, default: bool = False) -> None:
        super().__init__(key, default)

    def read(self, text: str) -> Any:
        """Return the value that a variable's text stands for."""
        return truth(text)


class env_opt_bool(env_bool):  # noqa: N801 - Triton's names
    """A switch that may be left open (None)."""

    def fallback(self) -> Any:
        """Return None."""
        return None


class env_int(env_base[int, int]):  # noqa: N801 - Triton's names
    """A number."""

    def __init__(self, key: str, default: int = 0) -> None:
        super().__init__(key, default)

    def read(self, text: str) -> Any:
        """Return the number; raises OptionError (K113) for any other text."""
        try:
            return int(text)
        except ValueError:
            raise OptionError(f"{self.key}={text} is not a number", code="K113") from None


class env_class(env_base[Any, Any], Generic[ClassType]):  # noqa: N801 - Triton's names
    """A class, as MODULE:CLASS in the variable."""

    def __init__(self, key: str, type: str) -> None:
        super().__init__(key)
        self.type = type

    def read(self, text: str) -> Any:
        """Import the class; raises OptionError (K113) for what names none of its kind."""
        module, _, name = text.partition(":")
        found = getattr(importlib.import_module(module), name, None) if name else None
        if not isinstance(found, type) or self.type not in (c.__name__ for c in found.__mro__):
            raise OptionError(
                f"{self.key}={text} is not MODULE:CLASS of a {self.type}", code="K113"
            )
        return found


Self = TypeVar("Self", bound="base_knobs")
knobs_type = Self


class base_knobs:  # noqa: N801 - Triton's names
    """A group of settings."""

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        """The settings that have an environment variable."""
        return {name: x for name, x in vars(type(self)).items() if isinstance(x, env_base)}

    @property
    def knobs(self) -> dict[str, Any]:
        """Their values."""
        return {name: getattr(self, name) for name in self.knob_descriptors}

    def copy(self: Self) -> Self:
        """Return a group with the same settings."""
        other = type(self)()
        other.__dict__.update(self.__dict__)
        return other

    def reset(self: Self) -> Self:
        """Make all settings follow the environment again."""
        for name in self.knob_descriptors:
            delattr(self, name)
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Undo what is set within the block."""
        keys = [setting.key for setting in self.knob_descriptors.values()]
        variables = {key: os.environ.get(key) for key in keys}
        before = dict(self.__dict__)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)
            for key, value in variables.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
