"""Rows of benchmark results: what is measured, against what, and where it is kept.

A results file is `{"machine", "versions", "date", "rows"}`; a row is one case against one
baseline, ratio = baseline_us / ours_us (above 1: faster than the baseline).
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case; times in microseconds, null where nothing was compared.

    `size` is elements, columns of a row, or M = N = K.
    """

    suite: str
    case: str
    dtype: str
    size: int
    ours_us: float
    baseline: str
    baseline_us: float | None
    ratio: float | None


def row(
    suite: str, case: str, dtype: str, size: int, ours: float, baseline: str, theirs: float | None
) -> Row:
    """Return a row; `ours` and `theirs` are microseconds."""
    ratio = None if theirs is None else round(theirs / ours, 4)
    return Row(suite, case, dtype, size, round(ours, 3), baseline,
               None if theirs is None else round(theirs, 3), ratio)  # fmt: skip


def table(rows: Iterable[Row]) -> str:
    """Return rows as aligned text."""
    lines = [
        f"{'suite':<16} {'case':<28} {'dtype':<6} {'size':>10} {'ours us':>11} "
        f"{'baseline':>9} {'us':>11} {'ratio':>6}"
    ]
    for r in rows:
        theirs = "-" if r.baseline_us is None else f"{r.baseline_us:.2f}"
        ratio = "-" if r.ratio is None else f"{r.ratio:.2f}"
        lines.append(
            f"{r.suite:<16} {r.case:<28} {r.dtype:<6} {r.size:>10} {r.ours_us:>11.2f} "
            f"{r.baseline:>9} {theirs:>11} {ratio:>6}"
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
