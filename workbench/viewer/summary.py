"""What a trace says in a few lines: the text/plain form, and the facts that HTML shows too."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from workbench.trace import Check, Diagnostic, Mismatch, Trace, coverage
from workbench.trace.offers import settings
from workbench.viewer.numbers import (
    UNITS,
    Metric,
    Point,
    axis_of,
    busy,
    duration,
    figure,
    metric_of,
    ratios,
    series_of,
)

LINES = 40
COLUMNS = 100
CHARACTERS = 4_000
POINTS = 14  # rows of the benchmark table; more are counted
NO_BREAK = "\N{NO-BREAK SPACE}"


def headline(trace: Trace) -> str:
    """Return name, target, specialisation and place: "add · sm_90a · f32·BLOCK=3 · In[3]"."""
    kernel = trace.kernel
    parts = [kernel.name, kernel.target, kernel.spec, kernel.file]
    parts += ["guarded"] * any(launch.guarded for launch in trace.runs.launches)
    parts += ["cached"] * kernel.cached
    parts += [f"overridden: {kernel.overridden}"] * (kernel.overridden is not None)
    return " · ".join(part for part in parts if part)


def facts(trace: Trace) -> list[tuple[str, str]]:
    """Return (name, value) of the known resources; what is unknown is not named."""
    found = trace.resources
    shared = [size for size in (found.shared_bytes, found.dynamic_shared_bytes) if size is not None]
    spills = [s for s in (found.spill_store_bytes, found.spill_load_bytes) if s is not None]
    rows: list[tuple[str, str | None]] = [
        ("registers", None if found.registers is None else str(found.registers)),
        ("shared", f"{sum(shared):,} B" if shared else None),
        ("spills", _spills(spills)),
        ("stack", None if not found.stack_bytes else f"{found.stack_bytes:,} B"),
        ("occupancy", _occupancy(trace)),
        ("code", None if found.code_bytes is None else f"{found.code_bytes:,} B"),
        ("compile", _compile_time(trace)),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _spills(spills: Sequence[int]) -> str | None:
    if not spills:
        return None
    return f"{sum(spills):,} B" if any(spills) else "0"


def _occupancy(trace: Trace) -> str | None:
    found = trace.resources.occupancy
    return None if found is None else f"{100 * found.warps / found.max:.0f} % ({found.limit})"


def _compile_time(trace: Trace) -> str | None:
    times = [stage.milliseconds for stage in trace.stages if stage.milliseconds is not None]
    return duration(sum(times)) if times else None


def check_line(check: Check) -> str:
    """Return a check's verdict, errors and tolerances in one line."""
    verdict = "ok    " if check.ok else "FAILED"
    nans = f", {check.nan:,} NaN" if check.nan else ""
    shift = ""
    if check.shift is not None:
        mean = f"{1 + check.shift:.6g} times" if check.shift_relative else f"{check.shift:+.2g} off"
        shift = f", {mean} on average"
    return (
        f"{verdict}  {_one_line(check.ref, 40)}    max abs {_error(check.max_abs)}, "
        f"{check.wrong:,} of {check.total:,} wrong{nans}{shift} ({allowed_words(check)})"
    )


def allowed_words(check: Check) -> str:
    """Return what a check's errors were compared with, in a few words."""
    given = {"rtol": check.rtol, "atol": check.atol}
    words = [f"{name} {_error(value)}" for name, value in given.items() if value is not None]
    if check.usual is not None:
        words.insert(0, f"usual {_error(check.usual)}")
    if check.reference == "as written":
        words.append("reference as written, not in float64")
    return ", ".join(words)


def _error(value: float) -> str:
    return f"{value:.1e}" if value else "0"


#: What the ways of timing mean.
TIMED = {
    "cold": "cold: each run finds its inputs in memory, the L2 cache was flushed",
    "hot": "hot: each run finds the caches as the run before left them",
    "host": "host: could not be captured, so the host's time may be in it; not compared",
}


def bench_table(trace: Trace) -> tuple[list[str], list[list[str]]]:
    """Return (headings, rows) of the latest benchmark, empty without one."""
    metric = metric_of(trace)
    own, *baselines = series_of(trace, metric) or (None,)
    if own is None:
        return [], []
    timed = [series for series in baselines if series.points]
    by_rate = metric != "ms"
    unit, factor = _readable_unit(metric, [p.value for s in (own, *timed) for p in s.points])
    headings = [axis_of(trace)]
    for series in (own, *timed):
        headings.append(f"{'ours' if series.own else series.name} ms")
        headings += [unit] * by_rate
    if timed:
        headings.append("ratio" if len(timed) == 1 else f"vs {timed[0].name}")
    faster = ratios(trace)
    rows: list[list[str]] = []
    for point in own.points:
        row = [_axis_value(point.x)]
        for series in (own, *timed):
            other = series.at(point.x)
            mark = "" if other is None else _marks(other)
            row.append((figure(other.milliseconds) if other else "-") + mark)
            value = None if other is None or other.value is None else other.value * factor
            row += [figure(value)] * by_rate
        if timed:
            row.append(f"{faster[point.x]:.2f}" if point.x in faster else "-")
        rows.append(row)
    return headings, rows


def _marks(point: Point) -> str:
    """Return what is wrong with a time, in signs that the notes explain."""
    return " ✗" * point.wrong + " ~" * point.unsteady + " host" * (point.timed == "host")


def _readable_unit(metric: Metric, values: Sequence[float | None]) -> tuple[str, float]:
    """Return (unit, factor) in which the largest rate of a table is 1 or more, as in the viewer."""
    largest = max((value for value in values if value is not None), default=0.0)
    smaller = {"tflops": "GFLOP/s", "gbps": "MB/s"}.get(metric)
    return (smaller, 1e3) if smaller and 0 < largest < 1 else (UNITS[metric], 1.0)


def tune_table(trace: Trace) -> tuple[list[str], list[list[str]]]:
    """Return (headings, rows) of the latest search, the fastest first; empty without one."""
    if not trace.runs.tunes:
        return [], []
    found = trace.runs.tunes[-1]
    names = list(dict.fromkeys(name for row in found.rows for name in row.config))
    order = sorted(found.rows, key=lambda row: (row.milliseconds is None, row.milliseconds or 0))
    best = None if found.best is None else found.rows[found.best]
    rows: list[list[str]] = []
    for row in order:
        state = "best" if row is best else row.state
        numbers = (row.registers, row.spills, row.shared_bytes)
        rows.append(
            [
                *(str(row.config.get(name, "")) for name in names),
                figure(row.milliseconds),
                *("" if number is None else f"{number:,}" for number in numbers),
                state if row.why is None else f"{state}: {row.why}",
            ]
        )
    headings = [*names, "ms", "regs", "spills", "shared", "state"]
    kept = [n for n in range(len(headings)) if any(row[n] for row in rows)]
    return [headings[n] for n in kept], [[row[n] for n in kept] for row in rows]


def tune_line(trace: Trace) -> str:
    """Return what the latest search chose, as options to paste; empty without one."""
    found = trace.runs.tunes[-1] if trace.runs.tunes else None
    if found is None or found.best is None:
        return ""
    best = found.rows[found.best]
    timed = sum(row.milliseconds is not None for row in found.rows)
    options = settings(best.config) or "its configuration holds more than names and numbers"
    how = f", {best.timed}" if best.timed else ""
    how += ", timed without guards: each ran guarded first" if found.guarded else ""
    return f"{options}    best of {timed} timed, {figure(best.milliseconds)} ms{how}"


def bench_notes(trace: Trace) -> list[str]:
    """Return what a reader of the benchmark table has to know besides its numbers."""
    found = series_of(trace)
    notes = [f"{series.name}: {series.error}" for series in found if series.error]
    points = [point for series in found for point in series.points]
    if any(point.wrong for point in points):
        notes.append("✗ wrong result, not compared")
    if any(point.unsteady for point in points):
        notes.append("~ unsteady: two rounds, or the runs of one, do not agree")
    notes += [text for timed, text in TIMED.items() if any(p.timed == timed for p in points)]
    if any(bench.guarded for bench in trace.runs.benches):
        notes.append("timed without guards: each size ran guarded first")
    if doubt := busy(trace):
        notes.append(doubt)
    return notes


def _axis_value(x: float | str) -> str:
    return str(x) if isinstance(x, (int, str)) else f"{x:g}"


def all_errors(trace: Trace) -> tuple[Diagnostic, ...]:
    """Return the errors of the compilation and of what was run."""
    return (*trace.errors, *trace.runs.errors)


def problem_counts(trace: Trace) -> str:
    """Return "1 error, 2 notes" over errors and remarks, empty if there are none."""
    counts: dict[str, int] = {}
    for remark in (*all_errors(trace), *trace.remarks):
        counts[remark.severity] = counts.get(remark.severity, 0) + 1
    order = ("error", "warning", "missed", "note")
    words = {"missed": "missed optimisation"}
    return ", ".join(
        f"{counts[name]} {words.get(name, name)}{'s' * (counts[name] > 1)}"
        for name in order
        if name in counts
    )


def render_diagnostic(trace: Trace, error: Diagnostic) -> str:
    """Return an error as terminals show it: sentence, place, carets, notes, help."""
    lines = [f"{error.severity} {error.code}: {error.text}"]
    if error.span is not None and 0 <= error.span[0] < len(trace.sources):
        lines += _excerpt(trace, error.span)
    for note in error.notes:
        place = f" ({_place(trace, note.span)})" if note.span else ""
        lines.append(f"note: {note.text}{place}")
    if error.help:
        lines.append(f"help: {error.help}")
    return "\n".join(lines)


def _excerpt(trace: Trace, span: tuple[int, int, int, int, int]) -> list[str]:
    index, line, column, end_line, end_column = span
    source = trace.sources[index]
    lines = [f"  --> {_place(trace, span)}"]
    rows = trace.strings[source.text].split("\n")
    if 0 <= line - source.line0 < len(rows):
        text = rows[line - source.line0]
        end = end_column if end_line == line else len(text) + 1
        number = str(line)
        carets = " " * (column - 1) + "^" * max(1, end - column)
        lines += [f"  {number} | {text}", f"  {' ' * len(number)} | {carets}"]
    return lines


def _place(trace: Trace, span: tuple[int, int, int, int, int]) -> str:
    known = 0 <= span[0] < len(trace.sources)
    file = trace.sources[span[0]].file if known else trace.kernel.file
    return f"{file}:{span[1]}:{span[2]}"


def plain(traces: Sequence[Trace], footer: Sequence[str] = ()) -> str:
    """Return the text/plain form of one or several traces of a kernel: at most 40 lines."""
    lines: list[str] = []
    said: list[Diagnostic] = []  # what a run reported stands in the traces of all its targets
    for trace in traces:
        errors = [error for error in all_errors(trace) if error not in said]
        said += errors
        lines += _plain(trace, errors)
    ends = [part for line in footer for part in _wrapped(line)]
    room = LINES - len(ends)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines in the viewer"]
    text = "\n".join(_one_line(line, COLUMNS) for line in (*lines, *ends))
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 2] + "…\n"


def _plain(trace: Trace, errors: Sequence[Diagnostic]) -> list[str]:
    lines = _wrapped(headline(trace))
    for error in errors[:2]:
        for line in render_diagnostic(trace, error).split("\n"):
            # Source lines and the carets below them stay whole; they start with blanks.
            lines += [line] if line.startswith(" ") else _wrapped(line)
    for skipped in trace.runs.skipped:
        lines += _wrapped(f"not done: {skipped.what}: {skipped.why}")
    for check in trace.runs.checks[-2:]:
        lines += _wrapped(f"check   {check_line(check)}", 8)
    for check in trace.runs.checks[-1:]:
        lines += [f"        {mismatch_line(item)}" for item in check.first[:2]]
    if resources := resource_line(trace):
        # A long line ends between two facts, never within one.
        parts = resources.split("  ")
        lines += _wrapped("  ".join(part.replace(" ", NO_BREAK) for part in parts))
    if chosen := tune_line(trace):
        lines += _wrapped(f"tuned   {chosen}", 8)
    lines += _table(*bench_table(trace))
    for note in bench_notes(trace):
        lines += _wrapped(f"  {note}", 4)
    if problems := problem_counts(trace):
        lines.append(f"problems: {problems}")
    return lines


def mismatch_line(item: Mismatch) -> str:
    """Return one wrong element in words."""
    index = ", ".join(map(str, item.index))
    stored = "no program stored it"
    if item.program is not None:
        stored = f"stored by program {item.program}"
    return f"{item.out}[{index}] = {figure(item.got)}, expected {figure(item.want)}; {stored}"


def resource_line(trace: Trace) -> str:
    """Return resources and link coverage in one line; empty if nothing is known."""
    words = {"registers": "regs", "shared": "smem"}
    parts = [f"{words.get(name, name)} {value}" for name, value in facts(trace)]
    counts = coverage(trace)
    for stage in ("sass", "asm", "ptx"):
        if counts.get(stage, (0, 0))[1] and trace.text(stage):
            linked, total = counts[stage]
            parts.append(f"link coverage {linked}/{total}")
            break
    return "  ".join(parts)


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    if not headings:
        return []
    shown = rows[-POINTS:]
    widths = [max(len(row[i]) for row in (headings, *shown)) for i in range(len(headings))]
    lines = [
        "  " + "   ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (headings, *shown)
    ]
    left = len(rows) - len(shown)
    return [*lines[:1], *([f"  ({left} smaller sizes in the viewer)"] * bool(left)), *lines[1:]]


def _wrapped(text: str, indent: int = 2) -> list[str]:
    """Return text as lines of at most COLUMNS characters, the later ones indented."""
    lines = textwrap.wrap(
        text,
        COLUMNS,
        subsequent_indent=" " * indent,
        drop_whitespace=True,
        replace_whitespace=False,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def _one_line(text: str, width: int) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= width else text[: width - 1] + "…"
