"""What a run is doing at the moment, for whoever wants to show it while it lasts."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """Hears of each phase of a run as it begins."""

    def __call__(self, text: str, *, still: bool) -> None:
        """Take note of a phase; during a still one nothing may use the processor."""
        ...


#: Who listens; the magics set it to a status line.
listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def say(text: str, *, still: bool = False) -> None:
    """Say what begins now. `still`: it is timed, so that listeners keep off the processor."""
    hears = listener.get()
    if hears is not None:
        hears(text, still=still)
