"""Whether launches on the CPU are guarded, decided at each launch.

In this order: what the launch says (`guard=True`), what the code around it says (`guarding`, which
is `--guard` and `--no-guard`), the environment (`WORKBENCH_GUARD`), and whether somebody works here
by hand: in IPython or Jupyter, or with kernels that were written for Triton (`as_triton`).

Generated launchers watch one entry of a dictionary, so `settle` must be called when it may change.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workbench.interpreter import Storage
from workbench.interrupts import renewed_lock
from workbench.source import OptionError
from workbench.source.given import instance

VARIABLE = "WORKBENCH_GUARD"
#: What the variable may say; empty is as if it were not set.
_WORDS = {
    **dict.fromkeys(("1", "true", "on", "yes", "y", "t"), True),
    **dict.fromkeys(("0", "false", "off", "no", "n", "f"), False),
}

#: What launchers watch: under "on" whether launches are guarded, None where they are tried.
STATE: dict[str, Any] = {"on": False}
#: The latest that was said counts; threads may say something at the same time.
_said: list[tuple[object, bool]] = []
_by_hand = False
#: While launches are tried: storages that they may write, and what was there before. What other
#: threads launch meanwhile stays as it is.
_before: ContextVar[dict[int, tuple[bytes, object]] | None] = ContextVar(
    "what was there before", default=None
)
#: One entry for each block of `trying`, of whichever thread.
_tries: list[object] = []
_lock = renewed_lock()


def settle() -> bool | None:
    """Decide for launches that say nothing themselves, and let launchers know.

    None where the environment says what means nothing: such launches ask `is_on`, which raises.
    """
    with _lock:  # lest a thread that has decided earlier say it later
        found = _decided()
        STATE["on"] = None if _tries else found
    return found


def is_on(said: bool | None = None) -> bool:
    """Say whether a launch is guarded; `said` is its own `guard=`.

    Raises OptionError for a `guard=` that is no bool (K105), or a WORKBENCH_GUARD that is neither
    on nor off (K137).
    """
    if said is not None:
        return bool(instance(said, bool | int, "guard is True or False", "or leave it out"))
    found = settle()
    if found is None:
        raise OptionError(
            f"{VARIABLE} is {os.environ.get(VARIABLE)!r}, which is neither on nor off",
            hint="set it to 1 or 0, or unset it: launches on the CPU are then checked in IPython "
            "and after as_triton()",
            code="K137",
        )
    return found


def work_by_hand(on: bool = True) -> None:
    """Have launches guarded from now on (or no more), unless somebody says otherwise."""
    global _by_hand
    _by_hand = on
    settle()


@contextmanager
def guarding(on: bool | None) -> Iterator[None]:
    """Say for launches inside whether they are guarded; None says nothing."""
    if on is None:
        yield
        return
    mine = object(), on
    _said.append(mine)
    settle()
    try:
        yield
    finally:
        _said.remove(mine)
        settle()


@contextmanager
def trying() -> Iterator[None]:
    """Have launches inside guarded, and put back at the end what they wrote in their arguments."""
    kept: dict[int, tuple[bytes, object]] = {}
    outer = _before.set(kept)
    _tries.append(kept)
    try:
        with guarding(True):
            yield
    finally:
        _tries.pop()  # whose does not matter
        _before.reset(outer)
        settle()
        for address, (held, _) in kept.items():
            ctypes.memmove(address, held, len(held))


def is_trying() -> bool:
    """Say whether what launches write is to be put back."""
    return _before.get() is not None


def keep(storages: Iterable[Storage], owner: object) -> None:
    """Remember what lies in storages that a launch is about to write.

    `owner` keeps them alive until it is put back: a call that is tried may let go of its arrays.
    """
    kept = _before.get()
    if kept is not None:
        for start, end, writable in storages:
            if writable and end > start:
                kept.setdefault(start, (ctypes.string_at(start, end - start), owner))


@contextmanager
def timing(calls: Iterable[Callable[[], object]]) -> Iterator[bool]:
    """Time inside without guards what has run guarded once: `calls`, where launches are guarded.

    Gives whether they were. Raises what a guarded launch finds; then nothing is timed.
    """
    if not is_on():
        yield False
        return
    with trying():
        for call in calls:
            call()
    with guarding(False):
        yield True


def _decided() -> bool | None:
    for _, on in _said[-1:]:  # one step: another thread may be the last to leave
        return on
    text = os.environ.get(VARIABLE, "").strip().lower()
    if text:
        return _WORDS.get(text)
    return _by_hand or _in_ipython()


def _in_ipython() -> bool:
    shell = sys.modules.get("IPython")
    ask = getattr(shell, "get_ipython", None)
    return ask is not None and ask() is not None
