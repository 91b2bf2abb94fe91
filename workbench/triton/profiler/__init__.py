"""`triton.profiler` (proton): accepted and without effect; it says so once.

Nothing is recorded: `%%kernel --bench`, `workbench.bench` and the Trace of a kernel measure here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

DEFAULT_PROFILE_NAME = "proton"

_said: list[bool] = []


def _say() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "triton.profiler records nothing in workbench; use workbench.bench, or the Trace",
            stacklevel=3,
        )


class scope:
    """A region with a name: a context manager or decorator without effect."""

    def __init__(self, name: str = "", metrics: Any = None, **more: Any) -> None:
        self.name = name

    def __enter__(self) -> scope:
        _say()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function as it is."""
        return function


class cpu_timed_scope(scope):
    """A region whose time would be taken on the host."""


class state(scope):
    """A state with a name."""


def enter_scope(name: str, *, metrics: Any = None, **more: Any) -> int:
    """Return 0."""
    _say()
    return 0


def exit_scope(name: str | None = None, *, metrics: Any = None, **more: Any) -> int:
    """Return 0."""
    return 0


def enter_state(name: str) -> None:
    """Do nothing."""
    _say()


def exit_state() -> None:
    """Do nothing."""


def start(name: str | None = None, **more: Any) -> int:
    """Return the number of a session that records nothing."""
    _say()
    return 0


def activate(session: int | None = None) -> None:
    """Do nothing."""


def deactivate(session: int | None = None) -> None:
    """Do nothing."""


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """Write nothing."""


def profile(func: Callable[..., Any] | None = None, **more: Any) -> Any:
    """Return a function as it is."""
    _say()
    return (lambda function: function) if func is None else func


__all__ = [
    "DEFAULT_PROFILE_NAME", "activate", "cpu_timed_scope", "deactivate", "enter_scope",
    "enter_state", "exit_scope", "exit_state", "finalize", "profile", "scope", "start", "state",
]  # fmt: skip
