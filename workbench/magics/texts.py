"""What the line magics return: the text of a stage, of passes, of one source line's way.

`Shown` is a `str`, so `s = %ptx add` is the text itself; in a notebook it shows itself highlighted.
Everything is read from the Trace.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from workbench.magics.options import Request
from workbench.source import OptionError
from workbench.trace import AppliedRule, Pass, Stage, StageId, Trace
from workbench.trace.links import ops_of_rows

COMMENT = {"source": "#", "ast": "#", "asm": "#", "llvm": ";"}
STAGE_NAMES = {
    "source": "Python source", "ast": "Python AST", "tile": "tile IR", "gpu": "GPU IR",
    "llvm": "LLVM IR", "ptx": "PTX", "sass": "SASS", "asm": "assembly",
}  # fmt: skip


class Shown(str):
    """Text that a notebook shows highlighted."""

    lang: str
    __slots__ = ("lang",)

    def __new__(cls, text: str, lang: str = "text") -> Shown:
        """Return the text, to be highlighted as `lang`."""
        shown = super().__new__(cls, text)
        shown.lang = lang
        return shown

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from workbench.viewer.highlight import highlight
        from workbench.viewer.styles import TEXT

        body = highlight(str(self), self.lang)
        return {"text/plain": str(self), "text/html": f'<pre style="{TEXT}">{body}</pre>'}


def source_line(trace: Trace, op: int) -> tuple[int, int] | None:
    """Return (source, line) that an op stands for, None if it has no place."""
    try:
        place = trace.ops.loc[trace.ops.id.index(op)]
    except ValueError:
        return None
    return (place[0], place[1]) if place[0] >= 0 else None


def stage_text(trace: Trace, name: StageId, request: Request) -> Shown:
    """Return one stage as the options ask for it; raises OptionError where there is none."""
    stage = trace.stage(name)
    if stage is None or (stage.state == "missing" and not trace.strings[stage.text]):
        note = stage.note if stage is not None and stage.note else None
        available = " ".join(s.id for s in trace.stages if s.state != "missing")
        kernel = trace.kernel
        more = ""
        if kernel.target == "cpu" and name in ("gpu", "ptx", "sass"):
            more = f"; %{name} {kernel.name}@sm_90a compiles it for a GPU, which need not be there"
        raise OptionError(
            f"{kernel.name} for {kernel.target} has no {STAGE_NAMES[name]}",
            code="K129",
            hint=note or f"stages there are: {available}{more}",
        )
    rows = list(_rows(trace, stage, request))
    return Shown("\n".join(rows or [_nothing(trace, stage, request)]), stage.lang)


def _nothing(trace: Trace, stage: Stage, request: Request) -> str:
    """Return a comment that says why there is no row."""
    mark, title = COMMENT.get(stage.id, "//"), STAGE_NAMES[stage.id]
    if request.line is not None:
        return f"{mark} no row of {title} came from line {request.line}; {_extent(trace)}"
    count = trace.strings[stage.text].count("\n") + 1
    return f"{mark} {title} has {count:,} rows, none of them in this range"


def _extent(trace: Trace) -> str:
    source = trace.sources[0]
    last = source.line0 + trace.strings[source.text].count("\n")
    return f"{trace.kernel.name} stands in {source.file}, lines {source.line0} to {last}"


def _rows(trace: Trace, stage: Stage, request: Request) -> Iterator[str]:
    lines = trace.strings[stage.text].split("\n")
    places = places_of(trace, stage, len(lines))
    first, last = request.lines or (1, len(lines))
    mark = COMMENT.get(stage.id, "//")
    said: tuple[int, int] | None = None
    for number, (line, place) in enumerate(zip(lines, places, strict=True), 1):
        if not first <= number <= last:
            continue
        if request.line is not None and (place is None or place[1] != request.line):
            continue
        if not request.raw and place is not None and place != said and stage.id != "source":
            yield f"{mark} {place[1]:>4} | {_text_of(trace, place)}"
            said = place
        suffix = ""
        if request.loc and place is not None:
            suffix = f"  {mark} {trace.sources[place[0]].file}:{place[1]}"
        yield line + suffix


def places_of(trace: Trace, stage: Stage, count: int) -> list[tuple[int, int] | None]:
    """Return the (source, line) of each row: that of its first op that has a place."""
    known = dict(zip(trace.ops.id, trace.ops.loc, strict=True))
    result: list[tuple[int, int] | None] = []
    for ops in ops_of_rows(stage.rows, count):
        places = [known[op] for op in ops if op in known and known[op][0] >= 0]
        result.append((places[0][0], places[0][1]) if places else None)
    return result


def _text_of(trace: Trace, place: tuple[int, int]) -> str:
    source = trace.sources[place[0]]
    lines = trace.strings[source.text].split("\n")
    row = place[1] - source.line0
    return lines[row].strip() if 0 <= row < len(lines) else source.file


def passes_text(trace: Trace, which: str | None, request: Request) -> Shown:
    """Return the list of passes with times and op counts, or the rules and diff of one pass."""
    if which is not None:
        return Shown(_pass_diff(trace, which), "diff")
    chosen = [
        (index, step)
        for index, step in enumerate(trace.passes)
        if (request.everything or step.changed)
        and (request.grep is None or re.search(request.grep, step.name))
    ]
    width = max((len(step.name) for _, step in chosen), default=4)
    rows = [f"{'#':>3}  {'pass':<{width}}  pipe      ms    ops"]
    for index, step in chosen:
        counts = f"+{len(step.add)} -{len(step.del_)}" if step.changed else "unchanged"
        times = f"{step.pipe:<5} {step.milliseconds:>6.2f}"
        rows.append(f"{index:>3}  {step.name:<{width}}  {times}    {counts}")
    hidden = len(trace.passes) - len(chosen)
    if request.grep is not None and not chosen:
        kind = "pass" if request.everything else "pass that changed something"
        rows = [f"no {kind} is called {request.grep}; %passes {trace.kernel.name} --all lists all"]
    elif hidden:
        rows.append(f"{hidden} more passes not listed; --all shows those that changed nothing too")
    return Shown("\n".join(rows))


def _pass_diff(trace: Trace, which: str) -> str:
    matches = [
        step for index, step in enumerate(trace.passes) if step.name == which or str(index) == which
    ]
    if not matches:
        names = ", ".join(dict.fromkeys(step.name for step in trace.passes))
        raise OptionError(f"no pass '{which}'; passes: {names}", code="K129")
    parts: list[str] = []
    for step in matches:
        if not step.changed or step.before is None or step.after is None:
            parts.append(f"{step.name}: changed nothing")
            continue
        parts += _rules(trace, step)
        before, after = (trace.strings[text].split("\n") for text in (step.before, step.after))
        parts += difflib.unified_diff(
            before, after, f"before {step.name}", f"after {step.name}", lineterm=""
        )
    return "\n".join(parts)


def rules_of(trace: Trace, step: Pass) -> Iterator[tuple[AppliedRule, list[int]]]:
    """Yield the rewrite rules that a pass applied, with the source lines of their ops."""
    for rule in step.rules:
        places = (source_line(trace, op) for op in rule.ops)
        yield rule, sorted({place[1] for place in places if place})


def _rules(trace: Trace, step: Pass) -> Sequence[str]:
    """Return a line for each rewrite rule that a pass applied: how often, what, where."""
    found: list[str] = []
    for rule, lines in rules_of(trace, step):
        where = f" (line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))})" if lines else ""
        found.append(f"{len(rule.ops)} × {rule.name}: {rule.identity}{where}")
    return found


def line_story(trace: Trace, number: int) -> Shown:
    """Return what one source line became, stage by stage."""
    parts = [f"{trace.kernel.name}, line {number} ({trace.kernel.target})"]
    request = Request(line=number, raw=True)
    for stage in trace.stages:
        if stage.id in ("source", "ast"):
            continue
        rows = list(_rows(trace, stage, request)) if trace.strings[stage.text] else []
        if rows:
            parts.append(f"\n{STAGE_NAMES[stage.id]}: {len(rows)} rows")
            parts += [f"  {row.strip()}" for row in rows[:12]]
            if len(rows) > 12:
                parts.append(f"  … {len(rows) - 12} more: %{stage.id} --line {number}")
    remarks = _remarks_of_line(trace, number)
    if remarks:
        parts.append("\nremarks")
        parts += [f"  {remark}" for remark in remarks]
    if len(parts) == 1:
        parts.append(f"no op came from this line; {_extent(trace)}")
    return Shown("\n".join(parts))


def _remarks_of_line(trace: Trace, number: int) -> Sequence[str]:
    found: list[str] = []
    for remark in trace.remarks:
        place = source_line(trace, remark.op) if remark.op is not None else None
        line = remark.span[1] if remark.span else place[1] if place else None
        if line == number:
            found.append(f"{remark.severity}: {remark.text}")
    return list(dict.fromkeys(found))
