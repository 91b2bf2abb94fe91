"""Room for recursion: work that follows how a kernel nests runs on a thread with a large stack.

Python stops at a thousand nested calls, and a thread's stack ends long before memory does. A sum of
two thousand terms is a tree of two thousand levels all the same, and so are four hundred early
returns. What walks such trees, Python's own parser and code generator included, is run here: on a
thread whose stack is large, with the limit raised as long as one runs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from workbench.interrupts import here, renewed_lock

P = ParamSpec("P")
R = TypeVar("R")

#: Virtual memory: pages that nobody touches cost nothing. Smaller ones where there is no room.
_STACKS = (512 << 20, 128 << 20, 32 << 20)
#: Calls for each byte of stack: a call from C needs about 1 kB, CPython's code generator, which
#: goes three times as deep as the limit says, 0.4 kB a level.
_BYTES_PER_CALL = 4096
#: How long an interrupted compilation may take to notice.
_PATIENCE = 2.0

_here = threading.local()
#: Held while the size of stacks is another. Not where a thread begins: a finalizer or a handler of
#: signals that compiles, called while it is held, waits for a thread of its own.
_starting = renewed_lock()
#: Held by threads that need more calls, while they say so.
_lock = renewed_lock()
#: The threads that need more calls. Adding one twice does nothing: an interrupt may cut it in two.
_running: set[int] = set()
#: Python's limit before we raised it, and what we raised it to: who sets another one meanwhile
#: keeps it.
_usual = _raised = 0


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that has room for about 100,000 nested calls, whoever calls it.

    It sees the caller's context variables and raises what the function raises. An interrupt of the
    caller ends it too.
    """

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        if getattr(_here, "deep", False):
            return function(*args, **given)
        return _elsewhere(functools.partial(function, *args, **given))

    return call


def _elsewhere(work: Callable[[], R]) -> R:
    task = _Task(functools.partial(copy_context().run, work))
    thread = _started(task.run)
    if thread is None:
        return work()
    try:
        task.done.acquire()
    except BaseException as stop:  # an interrupt, or what a signal's handler raised
        try:
            _interrupt(thread, type(stop), task.done)
        finally:
            task.over.release()
        raise
    task.over.release()
    if task.raised:
        try:
            raise task.raised[0]
        finally:
            task.raised.clear()
    return task.found[0]


class _Task:
    """What a thread does, and what came of it.

    `done` is free when the work is over, `over` when no interrupt is handed on any more. One is at
    the most, and may come between any two steps, so all steps after the work can be taken twice.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._begun = False
        self.found: list[Any] = []
        self.raised: list[BaseException] = []
        self.done, self.over = threading.Lock(), threading.Lock()
        self.done.acquire()
        self.over.acquire()

    def run(self, calls: int) -> None:
        """Do the work and end; an interrupt ends the work, or nothing."""
        _here.deep = here.interruptible = True
        while True:
            try:
                self._steps(calls)
                return
            except BaseException as error:
                if not self.found:
                    self.raised.append(error)

    def _steps(self, calls: int) -> None:
        if not self._begun:
            self._begun = True
            _more_calls(calls)
            try:
                self.found.append(self._work())
            except BaseException as error:
                self.raised.append(error)
        _fewer_calls()
        if self.done.locked():
            self.done.release()
        _await(self.over)


def _await(over: Any) -> None:
    """Wait until nobody hands on an interrupt any more: one that comes now has nothing to end."""
    while True:
        try:
            over.acquire(timeout=2 * _PATIENCE)
            return
        except BaseException:  # Python would print it
            continue


def _started(run: Callable[[int], None]) -> threading.Thread | None:
    """Start a thread with the largest stack that there is room for; None where there is none."""
    with _starting:
        for stack in _STACKS:
            before = threading.stack_size(stack)
            try:
                calls = (stack // _BYTES_PER_CALL,)
                thread = threading.Thread(target=run, args=calls, name="workbench", daemon=True)
                thread.start()
            except (RuntimeError, MemoryError):
                continue
            finally:
                threading.stack_size(before)
            return thread
    return None


def _more_calls(calls: int) -> None:
    """Raise Python's limit, which is one for all threads, as long as somebody needs it."""
    global _usual, _raised
    with _lock:
        now = sys.getrecursionlimit()
        if not _running or now != _raised:
            _usual = _raised = now
        _running.add(threading.get_ident())
        if now < calls:
            _raised = calls
            sys.setrecursionlimit(calls)


def _fewer_calls() -> None:
    with _lock:
        if _running == {threading.get_ident()}:
            _put_back()
        _running.discard(threading.get_ident())


def _put_back() -> None:
    if sys.getrecursionlimit() == _raised:
        sys.setrecursionlimit(_usual)


def _forked() -> None:
    """Forget the threads that a child does not have."""
    if _running:
        _running.intersection_update({threading.get_ident()})
        if not _running:
            _put_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _interrupt(thread: threading.Thread, kind: type[BaseException], done: Any) -> None:
    """Raise an exception in a thread and wait a moment; it ends at its next step at the latest."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(kind))
    if done.acquire(timeout=_PATIENCE):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, None)
