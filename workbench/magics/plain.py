"""What `--json` prints, of every magic and every command: one object of plain data.

    {"ok": true, "kernel": "add", "target": "sm_90a", …}     and a list by its name: "passes", …
    {"ok": false, "errors": [{"code", "message", "span", "notes", "help"}]}     the command line's

Things have the names and units that they have in a Trace (`trace/schema.py`): lines of the source
and ops are numbers, sizes end in their unit. `ok` is false where a check failed, too. Numbers that
JSON does not have are the words "nan", "inf" and "-inf". Errors of magics are text.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from workbench.bench.results import KernelResult
from workbench.magics.texts import Shown, places_of, rules_of
from workbench.source import OptionError
from workbench.trace import Pass, StageId, Trace, to_data
from workbench.trace.links import ops_of_rows


def plain(*, ok: bool = True, **data: Any) -> Shown:
    """Return plain data, or what a Trace is made of, as `--json` prints it."""
    found: Any = to_data(data)
    return Shown(json.dumps({"ok": ok, **found}, indent=1, default=str), "json")


def heading(trace: Trace) -> dict[str, Any]:
    """Return whose an answer is: the kernel, its target, what it was compiled for."""
    return {"kernel": trace.kernel.name, "target": trace.kernel.target, "spec": trace.kernel.spec}


def stage_data(
    trace: Trace, name: StageId, lines: tuple[int, int] | None, line: int | None
) -> Shown:
    """Return the rows of a stage, each with its source line and the ops that it came from."""
    stage = trace.stage(name)
    if stage is None or not trace.text(name):
        known = [s.id for s in trace.stages if trace.text(s.id)]
        raise OptionError(
            f"{trace.kernel.name} for {trace.kernel.target} has no {name}", code="K129",
            hint=(stage and stage.note) or f"stages there are: {' '.join(known)}",
        )  # fmt: skip
    texts = trace.text(name).split("\n")
    first, last = lines or (1, len(texts))
    places, ops = places_of(trace, stage, len(texts)), ops_of_rows(stage.rows, len(texts))
    rows = [
        {"row": number, "text": text, "line": place[1] if place else None, "ops": list(own)}
        for number, (text, place, own) in enumerate(zip(texts, places, ops, strict=True), 1)
        if first <= number <= last and (line is None or (place is not None and place[1] == line))
    ]
    return plain(**heading(trace), stage=name, state=stage.state, rows=rows)


def passes_data(trace: Trace, which: str | None, *, everything: bool, grep: str | None) -> Shown:
    """Return the passes of a compilation, or one by name or number with its difference."""
    found = [
        _pass(trace, number, step, whole=which is not None)
        for number, step in enumerate(trace.passes)
        if (which in (step.name, str(number)))
        or (which is None and (everything or step.changed) and re.search(grep or "", step.name))
    ]
    if which is not None and not found:
        names = ", ".join(dict.fromkeys(step.name for step in trace.passes))
        raise OptionError(f"no pass '{which}'; passes: {names}", code="K129")
    return plain(**heading(trace), passes=found)


def _pass(trace: Trace, number: int, step: Pass, *, whole: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "number": number, "name": step.name, "pipe": step.pipe, "milliseconds": step.milliseconds,
        "changed": step.changed, "added": len(step.add), "removed": len(step.del_),
        "rules": [
            {"name": rule.name, "identity": rule.identity, "times": len(rule.ops), "lines": lines}
            for rule, lines in rules_of(trace, step)
        ],
    }  # fmt: skip
    if whole and step.before is not None and step.after is not None:
        before, after = (trace.strings[text].split("\n") for text in (step.before, step.after))
        found["diff"] = "\n".join(
            difflib.unified_diff(before, after, "before", "after", lineterm="")
        )
    return found


def result_data(result: KernelResult) -> Shown:
    """Return what came of compiling and running a kernel: resources, checks, times, remarks."""
    checks = [check for trace in result.traces for check in trace.runs.checks]
    compiled = [
        {**heading(trace), "resources": trace.resources, "launches": trace.runs.launches,
         "skipped": trace.runs.skipped}
        for trace in result.traces
    ]  # fmt: skip
    tunes = [tune for trace in result.traces for tune in trace.runs.tunes]
    return plain(
        ok=result.error is None and all(check.ok for check in checks),
        kernel=result.name, compiled=compiled, checks=checks, benches=list(result.bench),
        tunes=tunes, problems=list(result.problems),
    )  # fmt: skip
