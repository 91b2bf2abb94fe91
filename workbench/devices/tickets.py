"""Counters of launches whose blocks draw their programs, in memory of the device.

A launch finds its counter at 0, and leaves it there. Those of a stream run one after the other, so
a stream has one counter. What is captured into a graph runs whenever that does, beside anything: so
each launch that is captured has a counter to itself, for ever.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from threading import local
from typing import Any

from workbench.devices.cuda import checked, current, driver, relaxed_capture, streams

#: Bytes from one counter to the next, and how many are allocated at once.
_EACH, _COUNTERS = 32, 1024
#: The handle of the stream that is another one in each thread.
_PER_THREAD = 2


class Tickets:
    """The counters of a device. There are no locks: who is late in a race has made one too many."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._numbers = count()
        self._chunks: dict[int, int] = {}
        self._of_stream: dict[int, int] = {}
        self._of_thread = local()

    def of(self, stream: int) -> int:
        """Return the address of the counter for the next launch on a stream, by its handle."""
        code, status = driver().cuStreamIsCapturing(streams[stream])
        if int(code) == 0 and int(status):
            return self._new()
        own = stream == _PER_THREAD
        known: dict[Any, int] = vars(self._of_thread) if own else self._of_stream
        found = known.get(stream)
        return known.setdefault(stream, self._new()) if found is None else found

    def _new(self) -> int:
        chunk, place = divmod(next(self._numbers), _COUNTERS)
        base = self._chunks.get(chunk)
        if base is None:
            base = self._chunks.setdefault(chunk, self._allocated())
        return base + place * _EACH

    def _allocated(self) -> int:
        """Return where zeros begin, which are there when this returns."""
        api = driver()
        with current(self._device), relaxed_capture():
            memory = checked(api.cuMemAlloc(_COUNTERS * _EACH), "counters", self._device)
            own = checked(api.cuStreamCreate(int(api.CUstream_flags.CU_STREAM_NON_BLOCKING)))
            checked(api.cuMemsetD8Async(memory, 0, _COUNTERS * _EACH, own))
            checked(api.cuStreamSynchronize(own))
            checked(api.cuStreamDestroy(own))
        return int(memory)


@cache
def tickets(device: int) -> Tickets:
    """Return the counters of a device."""
    return Tickets(device)
