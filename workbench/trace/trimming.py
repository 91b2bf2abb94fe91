"""Making a trace smaller for a notebook: what is dropped first, and saying what was.

The order keeps what readers use longest: LLVM's own pass texts go first, then all pass texts but
the first and last (what passes did to ops stays), the text of the AST, LLVM text beyond 2,000
rows, and the hexadecimal encodings in SASS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from workbench.trace.limits import compact, cut_rows, keep_pass_texts
from workbench.trace.schema import Stage, StageId, Trace

LLVM_ROWS = 2_000
ENCODING = re.compile(r"\s*/\* 0x[0-9a-f]{16} \*/[ \t]*$", re.MULTILINE)


def trim(trace: Trace, fits: Callable[[Trace], bool]) -> tuple[Trace, tuple[str, ...]]:
    """Return the trace, trimmed step by step until `fits` holds or nothing is left to drop.

    The second value names what was dropped, in order.
    """
    dropped: list[str] = []
    for name, step in TRIMS:
        if fits(trace):
            break
        smaller = step(trace)
        if smaller != trace:
            trace = smaller
            dropped.append(name)
    return trace, tuple(dropped)


def _drop_llvm_passes(trace: Trace) -> Trace:
    kept = {i for i, step in enumerate(trace.passes) if step.pipe != "llvm"}
    return keep_pass_texts(trace, kept)


def _drop_inner_passes(trace: Trace) -> Trace:
    return keep_pass_texts(trace, {0, len(trace.passes) - 1} & set(range(len(trace.passes))))


def _drop_ast(trace: Trace) -> Trace:
    note = "left out to save space"

    def dropped(stage: Stage, text: int) -> Stage:
        return replace(stage, text=text, rows=(), state="missing", note=note)

    return _replace_text(trace, "ast", "", dropped)


def _cut_llvm(trace: Trace) -> Trace:
    lines = trace.text("llvm").split("\n")
    if len(lines) <= LLVM_ROWS:
        return trace
    text = "\n".join(lines[:LLVM_ROWS])
    return _replace_text(trace, "llvm", text, lambda stage, at: cut_rows(stage, at, LLVM_ROWS))


def _drop_encodings(trace: Trace) -> Trace:
    text = ENCODING.sub("", trace.text("sass"))
    return _replace_text(trace, "sass", text, lambda stage, at: replace(stage, text=at))


def _replace_text(
    trace: Trace, name: StageId, text: str, change: Callable[[Stage, int], Stage]
) -> Trace:
    if trace.text(name) == text:
        return trace
    stages = tuple(
        change(stage, len(trace.strings)) if stage.id == name else stage for stage in trace.stages
    )
    return compact(replace(trace, strings=(*trace.strings, text), stages=stages))


#: What is dropped, in this order: (name that the output shows, what does it).
TRIMS: tuple[tuple[str, Callable[[Trace], Trace]], ...] = (
    ("texts of LLVM passes", _drop_llvm_passes),
    ("texts of inner passes", _drop_inner_passes),
    ("AST", _drop_ast),
    (f"LLVM IR beyond {LLVM_ROWS:,} rows", _cut_llvm),
    ("SASS encodings", _drop_encodings),
)
