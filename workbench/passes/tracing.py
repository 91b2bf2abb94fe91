"""Tells a Trace what the passes did: op table, passes with their texts, remarks, errors.

Nothing is printed or compared here before the trace is first read: the IR is immutable, so the
builder keeps the modules and asks for texts later.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ir import Module, Op, print_rows
from workbench.passes.manager import PassRecord, Recorder, Remark
from workbench.passes.rules import Rule
from workbench.source import KernelError, Span
from workbench.source.errors import callers
from workbench.source.files import shown_file, shown_text
from workbench.trace import (
    AppliedRule,
    Diagnostic,
    DiagnosticNote,
    OpChanges,
    Rendered,
    StageId,
    TraceBuilder,
)
from workbench.trace.schema import Place

NOWHERE: Place = (-1, 0, 0, 0, 0)


def render_module(module: Module) -> Rendered:
    """Return the text form of a module with the op of each row."""
    rows = print_rows(module)
    return Rendered("\n".join(text for text, _ in rows), [(op,) if op else () for _, op in rows])


class Places:
    """Turns spans into places: the index of a known source text, and line and columns in it."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._files: dict[str, list[tuple[int, int, int]]] = {}

    def add(self, file: str, text: str, line0: int, role: str) -> None:
        """Make a source text known; spans in its lines get places."""
        index = self._builder.add_source(shown_file(file), text, line0, role)
        last = line0 + text.rstrip("\n").count("\n")
        self._files.setdefault(file, []).append((line0, last, index))

    def source(self, span: Span) -> int:
        """Return the index of the source that holds a span, -1 if none is known."""
        for first, last, index in self._files.get(span.file, ()):
            if first <= span.line <= last:
                return index
        return -1

    def place(self, span: Span | None) -> Place:
        """Return the place of a span, nowhere if its text is not known."""
        if span is None or (source := self.source(span)) < 0:
            return NOWHERE
        return (source, span.line, span.column, span.end_line, span.end_column)

    def calls(self, span: Span | None) -> tuple[tuple[int, int], ...]:
        """Return the chain of call sites of an inlined span as (source, line)."""
        if span is None:
            return ()
        found = ((self.source(call), call.line) for call in span.calls)
        return tuple(call for call in found if call[0] >= 0)


def add_passes(builder: TraceBuilder, recorder: Recorder) -> None:
    """Add every pass that ran; op changes are counted when the trace is read."""
    for record in recorder.passes:
        before = builder.lazy_text(record.before, lambda m=record.before: render_module(m))
        after = builder.lazy_text(record.after, lambda m=record.after: render_module(m))
        builder.add_pass(
            record.name,
            record.pipe,
            round(record.milliseconds, 3),
            changed=record.changed,
            before=before,
            after=after,
            changes=lambda record=record: _changes(record),
        )


def _changes(record: PassRecord) -> OpChanges:
    if not record.changed:
        return OpChanges()
    before = {op.id for op in record.before.walk()}
    after = {op.id: op for op in record.after.walk()}
    new = [op for number, op in after.items() if number not in before]
    replaced: dict[int, list[int]] = {}
    for op in new:
        for origin in op.origins:
            if origin in before and origin not in after:
                replaced.setdefault(origin, []).append(op.id)
    gone = sorted(before - after.keys())
    return OpChanges(
        add=sorted(op.id for op in new),
        remove=gone,
        map={old: tuple(sorted(ids)) for old, ids in sorted(replaced.items())},
        stats={"ops": len(after), "added": len(new), "removed": len(gone)},
        rules=_applied(record),
    )


def _applied(record: PassRecord) -> list[AppliedRule]:
    """Return the rules that a pass applied, most used first, with the ops of its input."""
    ops: dict[Rule, list[int]] = {}
    for rule, op in record.rules:
        ops.setdefault(rule, []).append(op)
    return [
        AppliedRule(name=rule.name, identity=rule.identity, ops=tuple(places))
        for rule, places in sorted(ops.items(), key=lambda item: (-len(item[1]), item[0].name))
    ]


def add_ops(
    builder: TraceBuilder, places: Places, first: Module | None, recorder: Recorder
) -> None:
    """Enter every op that ever existed, with the pass that made it."""

    def enter(ops: Iterable[Op], born: int) -> None:
        for op in ops:
            builder.add_op(
                op.id,
                op.name,
                places.place(op.span),
                parents=op.origins,
                born=born,
                calls=places.calls(op.span),
            )

    if first is not None:
        enter(first.walk(), -1)
    for index, record in enumerate(recorder.passes):
        if record.changed:
            enter(record.after.walk(), index)


def add_remarks(builder: TraceBuilder, places: Places, recorder: Recorder) -> None:
    """Add what the front end and the passes had to say."""
    index = {record.name: number for number, record in enumerate(recorder.passes)}
    for remark in recorder.remarks.items:
        _add_remark(builder, places, remark, index.get(remark.pass_name))


def _add_remark(
    builder: TraceBuilder, places: Places, remark: Remark, pass_index: int | None
) -> None:
    place = places.place(remark.span)
    builder.add_remark(
        remark.code,
        remark.severity,
        shown_text(remark.text),
        pass_=pass_index,
        op=remark.op or None,
        span=None if place == NOWHERE else place,
    )


def diagnostic(error: KernelError, places: Places, until: StageId | None) -> Diagnostic:
    """Return an error as plain data; `until` names the last stage that exists."""
    notes = tuple(
        DiagnosticNote(text=shown_text(note.text), span=_known(places.place(note.span)))
        for note in (*callers(error), *error.notes)
    )
    return Diagnostic(
        code=error.code,
        severity="error",
        text=shown_text(error.message),
        span=_known(places.place(error.span)),
        notes=notes,
        help=error.hint and shown_text(error.hint),
        trace_until=until,
    )


def _known(place: Place) -> Place | None:
    return None if place == NOWHERE else place
