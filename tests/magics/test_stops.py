"""Stop at any moment: what was found by then is in the result, and nobody sees a traceback."""

from __future__ import annotations

import signal
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell

from tests.magics.stops import stops
from workbench import interrupts
from workbench.bench import running, sweep
from workbench.magics import lines, registry
from workbench.magics.cells import run_cell
from workbench.runtime.timing import Effort
from workbench.tuning import autotune
from workbench.tuning.racing import Race

CELL = """
def add(x, y, out, n, BLOCK: tl.constexpr = 64):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)
"""
ASKED = '--make make --grid "cdiv(n, BLOCK)" --check "x + y" --target cpu'
TUNE = f"{ASKED} --tune BLOCK=64,128,256"
BENCH = f"{ASKED} --x N=64,128,256 --bench"
MOMENTS = 7


def make(N=256):
    one = np.ones(N, np.float32)
    return {"x": one, "y": one.copy(), "out": np.zeros(N, np.float32), "n": N}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Measure little, compile here, and hear interrupts."""
    effort = Effort(0.0, 0.0, 4)
    real, search = sweep.measure, autotune.Search
    monkeypatch.setattr(sweep, "measure", lambda calls, **o: real(calls, **{**o, "effort": effort}))
    monkeypatch.setattr(autotune, "Search", lambda *a, **o: search(*a, **{**o, "effort": effort}))
    monkeypatch.setattr(running, "ceilings", lambda *given: [])
    monkeypatch.setenv("WORKBENCH_WORKERS", "0")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def calls_of(line, stop_at=None):
    """Run the cell; count the Python calls of this thread and send the signal at one of them."""
    count = 0

    def look(frame, event, argument):
        nonlocal count
        if event == "call":
            count += 1
            if count == stop_at:
                signal.raise_signal(signal.SIGINT)

    def whole():
        with interrupts.keeping():
            sys.setprofile(look)
            try:
                return run_cell(CELL, line, {"make": make})
            finally:
                sys.setprofile(None)

    return whole(), count


@pytest.mark.parametrize("line", [TUNE, BENCH], ids=["tune", "bench"])
def test_stop_at_any_moment_keeps_what_was_found(line):
    run_cell(CELL, line, {"make": make})  # imports what it needs
    result, total = calls_of(line)
    whole = result.traces[-1].runs
    assert not whole.skipped
    for moment in range(MOMENTS):
        at = 1 + (2 * moment + 1) * total // (2 * MOMENTS)
        try:
            result, _ = calls_of(line, stop_at=at)
        except KeyboardInterrupt:
            assert moment == 0, "only the cell's own Python may be stopped without a result"
            continue
        runs = result.traces[-1].runs
        assert result.traces[-1].text("source")
        for tune in runs.tunes:
            assert len(tune.rows) == 3
            timed = [row for row in tune.rows if row.milliseconds is not None]
            assert (tune.best is not None) == bool(timed)
        for bench in runs.benches:
            assert len(bench.x) == len(bench.milliseconds) <= 3
        complete = len(runs.checks) == len(whole.checks)
        assert runs.skipped or complete, f"cut at call {at} of {total}, and nobody says so"


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    registry.clear()
    shell.run_line_magic("load_ext", "workbench")
    shell.user_ns["make"] = make
    yield shell
    InteractiveShell.clear_instance()


def stopping(real, at):
    """Return the function, sending the signal first in one of its calls."""
    calls = 0

    def call(*given, **options):
        nonlocal calls
        calls += 1
        if calls == at:
            signal.raise_signal(signal.SIGINT)
        return real(*given, **options)

    return call


def test_a_search_that_is_stopped_has_the_best_so_far(monkeypatch):
    monkeypatch.setattr(Race, "_leave_out", stopping(Race._leave_out, 1))
    result = run_cell(CELL, TUNE, {"make": make})
    (tune,) = result.traces[-1].runs.tunes
    assert tune.best is not None
    assert [row.state for row in tune.rows].count("ok") >= 1
    (skipped,) = result.traces[-1].runs.skipped
    assert (skipped.what, skipped.why) == ("the rest", "stopped")
    assert result.tune.config is not None


def test_a_verdict_outlives_the_stop_of_the_timing_after_it(monkeypatch):
    monkeypatch.setattr(sweep, "measure", stopping(sweep.measure, 2))
    runs = run_cell(CELL, BENCH, {"make": make}).traces[-1].runs
    assert [len(bench.x) for bench in runs.benches] == [1]
    assert [check.ok for check in runs.checks] == [True, True]
    assert runs.skipped[-1].why == "stopped after 1 of 3 sizes"


def test_an_interrupt_is_raised_where_nothing_is_lost_and_gone_afterwards():
    kept = []
    with interrupts.keeping():
        signal.raise_signal(signal.SIGINT)
        kept.append("held")
        with pytest.raises(KeyboardInterrupt), interrupts.may_stop():
            kept.append("never")
        with pytest.raises(KeyboardInterrupt):
            interrupts.stop_here()
    with interrupts.keeping(), interrupts.may_stop():
        with interrupts.keeping():  # of something that the cell's own code calls
            signal.raise_signal(signal.SIGINT)
            kept.append("inner")
        interrupts.stop_here()
    with pytest.raises(KeyboardInterrupt), interrupts.keeping(), interrupts.may_stop():
        signal.raise_signal(signal.SIGINT)
    assert kept == ["held", "inner"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


CAUGHT = """
import signal
for time in range(4):
    try:
        signal.raise_signal(signal.SIGINT)
        not_reached()
    except KeyboardInterrupt:
        caught.append(time)
"""


def test_an_interrupt_that_the_cell_catches_stops_nothing():
    caught = []
    runs = run_cell(CELL + CAUGHT, ASKED, {"make": make, "caught": caught}).traces[-1].runs
    assert caught == [0, 1, 2, 3]
    assert runs.checks[0].ok
    assert not runs.skipped


LAUNCHES = """
import signal
def hangs():
    while True:
        signal.raise_signal(signal.SIGINT)
add = jit(add)
add[(4,)](*make().values(), BLOCK=64)
hangs()
"""


def test_an_interrupt_that_it_does_not_catch_shows_where_and_keeps_launches(shell):
    outcome = shell.run_cell(f"%%kernel --target cpu{CELL}{LAUNCHES}", store_history=True)
    told = "\n".join(outcome.error_in_exec._render_traceback_())
    assert isinstance(outcome.error_in_exec, KeyboardInterrupt)
    assert "hangs()" in told
    assert "raise_signal" in told
    assert "workbench" not in told
    result = shell.user_ns["_kernel"]
    assert any(known is result for known in registry.results())
    assert len(result.trace_with("asm").runs.launches) == 1
    assert any(
        skipped.why == "stopped" for trace in result.traces for skipped in trace.runs.skipped
    )
    assert "add" in lines.kernels()


def test_who_insists_is_heard():
    with interrupts.keeping():
        for _ in range(interrupts.INSISTENT - 1):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_and_other_handlers_are_left_alone():
    def work():
        with interrupts.keeping(), interrupts.may_stop():
            found.append(signal.getsignal(signal.SIGINT))

    found = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
    mine = lambda number, frame: None  # noqa: E731
    signal.signal(signal.SIGINT, mine)
    with interrupts.keeping():
        assert signal.getsignal(signal.SIGINT) is mine


@pytest.mark.slow
def test_stops_at_random_moments_in_a_jupyter_kernel_keep_what_was_found():
    """A few of what `python -m tests.magics.stops` does."""
    pytest.importorskip("ipykernel")
    told, problems = stops(6, seed=3)
    assert problems == []
    assert told.total() == 6
