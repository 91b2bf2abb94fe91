"""A trace as static HTML: readable on GitHub, in an untrusted notebook, without a kernel.

JupyterLab's sanitizer keeps details, summary, pre, table, inline colours and PNG data URIs and
removes scripts, style sheets and inline SVG; so that is all there is here, and no fact stands in
the picture alone. Every text of a trace is escaped: it comes from strangers' notebooks.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from html import escape as _escape

from workbench.trace import Diagnostic, Links, Stage, Trace, coverage
from workbench.viewer import schedules
from workbench.viewer.highlight import highlight
from workbench.viewer.styles import PRE
from workbench.viewer.summary import (
    all_errors,
    bench_notes,
    bench_table,
    check_line,
    facts,
    headline,
    mismatch_line,
    render_diagnostic,
    tune_line,
    tune_table,
)

LIMIT = 100_000  # bytes of HTML, picture included
ROWS = 60
SOURCE_ROWS = 200
PROGRAMS = 16
LOOPS = 4
ELEMENTS = 16
WIDTH = 200  # characters of a row that are shown
TITLES = {
    "source": "Python",
    "ast": "AST",
    "tile": "Tile IR",
    "gpu": "GPU IR",
    "llvm": "LLVM IR",
    "ptx": "PTX",
    "sass": "SASS",
    "asm": "Assembly",
}
#: (rows of a stage, colours for all stages, for the source): tried in turn until it fits.
DETAIL = (
    (ROWS, True, True),
    (ROWS, False, True),
    (30, False, True),
    (10, False, True),
    (3, False, False),
)


def static_html(
    traces: Sequence[Trace],
    *,
    picture: bytes | None = None,
    footer: str = "",
    limit: int | None = LIMIT,
) -> str:
    """Return one or several traces of a kernel as HTML of at most `limit` bytes.

    `picture` is the benchmark's PNG. Rows and colours give way before facts do.
    """
    said: list[Diagnostic] = []  # what a run reported stands in the traces of all its targets
    head = ""
    for trace in traces:
        errors = [error for error in all_errors(trace) if error not in said]
        said += errors
        head += _facts(trace, errors)
    if picture is not None:
        head += _picture(traces, picture)
    tail = f"<p>{escape(footer)}</p>" if footer else ""
    for rows, colors, source_colors in DETAIL:
        stages = "".join(_stages(trace, rows, colors, source_colors, traces) for trace in traces)
        text = f"<div>{head}{stages}{tail}</div>"
        if limit is None or len(text.encode()) <= limit:
            return text
    return _cut_down(traces, limit or LIMIT, footer)


def escape(text: str) -> str:
    """Return text that is safe in element content and in a quoted attribute."""
    clean = "".join(letter if letter in "\n\t" or letter >= " " else "�" for letter in text)
    return _escape(clean, quote=True).encode("utf-8", "replace").decode()


def _cut_down(traces: Sequence[Trace], limit: int, footer: str) -> str:
    """Return verdicts only: the last resort for a trace with enormous rows."""
    verdicts = "".join(_verdict(trace) for trace in traces)
    note = f"<p>The stages are left out here to save space. {escape(footer)}</p>"
    text = f"<div>{verdicts}{note}</div>"
    return text if len(text.encode()) <= limit else f"<div>{note}</div>"


def _facts(trace: Trace, errors: Sequence[Diagnostic]) -> str:
    """Return what was found out: verdict, errors, resources, checks, benchmark."""
    said = "".join(preformatted(escape(render_diagnostic(trace, error))) for error in errors[:20])
    parts = (_skipped, _resources, _checks, _tune, _bench)
    return _verdict(trace) + said + "".join(part(trace) for part in parts)


def _stages(
    trace: Trace, rows: int, colors: bool, source_colors: bool, traces: Sequence[Trace]
) -> str:
    """Return the stages that no earlier trace shows with the same text, passes and remarks."""
    first = traces[0]
    target = "" if len(traces) == 1 else f"{trace.kernel.target} · "
    linked = coverage(trace)
    parts: list[str] = []
    for stage in trace.stages:
        if trace is not first and trace.strings[stage.text] == first.text(stage.id):
            continue
        source = stage.id == "source"
        limit = max(rows, SOURCE_ROWS) if source else rows
        colored = source_colors if source else colors
        prefix = "" if source else target
        parts.append(_stage(trace, stage, prefix, linked[stage.id], limit, colored))
    parts += [_schedules(trace, target), _programs(trace)]
    parts += [_passes(trace, target), _remarks(trace, target)]
    return "".join(parts)


def _verdict(trace: Trace) -> str:
    name, *rest = headline(trace).split(" · ")
    marks: list[str] = []
    if trace.errors:
        marks.append("✗ compile error")
    if trace.runs.checks:
        marks.append("✓ check ok" if trace.runs.checks[-1].ok else "✗ check failed")
    elif trace.runs.errors:
        marks.append("✗ not run to the end")
    tail = "".join(f" · {escape(part)}" for part in (*rest, *marks))
    return f"<p><b>{escape(name)}</b>{tail}</p>"


def _skipped(trace: Trace) -> str:
    items = [f"not done: {entry.what}: {entry.why}" for entry in trace.runs.skipped]
    return listed(items)


def _resources(trace: Trace) -> str:
    found = facts(trace)
    if not found:
        return ""
    return tabled([name for name, _ in found], [[value for _, value in found]])


def _checks(trace: Trace) -> str:
    lines: list[str] = []
    for check in trace.runs.checks[-3:]:
        lines.append(f"check {check_line(check)}")
        lines += [mismatch_line(item) for item in check.first]
    return listed(lines)


def _tune(trace: Trace) -> str:
    headings, rows = tune_table(trace)
    if not rows:
        return ""
    title = f"Tuning · {tune_line(trace) or 'nothing could be timed'}"
    return f"<details><summary>{escape(title)}</summary>{tabled(headings, rows[:64])}</details>"


def _bench(trace: Trace) -> str:
    headings, rows = bench_table(trace)
    return (tabled(headings, rows) if headings else "") + listed(bench_notes(trace))


def _stage(
    trace: Trace, stage: Stage, prefix: str, linked: tuple[int, int], limit: int, colored: bool
) -> str:
    text = trace.strings[stage.text]
    lines = text.split("\n") if text else []
    facts = [f"{len(lines):,} rows"] if lines else [stage.state]
    if linked[1] and stage.rows and stage.id != "source":
        facts.append(f"{linked[0]:,} of {linked[1]:,} linked to the source")
    if stage.note:
        facts.append(stage.note)
    title = f"{prefix}{TITLES[stage.id]} · {' · '.join(facts)}"
    if not lines:
        return f"<p>{escape(title)}</p>"
    excerpt = "\n".join(_clip(line) for line in lines[:limit])
    body = _colored(excerpt, stage.lang) if colored else escape(excerpt)
    more = f"\n… {len(lines) - limit:,} more rows" if len(lines) > limit else ""
    opened = " open" if stage.id == "source" else ""
    return (
        f"<details{opened}><summary>{escape(title)}</summary>{preformatted(body + more)}</details>"
    )


def _schedules(trace: Trace, target: str) -> str:
    """Return what each role of pipelined loops does in a round."""
    if not trace.pipelines:
        return ""
    line = schedules.line_in(trace)
    parts: list[str] = []
    for pipeline in trace.pipelines[:LOOPS]:
        roles = [schedules.role_words(pipeline, role) for role in range(len(pipeline.roles))]
        parts.append(f"<p>{escape(schedules.title(pipeline, line))}</p>")
        parts.append(listed([*roles, *map(schedules.ring_words, pipeline.rings)]))
        parts.append(tabled(schedules.HEAD, schedules.rows(pipeline, line)))
    title = f"{target}Schedule · what each role does in a round of a pipelined loop"
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def _programs(trace: Trace) -> str:
    """Return what the interpreter recorded: which program touches which elements."""
    tables: list[str] = []
    for entry in trace.access[:8]:
        by_program: dict[int, list[tuple[int, str, int, bool]]] = {}
        for program, place, array, element, live in entry.addr:
            by_program.setdefault(program, []).append((place, array, element, live))
        rows: list[list[str]] = []
        for program, touched in sorted(by_program.items())[:PROGRAMS]:
            live = [f"{array}[{element}]" for _, array, element, on in touched if on]
            off = sum(not on for *_, on in touched)
            more = f" … {len(live) - ELEMENTS:,} more" if len(live) > ELEMENTS else ""
            rows.append(
                [str(program), entry.direction, ", ".join(live[:ELEMENTS]) + more, str(off)]
            )
        if rows:
            tables.append(tabled(["program", _line_of(trace, entry.op), "elements", "off"], rows))
    if not tables:
        return ""
    title = "Programs · what each one touches, as the interpreter recorded it"
    return f"<details><summary>{title}</summary>{''.join(tables)}</details>"


def _line_of(trace: Trace, op: int) -> str:
    place = Links(trace).line_of(op)
    return f"op {op}" if place is None else f"line {place[1]}"


def _colored(text: str, lang: str) -> str:
    clean = "".join(letter if letter in "\n\t" or letter >= " " else "�" for letter in text)
    return highlight(clean, lang).encode("utf-8", "replace").decode()


def _clip(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _passes(trace: Trace, target: str) -> str:
    changing = [step for step in trace.passes if step.changed]
    if not changing:
        return ""
    rows = [
        [
            step.name,
            step.pipe,
            f"{step.milliseconds:.2f}",
            f"+{len(step.add)} -{len(step.del_)}",
            ", ".join(f"{len(rule.ops)} × {rule.name}" for rule in step.rules[:6]),
        ]
        for step in changing[:40]
    ]
    title = f"{target}Passes · {len(changing)} of {len(trace.passes)} changed something"
    table = tabled(["pass", "pipeline", "ms", "ops", "rules"], rows)
    return f"<details><summary>{escape(title)}</summary>{table}</details>"


def _remarks(trace: Trace, target: str) -> str:
    items = [f"{item.severity} {item.code}: {item.text}" for item in trace.remarks[:40]]
    if not items:
        return ""
    title = f"{target}Remarks · {len(trace.remarks)}"
    return f"<details><summary>{escape(title)}</summary>{listed(items)}</details>"


def _picture(traces: Sequence[Trace], picture: bytes) -> str:
    name = escape(traces[0].kernel.name)
    data = base64.b64encode(picture).decode()
    words = f"Throughput of {name} and its baselines; the numbers are in the table"
    return f'<p><img alt="{words}" src="data:image/png;base64,{data}"></p>'


def preformatted(body: str) -> str:
    """Return escaped text whose columns stay."""
    return f'<pre style="{PRE}">{body}</pre>'


def listed(items: Iterable[str]) -> str:
    """Return texts as a list; nothing for none."""
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{entries}</ul>" if entries else ""


def tabled(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as a table."""
    row: Callable[[Sequence[str], str], str] = lambda cells, tag: (  # noqa: E731
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    )
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(headings, 'th')}</thead><tbody>{body}</tbody></table>"
