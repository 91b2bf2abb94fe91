"""The clock of a GPU: marks around a call in a CUDA graph, so that no time of the host is in it.

    round i of a graph:   flush   mark a   mark b   call   mark c
                            |       |________|________|______|
                     reads 256 MB     empty       window

A *mark* is an event that the device records when it gets there (an event-record node; in a stream
an ordinary event). A graph of 5 such rounds is started by one call of the host and runs through by
itself: a host that is slow, or that sleeps in the call, changes nothing. `empty` is what two marks
cost with nothing between them (3.4 µs in a stream, less in a graph), and a sample is

    window - median(empty of all candidates in this round of the measurement)

so that it is what the call adds to the device's time: its kernels, the gaps between them, and the
start of the first one. Not subtracting would add a constant to every time, which pulls the ratio
of two small kernels towards 1; subtracting an empty kernel instead would hide the start, which
every launch has. Why not repeat the call and divide: equal runs find their inputs in the L2.

The flush is a read, so that no written-back lines are counted; it also keeps the device busy while
marks are queued. A `hot` graph has the same call in the place of the flush.

A device sets its clock by the power that it has drawn for some milliseconds, so what takes long
finds the clock that others have left. Candidates therefore take turns in a new order each time, and
what takes LONG_MILLISECONDS is run once a turn: all run at one clock, which they set together.
Five runs in a row, always behind the same candidate, are off by 8 % at 7 ms each (an H100: of
attention against cuDNN 0.98 in one order, 1.08 in the other, 1.04 in new orders).

What the clock needs of a device are a few functions (`Backend`), so that all of the above is tested
without one.
"""

from __future__ import annotations

import gc
import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, NamedTuple

from workbench.runtime.timing import BURST, Call, Effort, Timed, Timing, spend

FLUSH_BYTES = 256 * 2**20
#: The flush reads at least this many times the L2 (50 MB on an H200, 126 MB on a B200).
FLUSH_OF_L2 = 4
#: A window that is longer than an empty one by less than this holds no kernel (a node takes 1 µs).
NOTHING_MILLISECONDS = 0.0003
#: Samples are at least this, so that they can be divided by.
LEAST_SAMPLE = 1e-6
#: What takes so long is run once a turn.
LONG_MILLISECONDS = 1.0

#: Work put into a stream that is being captured; it calls `mark` in between.
Body = Callable[[], None]


class Window(NamedTuple):
    """Milliseconds between two marks with nothing between them, and around a call."""

    empty: float
    call: float


@dataclass(frozen=True, slots=True)
class Backend:
    """What the clock needs of a device.

    Attributes:
        flush: queue a read that leaves nothing of earlier runs in the L2.
        mark: return a new mark, for a graph or not; called, it is put into the stream.
        elapsed: milliseconds between two marks that the device has passed.
        capture: run a function while the stream is captured; returns what replays the graph.
            Raises whatever the function raises, and any error of the capture.
        wait: wait until the device has done everything, raising its errors.
    """

    flush: Call
    mark: Callable[[bool], Any]
    elapsed: Callable[[Any, Any], float]
    capture: Callable[[Body], Call]
    wait: Call


@dataclass(frozen=True, slots=True)
class Recording:
    """Some runs of a call that can be repeated, and the marks around each."""

    replay: Call
    marks: Sequence[tuple[Any, Any, Any]]
    timed: Timed

    def windows(self, elapsed: Callable[[Any, Any], float]) -> list[Window]:
        """Return the windows of the latest replay, which must be over."""
        return [Window(elapsed(a, b), elapsed(b, c)) for a, b, c in self.marks]


class Stopwatch:
    """Times calls on the current device.

    Args:
        warm: time with the caches as the same call leaves them (`hot`), not after a flush.
        graphs: capture calls; without, all are timed in the stream (`host`).
        backend: the device; torch's current one if None.
    """

    def __init__(
        self, *, warm: bool = False, graphs: bool = True, backend: Backend | None = None
    ) -> None:
        self._warm = warm
        self._graphs = graphs
        self._backend = backend or torch_backend()
        self._empties: list[float] = []

    # -- one call -----------------------------------------------------------------------------
    def record(self, call: Call, runs: int = BURST) -> Recording:
        """Return a recording of a call that has run before, of `runs` runs a replay.

        Of a long call there is one run a replay. A call that cannot be captured, or that leaves
        nothing in the graph, is recorded as runs in the stream. Raises what the call raises outside
        of a capture.
        """
        if self._graphs:
            recording = self._captured(call, runs)
            took = 0.0 if recording is None else self._beyond_empty(recording)
            if took > LONG_MILLISECONDS and runs > 1:
                recording = self._captured(call, 1)
            if recording is not None and took > NOTHING_MILLISECONDS:
                return recording
        marks = self._marks(runs, captured=False)
        return Recording(lambda: self._queue(call, marks), marks, "host")

    def _captured(self, call: Call, runs: int) -> Recording | None:
        marks = self._marks(runs, captured=True)
        try:
            replay = self._backend.capture(lambda: self._queue(call, marks))
        except Exception as error:
            if is_fatal(error):
                raise
            # The error that ended the capture is no error of the call; a device that is lost
            # says so here.
            self._backend.wait()
            return None
        return Recording(replay, marks, "hot" if self._warm else "cold")

    def _marks(self, runs: int, *, captured: bool) -> list[tuple[Any, Any, Any]]:
        mark = self._backend.mark
        return [(mark(captured), mark(captured), mark(captured)) for _ in range(runs)]

    def _queue(self, call: Call, marks: Sequence[tuple[Any, Any, Any]]) -> None:
        for before, start, end in marks:
            if self._warm:
                call()
            else:
                self._backend.flush()
            before()
            start()
            call()
            end()

    def _beyond_empty(self, recording: Recording) -> float:
        """Return by how many milliseconds a graph takes longer than an empty one.

        By nothing where the call uses another stream.
        """
        recording.replay()
        self._backend.wait()
        windows = recording.windows(self._backend.elapsed)
        empty = statistics.median(window.empty for window in windows)
        return statistics.median(window.call for window in windows) - empty

    def sample(self, recordings: Mapping[Any, Recording]) -> dict[Any, list[float]]:
        """Replay each recording once; return their samples in milliseconds."""
        for recording in recordings.values():
            recording.replay()
        self._backend.wait()
        found = {
            name: recording.windows(self._backend.elapsed) for name, recording in recordings.items()
        }
        self._empties += [window.empty for windows in found.values() for window in windows]
        empty = statistics.median(self._empties)
        return {
            name: [max(window.call - empty, LEAST_SAMPLE) for window in windows]
            for name, windows in found.items()
        }

    # -- several calls ------------------------------------------------------------------------
    def race(
        self, candidates: Mapping[str, Call], timings: dict[str, Timing], effort: Effort
    ) -> None:
        """Fill the timings of one round: warm up, record, then replay in turns, of any order."""
        self._empties = []
        orders = Random(0)
        for call in candidates.values():
            spend(lambda call=call: (call(), self._backend.wait()), effort.warm_up)
        waiting = {name: self.record(call) for name, call in candidates.items()}
        for name, recording in waiting.items():
            timings[name].timed = recording.timed
        while waiting:
            turns = {name: waiting[name] for name in orders.sample([*waiting], len(waiting))}
            for name, samples in self.sample(turns).items():
                timings[name].samples += samples
                if effort.enough(timings[name]):
                    del waiting[name]

    def wait(self) -> None:
        """Wait for the device."""
        self._backend.wait()


def is_fatal(error: BaseException) -> bool:
    """Whether an error means that the device cannot be used any more (K502, K503)."""
    return getattr(error, "code", None) in ("K502", "K503")


# -- torch's current device -------------------------------------------------------------------
def torch_backend() -> Backend:
    """Return the backend of torch's current CUDA device and stream.

    Calls are captured in the current stream, or where that is the default stream, which cannot be
    captured, in another. A backward pass runs in the stream of its forward pass: make both in a
    stream of your own, and measure in it, to have such a call captured.
    """
    return _Torch().backend()


class _Mark:
    """An event, put into the current stream by a call.

    Events of torch can be recorded into graphs since torch 2.8; the driver's always can.
    """

    __slots__ = ("_api", "_flags", "_torch", "event")

    def __init__(self, api: Any, torch: Any, *, captured: bool) -> None:
        self._api, self._torch = api, torch
        # cuEventRecordWithFlags: EXTERNAL makes an event-record node, and is invalid outside of
        # a capture (CUDA driver API, Event Management).
        kinds = api.CUevent_record_flags
        kind = kinds.CU_EVENT_RECORD_EXTERNAL if captured else kinds.CU_EVENT_RECORD_DEFAULT
        self._flags = int(kind)
        self.event = _checked(api.cuEventCreate(int(api.CUevent_flags.CU_EVENT_DEFAULT)))

    def __call__(self) -> None:
        stream = self._api.CUstream(self._torch.cuda.current_stream().cuda_stream)
        _checked(self._api.cuEventRecordWithFlags(self.event, stream, self._flags))

    def __del__(self) -> None:
        with suppress(Exception):  # at the interpreter's end the driver may be gone
            self._api.cuEventDestroy(self.event)


class _Torch:
    """The functions of a `Backend`, on torch and the driver's events."""

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        self.api: Any = importlib.import_module("cuda.bindings.driver")  # typed nowhere
        torch.cuda.current_stream().synchronize()  # the driver's events need torch's context
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        size = max(FLUSH_BYTES, FLUSH_OF_L2 * int(getattr(properties, "L2_cache_size", 0)))
        self.flushed = torch.zeros(size // 4, dtype=torch.int32, device="cuda")

    def backend(self) -> Backend:
        return Backend(
            flush=lambda: self.flushed.amax(),
            mark=lambda captured: _Mark(self.api, self.torch, captured=captured),
            elapsed=lambda start, end: float(
                _checked(self.api.cuEventElapsedTime(start.event, end.event))
            ),
            capture=self.capture,
            wait=self.torch.cuda.synchronize,
        )

    @cached_property
    def _side(self) -> Any:
        """The stream that is captured where the current one is the default stream."""
        return self.torch.cuda.Stream()

    def capture(self, body: Body) -> Call:
        """Return what replays the graph of what `body` puts into the stream."""
        cuda = self.torch.cuda
        current = cuda.current_stream()
        stream = self._side if current == cuda.default_stream() else current
        cuda.synchronize()
        graph, pool = cuda.CUDAGraph(), cuda.graph_pool_handle()
        numbers = cuda.default_generators[cuda.current_device()]
        spare = numbers.clone_state()
        with cuda.stream(stream), _no_collection():
            # Modules are loaded and memory is returned in other threads: they may go on.
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                body()
                graph.capture_end()
            except BaseException:
                self._abandon(graph, pool, numbers, spare)
                raise
        return graph.replay

    def _abandon(self, graph: Any, pool: Any, numbers: Any, spare: Any) -> None:
        """End a capture that failed, and what torch leaves open when that fails too.

        torch's `capture_end` then raises before it tells its allocator and its random numbers
        that the capture is over: later allocations would look through a filter of a dead graph,
        and every `torch.randn` would raise.
        """
        with suppress(RuntimeError):
            graph.capture_end()
        with suppress(RuntimeError, AttributeError):
            self.torch._C._cuda_endAllocateToPool(self.torch.cuda.current_device(), pool)
        numbers.graphsafe_set_state(spare)
        with suppress(RuntimeError):
            graph.reset()
        _abandoned.append(graph)


#: Graphs of captures that failed; torch's allocator may still ask them.
_abandoned: list[Any] = []


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from freeing another graph's memory within a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _checked(result: tuple[Any, ...]) -> Any:
    """Return what a driver call answered; RuntimeError where it failed."""
    code, *values = result
    if int(code):
        raise RuntimeError(f"the driver answers {code!r}")
    return values[0] if values else None
