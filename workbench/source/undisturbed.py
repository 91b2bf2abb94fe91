"""What Python keeps once for all threads and changes without a lock: read as if nobody changed it.

`linecache` asks whether a file is known and then for its text, copying `os.environ` asks for its
names and then for their values, and what stood there may be gone in between: an edited file, a
variable that another thread unsets. That is no error of who asks, who is answered by asking again.
"""

from __future__ import annotations

import inspect
import linecache
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Times that something is asked in vain before its error is believed.
_TRIES = 100
#: What `linecache` raises where another thread has just forgotten a file, or read it: a file that
#: it knows is a tuple of four, one that it could read a tuple of one.
_DISTURBED = (KeyError, IndexError, TypeError)


def again(ask: Callable[..., Result], *args: Any) -> Result:
    """Return what a function returns that may be disturbed by other threads; it is asked again."""
    for _ in range(_TRIES):
        try:
            return ask(*args)
        except _DISTURBED:
            time.sleep(0)  # whoever is in the middle of a change goes on
    return ask(*args)


def lines_of_file(file: str) -> list[str]:
    """Return a file's lines, none where it cannot be read; `linecache` knows cells, too."""
    return again(linecache.getlines, file)


def found_source(value: Any) -> tuple[list[str], int]:
    """Return all lines of the file of a function or class and where it begins, counted from 0.

    Raises OSError and TypeError as `inspect.findsource` does.
    """
    return _as_oserror(inspect.findsource, value)


def found_lines(value: Any) -> tuple[list[str], int]:
    """Return a function's or class's own lines and the number of the first, as `inspect` does."""
    return _as_oserror(inspect.getsourcelines, value)


def _as_oserror(ask: Callable[..., Result], value: Any) -> Result:
    try:
        return again(ask, value)
    except (KeyError, IndexError) as error:  # a loader's own
        raise OSError(f"no source: {type(error).__name__} {error}") from error


def environment() -> dict[str, str]:
    """Return a copy of the environment."""
    return again(_environment)


def _environment() -> dict[str, str]:
    return dict(os.environ)


def modules() -> dict[str, ModuleType]:
    """Return what is imported now; `dict.copy` is one step, to go through the items is not."""
    return sys.modules.copy()
