"""How much of the processor other programs take: times of a busy machine mislead."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STATISTICS = Path("/proc/stat")
_BUSY = (1, 2, 3, 6, 7, 8)  # user nice system irq softirq steal, in proc_stat(5)


class Neighbours:
    """Watches from its making to `share` what runs beside this process."""

    def __init__(self) -> None:
        self._start = _now()

    def share(self) -> float | None:
        """Return the share of the processor's time that other programs took, 0 to 1.

        None where the system does not tell, or tells it of more processors than we may use.
        """
        end = _now()
        if self._start is None or end is None:
            return None
        elapsed, busy, own = (b - a for a, b in zip(self._start, end, strict=True))
        if elapsed < 0.05:  # the system counts in steps of 10 ms
            return None
        share = (busy - own) / (elapsed * (os.cpu_count() or 1))
        return round(min(1.0, max(0.0, share)), 2)


def _now() -> tuple[float, float, float] | None:
    """Return (time, busy seconds of all processors, those of this process) so far."""
    try:
        words = _STATISTICS.read_text().split("\n", 1)[0].split()
        ticks = sum(int(words[place]) for place in _BUSY)
        if os.cpu_count() != len(os.sched_getaffinity(0)):
            return None
        busy = ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return time.monotonic(), busy, sum(os.times()[:4])
