"""Rows of benchmark results: what is measured, against what, and where it is kept.

A results file is `{"machine", "versions", "date", "rows"}`; a row is one case against one
baseline, ratio = baseline_us / ours_us (above 1: faster than the baseline). The baseline
"roofline" is no program: the time that the data sheet's memory or tensor cores would need. Files
written before rows said how they were timed have no `timed`, and are read all the same.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

from workbench.runtime.timing import Timed, Timing, ratio

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case; times in microseconds, null where nothing was compared.

    Attributes:
        suite, case, dtype: what was measured.
        size: elements, columns of a row, M = N = K, or bytes moved.
        ours_us, baseline, baseline_us, ratio: what was found, against what.
        timed: cold or hot, or host where one of the two times may hold the host's own; such a row
            is in no mean. None where no device is timed.
        unsteady: two independent rounds do not agree on the ratio (on the time, where there is
            none): within 3 %, 6 % below 10 µs. Such a row supports no claim.
        rounds: the ratio (or the time) of each round.
        bytes, flops: what the case must move and multiply.
        config, baseline_config: the configurations that were the best, where several were tried.
    """

    suite: str
    case: str
    dtype: str
    size: int
    ours_us: float
    baseline: str
    baseline_us: float | None
    ratio: float | None
    timed: Timed | None = None
    unsteady: bool = False
    rounds: tuple[float, ...] = ()
    bytes: int | None = None
    flops: int | None = None
    config: str = ""
    baseline_config: str = ""


def row(
    suite: str, case: str, dtype: str, size: int, ours: float, baseline: str, theirs: float | None
) -> Row:
    """Return a row of plain numbers; `ours` and `theirs` are microseconds."""
    times = None if theirs is None else round(theirs / ours, 4)
    return Row(suite, case, dtype, size, round(ours, 3), baseline,
               None if theirs is None else round(theirs, 3), times)  # fmt: skip


def compared(plain: Row, ours: Timing, theirs: Timing) -> Row:
    """Return a row with what two timings of one measurement say of its ratio."""
    found = ratio(ours, theirs)
    both = {ours.timed, theirs.timed}
    return replace(
        plain,
        timed="host" if "host" in both else ours.timed,
        unsteady=found.unsteady,
        rounds=tuple(round(b / a, 4) for a, b in zip(ours.rounds, theirs.rounds, strict=False)),
    )


def limited(plain: Row, ours: Timing) -> Row:
    """Return a row against a limit that is not measured, with what the timing says of our time."""
    return replace(
        plain,
        timed=ours.timed,
        unsteady=ours.unsteady,
        rounds=tuple(round(time * 1e3, 3) for time in ours.rounds),
    )


def steady(rounds: Sequence[tuple[float, float]]) -> tuple[Timing, Timing]:
    """Return the timings of rounds of (ours, theirs) in microseconds, each round one number."""
    found = Timing(), Timing()
    for pair in rounds:
        for timing, time in zip(found, pair, strict=True):
            timing.add_round(Timing([time / 1e3]))
    return found


def table(rows: Iterable[Row]) -> str:
    """Return rows as aligned text; ~ marks unsteady ones."""
    lines = [
        f"{'suite':<16} {'case':<28} {'dtype':<6} {'size':>10} {'ours us':>11} "
        f"{'baseline':>9} {'us':>11} {'ratio':>7} timed"
    ]
    for r in rows:
        theirs = "-" if r.baseline_us is None else f"{r.baseline_us:.2f}"
        found = "-" if r.ratio is None else f"{r.ratio:.2f}"
        lines.append(
            f"{r.suite:<16} {r.case:<28} {r.dtype:<6} {r.size:>10} {r.ours_us:>11.2f} "
            f"{r.baseline:>9} {theirs:>11} {found:>6}{'~' if r.unsteady else ' '} {r.timed or ''}"
        )
    return "\n".join(lines)


def versions() -> dict[str, str]:
    """Return the versions of what takes part."""
    found = {"python": platform.python_version()}
    for name in ("torch", "triton", "llvmlite", "numpy", "cuda-bindings"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def save(path: Path, machine: str, rows: list[Row]) -> None:
    """Write rows to a results file; rows of suites that were not run again are kept."""
    kept: list[dict[str, object]] = []
    if path.exists():
        suites = {r.suite for r in rows}
        kept = [r for r in json.loads(path.read_text())["rows"] if r["suite"] not in suites]
    data = {
        "machine": machine,
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": [*kept, *map(asdict, rows)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")
