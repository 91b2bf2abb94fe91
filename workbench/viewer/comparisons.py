"""A comparison as an output shows it: static HTML that is readable alone, and the viewer's data.

Like `static_html`: no script, no style sheet, every text escaped, no fact in colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.trace import Trace, to_data
from workbench.trace.answers import Comparison, FacingStage, Quantity, Timing
from workbench.viewer.output import Answer
from workbench.viewer.static_html import LIMIT, TITLES, WIDTH, escape, listed, preformatted, tabled

#: Rows of a stage's changes, tried in turn until the whole fits.
DETAIL = (60, 20, 6, 0)
SIGNS = {"removed": "A -", "added": "B +", "moved-from": "A ↥", "moved-to": "B ↧"}


def answer_of(found: Comparison, traces: tuple[Trace, Trace], text: str) -> Answer:
    """Return a comparison as an output shows it; `text` says it in words."""
    return Answer(
        kind="compare",
        data=to_data(found),
        title=f"{found.labels[0]} and {found.labels[1]}",
        text=text,
        html=lambda footer: static_html(found, traces, footer),
    )


def static_html(
    found: Comparison, traces: tuple[Trace, Trace], footer: str = "", limit: int = LIMIT
) -> str:
    """Return a comparison as HTML of at most `limit` bytes: rows give way before facts do."""
    head = f"<p><b>A</b> {escape(found.labels[0])}<br><b>B</b> {escape(found.labels[1])}</p>"
    head += f"<p>{escape(found.said)}</p>" if found.said else ""
    head += _timings(found.timings) + _options(found) + _quantities(found.quantities)
    tail = listed(found.notes) + (f"<p>{escape(footer)}</p>" if footer else "")
    for rows in DETAIL:
        stages = "".join(_stage(stage, traces, rows) for stage in found.stages)
        text = f"<div>{head}{stages}{tail}</div>"
        if len(text.encode()) <= limit:
            return text
    return f"<div><p>It is too large to be written out here. {escape(footer)}</p></div>"


def number(value: object) -> str:
    """Return a number or an option's value for a table; a dash for none."""
    return "–" if value is None else f"{value:,}" if type(value) is int else str(value)


def change(each: Quantity) -> str:
    """Return by how much B has more, "+41"; nothing where that is nothing or unknown."""
    if each.a is None or each.b is None or each.a == each.b:
        return ""
    return f"{each.b - each.a:+,}"


def lines(each: Quantity, most: int = 6) -> str:
    """Return which lines a difference comes from: "+32: line 28; -4: line 30"."""
    if not each.shares:
        return each.of if change(each) else ""
    shown = "; ".join(f"{share.amount:+,}: {share.words}" for share in each.shares[:most])
    more = len(each.shares) - most
    return shown + (f"; … {more} more" if more > 0 else "")


def _quantities(found: Sequence[Quantity]) -> str:
    if not found:
        return ""
    rows = [
        [f"{each.title} ({each.unit})" if each.unit else each.title, number(each.a),
         number(each.b), change(each) or "same", lines(each)]
        for each in found
    ]  # fmt: skip
    return tabled(["", "A", "B", "B - A", "from lines"], rows)


def _options(found: Comparison) -> str:
    rows = [[each.name, number(each.a), number(each.b)] for each in found.options]
    return tabled(["option", "A", "B"], rows) if rows else ""


def _timings(found: Sequence[Timing]) -> str:
    words = {"faster": "B is faster", "slower": "B is slower", "same": "the same within noise"}
    rows = [
        [each.what, f"{each.a[1]:.4g} ms", f"{each.b[1]:.4g} ms",
         f"{each.speed:.3g}× ({each.low:.3g} to {each.high:.3g}): {words[each.verdict]}"]
        for each in found
    ]  # fmt: skip
    return tabled(["time", "A", "B", "A / B"], rows) if rows else ""


def _stage(stage: FacingStage, traces: tuple[Trace, Trace], most: int) -> str:
    counts: dict[str, int] = {}
    for kind, _, _, count in stage.rows:
        counts[kind] = counts.get(kind, 0) + count
    said = [f"{counts[kind]:,} {word}" for kind, word in (
        ("changed", "changed"), ("removed", "only in A"), ("added", "only in B"),
        ("moved-from", "moved"), ("same", "same")) if counts.get(kind)]  # fmt: skip
    title = f"{TITLES[stage.id]} · {' · '.join(said)} rows"
    if not most or set(counts) <= {"same"}:
        return f"<p>{escape(title)}</p>"
    rows = list(_changed(stage, traces))
    more = f"\n… {len(rows) - most:,} more" if len(rows) > most else ""
    body = escape("\n".join(rows[:most]) + more)
    return f"<details><summary>{escape(title)}</summary>{preformatted(body)}</details>"


def _changed(stage: FacingStage, traces: tuple[Trace, Trace]) -> Iterator[str]:
    """Yield the rows that differ, those of one op below each other."""
    texts = [trace.text(stage.id).split("\n") for trace in traces]

    def row(side: int, place: int) -> str:
        found = texts[side][place] if 0 <= place < len(texts[side]) else ""
        return f"{place + 1:>5}  {found[:WIDTH]}"

    longest = max(map(len, texts))
    for kind, a, b, count in stage.rows:
        for n in range(min(count, longest)):  # a stranger's file may say anything
            if kind == "changed":
                yield f"A ~ {row(0, a + n)}"
                yield f"B ~ {row(1, b + n)}"
            elif kind in ("removed", "moved-from"):
                yield f"{SIGNS[kind]} {row(0, a + n)}"
            elif kind != "same":
                yield f"{SIGNS[kind]} {row(1, b + n)}"
