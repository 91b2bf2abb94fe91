"""The GPU's clock on a device made of plain functions: what it queues, and what it makes of marks.

The device is a stream of times: a flush takes 50 ms, a mark 1 µs, each kernel what it says, and
what the host takes is between them. What was captured is queued by the replay.
"""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from workbench.runtime.device_clock import Backend, Stopwatch
from workbench.runtime.timing import BURST, ROUNDS, Effort, in_rounds

QUICK = Effort(warm_up=0.0, milliseconds=0.0, runs=2 * ROUNDS * BURST)


class Stream:
    """Where work is queued: done at once, or kept in a graph while it is captured."""

    def __init__(self):
        self.now = 0.0
        self.log = []
        self.graph = None

    def queue(self, name, milliseconds=0.0, action=lambda: None):
        def work():
            self.log.append(name)
            self.now += milliseconds
            action()

        if self.graph is None:
            work()
        else:
            self.graph.append(work)

    def kernel(self, milliseconds):
        self.queue("kernel", milliseconds)

    def host(self, milliseconds):
        """The host takes its time, and the device waits for it."""
        self.now += milliseconds

    def synchronize(self):
        if self.graph is not None:
            raise RuntimeError("operation not permitted when stream is capturing")

    def capture(self, body):
        self.graph = []
        try:
            body()
        finally:
            found, self.graph = self.graph, None
        return lambda: [work() for work in found]

    def mark(self, captured):
        places = []
        put = partial(self.queue, "mark", 0.001, lambda: places.append(self.now))
        put.places = places
        return put

    def backend(self):
        return Backend(
            flush=lambda: self.queue("flush", 50.0),
            mark=self.mark,
            elapsed=lambda start, end: end.places[-1] - start.places[-1],
            capture=self.capture,
            wait=self.synchronize,
        )


def timed(calls, stream):
    watch = Stopwatch(backend=stream.backend())
    return in_rounds(calls, QUICK, lambda found, share: watch.race(calls, found, share))


def test_a_sample_is_what_the_call_adds_to_the_devices_time():
    stream = Stream()
    calls = {
        "short": lambda: stream.kernel(0.002),
        "long": lambda: (stream.kernel(0.02), stream.kernel(0.03)),
    }
    found = timed(calls, stream)
    assert found["short"].samples == pytest.approx([0.002] * 2 * ROUNDS * BURST)
    assert found["long"].samples == pytest.approx([0.05] * 2 * ROUNDS * BURST)
    assert {timing.timed for timing in found.values()} == {"cold"}


def test_time_of_the_host_is_not_in_a_sample():
    stream = Stream()
    calls = {
        "slow host": lambda: (stream.host(10.0), stream.kernel(0.004)),
        "quick": lambda: stream.kernel(0.004),
    }
    found = timed(calls, stream)
    assert found["slow host"].median == pytest.approx(found["quick"].median)


def test_a_long_call_runs_once_a_turn():
    """A second one would find the clock that the first has left."""
    stream = Stream()
    recording = Stopwatch(backend=stream.backend()).record(lambda: stream.kernel(3.0))
    stream.log.clear()
    recording.replay()
    assert stream.log == ["flush", "mark", "mark", "kernel", "mark"]


def test_turns_come_in_any_order():
    """None always comes behind the same other one."""
    stream = Stream()
    names = "abc"
    calls = {name: partial(stream.queue, name, 3.0) for name in names}
    timed(calls, stream)
    ran = [name for name in stream.log if name in names]
    behind = {(first, second) for first, second in itertools.pairwise(ran)}
    assert {(a, b) for a in names for b in names if a != b} <= behind


def test_every_run_comes_after_a_flush():
    stream = Stream()
    recording = Stopwatch(backend=stream.backend()).record(lambda: stream.kernel(0.5), runs=2)
    stream.log.clear()
    recording.replay()
    assert stream.log == ["flush", "mark", "mark", "kernel", "mark"] * 2


def test_a_hot_run_comes_after_the_same_call():
    stream = Stream()
    recording = Stopwatch(backend=stream.backend(), warm=True).record(
        lambda: stream.kernel(0.5), runs=2
    )
    stream.log.clear()
    recording.replay()
    assert stream.log == ["kernel", "mark", "mark", "kernel", "mark"] * 2
    assert recording.timed == "hot"


def test_what_cannot_be_captured_says_host():
    stream = Stream()

    def reads_back():
        stream.kernel(0.004)
        stream.synchronize()
        stream.host(1.0)

    found = timed({"reads back": reads_back, "plain": lambda: stream.kernel(0.004)}, stream)
    assert found["reads back"].timed == "host"
    assert found["reads back"].median == pytest.approx(1.004)
    assert found["plain"].timed == "cold"
    assert found["plain"].median == pytest.approx(0.004)


def test_what_leaves_nothing_in_the_graph_says_host():
    stream = Stream()
    found = timed({"on the host": lambda: stream.host(2.0)}, stream)
    assert found["on the host"].timed == "host"
    assert found["on the host"].median == pytest.approx(2.0)


def test_each_round_captures_anew():
    stream = Stream()
    calls = []
    found = timed({"": lambda: (calls.append(1), stream.kernel(0.1))}, stream)[""]
    assert found.starts == [0, 2 * BURST]
    assert len(calls) == ROUNDS * (1 + BURST)  # warm-up, capture


def test_an_error_of_a_lost_device_is_raised():
    stream = Stream()

    class LostError(Exception):
        code = "K502"

    def lost():
        raise LostError

    with pytest.raises(LostError):
        Stopwatch(backend=stream.backend()).record(lost)


def test_an_error_of_the_call_is_raised():
    stream = Stream()

    def bad():
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        timed({"bad": bad}, stream)
