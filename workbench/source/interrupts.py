"""What neither Ctrl-C nor a fork may cut in two.

Python raises KeyboardInterrupt on its main thread, between any two steps of it, and a child of a
fork inherits locks as they were, held by threads that it does not have. So steps that must be taken
together are taken on another thread (`in_one_piece`), and locks that outlive a call are made anew
in a child (`renewed_lock`).
"""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def renewed_lock() -> Any:
    """Return a reentrant lock that is free in a child of a fork, unless the forking thread held it.

    What it guards must be whole whenever somebody else may look at it: other threads of the parent
    stay in the middle of what they were doing, for good.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    for lock in list(_locks):
        if not lock._is_owned():  # as threading's Condition asks
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def in_one_piece(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function that no KeyboardInterrupt may interrupt; one that comes is raised after it.

    For what takes milliseconds. On threads other than the main one this is a call.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    outcome: list[tuple[Any, BaseException | None]] = []
    over = _thread.allocate_lock()
    over.acquire()

    def work() -> None:
        try:
            outcome.append((function(*args), None))
        except BaseException as error:
            outcome.append((None, error))
        over.release()

    try:
        _thread.start_new_thread(work, ())
    except RuntimeError:  # the interpreter is ending
        return function(*args)
    interrupt: BaseException | None = None
    while not outcome:
        try:
            over.acquire()
        except BaseException as error:
            interrupt = error
    result, error = outcome.pop()
    if error is not None:
        raise error
    if interrupt is not None:
        raise interrupt
    return result
