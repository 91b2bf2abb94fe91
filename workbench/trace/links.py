"""Links between stages: which rows came from which ops, in both directions.

All links are ids that travelled there (see `Stage.rows`); nothing is matched by text. A fused or
split op is related to its origins through `Ops.parents`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import compress

from workbench.trace.schema import RowMap, Trace


def ops_of_rows(rows: RowMap, count: int) -> list[tuple[int, ...]]:
    """Return for each of `count` rows the ops that it came from."""
    found: list[tuple[int, ...]] = [()] * count
    for first, length, ops in rows:
        found[first : first + length] = [ops] * length
    return found


def rows_of_ops(rows: RowMap) -> dict[int, list[int]]:
    """Return for each op its rows, ascending."""
    found: dict[int, list[int]] = defaultdict(list)
    for first, length, ops in rows:
        for op in ops:
            found[op] += range(first, first + length)
    return dict(found)


def rows_of_text(trace: Trace) -> dict[int, RowMap]:
    """Return the row map of each text (by string index) that a stage or pass has one for."""
    sides = [(step.before, step.before_rows) for step in trace.passes]
    sides += [(step.after, step.rows) for step in trace.passes]
    maps = {text: rows for text, rows in sides if text is not None and rows is not None}
    return maps | {stage.text: stage.rows for stage in trace.stages}


def coverage(trace: Trace) -> dict[str, tuple[int, int]]:
    """Return for each stage how many of its rows have an op, and how many rows it has.

    Rows that nothing computes are not counted: blank lines, lone braces, comments, labels,
    directives and data of assemblers, and what pads code behind its end.
    """
    counts: dict[str, tuple[int, int]] = {}
    for stage in trace.stages:
        counted = _counted(trace.strings[stage.text], stage.id in _MACHINE)
        said = list(compress(ops_of_rows(stage.rows, len(counted)), counted))
        counts[stage.id] = (sum(map(bool, said)), len(said))
    return counts


#: Stages of rows of which each is one instruction, or something beside them.
_MACHINE = ("llvm", "ptx", "sass", "asm")
#: What begins a row that is no instruction: a comment, a directive, metadata of LLVM; a label.
_BESIDE = re.compile(r"//|[#;.!]|attributes\b|declare\b|target\b|source_filename\b|[\w$.]+:( |$)")
#: The address before an instruction of a listing, and what fills the rest of a block of code.
_ADDRESS, _PADDING = re.compile(r"\s*/\*\w+\*/"), re.compile(r"(nop|int3)", re.IGNORECASE)
_JUMP = re.compile(r"BRA `\((.+)\)")


def _counted(text: str, machine: bool) -> bytes:
    """Return for each row whether it counts; an output is written from one trace several times.

    What is remembered of a text is its digest, and a byte a row.
    """
    key = sha256(text.encode(errors="surrogatepass")).digest(), machine
    found = _known.get(key)
    if found is None:
        lines = text.split("\n")
        counts = _computes if machine else _says
        found = bytes(counts(lines, row) for row in range(len(lines)))
        for oldest in list(_known)[: max(0, len(_known) - _MOST_KNOWN + 1)]:
            _known.pop(oldest, None)
        _known[key] = found
    return found


_known: dict[tuple[bytes, bool], bytes] = {}
_MOST_KNOWN = 32


#: A letter or a digit, as `isalnum` says of one.
_LETTER = re.compile(r"[^\W_]")


def _says(lines: Sequence[str], row: int) -> bool:
    return _LETTER.search(lines[row]) is not None


def _computes(lines: Sequence[str], row: int) -> bool:
    line = _ADDRESS.sub("", lines[row]).strip()
    if not _says(lines, row) or not line or _BESIDE.match(line):
        return False
    jump = _JUMP.match(line)
    endless = jump is not None and row > 0 and lines[row - 1].strip() == f"{jump[1]}:"
    return not endless and _PADDING.match(line) is None


@dataclass(frozen=True)
class Links:
    """The links of one trace, inverted once."""

    trace: Trace

    @cached_property
    def _rows(self) -> dict[str, dict[int, list[int]]]:
        return {stage.id: rows_of_ops(stage.rows) for stage in self.trace.stages}

    @cached_property
    def _parents(self) -> dict[int, tuple[int, ...]]:
        return dict(zip(self.trace.ops.id, self.trace.ops.parents, strict=True))

    @cached_property
    def _children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = defaultdict(list)
        for op, parents in self._parents.items():
            for parent in parents:
                children[parent].append(op)
        return dict(children)

    def ops_at(self, stage: str, rows: Iterable[int]) -> set[int]:
        """Return the ops that any of these rows of a stage came from."""
        wanted = set(rows)
        found = self.trace.stage(stage)
        return {
            op
            for first, count, ops in (found.rows if found is not None else ())
            if not wanted.isdisjoint(range(first, first + count))
            for op in ops
        }

    def rows_of(self, stage: str, ops: Collection[int]) -> list[int]:
        """Return the rows of a stage that came from any of these ops, ascending."""
        rows = self._rows.get(stage, {})
        return sorted({row for op in ops for row in rows.get(op, ())})

    def ancestors(self, op: int) -> set[int]:
        """Return the ops that `op` was made from, directly or not, without itself."""
        return _reach(op, lambda each: self._parents.get(each, ()))

    def descendants(self, op: int) -> set[int]:
        """Return the ops that were made from `op`, directly or not, without itself."""
        return _reach(op, lambda each: self._children.get(each, ()))

    def related(self, ops: Collection[int]) -> set[int]:
        """Return the ancestors and descendants of these ops, without the ops."""
        found: set[int] = set()
        for op in ops:
            found |= self.ancestors(op) | self.descendants(op)
        return found - set(ops)

    def line_of(self, op: int) -> tuple[int, int] | None:
        """Return (source, line) of an op, None if it has no place."""
        places = dict(zip(self.trace.ops.id, self.trace.ops.loc, strict=True))
        place = places.get(op)
        return None if place is None or place[0] < 0 else place[:2]

    def ops_of_line(self, source: int, line: int) -> set[int]:
        """Return the ops that came from a source line, also through a call on that line."""
        table = self.trace.ops
        found: set[int] = set()
        for op, place, calls in zip(table.id, table.loc, table.calls, strict=True):
            if (place[0] == source and place[1] <= line <= place[3]) or (source, line) in calls:
                found.add(op)
        return found


def _reach(start: int, neighbours: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    todo = list(neighbours(start))
    while todo:
        op = todo.pop()
        if op not in found and op != start:
            found.add(op)
            todo += neighbours(op)
    return found


def problems(trace: Trace) -> list[str]:
    """Return what is wrong inside a trace: indices out of range, rows that overlap, unknown ops.

    An empty list is the law that every finished trace obeys.
    """
    return [*_table_problems(trace), *_text_problems(trace), *_op_problems(trace)]


def _table_problems(trace: Trace) -> Iterator[str]:
    ops = trace.ops
    lengths = {len(column) for column in (ops.id, ops.name, ops.loc, ops.parents, ops.born)}
    if lengths | {len(ops.calls)} != {len(ops.id)}:
        yield "ops: columns differ in length"
    if list(ops.id) != sorted(set(ops.id)) or any(op < 1 for op in ops.id):
        yield "ops: ids are not ascending from 1"
    for place in ops.loc:
        if not -1 <= place[0] < len(trace.sources):
            yield f"ops: source {place[0]} does not exist"
    for born in ops.born:
        if not -1 <= born < len(trace.passes):
            yield f"ops: pass {born} does not exist"


def _text_problems(trace: Trace) -> Iterator[str]:
    count = len(trace.strings)
    if len(set(trace.strings)) != count:
        yield "strings: a text stands twice"
    texts: list[tuple[str, int | None, RowMap | None]] = [
        (f"stage {stage.id}", stage.text, stage.rows) for stage in trace.stages
    ]
    for step in trace.passes:
        texts.append((f"pass {step.name}", step.before, step.before_rows))
        texts.append((f"pass {step.name}", step.after, step.rows))
    texts += [(f"source {source.file}", source.text, None) for source in trace.sources]
    texts += [("ops", name, None) for name in trace.ops.name]
    for name, text, rows in texts:
        if text is None:
            continue
        if not 0 <= text < count:
            yield f"{name}: string {text} does not exist"
        elif rows is not None:
            yield from _row_problems(name, rows, trace.strings[text].count("\n") + 1)


def _row_problems(name: str, rows: RowMap, count: int) -> Iterator[str]:
    free = 0
    for first, length, _ in rows:
        if first < free or length < 1 or first + length > count:
            yield f"{name}: rows {first} to {first + length - 1} overlap or exceed {count} rows"
        free = first + length


def _op_problems(trace: Trace) -> Iterator[str]:
    known = set(trace.ops.id)
    used: set[int] = {op for parents in trace.ops.parents for op in parents}
    for stage in trace.stages:
        used.update(*(ops for _, _, ops in stage.rows))
    used |= {entry.op for entry in (*trace.access, *trace.layouts, *trace.shared)}
    used.update(*(layout.ops for layout in trace.layouts))
    used |= {entry.op for entry in (*trace.remarks, *trace.errors) if entry.op is not None}
    used.update(*(rule.ops for step in trace.passes for rule in step.rules))
    if unknown := sorted(used - known):
        yield f"ops {unknown[:5]} are used but not in the op table"
