"""The live table of a search: shown after a moment, and again whenever something changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from IPython.display import display

from workbench.bench.tuning import progress
from workbench.tuning.search import Row
from workbench.tuning.tune import aligned, html_table, settings_line, table_of

#: Nothing is shown before this many seconds.
QUIET_SECONDS = 0.2
#: The most rows of a table that is still moving.
MOST_ROWS = 24


class LiveTable:
    """Rows of a search as one display that is updated in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, rows: Sequence[Row], phase: str, seconds: float) -> None:
        """Show how far the search is."""
        if self._handle is None and seconds < QUIET_SECONDS:
            return
        bundle = _bundle(rows, phase, seconds)
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


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


@contextmanager
def showing_progress(*, quiet: bool) -> Iterator[None]:
    """Show the progress of searches within the block."""
    token = progress.set(None if quiet else LiveTable())
    try:
        yield
    finally:
        progress.reset(token)
