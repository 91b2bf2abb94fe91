"""Warnings that stand at the user's line, however many of our frames lie between."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

_OURS = __name__.partition(".")[0]


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of what the nearest line that is not ours does.

    Python keeps what it has said by that line, so that each line that asks is told once.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame.f_globals):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _is_ours(names: Mapping[str, Any]) -> bool:
    """Say whether a frame with these globals runs a module of ours, or what one has written."""
    return str(names.get("__name__", _OURS)).partition(".")[0] == _OURS
