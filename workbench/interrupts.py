"""What neither Ctrl-C nor a fork may cut in two.

Python raises KeyboardInterrupt on its main thread, between any two steps of it, and a child of a
fork inherits locks as they were, held by threads that it does not have. So

- steps that must be taken together are taken on another thread (`in_one_piece`);
- what a long run has found is kept: within `keeping` an interrupt is noted, and raised only where
  nothing can be lost by it (`may_stop`, `stop_here`), or in the user's own code (`own_code`);
- locks that outlive a call are free in a child (`renewed_lock`);
- what native code refers to is made by one thread (`MadeOnce`);
- a fork waits for what a child could not go on without (`unforked`): code being put into memory,
  modules being imported.
"""

from __future__ import annotations

import _thread
import importlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

#: Without callbacks, which would run anywhere, and lose a KeyboardInterrupt that comes then.
_locks: list[weakref.ref[Any]] = []
_most = 256
#: Held while the list changes: what another thread enters meanwhile must not be lost.
_registering = threading.RLock()


def renewed_lock() -> Any:
    """Return a reentrant lock that is free in a child of a fork, unless the forking thread held it.

    What it guards must be whole whenever somebody else may look at it: other threads of the parent
    stay in the middle of what they were doing, for good.
    """
    global _most
    lock = threading.RLock()
    with _registering:
        _locks.append(weakref.ref(lock))
        if len(_locks) > _most:
            _locks[:] = [known for known in _locks if known() is not None]
            _most = 2 * len(_locks) + 256
    return lock


class MadeOnce(Generic[Result]):
    """A function that makes a value once for each arguments, whichever threads ask at a time.

    `functools.cache` has two threads make two values and keeps the later one: no way to treat code
    in memory, whose address the earlier one has handed out.
    """

    def __init__(self, make: Callable[..., Result]) -> None:
        self._made = cache(make)
        self._lock = renewed_lock()
        update_wrapper(self, make)

    def __call__(self, *args: Any, **given: Any) -> Result:
        """Return the value for these arguments."""
        with self._lock:
            return self._made(*args, **given)

    @property
    def is_made(self) -> bool:
        """Whether there is a value."""
        return self._made.cache_info().currsize > 0

    def cache_clear(self) -> None:
        """Forget all values."""
        self._made.cache_clear()


#: What a thread says of itself: `interruptible`, if interrupts are handed on to it.
here = threading.local()
#: Held for what a fork waits for; some milliseconds at a time.
unforked = threading.RLock()


def in_one_piece(function: Callable[..., Result], *args: Any) -> Result:
    """Call a function that no KeyboardInterrupt may interrupt; one that comes is raised after it.

    For what takes milliseconds. On threads that nobody interrupts this is a call.
    """
    is_main = threading.get_ident() == threading.main_thread().ident
    if not is_main and not getattr(here, "interruptible", False):
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


#: So many interrupts of one run are raised wherever it is.
INSISTENT = 3


# -- runs that keep what they have found ------------------------------------------------------
class _Keeping:
    """The run in progress: whether one is, whether an interrupt came, whether it may be raised."""

    def __init__(self) -> None:
        self.active = self.asked = self.open = self.own = False
        self.often = 0

    def note(self, number: int, frame: Any) -> None:
        """Handle the signal; who insists is heard wherever it is."""
        if self.own:
            raise KeyboardInterrupt
        self.asked = True
        self.often += 1
        if self.open or self.often >= INSISTENT:
            self.open = False  # what is put back on the way out is not interrupted again
            raise KeyboardInterrupt


_run = _Keeping()


def _hears_interrupts() -> bool:
    is_main = threading.get_ident() == threading.main_thread().ident
    return is_main or getattr(here, "interruptible", False)


@contextmanager
def keeping() -> Iterator[None]:
    """Note interrupts that come within the block; `may_stop` and `stop_here` raise them.

    One interrupt ends everything that may be stopped from there to the end of the block, and is
    gone after it. Within a block that may be stopped this begins anew. Nothing changes on threads
    that nobody interrupts, and where a program handles the signal itself.
    """
    inner = _run.active and not _run.open
    is_main = threading.get_ident() == threading.main_thread().ident
    if inner or not (is_main if not _run.active else _hears_interrupts()):
        yield
        return
    handler = None
    if not _run.active:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        _run.often = 0
        handler = signal.signal(signal.SIGINT, _run.note)
    before = (_run.active, False, _run.open, _run.own)
    _run.active, _run.asked, _run.open, _run.own = True, False, False, False
    try:
        yield
    finally:
        _run.active, _run.asked, _run.open, _run.own = before
        if handler is not None:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def may_stop() -> Iterator[None]:
    """Raise KeyboardInterrupt for an interrupt that came before or comes within the block."""
    if not _run.active or not _hears_interrupts():
        yield
        return
    stop_here()
    before, _run.open = _run.open, True
    try:
        yield
    finally:
        _run.open = before
    stop_here()  # one that was raised where Python drops it, as within a callback of its collector


@contextmanager
def own_code() -> Iterator[None]:
    """Raise interrupts that come within the block as Python does, and forget them.

    For code of users' own: an interrupt that it catches is over, and stops nothing after it.
    """
    if not _run.active or not _hears_interrupts():
        yield
        return
    stop_here()
    before = (_run.open, _run.own)
    _run.open, _run.own = True, True
    try:
        yield
    except KeyboardInterrupt as stop:
        _leave_out_handler(stop)
        raise
    finally:
        _run.open, _run.own = before


def _leave_out_handler(stop: KeyboardInterrupt) -> None:
    """Let a traceback end where the user's code was, as it does with Python's own handler."""
    step = stop.__traceback__
    while step is not None and step.tb_next is not None:
        if step.tb_next.tb_frame.f_code is _Keeping.note.__code__:
            step.tb_next = None
        step = step.tb_next


def stop_here() -> None:
    """Raise KeyboardInterrupt if one was noted in the run in progress."""
    if _run.active and _run.asked and _hears_interrupts():
        raise KeyboardInterrupt


def imported(name: str) -> Any:
    """Import a module in one piece: half of it may have entered what can be entered once only."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    return in_one_piece(_import, name)


def _import(name: str) -> Any:
    with unforked:
        return importlib.import_module(name)


_interrupted: list[bool] = []
#: Seconds that a fork waits for imports of other threads.
MOST_IMPORTING = 10.0


# -- forks ------------------------------------------------------------------------------------
def _before() -> None:
    held, end = False, time.monotonic() + MOST_IMPORTING
    while not held:
        try:
            while _importing() and time.monotonic() < end:
                time.sleep(0.001)
            held = unforked.acquire()
        except KeyboardInterrupt:  # a hook cannot raise; it comes again once the fork is made
            _interrupted.append(True)


def _importing() -> bool:
    """Say whether another thread is importing something of ours, whose lock a child would find."""
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    me = threading.get_ident()
    for name, reference in locks.copy().items():
        lock = reference()
        if name.startswith(("workbench", "llvmlite")) and (
            getattr(lock, "owner", None) not in (None, me)
        ):
            return True
    return False


def _after_in_parent() -> None:
    unforked.release()
    if _interrupted:
        _interrupted.clear()
        _thread.interrupt_main()


def _after_in_child() -> None:
    _interrupted.clear()
    unforked.release()
    found: list[Any] = [_registering, *(known() for known in _locks)]
    for lock in found:
        if lock is not None and not lock._is_owned():  # as threading's Condition asks
            lock._at_fork_reinit()
    if hasattr(cached_property(len), "lock"):  # before Python 3.12
        _renew_properties()


def _renew_properties() -> None:
    for name, module in sys.modules.copy().items():
        if not name.startswith("workbench."):
            continue
        for kind in list(vars(module).values()):
            if not isinstance(kind, type) or kind.__module__ != name:
                continue
            for item in vars(kind).values():
                if isinstance(item, cached_property):
                    item.lock = threading.RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
