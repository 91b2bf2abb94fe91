"""The line that says what a cell is doing, and what stands in its place afterwards."""

from __future__ import annotations

import re
import threading
import time

import pytest

pytest.importorskip("IPython")
import workbench as wb
from workbench.bench import phases
from workbench.magics import progress
from workbench.magics.cells import run_cell
from workbench.magics.progress import StatusLine, showing_progress
from workbench.questions.whatif import Square, WhatIf
from workbench.tuning.configs import Config
from workbench.tuning.search import Row

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


def wait_for(published):
    """Wait until something is shown, as long as a busy machine may take."""
    end = time.monotonic() + 60
    while not published:
        assert time.monotonic() < end, "nobody writes"
        time.sleep(0.01)


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
    wait_for(published)
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
    wait_for(published)
    line.finish(None)
    assert published[-1][0] == ""


def test_phases_of_a_run_are_told_in_order():
    torch = pytest.importorskip("torch")
    heard = []

    class Hears(StatusLine):
        def __call__(self, text, *, still=False, stops=True):
            heard.append((text, still))
            assert stops is not text.startswith("launching")

    hear = Hears()

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


def test_the_stages_of_a_compilation_tick_off(published):
    told = []

    class Hears(StatusLine):
        def stage(self, stage, name):
            super().stage(stage, name)
            told.append(str(self._stages))

    names = {"wb": wb}
    line = Hears()
    with showing_progress(quiet=False, line=line):
        run_cell(CELL, '--sig "*f32 i32" --set BLOCK=64 --target sm_90a --no-cache', names)
    line.finish(None)
    assert told[0] == "source"
    assert any(re.fullmatch(r"source ✓ tile [\w-]+ \(\d+\)", line) for line in told)
    assert any(re.fullmatch(r"source ✓ tile ✓ gpu [\w-]+ \(\d+\)", line) for line in told)
    assert "source ✓ tile ✓ gpu ✓ llvm ✓ ptx" in told


def test_the_clock_beside_a_search_runs_between_reports(monkeypatch):
    shown = []
    seen = threading.Event()

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle["text/plain"])
            seen.set()

    monkeypatch.setattr(progress, "display", lambda *given, **options: Handle())
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    table = progress.LiveTable()
    table([Row(Config({"BLOCK": 64}))], "compiling", 1.0)
    assert seen.wait(30), "nobody wrote again"
    table.end()
    assert "compiling: 0 of 1 in 1." in shown[0]


def test_the_first_square_that_is_compiled_is_shown_at_once(monkeypatch):
    shown = []

    class Handle:
        def update(self, bundle, *, raw):
            shown.append(bundle)

    def displayed(bundle, *, raw, display_id):
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr(progress, "display", displayed)
    live = progress.LiveMap()
    known = Square((1,), state="failed", reason="no")
    found = WhatIf("twice", "sm_90a", ("BLOCK",), ((1, 2),), squares=[known, Square((2,))])
    live(found)
    assert shown == [], "what is known already comes in full"
    known.seconds = 0.1
    live(found)
    assert len(shown) == 1
