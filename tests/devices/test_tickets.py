"""Counters of launches whose blocks draw programs: one a stream, one for each captured launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.devices import tickets
from workbench.devices.tickets import Tickets


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A driver that notes what is allocated; streams in `captured` are being captured."""
    noted = SimpleNamespace(captured=set[int](), allocated=[], zeroed=[], relaxed=0)

    def allocate(size: int) -> tuple[int, int]:
        noted.allocated.append(size)
        return 0, 1 << 20 << len(noted.allocated)

    @contextmanager
    def relaxed() -> Iterator[None]:
        noted.relaxed += 1
        yield

    api = SimpleNamespace(
        cuStreamIsCapturing=lambda stream: (0, int(stream in noted.captured)),
        cuMemAlloc=allocate, cuStreamCreate=lambda flags: (0, "own"),
        cuMemsetD8Async=lambda *given: (noted.zeroed.append(given), (0,))[1],
        cuStreamSynchronize=lambda stream: (0,), cuStreamDestroy=lambda stream: (0,),
        CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=1),
    )  # fmt: skip
    monkeypatch.setattr(tickets, "driver", lambda: api)
    monkeypatch.setattr(tickets, "current", lambda device: relaxed())
    monkeypatch.setattr(tickets, "relaxed_capture", relaxed)
    monkeypatch.setattr(tickets, "streams", {n: n for n in range(10)})
    return noted


def test_launches_of_a_stream_share_a_counter(driver: Any):
    counters = Tickets(0)
    first, other = counters.of(7), counters.of(9)
    assert abs(other - first) >= 32  # no sector of the L2 has both
    assert [counters.of(7), counters.of(9)] == [first, other]
    (size,) = driver.allocated
    assert driver.zeroed == [(1 << 21, 0, size, "own")]


def test_the_stream_of_each_thread_has_its_own(driver: Any):
    counters, found = Tickets(0), list[int]()
    for _ in range(2):  # the second may get the number of the first, which has ended
        thread = Thread(target=lambda: found.extend(counters.of(2) for _ in range(2)))
        thread.start()
        thread.join()
    first, again, other, last = found
    assert first == again != other == last


def test_each_launch_that_is_captured_has_a_counter_to_itself(driver: Any):
    counters = Tickets(0)
    own = counters.of(7)
    driver.captured.add(7)
    found = [counters.of(7) for _ in range(3000)]
    assert len({own, *found}) == 3001
    assert len(driver.allocated) == 3  # as many as there were needed, while a stream is captured
    driver.captured.clear()
    assert counters.of(7) == own
