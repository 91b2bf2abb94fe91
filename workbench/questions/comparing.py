r"""What differs between two traces: options, resources, and what each source line became.

Lines of two versions of a source are paired first, where their texts are the same or stand in the
same place; then every stage is compared line by line, by how often each kind of row stands there.
Rows belong to lines through op ids, never through their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from typing import Any

from workbench.questions.rows import (
    Line,
    kinds_by_line,
    live_by_line,
    rows_by_line,
    shared_by_line,
)
from workbench.questions.timed import timings
from workbench.trace import Trace, to_data
from workbench.trace.answers import Contrast, Quantity, Share, Timing

STAGES = ("tile", "gpu", "llvm", "ptx", "sass", "asm")
#: Lines and kinds of rows that a text shows of one stage, lines of one number.
MOST_LINES, MOST_KINDS, MOST_SHARES = 8, 5, 4
#: Name in the trace -> (what it is called, its unit).
RESOURCES = {
    "registers": ("registers", "a thread"), "spill_store_bytes": ("spill stores", "bytes"),
    "spill_load_bytes": ("spill loads", "bytes"), "stack_bytes": ("stack", "bytes"),
    "shared_bytes": ("shared memory", "bytes"), "barriers": ("barriers", ""),
    "code_bytes": ("code", "bytes"),
}  # fmt: skip
#: What stands in a row of SASS that spills, and that loads what was spilled.
SPILLS = {"spill_store_bytes": "STL", "spill_load_bytes": "LDL"}
#: Stages of instructions; the first that both sides have is counted.
CODE = {"sass": "SASS", "asm": "assembly", "ptx": "PTX"}

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

    `quantities` are numbers that either has, those that are equal too, each with the lines that a
    difference comes from; `timings` are what was measured of both; `stages` hold the changed lines
    of each stage that both have, `alike` names those whose text is the same.
    """

    labels: tuple[str, str]
    options: list[Contrast] = field(default_factory=list[Contrast])
    quantities: list[Quantity] = field(default_factory=list[Quantity])
    timings: list[Timing] = field(default_factory=list[Timing])
    source: list[str] = field(default_factory=list[str])
    stages: dict[str, list[LineChange]] = field(default_factory=dict[str, list[LineChange]])
    alike: list[str] = field(default_factory=list[str])
    only: list[str] = field(default_factory=list[str])

    @property
    def is_nothing(self) -> bool:
        """Whether both sides were made alike, to the letter; times may differ."""
        found = [*self.options, *self.resources, *self.source, *self.only]
        return not found and len(self.alike) == len(self.stages)

    @property
    def resources(self) -> list[Quantity]:
        """The quantities that differ."""
        return [each for each in self.quantities if each.a != each.b]

    @property
    def text(self) -> str:
        """The difference as text; every side says which it is."""
        parts = [f"A: {self.labels[0]}", f"B: {self.labels[1]}"]
        parts += ["", "time", *(f"  {timed_words(each)}" for each in self.timings)] * bool(
            self.timings
        )
        if self.is_nothing:
            return "\n".join([*parts, "", f"the same: options, resources, {', '.join(self.alike)}"])
        if self.options:
            parts += ["", "options"]
            parts += [f"  {each.name}: A {word(each.a)}, B {word(each.b)}" for each in self.options]
        if self.resources:
            parts += ["", "resources"]
            for each in self.resources:
                title = f"{each.title} ({each.unit})" if each.unit else each.title
                parts.append(f"  {title}: A {word(each.a)}, B {word(each.b)}{change_of(each)}")
                why = shares_words(each)
                parts += [f"    {why}"] if why else []
        if self.source:
            parts += ["", "source", *(f"  {row}" for row in self.source)]
        for stage, changes in self.stages.items():
            if not changes:
                same = (
                    "the same"
                    if stage in self.alike
                    else "the same ops at every line, other values"
                )
                parts += ["", f"{stage}: {same}"]
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
            "options": [{"name": each.name, "a": each.a, "b": each.b} for each in self.options],
            "resources": [
                {"name": each.name, "a": each.a, "b": each.b, "lines": shares_words(each),
                 "shares": [to_data(share) for share in each.shares]} for each in self.resources
            ],
            "timings": [to_data(each) for each in self.timings],
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


def word(value: Any) -> str:
    """Return a number or a value of an option as text; None is what a side does not have."""
    return "-" if value is None else f"{value:,}" if type(value) is int else str(value)


def change_of(each: Quantity) -> str:
    """Return by how much B has more, " (+41)"; nothing where a side has no number."""
    return f" ({each.b - each.a:+,})" if each.a is not None and each.b is not None else ""


def shares_words(each: Quantity) -> str:
    """Return which lines a difference comes from, or why that is not known."""
    if not each.shares:
        return each.of
    shown = "; ".join(f"{share.amount:+,}: {share.words}" for share in each.shares[:MOST_SHARES])
    more = len(each.shares) - MOST_SHARES
    return f"{each.of}: {shown}" + (f"; … {more} more lines" if more > 0 else "")


def timed_words(each: Timing) -> str:
    """Return a time of both sides as text."""
    a, b = (f"{side[1]:.3g} ms" for side in (each.a, each.b))
    noise = f" ({each.low:.3g} to {each.high:.3g})" if each.low != each.high else ""
    said = {"faster": "B is faster", "slower": "B is slower", "same": "the same within noise"}
    return f"{each.what}: A {a}, B {b}; {each.speed:.3g}×{noise}: {said[each.verdict]}"


def difference(
    a: Trace,
    b: Trace,
    labels: tuple[str, str],
    live: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Difference:
    """Return what differs between two traces.

    `live` are for each side the addresses of the instructions that wrote the registers live where
    most are (`live.py`); empty where nobody knows.
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
        self,
        a: Trace,
        b: Trace,
        labels: tuple[str, str],
        live: tuple[Sequence[int], Sequence[int]],
    ) -> None:
        self.a, self.b, self.live = a, b, live
        self.found = Difference(labels)
        #: A line of A -> the line of B that it has become.
        self.partners: dict[Line, Line] = {None: None}
        self.partners |= {mine: theirs for mine, theirs, _ in line_pairs(a, b)}
        self.back = {theirs: mine for mine, theirs in self.partners.items()}

    def difference(self) -> Difference:
        self._source()
        self._options()
        for stage in STAGES:
            one, other = self.a.text(stage), self.b.text(stage)
            if one and other:
                self.found.stages[stage] = self._stage(stage)
                if one == other:
                    self.found.alike.append(stage)
            elif one or other:
                side = self.found.labels[0 if one else 1]
                self.found.only.append(f"only {'A' if one else 'B'} ({side}) has {stage}")
        self._resources()
        self.found.timings = list(timings(self.a, self.b))
        return self.found

    def _source(self) -> None:
        """Note the lines that one side alone has, or that say something else."""
        same_a = {mine for mine, _, same in line_pairs(self.a, self.b) if same}
        same_b = {theirs for _, theirs, same in line_pairs(self.a, self.b) if same}
        for number, sides in enumerate(zip(self.a.sources, self.b.sources, strict=False)):
            rows: list[tuple[int, int, str]] = []
            for sign, trace, source, same in zip(
                "-+", (self.a, self.b), sides, (same_a, same_b), strict=True
            ):
                for line, text in enumerate(trace.strings[source.text].split("\n"), source.line0):
                    if (number, line) not in same and text.strip():
                        near = line if sign == "-" else self._near(number, line)
                        side = "A" if sign == "-" else "B"
                        rows.append((near, sign == "+", f"{side} {line:>4} {sign} {text.strip()}"))
            self.found.source += [row for *_, row in sorted(rows, key=lambda row: row[:2])]

    def _near(self, source: int, line: int) -> int:
        """Return the line of A that stands where a line of B does."""
        while line > 0:
            mine = self.back.get((source, line))
            if mine is not None:
                return mine[1]
            line -= 1
        return 0

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
        self.found.options = [Contrast(name=name, a=a, b=b) for name, a, b in found]

    # -- stages -----------------------------------------------------------------------------
    def _stage(self, stage: str) -> list[LineChange]:
        one, other = (kinds_by_line(trace, stage) for trace in (self.a, self.b))
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
        for name, (title, unit) in RESOURCES.items():
            a, b = getattr(one, name), getattr(other, name)
            if name == "shared_bytes":
                dynamic = (one.dynamic_shared_bytes, other.dynamic_shared_bytes)
                a, b = (None if n is None else n + (more or 0) for n, more in
                        zip((a, b), dynamic, strict=True))  # fmt: skip
            if a is None and b is None:
                continue
            known = a is not None and b is not None and a != b
            of, shares = self._shares(name) if known else ("", [])
            self.found.quantities.append(Quantity(
                name=name, title=title, unit=unit, a=a, b=b, better="less", of=of,
                shares=tuple(shares),
            ))  # fmt: skip
        self._instructions()
        a, b = (None if r.occupancy is None else r.occupancy.warps for r in (one, other))
        if a is not None or b is not None:
            self.found.quantities.append(Quantity(
                name="occupancy", title="occupancy", unit="warps a multiprocessor", a=a, b=b,
                better="more",
            ))  # fmt: skip

    def _instructions(self) -> None:
        """Count instructions, of the code that both sides have."""
        stage = next((s for s in CODE if self.a.text(s) and self.b.text(s)), None)
        if stage is None:
            return
        one, other = (kinds_by_line(trace, stage) for trace in (self.a, self.b))
        a, b = (sum(kinds.total() for kinds in side.values()) for side in (one, other))
        shares = self._lines(
            Counter({line: kinds.total() for line, kinds in one.items()}),
            Counter({line: kinds.total() for line, kinds in other.items()}),
        )
        self.found.quantities.append(Quantity(
            name="instructions", title="instructions", unit=CODE[stage], a=a, b=b, better="less",
            of=f"instructions of {CODE[stage]}", shares=tuple(shares) if a != b else (),
        ))  # fmt: skip

    def _shares(self, name: str) -> tuple[str, list[Share]]:
        """Return what lines hold of a resource: what is counted, or why nobody knows; the lines."""
        if name == "registers":
            return self._registers()
        if name == "shared_bytes":
            return "bytes of buffers", self._lines(*map(shared_by_line, (self.a, self.b)))
        if name in SPILLS:
            mnemonic = SPILLS[name]
            sides = [rows_by_line(trace, "sass", mnemonic) for trace in (self.a, self.b)]
            return f"rows of {mnemonic}", self._lines(*sides)
        return "", []

    def _registers(self) -> tuple[str, list[Share]]:
        """Say which lines' instructions wrote the registers that one side has more of."""
        one, other = self.live
        if not (one and other):
            return "which lines hold them is known only of code that is at hand", []
        sides = [live_by_line(trace, side) for trace, side in
                 ((self.a, one), (self.b, other))]  # fmt: skip
        return "registers are live where most are", self._lines(*sides)

    def _lines(self, one: Counter[Line], other: Counter[Line]) -> list[Share]:
        """Return how much more B has at each line, the largest first."""
        shares: list[Share] = []
        for mine, theirs in self._both(one, other):
            amount = other[theirs] - one[mine]
            if amount:
                a, b = (None if line == NOWHERE else line for line in (mine, theirs))
                shares.append(Share(amount=amount, words=_named(mine, theirs), a=a, b=b))
        return sorted(shares, key=lambda share: -abs(share.amount))


def line_pairs(a: Trace, b: Trace) -> list[tuple[tuple[int, int], tuple[int, int], bool]]:
    """Return the lines of A with those of B that they have become, and whether they say the same.

    Lines of the same text are each other's; between those, lines of the same place.
    """
    found: list[tuple[tuple[int, int], tuple[int, int], bool]] = []
    for number, (one, other) in enumerate(zip(a.sources, b.sources, strict=False)):
        texts = [trace.strings[source.text].split("\n") for trace, source in
                 ((a, one), (b, other))]  # fmt: skip
        stripped = [[line.strip() for line in text] for text in texts]
        matcher = SequenceMatcher(None, stripped[0], stripped[1], autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            for place in range(min(i_end - i, j_end - j)):
                mine, theirs = one.line0 + i + place, other.line0 + j + place
                found.append(((number, mine), (number, theirs), tag == "equal"))
    return found


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
