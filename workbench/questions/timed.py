"""What was timed of two traces: the points that both have, and by how much B is faster."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.trace import Trace
from workbench.trace.answers import Spread, Timing


def timings(a: Trace, b: Trace) -> Iterator[Timing]:
    """Yield what was timed of both: the same point of the latest benchmarks, else one launch."""
    sides = [_timed(trace) for trace in (a, b)]
    common = [point for point in sides[0] if point in sides[1]]
    for point in common:
        yield _timing(point, sides[0][point], sides[1][point])
    launches = [
        [run for run in trace.runs.launches if run.milliseconds is not None and not run.guarded]
        for trace in (a, b)
    ]
    if not common and all(launches):
        one, other = (found[-1] for found in launches)
        where = one.device if one.device == other.device else f"{one.device}, {other.device}"
        times = [float(run.milliseconds or 0) for run in (one, other)]
        if all(times):
            a_time, b_time = ((time, time, time) for time in times)
            yield _timing(f"one launch on {where}, without its spread", a_time, b_time)


#: A single launch says nothing of its noise; less than this is no difference then.
_ONE_LAUNCH = 1.1


def _timing(what: str, a: Spread, b: Spread) -> Timing:
    speed, low, high = a[1] / b[1], a[0] / b[2], a[2] / b[0]
    noise = _ONE_LAUNCH if low == high else 1.0
    verdict = "faster" if low > noise else "slower" if high < 1 / noise else "same"
    return Timing(what=what, a=a, b=b, speed=speed, low=low, high=high, verdict=verdict)


def _timed(trace: Trace) -> dict[str, Spread]:
    """Return the quantiles of each point that was timed, by its name; the latest counts."""
    found: dict[str, Spread] = {}
    for bench in trace.runs.benches:
        if bench.kind != "self" or bench.guarded:
            continue
        device = f" on {bench.env.device}" if bench.env is not None else ""
        # Without a sweep a run is called by its grid, which goes with the size of blocks.
        axis = "" if bench.axis == "grid" and len(bench.x) == 1 else bench.axis
        for x, (low, middle, high, _) in zip(bench.x, bench.milliseconds, strict=False):
            if min(low, middle, high) > 0:
                found[f"{axis} = {x}{device}" if axis else f"a launch{device}"] = (
                    low, middle, high
                )  # fmt: skip
    return found
