"""What a run is doing at the moment, for whoever wants to show it while it lasts."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """Hears of each phase of a run as it begins."""

    def __call__(self, text: str, *, still: bool, stops: bool) -> None:
        """Take note of a phase.

        Args:
            text: what it is.
            still: nothing else may use the processor meanwhile.
            stops: an interrupt of the kernel ends it.
        """
        ...


#: Who listens; the magics set it to a status line.
listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def say(text: str, *, still: bool = False, stops: bool = True) -> None:
    """Say what begins now; the arguments are those of a Listener."""
    hears = listener.get()
    if hears is not None:
        hears(text, still=still, stops=stops)
