r"""What differs between two traces: options, resources, and what each source line became.

Lines of two versions of a source are paired first, where their texts are the same or stand in the
same place; then every stage is compared line by line, by how often each kind of row stands there.
Rows belong to lines through op ids, never through their texts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from typing import Any

from workbench.questions.live import live_by_row
from workbench.trace import Trace
from workbench.trace.links import ops_of_rows

STAGES = ("tile", "gpu", "llvm", "ptx", "sass", "asm")
#: Lines and kinds of rows that a text shows of one stage.
MOST_LINES, MOST_KINDS = 8, 5
RESOURCES = {
    "registers": "registers", "shared_bytes": "bytes of shared memory",
    "spill_store_bytes": "bytes of spill stores", "spill_load_bytes": "bytes of spill loads",
    "stack_bytes": "bytes of stack", "barriers": "barriers", "code_bytes": "bytes of code",
}  # fmt: skip

#: A line of a source: (source, line) in either trace; None stands for rows of nobody.
Line = tuple[int, int] | None
#: Stands for the line of a side that has none like it.
NOWHERE = (-1, -1)


@dataclass(slots=True)
class LineChange:
    """How one stage's rows of a line differ: counts in A and B, and kinds of rows by difference."""

    line: int | None
    other_line: int | None
    before: int
    after: int
    kinds: dict[str, int]

    @property
    def where(self) -> str:
        """The line, or both where they differ."""
        if self.line is None and self.other_line is None:
            return "rows of no line"
        if self.line == self.other_line:
            return f"line {self.line}"
        return f"line {self.line or '-'} -> {self.other_line or '-'}"

    def text(self) -> str:
        """Return it as text: "line 28: 12 -> 20 rows: +8 ld.global"."""
        kinds = sorted(self.kinds.items(), key=lambda each: -abs(each[1]))
        shown = ", ".join(f"{count:+d} {kind}" for kind, count in kinds[:MOST_KINDS])
        more = f", … {len(kinds) - MOST_KINDS} more" if len(kinds) > MOST_KINDS else ""
        return f"{self.where}: {self.before} -> {self.after} rows: {shown}{more}"


@dataclass(slots=True)
class Difference:
    """What differs between trace A and trace B.

    `options` are (name, value in A, value in B); `resources` the same with a sentence that says
    which lines it comes from; `stages` hold the changed lines of each stage that both have.
    """

    labels: tuple[str, str]
    options: list[tuple[str, Any, Any]] = field(default_factory=list[tuple[str, Any, Any]])
    resources: list[tuple[str, Any, Any, str]] = field(
        default_factory=list[tuple[str, Any, Any, str]]
    )
    source: list[str] = field(default_factory=list[str])
    stages: dict[str, list[LineChange]] = field(default_factory=dict[str, list[LineChange]])
    only: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The difference as text; every side says which it is."""
        parts = [f"A: {self.labels[0]}", f"B: {self.labels[1]}"]
        if self.options:
            parts += ["", "options"]
            parts += [f"  {name}: A {_word(a)}, B {_word(b)}" for name, a, b in self.options]
        if self.resources:
            parts += ["", "resources"]
            for name, one, other, why in self.resources:
                change = f" ({other - one:+,})" if one is not None and other is not None else ""
                words = RESOURCES.get(name, name)
                parts.append(f"  {words}: A {_word(one)}, B {_word(other)}{change}")
                parts += [f"    {why}"] if why else []
        if self.source:
            parts += ["", "source", *(f"  {row}" for row in self.source)]
        for stage, changes in self.stages.items():
            if not changes:
                parts += ["", f"{stage}: the same rows at every line"]
                continue
            count = f"{len(changes)} lines differ" if len(changes) != 1 else "one line differs"
            parts += ["", f"{stage}: {count}"]
            parts += [f"  {change.text()}" for change in changes[:MOST_LINES]]
            if len(changes) > MOST_LINES:
                parts.append(f"  … {len(changes) - MOST_LINES} more: --stage {stage}")
        parts += [f"note: {words}" for words in self.only]
        return "\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "labels": list(self.labels),
            "options": [{"name": n, "a": a, "b": b} for n, a, b in self.options],
            "resources": [{"name": n, "a": a, "b": b, "lines": w} for n, a, b, w in self.resources],
            "source": self.source,
            "stages": {
                stage: [
                    {"line_a": c.line, "line_b": c.other_line, "rows_a": c.before,
                     "rows_b": c.after, "kinds": c.kinds} for c in changes
                ] for stage, changes in self.stages.items()
            },
            "notes": self.only,
        }  # fmt: skip

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def _word(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if type(value) is int else str(value)


def difference(
    a: Trace, b: Trace, labels: tuple[str, str], live: Sequence[int | None] = (None, None)
) -> Difference:
    """Return what differs between two traces.

    `live` says of each side how many registers nvdisasm counts where most are live, if it did.
    """
    return _Comparing(a, b, labels, live).difference()


def label(trace: Trace) -> str:
    """Return what a side is called: kernel, target, specialisation."""
    return " ".join(filter(None, (trace.kernel.name, trace.kernel.target, trace.kernel.spec)))


def stage_diff(a: Trace, b: Trace, stage: str, labels: tuple[str, str]) -> str:
    """Return the whole diff of one stage's texts, its sides labelled."""
    one, other = (trace.text(stage).split("\n") for trace in (a, b))
    rows = unified_diff(one, other, f"A: {labels[0]}", f"B: {labels[1]}", lineterm="")
    return "\n".join(rows) or f"{stage}: A and B are the same"


class _Comparing:
    def __init__(
        self, a: Trace, b: Trace, labels: tuple[str, str], live: Sequence[int | None]
    ) -> None:
        self.a, self.b, self.live = a, b, live
        self.found = Difference(labels)
        #: A line of A -> the line of B that it has become.
        self.partners: dict[Line, Line] = {None: None, **dict(self._pairs())}
        self.back = {theirs: mine for mine, theirs in self.partners.items()}

    def difference(self) -> Difference:
        self._options()
        for stage in STAGES:
            one, other = self.a.text(stage), self.b.text(stage)
            if one and other:
                self.found.stages[stage] = self._stage(stage)
            elif one or other:
                side = self.found.labels[0 if one else 1]
                self.found.only.append(f"only {'A' if one else 'B'} ({side}) has {stage}")
        self._resources()
        return self.found

    def _pairs(self) -> Iterator[tuple[Line, Line]]:
        """Yield the lines of A with those of B."""
        rows: list[str] = []
        for number, (one, other) in enumerate(zip(self.a.sources, self.b.sources, strict=False)):
            texts = [trace.strings[source.text].split("\n") for trace, source in
                     ((self.a, one), (self.b, other))]  # fmt: skip
            stripped = [[line.strip() for line in text] for text in texts]
            matcher = SequenceMatcher(None, stripped[0], stripped[1], autojunk=False)
            for tag, i, i_end, j, j_end in matcher.get_opcodes():
                for place in range(min(i_end - i, j_end - j)):
                    yield (number, one.line0 + i + place), (number, other.line0 + j + place)
                if tag != "equal":
                    mine = [(one.line0 + n, texts[0][n]) for n in range(i, i_end)]
                    theirs = [(other.line0 + n, texts[1][n]) for n in range(j, j_end)]
                    rows += [f"A {line:>4} - {text.strip()}" for line, text in mine]
                    rows += [f"B {line:>4} + {text.strip()}" for line, text in theirs]
        self.found.source = [row for row in rows if row[9:].strip()]

    def _options(self) -> None:
        one, other = self.a.kernel, self.b.kernel
        found = [("target", one.target, other.target)] if one.target != other.target else []
        names = dict.fromkeys([*one.options, *other.options])
        pairs = [(n, one.options.get(n), other.options.get(n)) for n in names if n != "target"]
        mine, theirs = ({p.name: p for p in kernel.params} for kernel in (one, other))
        for name in dict.fromkeys([*mine, *theirs]):
            a, b = mine.get(name), theirs.get(name)
            pairs.append((name, _parameter(a), _parameter(b)))
        found += [pair for pair in pairs if pair[1] != pair[2]]
        self.found.options = found

    # -- stages -----------------------------------------------------------------------------
    def _stage(self, stage: str) -> list[LineChange]:
        one, other = (_kinds_by_line(trace, stage) for trace in (self.a, self.b))
        changes: list[LineChange] = []
        for mine, theirs in self._both(one, other):
            before = Counter[str]() if mine == NOWHERE else one.get(mine, Counter())
            after = Counter[str]() if theirs == NOWHERE else other.get(theirs, Counter())
            names = sorted({*before, *after})
            kinds = {name: after[name] - before[name] for name in names}
            kinds = {name: count for name, count in kinds.items() if count}
            if kinds:
                a, b = (_number(line) for line in (mine, theirs))
                changes.append(LineChange(a, b, before.total(), after.total(), kinds))
        changes.sort(key=lambda change: -sum(map(abs, change.kinds.values())))
        return changes

    def _both(self, one: Collection[Line], other: Collection[Line]) -> list[tuple[Line, Line]]:
        """Return the lines of either side with their partners, `NOWHERE` for what has none."""
        pairs = [(mine, self.partners.get(mine, NOWHERE)) for mine in one]
        pairs += [(self.back.get(theirs, NOWHERE), theirs) for theirs in other]
        return list(dict.fromkeys(pairs))

    # -- resources ----------------------------------------------------------------------------
    def _resources(self) -> None:
        one, other = self.a.resources, self.b.resources
        for name in RESOURCES:
            a, b = getattr(one, name), getattr(other, name)
            if a == b:
                continue
            why = self._registers() if name == "registers" else self._code(name)
            self.found.resources.append((name, a, b, why))
        a, b = (None if r.occupancy is None else r.occupancy.warps for r in (one, other))
        if a != b:
            self.found.resources.append(("warps of a multiprocessor", a, b, ""))

    def _registers(self) -> str:
        """Say which lines' values hold the registers that one side has more of."""
        one, other = (_live_by_line(trace) for trace in (self.a, self.b))
        if not one or not other:
            return "no SASS on both sides, so nobody knows which lines hold them"
        if [one.total(), other.total()] != list(self.live):
            # What rows say of registers is not all that lives: a wrong line is worse than none.
            return "which lines hold them cannot be told from the rows"
        return self._most(one, other, "registers are live where most are")

    def _code(self, name: str) -> str:
        if name == "shared_bytes":
            return self._shared()
        if name != "code_bytes":
            return ""
        stage = next((s for s in ("sass", "asm") if self.found.stages.get(s)), None)
        if stage is None:
            return ""
        changes = [
            (change.after - change.before, change.where) for change in self.found.stages[stage]
        ]
        return _told(changes, f"rows of {stage}")

    def _shared(self) -> str:
        one, other = (_shared_by_line(trace) for trace in (self.a, self.b))
        return self._most(one, other, "bytes of buffers")

    def _most(self, one: Counter[Line], other: Counter[Line], words: str) -> str:
        changes = [
            (other[theirs] - one[mine], _named(mine, theirs))
            for mine, theirs in self._both(one, other)
        ]
        return _told(changes, words)


def _parameter(found: Any) -> Any:
    if found is None:
        return None
    if found.role == "constexpr":
        return found.value
    return f"{found.type}{f' divisible by {found.align}' if found.align else ''}"


def _number(line: Line) -> int | None:
    return None if line is None or line == NOWHERE else line[1]


def _named(mine: Line, theirs: Line) -> str:
    if mine is None or theirs is None:
        return "no line"
    if NOWHERE in (mine, theirs):
        return f"line {theirs[1]} (B only)" if mine == NOWHERE else f"line {mine[1]} (A only)"
    return f"line {mine[1]}" + ("" if mine[1] == theirs[1] else f" -> {theirs[1]}")


def _told(changes: list[tuple[int, str]], words: str) -> str:
    told = sorted((c for c in changes if c[0]), key=lambda change: -abs(change[0]))
    if not told:
        return ""
    shown = "; ".join(f"{count:+,}: {where}" for count, where in told[:4])
    more = f"; … {len(told) - 4} more lines" if len(told) > 4 else ""
    return f"{words}: {shown}{more}"


def _line_of_ops(trace: Trace) -> dict[int, Line]:
    return {
        op: (place[0], place[1]) if place[0] >= 0 else None
        for op, place in zip(trace.ops.id, trace.ops.loc, strict=True)
    }


def lines_of_rows(trace: Trace, stage: str) -> list[Line]:
    """Return the source line of each row of a stage: that of its first op that has one."""
    found = trace.stage(stage)
    if found is None:
        return []
    count = trace.strings[found.text].count("\n") + 1
    known = _line_of_ops(trace)
    return [
        next((known[op] for op in ops if known.get(op) is not None), None)
        for ops in ops_of_rows(found.rows, count)
    ]


def _kinds_by_line(trace: Trace, stage: str) -> dict[Line, Counter[str]]:
    found: dict[Line, Counter[str]] = defaultdict(Counter)
    rows = trace.text(stage).split("\n")
    for row, line in zip(rows, lines_of_rows(trace, stage), strict=True):
        kind = kind_of(row, stage)
        if kind:
            found[line][kind] += 1
    return dict(found)


def kind_of(row: str, stage: str) -> str:
    """Return what kind of row a row is, "" for one that says nothing of a program.

    >>> kind_of("  %3 = tile.load %0 mask %1 : tile<4xf32>", "tile")
    'tile.load'
    >>> kind_of("  ld.global.v4.b32 {%r1, %r2}, [%rd1];", "ptx"), kind_of("@%p1 bra $L1;", "ptx")
    ('ld.global.v4.b32', 'bra')
    >>> kind_of("        /*0010*/  @!P0 LDG.E R2, [R4.64] ;", "sass")
    'LDG.E'
    """
    if stage in ("tile", "gpu"):
        found = re.search(r"(?:^\s*|= )((?:tile|gpu)\.[\w.]+)", row)
        return found[1] if found else ""
    if stage == "llvm":
        found = re.match(r"\s+(?:%\S+ = )?(?:tail )?([a-z]+)", row)
        return found[1] if found else ""
    row = re.sub(r"/\*.*?\*/", "", row).strip()
    row = re.sub(r"(?i)^\{?\s*@!?%?u?p\w+\s+", "", row)
    found = re.match(r"([A-Za-z][\w.:]*)(?![\w.]*:)", row)
    if not found or row.startswith((".", "//", "#")) or row.rstrip().endswith(":"):
        return ""
    return found[1]


def _live_by_line(trace: Trace) -> Counter[Line]:
    """Return how many registers each line's values hold at the row of SASS where most are live."""
    text = trace.text("sass")
    if not text:
        return Counter()
    rows = text.split("\n")
    live = live_by_row(rows)
    fullest = max(range(len(rows)), key=lambda row: len(live[row]), default=0)
    lines = lines_of_rows(trace, "sass")
    return Counter(lines[row] for row in live[fullest].values()) if rows else Counter()


def _shared_by_line(trace: Trace) -> Counter[Line]:
    known = _line_of_ops(trace)
    found: Counter[Line] = Counter()
    for buffer in trace.shared:
        found[known.get(buffer.op)] += buffer.bytes
    return found
