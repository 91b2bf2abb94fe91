"""Ways of values and programs step by step as outputs show them: static HTML, and viewer's data."""

from __future__ import annotations

from workbench.trace import to_data
from workbench.trace.answers import Route, Walk
from workbench.viewer.output import Answer
from workbench.viewer.static_html import LIMIT, escape, listed, tabled

#: Steps of a program in its static form.
MOST_STEPS = 200


def route_answer(found: Route, text: str) -> Answer:
    """Return the way of a value as an output shows it; `text` says it in words."""
    return Answer(
        kind="follow",
        data=to_data(found),
        title=found.question,
        text=text,
        html=lambda footer: _route_html(found, footer),
    )


def _route_html(found: Route, footer: str) -> str:
    tail = f"<p>{escape(footer)}</p>" if footer else ""
    rows = [[stop.where, stop.sentence] for stop in found.stops]
    head = f"<p><b>{escape(found.question)}</b></p>"
    while rows:
        text = f"<div>{head}{tabled(['where', 'what happened'], rows)}{tail}</div>"
        if len(text.encode()) <= LIMIT:
            return text
        rows = [*rows[: len(rows) // 2], ["…", "the rest is left out here to save space"]]
        if len(rows) == 1:
            break
    return f"<div>{head if len(head) < LIMIT // 2 else ''}{tail}</div>"


def walk_html(found: Walk) -> str:
    """Return a program step by step as HTML: a table of the steps that tell something."""
    rows = [
        [str(n), "" if step.line is None else str(step.line), step.text, step.value]
        for n, step in enumerate(found.steps, found.first) if not step.plumbing
    ]  # fmt: skip
    more = [f"{len(rows) - MOST_STEPS:,} more steps"] if len(rows) > MOST_STEPS else []
    table = tabled(["step", "line", "op", "value"], rows[:MOST_STEPS])
    return f"<div>{table}{listed([*more, *found.notes])}</div>"


def walk_answer(found: Walk, text: str, html: str) -> Answer:
    """Return a program step by step as an output shows it; `html` is its static form."""
    place = ", ".join(map(str, found.program[: max(1, len(found.grid))]))
    return Answer(
        kind="step",
        data=to_data(found),
        title=f"{found.kernel}, program ({place}), step by step",
        text=text,
        html=lambda footer: html + (f"<p>{escape(footer)}</p>" if footer else ""),
    )
