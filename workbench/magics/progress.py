"""What a cell shows while it runs: a line that says what is going on, the table of a search."""

from __future__ import annotations

import html
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from IPython.display import display, publish_display_data

from workbench.bench import phases
from workbench.bench.tuning import progress
from workbench.magics.sweeping import bundle
from workbench.passes.manager import follower
from workbench.questions.whatif import WhatIf
from workbench.tuning.search import Row
from workbench.tuning.tune import aligned, html_table, settings_line, table_of

#: Nothing is shown before this many seconds.
QUIET_SECONDS = 0.2
#: The line appears when a cell has run this many seconds, and is written again as often.
LINE_SECONDS = 0.5
#: A map that fills in is drawn again as often.
MAP_SECONDS = 0.3
#: After this long a launch may be one that never ends.
PATIENCE_SECONDS = 10.0
#: The most rows of a table that is still moving.
MOST_ROWS = 24


class LiveTable:
    """Rows of a search as one display that is updated in place; its clock runs by itself."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._rows: Sequence[Row] = ()
        self._phase = ""
        self._start = 0.0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self, rows: Sequence[Row], phase: str, seconds: float) -> None:
        """Show how far the search is."""
        with self._lock:
            self._rows, self._phase = rows, phase
            self._start = time.monotonic() - seconds
            if self._handle is not None or seconds >= QUIET_SECONDS:
                self._show()
        if phase == "done":
            self.end()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            with self._lock:
                # Writing would disturb what is being timed; each round of that is reported anyway.
                if not self._over.is_set() and self._phase != "timing":
                    self._show()

    def _show(self) -> None:
        bundle = _bundle(self._rows, self._phase, time.monotonic() - self._start)
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def end(self) -> None:
        """Let the clock stand."""
        self._over.set()


def _bundle(rows: Sequence[Row], phase: str, seconds: float) -> dict[str, str]:
    table = table_of(rows)
    cut = len(table) - 1 - MOST_ROWS
    shown = table[: MOST_ROWS + 1]
    ready = sum(row.state != "waiting" for row in rows)
    summary = f"{phase}: {ready} of {len(rows)} in {seconds:.1f} s"
    if cut > 0:
        summary += f"; {cut} rows more"
    timed = [row for row in rows if row.milliseconds is not None]
    if phase != "done":
        summary += "; Stop (interrupt the kernel) keeps the best so far"
    elif timed:
        best = min(timed, key=lambda row: row.times[0])
        summary += f"\nbest: {settings_line(best.config)}"
    return {
        "text/plain": f"{aligned(shown)}\n{summary}",
        "text/html": html_table(shown, summary),
    }


class LiveMap:
    """A map of `%whatif` as one display, in which squares fill in as they come."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0

    def __call__(self, found: WhatIf) -> None:
        """Show how far the map is."""
        # What was known before is shown when it has been waited for, or with the first new square.
        known = not any(square.seconds for square in found.squares)
        if (
            known and found.seconds < QUIET_SECONDS
        ) or time.monotonic() - self._shown < MAP_SECONDS:
            return
        if self._handle is None:
            self._handle = display(bundle(found), raw=True, display_id=True)
        else:
            self._handle.update(bundle(found), raw=True)
        self._shown = time.monotonic()

    def end(self) -> None:
        """Make room for the whole map, which is the value of the line."""
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


class Stages:
    """The stages of one compilation as they tick off: `source ✓ tile ✓ gpu coalesce (14)`."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._now = ""
        self._name = ""
        self._passes = 0

    def begin(self, stage: str, name: str) -> None:
        """Take note of what begins; going back to the source begins another compilation."""
        if stage == "source":
            self._done, self._now = [], ""
        if stage != self._now:
            if self._now and self._now not in self._done:
                self._done.append(self._now)
            self._now, self._passes = stage, 0
        self._name = name
        self._passes += bool(name)

    def __str__(self) -> str:
        done, name = self._done, self._name  # another thread may be changing them
        parts = [f"{stage} ✓" for stage in done if stage != self._now]
        if self._now:
            parts.append(f"{self._now} {name} ({self._passes})" if name else self._now)
        return " ".join(parts)


class StatusLine:
    """One line that says what a run is doing, in the place where its result will stand."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._text = ""
        self._still = False
        self._stops = True
        self._shown = False
        self._start = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stages = Stages()

    def __call__(self, text: str, *, still: bool = False, stops: bool = True) -> None:
        """Take note of what begins now; the first phase starts the clock."""
        with self._lock:
            self._text, self._still, self._stops = text, still, stops
            self._stages = Stages()
            if self._thread is None:
                self._start = time.monotonic()
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            elif self._shown and not self._over.is_set():
                self._write()

    def stage(self, stage: str, name: str) -> None:
        """Take note of a stage, or a pass of one, that begins; the clock's next tick shows it."""
        self._stages.begin(stage, name)

    def _watch(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            with self._lock:
                # Writing during a still phase would disturb what is being timed.
                if not self._over.is_set() and not (self._shown and self._still):
                    self._write()

    def _write(self) -> None:
        seconds = time.monotonic() - self._start
        line = "  ".join(part for part in (self._text, str(self._stages)) if part)
        line += f" … {seconds:.1f} s"
        if self._stops:
            line += "; Stop (interrupt the kernel) ends it"
        elif seconds > PATIENCE_SECONDS:
            line += "; only a restart of the kernel ends a launch that never does"
        bundle = {"text/plain": line, "text/html": f"<p>{html.escape(line)}</p>"}
        self._publish(bundle)
        self._shown = True

    def _publish(self, bundle: dict[str, Any]) -> None:
        publish_display_data(bundle, transient={"display_id": self._id}, update=self._shown)

    def finish(self, bundle: dict[str, Any] | None) -> None:
        """Put the result in the line's place; None takes the line away. Only the first counts."""
        if self._over.is_set():
            return
        self._over.set()
        with self._lock:
            if bundle is None and self._shown:
                self._publish({"text/plain": ""})
            elif bundle is not None:
                self._publish(bundle)


@contextmanager
def showing_progress(*, quiet: bool, line: StatusLine | None = None) -> Iterator[None]:
    """Show within the block the table of a search, and on `line` what else goes on."""
    live = LiveTable()
    table = progress.set(None if quiet else live)
    hears = phases.listener.set(None if quiet else line)
    follows = follower.set(None if quiet or line is None else line.stage)
    try:
        yield
    finally:
        live.end()
        follower.reset(follows)
        progress.reset(table)
        phases.listener.reset(hears)
