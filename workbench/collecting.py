"""Python's search for cycles has patience while a kernel is compiled or the compiler imported.

A compilation makes some ten thousand objects that stay, after which Python looks for cycles among
all that the process holds: with PyTorch in it a tenth of a second, a quarter of what compiling a
kernel takes us. So more objects than usual may be made between two searches. Large kernels are
searched still, since modules that passes leave behind are cycles. Of importing the compiler such
searches took a seventh: nothing that a module makes is garbage.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager

from workbench.interrupts import renewed_lock

#: Objects made between two searches among young ones; Python's own number is 700 or 2000.
_OBJECTS = 60_000

_lock = renewed_lock()
#: One object for each compilation that runs.
_running: set[object] = set()
_usual: tuple[int, ...] | None = None


@contextmanager
def rarely_collected() -> Generator[None]:
    """Search seldom for cycles within the block, whichever threads are in one."""
    one = object()
    try:  # an interrupt after the beginning ends it, too
        _begin(one)
        yield
    finally:
        _end(one)


def _begin(one: object) -> None:
    global _usual
    with _lock:
        _running.add(one)
        now = gc.get_threshold()
        if _usual is None and 0 < now[0] < _OBJECTS:  # 0: never
            _usual = now
            gc.set_threshold(_OBJECTS, *now[1:])


def _end(one: object) -> None:
    global _usual
    with _lock:
        _running.discard(one)
        if not _running and _usual is not None:
            if gc.get_threshold() == (_OBJECTS, *_usual[1:]):  # nobody has set it meanwhile
                gc.set_threshold(*_usual)
            _usual = None


def _forked() -> None:
    """In a child of a fork only the thread that forked goes on, which compiles nothing."""
    _running.clear()
    _end(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
