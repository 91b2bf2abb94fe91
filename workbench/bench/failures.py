"""Errors of launches, checks and benchmarks as data of a trace, so that every reader shows them."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.source import KernelError, Note, Span
from workbench.source.errors import callers
from workbench.source.files import shown_file, shown_text
from workbench.trace import Diagnostic, DiagnosticNote, Trace
from workbench.trace.schema import Place


def diagnostics(trace: Trace, error: KernelError) -> Iterator[Diagnostic]:
    """Yield an error and those beside it as plain data; places are those in the trace's sources.

    A place in a text that the trace does not hold, such as the option line, is named in a note.
    """
    for one in (error, *error.others):
        notes = [_note(trace, note) for note in (*callers(one), *one.notes)]
        place = _place(trace, one.span)
        if place is None and one.span is not None:
            notes.insert(0, DiagnosticNote(text=shown_text(f"at {one.span}")))
        yield Diagnostic(
            code=one.code,
            severity="error",
            text=shown_text(one.message),
            span=place,
            notes=tuple(notes),
            help=one.hint and shown_text(one.hint),
        )


def _note(trace: Trace, note: Note) -> DiagnosticNote:
    place = _place(trace, note.span)
    where = f" ({note.span})" if place is None and note.span is not None else ""
    return DiagnosticNote(text=shown_text(f"{note.text}{where}"), span=place)


def _place(trace: Trace, span: Span | None) -> Place | None:
    if span is None:
        return None
    for index, source in enumerate(trace.sources):
        last = source.line0 + trace.strings[source.text].count("\n")
        if source.file == shown_file(span.file) and source.line0 <= span.line <= last:
            return (index, span.line, span.column, span.end_line, span.end_column)
    return None
