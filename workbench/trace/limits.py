"""Bounds that hold for every trace, and dropping texts that nothing refers to.

A text has at most 8 MB, a pipeline at most 64 passes with text (then only changing ones keep
theirs; what passes did to ops always stays), 200,000 ops, 64 layouts, 4,096 accesses recorded per
op. `trimming` goes below these bounds where an output has to be small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from workbench.trace.links import rows_of_text
from workbench.trace.schema import MemoryAccess, Ops, Pass, RowMap, Stage, Trace

TEXT_CHARACTERS = 8_000_000
PASSES_WITH_TEXT = 64
OPS = 200_000
ACCESSES = 4_096
LAYOUTS = 64


def limited(trace: Trace) -> Trace:
    """Return the trace within the limits; a trace within them comes back unchanged."""
    trace = _limit_passes(trace)
    if any(len(text) > TEXT_CHARACTERS for text in trace.strings):
        trace = shorten_texts(trace, TEXT_CHARACTERS)
    if len(trace.ops.id) > OPS:
        columns = {field.name: getattr(trace.ops, field.name)[:OPS] for field in fields(Ops)}
        trace = replace(trace, ops=Ops(**columns))
    if len(trace.layouts) > LAYOUTS:
        trace = replace(trace, layouts=trace.layouts[:LAYOUTS])
    if any(len(entry.addr) > ACCESSES for entry in trace.access):
        trace = replace(trace, access=tuple(map(_first_accesses, trace.access)))
    return compact(trace)


def _first_accesses(entry: MemoryAccess) -> MemoryAccess:
    if len(entry.addr) <= ACCESSES:
        return entry
    # A picture of a part must not call an element untouched: it has to know that it is a part.
    return replace(entry, addr=entry.addr[:ACCESSES], accesses=len(entry.addr))


def shorten_texts(trace: Trace, most: int) -> Trace:
    """Return the trace with the first rows of each text, `most` characters of them."""
    strings = tuple(_cut(text, most) for text in trace.strings)
    counts = [text.count("\n") + 1 for text in strings]

    def cut(rows: RowMap | None, text: int | None) -> RowMap | None:
        return rows if rows is None or text is None else first_rows(rows, counts[text])

    passes = tuple(
        replace(
            step, rows=cut(step.rows, step.after), before_rows=cut(step.before_rows, step.before)
        )
        for step in trace.passes
    )
    stages = tuple(
        stage
        if len(strings[stage.text]) == len(trace.strings[stage.text])
        else cut_rows(stage, stage.text, counts[stage.text])
        for stage in trace.stages
    )
    return replace(trace, strings=strings, passes=passes, stages=stages)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[: max(0, text.rfind("\n", 0, most))]


def first_rows(rows: RowMap, count: int) -> RowMap:
    """Return the part of a row map that is about the first `count` rows."""
    return tuple((row, min(length, count - row), ops) for row, length, ops in rows if row < count)


def cut_rows(stage: Stage, text: int, count: int) -> Stage:
    """Return the stage showing `text`, the first `count` rows of what it had."""
    note = f"first {count:,} rows; the rest was left out to save space"
    rows = first_rows(stage.rows, count)
    return replace(stage, text=text, rows=rows, state="partial", note=note)


def _limit_passes(trace: Trace) -> Trace:
    kept: set[int] = set(range(len(trace.passes)))
    for pipe in ("tile", "gpu", "llvm"):
        mine = [i for i in kept if trace.passes[i].pipe == pipe]
        if len(mine) > PASSES_WITH_TEXT:
            changing = [i for i in sorted(mine) if trace.passes[i].changed]
            kept -= set(mine) - set(changing[:PASSES_WITH_TEXT])
    return keep_pass_texts(trace, kept)


def keep_pass_texts(trace: Trace, kept: Collection[int]) -> Trace:
    """Return the trace in which only the passes with these indices keep their texts.

    A row map that stood at a dropped pass moves to a kept one with the same text.
    """
    if len(kept) == len(trace.passes):
        return trace
    everything = rows_of_text(trace)
    known = {stage.text for stage in trace.stages}
    passes: list[Pass] = []
    for index, step in enumerate(trace.passes):
        changes: dict[str, Any] = {"rows": None, "before_rows": None}
        if index not in kept:
            changes |= {"before": None, "after": None}
        else:
            for side, key in (("before", "before_rows"), ("after", "rows")):
                text = getattr(step, side)
                if text is not None and text not in known:
                    known.add(text)
                    changes[key] = everything.get(text)
        passes.append(replace(step, **changes))
    return compact(replace(trace, passes=tuple(passes)))


def compact(trace: Trace) -> Trace:
    """Return the trace without strings that nothing refers to, and each string once."""
    used = sorted(set(_used(trace)))
    table: dict[str, int] = {}
    new: dict[int, int] = {}
    for old in used:
        new[old] = table.setdefault(trace.strings[old], len(table))
    if len(table) == len(trace.strings):
        return trace

    def moved(record: Any, *keys: str) -> Any:
        return replace(record, **{key: new.get(getattr(record, key)) for key in keys})

    return replace(
        trace,
        strings=tuple(table),
        sources=tuple(moved(source, "text") for source in trace.sources),
        stages=tuple(moved(stage, "text") for stage in trace.stages),
        passes=tuple(moved(step, "before", "after") for step in trace.passes),
        ops=replace(trace.ops, name=tuple([new[old] for old in trace.ops.name])),
    )


def _used(trace: Trace) -> Iterable[int]:
    yield from (source.text for source in trace.sources)
    yield from (stage.text for stage in trace.stages)
    yield from trace.ops.name
    for step in trace.passes:
        yield from (text for text in (step.before, step.after) if text is not None)
