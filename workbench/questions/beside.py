"""Two traces beside each other: the whole comparison as a viewer shows it.

`comparing.py` says what differs, line by line; here every op and every row gets its other side.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from workbench.questions.comparing import Difference, line_pairs
from workbench.questions.facing import Row, face, plain_row
from workbench.questions.pairing import pair_ops
from workbench.questions.rows import Line, kind_of, lines_of_rows
from workbench.trace import STAGE_IDS, StageId, Trace
from workbench.trace.answers import Comparison, FacingStage
from workbench.trace.links import ops_of_rows

#: Above this many rows of a side a stage is shown without facing rows.
MOST_ROWS = 100_000
#: Quantities that the sentence about a comparison names.
TOLD = ("registers", "instructions", "shared_bytes")
NAMES = {"tile": "tile IR", "gpu": "GPU IR", "llvm": "LLVM IR", "ptx": "PTX", "sass": "SASS",
         "asm": "assembly", "source": "source"}  # fmt: skip


def beside(a: Trace, b: Trace, difference: Difference) -> Comparison:
    """Return two traces beside each other; `difference` is theirs."""
    partners: dict[Line, Line] = {None: None}
    partners |= {mine: theirs for mine, theirs, _ in line_pairs(a, b)}
    ops = pair_ops(a, b, partners)
    stages: list[FacingStage] = []
    notes = list(difference.only)
    for stage in STAGE_IDS:
        if stage == "ast" or not (a.text(stage) and b.text(stage)):
            continue
        longest = max(side.text(stage).count("\n") for side in (a, b))
        if longest > MOST_ROWS:
            notes.append(f"{stage} has {longest:,} rows: which ones face each other is not shown")
            continue
        rows = _rows_of(a, b, stage, ops, partners)
        stages.append(FacingStage(id=stage, rows=face(*rows)))
    return Comparison(
        labels=difference.labels, said=_said(difference, stages),
        options=tuple(difference.options), quantities=tuple(difference.quantities),
        timings=tuple(difference.timings), ops=tuple(sorted(ops.items())), stages=tuple(stages),
        notes=tuple(notes),
    )  # fmt: skip


def _said(difference: Difference, stages: Sequence[FacingStage]) -> str:
    """Return in a sentence what B is beside A."""
    parts: list[str] = []
    if difference.timings:
        last = difference.timings[-1]
        noise = f" ({last.low:.3g} to {last.high:.3g})" if last.low != last.high else ""
        parts.append({
            "faster": f"B is {last.speed:.3g} times as fast as A{noise} at {last.what}",
            "slower": f"B is {1 / last.speed:.3g} times as slow as A at {last.what}",
            "same": f"A and B take the same time within noise at {last.what}",
        }[last.verdict])  # fmt: skip
    equal = [stage.id for stage in stages if all(kind == "same" for kind, *_ in stage.rows)]
    if stages and len(equal) == len(stages):
        parts.append("A and B say the same in every stage")
    elif stages and stages[-1].id in equal:
        parts.append(f"the {NAMES.get(stages[-1].id, stages[-1].id)} is the same")
    parts += [
        f"{each.title} {each.a:,} to {each.b:,}" for each in difference.resources
        if each.name in TOLD and each.a is not None and each.b is not None
    ]  # fmt: skip
    return "; ".join(parts)


def _rows_of(
    a: Trace, b: Trace, stage: StageId, ops: Mapping[int, int], partners: Mapping[Line, Line]
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a stage of both sides; ops and lines are those of A where it has them."""
    back = {theirs: mine for mine, theirs in ops.items()}
    lines_back = {theirs: mine for mine, theirs in partners.items()}
    if stage == "source":
        return (
            _of_source(a, lambda line: line if line in partners else ("A", line)),
            _of_source(b, lambda line: lines_back.get(line, ("B", line))),
        )
    return (
        _of_stage(a, stage, {op: op if op in ops else ("A", op) for op in a.ops.id}, partners, {}),
        _of_stage(b, stage, {op: back.get(op, ("B", op)) for op in b.ops.id}, {}, lines_back),
    )


def _of_source(trace: Trace, numbered: object) -> list[Row]:
    assert callable(numbered)
    entry = next((n for n, s in enumerate(trace.sources) if s.role == "entry"), 0)
    first = trace.sources[entry].line0 if trace.sources else 1
    return [
        Row(frozenset({numbered((entry, first + row))}), None, "", text.strip())
        for row, text in enumerate(trace.text("source").split("\n"))
    ]


def _of_stage(
    trace: Trace, stage: StageId, known: Mapping[int, Hashable], partners: Mapping[Line, Line],
    back: Mapping[Line, Line],
) -> list[Row]:  # fmt: skip
    texts = trace.text(stage).split("\n")
    found = trace.stage(stage)
    rows = ops_of_rows(found.rows if found is not None else (), len(texts))
    layouts = _layouts(texts) if stage == "gpu" else {}
    made: list[Row] = []
    for text, row_ops, line in zip(texts, rows, lines_of_rows(trace, stage), strict=True):
        own: Hashable = None
        if line is not None:
            own = (line if line in partners else ("A", line)) if partners else (
                back.get(line, ("B", line))
            )  # fmt: skip
        plain = plain_row(text, stage, layouts)
        made.append(
            Row(frozenset(known.get(op, op) for op in row_ops), own, kind_of(text, stage), plain)
        )
    return made


def _layouts(texts: Sequence[str]) -> dict[str, str]:
    """Return what each name of a layout stands for, of the lines that say so."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, meaning = text.strip().partition(" = ")
        if equals and name.startswith("#"):
            found[name] = meaning
    return found
