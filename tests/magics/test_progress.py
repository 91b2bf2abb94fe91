"""The line that says what a cell is doing, and what stands in its place afterwards."""

from __future__ import annotations

import pytest

pytest.importorskip("IPython")
import workbench as wb
from workbench.bench import phases
from workbench.magics import progress
from workbench.magics.cells import run_cell
from workbench.magics.progress import StatusLine, showing_progress

CELL = """
def twice(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, 2 * x, mask=offsets < n)
"""


@pytest.fixture
def published(monkeypatch):
    shown = []

    def publish(bundle, *, transient, update):
        shown.append((bundle["text/plain"], transient["display_id"], update))

    monkeypatch.setattr(progress, "publish_display_data", publish)
    return shown


def test_a_fast_run_shows_its_result_only(published):
    line = StatusLine()
    line("compiling")
    line.finish({"text/plain": "the result"})
    line.finish(None)
    assert [(text, update) for text, _, update in published] == [("the result", False)]


def test_the_result_of_a_slow_run_takes_the_place_of_the_line(published, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    line = StatusLine()
    line("compiling add", still=True)
    while not published:
        progress.time.sleep(0.01)
    line("checking", still=True)
    line.finish({"text/plain": "the result"})
    texts = [text for text, _, _ in published]
    assert texts[0].startswith("compiling add … ")
    assert texts[0].endswith("Stop (interrupt the kernel) ends it")
    assert texts[1].startswith("checking … ")
    assert texts[-1] == "the result"
    assert len({place for _, place, _ in published}) == 1
    assert [update for _, _, update in published] == [False, *[True] * (len(published) - 1)]


def test_without_a_result_the_line_goes_away(published, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    line = StatusLine()
    line("compiling add", still=True)
    while not published:
        progress.time.sleep(0.01)
    line.finish(None)
    assert published[-1][0] == ""


def test_phases_of_a_run_are_told_in_order():
    torch = pytest.importorskip("torch")
    heard = []

    def hear(text, *, still, stops):
        heard.append((text, still))
        assert stops is not text.startswith("launching")

    names = {"make": lambda N: {"x_ptr": torch.ones(N), "n": N}, "wb": wb}
    line = '--make make --x N=8,16 --set BLOCK=8 --grid "cdiv(n, BLOCK)" --target cpu'
    with showing_progress(quiet=False, line=hear):
        run_cell(CELL, f'{line} --guard --check "2 * x_ptr"', names)
        assert [text for text, _ in heard] == [
            "compiling twice",
            "trying 1 program in the interpreter first",
            "launching and checking",
            "trying 2 programs in the interpreter first",
            "launching and checking",
        ]
        heard.clear()
        run_cell(CELL, f"{line} --bench", names)
    timed = [text for text, still in heard if still]
    assert timed[:2] == ["timing N = 8, 1 of 2", "timing N = 16, 2 of 2"]
    assert phases.listener.get() is None


def test_a_stopped_sweep_keeps_the_sizes_it_has(monkeypatch):
    torch = pytest.importorskip("torch")
    from workbench.bench import sweep

    real = sweep.measure

    def measure(*arguments, **settings):
        timings = real(*arguments, **settings)
        for timing in timings.values():
            timing.stopped = True
        return timings

    monkeypatch.setattr(sweep, "measure", measure)
    names = {"make": lambda N: {"x_ptr": torch.ones(N), "n": N}}
    line = '--make make --x N=8,16,32 --set BLOCK=8 --grid "cdiv(n, BLOCK)" --target cpu --bench'
    result = run_cell(CELL, line, names)
    assert result.bench[0].x == (8,)
    (skipped,) = result.trace.runs.skipped
    assert skipped.why == "stopped after 1 of 3 sizes"
