"""Timing as benches use it; the mechanism lies with the launches, in the runtime."""

from workbench.runtime.timing import BURST, MOST_RUNS, Effort, Timing, measure

__all__ = ["BURST", "MOST_RUNS", "Effort", "Timing", "measure"]
