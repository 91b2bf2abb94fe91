"""One value's way through the compiler: a sentence for each pass, layout, buffer and stage.

What is followed is a set of ops. A pass keeps an op, replaces it by ops that name it as origin, or
leaves it out; remarks and applied rules say why. So every row of every stage has an answer to why
it is there, and a row without an op says that it belongs to nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from workbench.questions.laid_out import layout_words, layouts_of
from workbench.questions.rows import kind_of
from workbench.source import OptionError
from workbench.trace import Layout, Pass, RowMap, StageId, Trace
from workbench.trace.answers import Route, Stop
from workbench.trace.links import Links, ops_of_rows, rows_of_ops, rows_of_text

STAGES = ("llvm", "ptx", "sass", "asm")
NAMES = {"tile": "tile IR", "gpu": "GPU IR", "llvm": "LLVM IR", "ptx": "PTX", "sass": "SASS",
         "asm": "assembly", "source": "source", "ast": "AST"}  # fmt: skip
MOST_ROWS, MOST_LAYOUTS = 4, 8
_VALUE = re.compile(r"%[\w.]+")


@dataclass(frozen=True, slots=True)
class Station:
    """One step of the way: where, what happened in a sentence, and the rows to look at."""

    where: str
    sentence: str
    stage: str | None = None
    rows: tuple[int, ...] = ()  # from 1
    texts: tuple[str, ...] = ()
    ops: tuple[int, ...] = ()
    pass_number: int | None = None
    layout: Layout | None = None
    buffer: int | None = None

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "where": self.where, "sentence": self.sentence, "stage": self.stage,
            "rows": list(self.rows), "texts": list(self.texts), "ops": list(self.ops),
        }  # fmt: skip


@dataclass(slots=True)
class Way:
    """The way of a value; `question` is what was asked."""

    question: str
    stations: list[Station] = field(default_factory=list[Station])

    def route(self) -> Route:
        """Return the way as a viewer shows it."""
        return Route(question=self.question, stops=tuple(
            Stop(
                where=station.where, sentence=station.sentence, pass_=station.pass_number,
                stage=cast("StageId | None", station.stage),
                rows=tuple(row - 1 for row in station.rows), ops=station.ops,
                layout=station.layout, buffer=station.buffer,
            )
            for station in self.stations
        ))  # fmt: skip

    @property
    def text(self) -> str:
        """The way as text: one sentence a step, a few rows below it."""
        width = max((len(station.where) for station in self.stations), default=0)
        parts = [self.question]
        for station in self.stations:
            parts.append(f"{station.where:<{width}}  {station.sentence}")
            parts += [f"{'':{width}}    {text}" for text in station.texts]
        return "\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {"question": self.question, "steps": [s.data() for s in self.stations]}

    def __repr__(self) -> str:
        return self.text


def follow(trace: Trace, what: str) -> Way:
    """Return the way of what a word names: a source line, a value's name, or `stage:row`.

    Rows count from 1. Raises OptionError K129 for what there is not.
    """
    return _Follower(trace).way(what.strip())


class _Follower:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.links = Links(trace)
        table = trace.ops
        self.names = {
            op: trace.strings[name] for op, name in zip(table.id, table.name, strict=True)
        }
        self.born = dict(zip(table.id, table.born, strict=True))
        self.parents = dict(zip(table.id, table.parents, strict=True))

    def way(self, what: str) -> Way:
        stage, colon, row = what.partition(":")
        if colon and stage in NAMES and row.isdecimal():
            return self._of_row(stage, int(row))
        if colon and stage in NAMES:
            raise OptionError(
                f"'{row}' is no row", code="K129", hint=f"rows count from 1: {stage}:12"
            )
        if colon:
            raise OptionError(
                f"there is no stage '{stage}'", code="K129", hint=f"stages: {' '.join(NAMES)}"
            )
        if what.isdecimal():
            return self._of_line(int(what))
        return self._of_value(what.lstrip("%"))

    # -- what is asked ----------------------------------------------------------------------
    def _of_row(self, stage: str, row: int) -> Way:
        text = self.trace.text(stage)
        if not text:
            there = " ".join(s.id for s in self.trace.stages if self.trace.strings[s.text])
            raise OptionError(
                f"{self.trace.kernel.name} for {self.trace.kernel.target} has no {NAMES[stage]}",
                code="K129", hint=f"stages there are: {there}",
            )  # fmt: skip
        rows = text.split("\n")
        if not 1 <= row <= len(rows):
            raise OptionError(
                f"{NAMES[stage]} has rows 1 to {len(rows)}, there is no row {row}", code="K129"
            )
        if stage == "source":
            return self._of_line(row - 1 + self.trace.sources[0].line0)
        way = Way(f"why is {stage} row {row} here: {rows[row - 1].strip()}")
        ops = self.links.ops_at(stage, [row - 1])
        if not ops:
            way.stations.append(Station(stage, self._nobodys(rows[row - 1]), stage, (row,)))
            return way
        roots = self._roots(ops)
        way.stations.append(
            Station(stage, self._because(ops, roots), stage, (row,), (), tuple(sorted(ops)))
        )
        way.stations += self._walk(roots, ops)
        return way

    def _nobodys(self, row: str) -> str:
        said = "no op stands behind this row: "
        if not re.search(r"\w", row) or re.match(r"\s*(\.|//|#|;|\}|\{)", row):
            return said + "it is notation, not an instruction"
        if re.search(r"\b(NOP|EXIT|BRA|ret|RET)\b", row):
            return said + "it ends or pads the code"
        return said + "the code generator made it, and its debug line names none"

    def _because(self, ops: Collection[int], roots: Collection[int]) -> str:
        parts: list[str] = []
        for op in sorted(ops)[:3]:
            line = self.links.line_of(op)
            where = f" of line {line[1]}" if line else ""
            born = self.born.get(op, -1)
            if born < 0:
                parts.append(f"it computes {self.names[op]}{where}")
                continue
            made = self.trace.passes[born].name
            origins = ", ".join(sorted({self.names[root] for root in roots if root in self.names}))
            came = f" from {origins}" if origins else ""
            parts.append(f"it computes {self.names[op]}{where}, which the pass {made} made{came}")
        return "; ".join(parts) + (f"; and {len(ops) - 3} more ops" if len(ops) > 3 else "")

    def _of_line(self, line: int) -> Way:
        source = self._source_of(line)
        ops = self.links.ops_of_line(source, line) if source is not None else set[int]()
        # A loop's place is its head; what is in it has places of its own.
        here = {op for op in ops if (source, line) == self.links.line_of(op)} or ops
        roots = self._plain({op for op in here if self.born.get(op, -1) < 0})
        if not roots:
            first = self.trace.sources[0]
            last = first.line0 + self.trace.strings[first.text].count("\n")
            raise OptionError(
                f"no op came from line {line}; {self.trace.kernel.name} stands in lines "
                f"{first.line0} to {last}", code="K129",
                hint="give a line of the kernel, a value's name, or STAGE:ROW such as sass:12",
            )  # fmt: skip
        way = Way(f"line {line}: {self._text_of(source or 0, line)}")
        way.stations += self._walk(roots, None)
        return way

    def _source_of(self, line: int) -> int | None:
        for number, source in enumerate(self.trace.sources):
            count = self.trace.strings[source.text].count("\n") + 1
            if source.line0 <= line < source.line0 + count:
                return number
        return None

    def _of_value(self, name: str) -> Way:
        text, rows = self._first_module()
        wanted = re.compile(rf"^\s*(?:%[\w.]+, )*%{re.escape(name)}(?:\.\d+)?(?:, %[\w.]+)* = ")
        ops = {
            op for number, row in enumerate(text.split("\n")) if wanted.match(row)
            for first, count, linked in rows if first <= number < first + count for op in linked
        }  # fmt: skip
        if not ops:
            known = dict.fromkeys(re.findall(r"%([A-Za-z_]\w*)(?:\.\d+)* =", text))
            raise OptionError(
                f"no value is called '{name}'", code="K129",
                hint=f"values: {', '.join(known)}; or give a line, or STAGE:ROW such as sass:12",
            )  # fmt: skip
        way = Way(f"the value {name}")
        way.stations += self._walk(self._plain(ops), None)
        return way

    def _plain(self, ops: set[int]) -> set[int]:
        """Leave loops and branches out where there is anything else: they hold other things."""
        control = {"tile.for", "tile.while", "tile.if", "tile.yield"}
        return {op for op in ops if self.names.get(op) not in control} or ops

    def _first_module(self) -> tuple[str, RowMap]:
        """Return the tile IR as the front end made it, as far as the trace has it."""
        for step in self.trace.passes:
            if step.before is not None:
                return self.trace.strings[step.before], self._maps.get(step.before, ())
        stage = self.trace.stage("tile")
        return self.trace.text("tile"), stage.rows if stage is not None else ()

    @cached_property
    def _maps(self) -> dict[int, RowMap]:
        return rows_of_text(self.trace)

    def _roots(self, ops: Collection[int]) -> set[int]:
        """Return the ops of the front end that ops were made from."""
        everything = set(ops)
        for op in ops:
            everything |= self.links.ancestors(op)
        return self._plain({op for op in everything if self.born.get(op, -1) < 0}) or set(ops)

    def _text_of(self, source: int, line: int) -> str:
        found = self.trace.sources[source]
        rows = self.trace.strings[found.text].split("\n")
        row = line - found.line0
        return rows[row].strip() if 0 <= row < len(rows) else ""

    # -- the way ----------------------------------------------------------------------------
    def _walk(self, roots: Collection[int], aim: Collection[int] | None) -> Iterator[Station]:
        """Yield what happened to ops; with an `aim` only what leads there."""
        wanted: set[int] | None = None
        if aim is not None:
            wanted = set(aim)
            for op in aim:
                wanted |= self.links.ancestors(op)
        current = set(roots)
        lines = sorted({line for op in roots if (line := self.links.line_of(op)) is not None})
        places = [f"line {line}: {self._text_of(source, line)}" for source, line in lines[:3]]
        kinds = self._kinds(current)
        yield Station(
            "front end", f"{_places(places)} became {kinds}", "source", ops=tuple(sorted(current))
        )
        for number, step in enumerate(self.trace.passes):
            if not step.changed:
                yield from self._remarked(number, step, current, changed=False)
                continue
            made = {op for op in step.add if current & set(self.parents.get(op, ()))}
            again = True
            while again:  # a pass may make ops of ops that it has just made
                more = {op for op in step.add if made & set(self.parents.get(op, ()))} - made
                made |= more
                again = bool(more)
            if wanted is not None:
                made &= wanted
            gone = current & set(step.del_)
            yield from self._passed(number, step, current, made, gone)
            current = (current - gone) | made
            if not current:
                return
        yield from self._layouts(current)
        yield from self._buffers(current)
        yield from self._stages(current if aim is None else set(aim))

    def _kinds(self, ops: Collection[int]) -> str:
        counts = Counter(self.names.get(op, "?") for op in ops)
        shown = [f"{n} {name}" if n > 1 else name for name, n in counts.most_common(5)]
        more = len(counts) - len(shown)
        return ", ".join(shown) + (f" and {more} other kinds" if more > 0 else "") or "nothing"

    def _passed(
        self, number: int, step: Pass, current: set[int], made: set[int], gone: set[int]
    ) -> Iterator[Station]:
        parts: list[str] = []
        rules = [r for r in step.rules if set(r.ops) & (current | made)]
        if gone and made:
            parts.append(f"replaces {self._kinds(gone)} by {self._kinds(made)}")
        elif gone:
            kept = {new for old, news in step.map if old in gone for new in news} - gone
            parts.append(f"leaves {self._kinds(gone)} out" + (
                f": {self._kinds(kept)} stands for it" if kept else ""))  # fmt: skip
        elif made:
            parts.append(f"makes {self._kinds(made)} of it")
        moved = self._moved(step, current - gone)
        parts += [moved] if moved else []
        for rule in rules:
            parts.append(f"by the rule {rule.name} ({rule.identity})")
        remarks = self._remarks(number, current | made)
        if parts or remarks:
            sentence = "; ".join(parts or ["says of it"])
            sentence += f", because: {'; '.join(remarks)}" if remarks else ""
            yield Station(
                step.name, sentence, step.pipe, ops=tuple(sorted(made or current)),
                pass_number=number,
            )  # fmt: skip

    def _remarked(
        self, number: int, step: Pass, current: set[int], *, changed: bool
    ) -> Iterator[Station]:
        del changed
        remarks = self._remarks(number, current)
        if remarks:
            yield Station(
                step.name, f"leaves it as it is: {'; '.join(remarks)}", step.pipe,
                ops=tuple(sorted(current)), pass_number=number,
            )  # fmt: skip

    def _remarks(self, number: int, ops: Collection[int]) -> list[str]:
        return list(dict.fromkeys(
            remark.text for remark in self.trace.remarks
            if remark.pass_ == number and remark.op in ops
        ))[:3]  # fmt: skip

    def _moved(self, step: Pass, ops: set[int]) -> str:
        """Say whether a pass moved ops into or out of loops: by the depth of their rows."""
        if step.before is None or step.after is None:
            return ""
        depths: list[dict[int, int]] = []
        for text in (step.before, step.after):
            rows = self.trace.strings[text].split("\n")
            known = rows_of_ops(self._maps.get(text, ()))
            depths.append({
                op: len(rows[known[op][0]]) - len(rows[known[op][0]].lstrip())
                for op in ops if known.get(op)
            })  # fmt: skip
        before, after = depths
        out = [op for op in ops if op in before and after.get(op, before[op]) < before[op]]
        into = [op for op in ops if op in before and after.get(op, before[op]) > before[op]]
        if out:
            return f"moves {self._kinds(out)} out of a loop or branch"
        return f"moves {self._kinds(into)} into a loop or branch" if into else ""

    def _layouts(self, ops: Collection[int]) -> Iterator[Station]:
        for layout, own in layouts_of(self.trace, ops)[:MOST_LAYOUTS]:
            words = layout_words(layout)
            if len(own) > 1:
                words += f", and so {'is' if len(own) == 2 else 'are'} {len(own) - 1} more"
            yield Station("layout", words, "gpu", ops=own, layout=layout)

    def _buffers(self, ops: Collection[int]) -> Iterator[Station]:
        related = set(ops) | self.links.related(ops)
        taken = set(ops) | self._used(ops)
        for number, buffer in enumerate(self.trace.shared):
            if buffer.op in taken or (
                buffer.op in related and self.names.get(buffer.op, "").startswith("gpu.")
            ):
                places = (self.links.line_of(op) for op in (buffer.from_, buffer.to))
                lines = sorted({place[1] for place in places if place is not None})
                when = (
                    f", line{'s' * (len(lines) > 1)} {' to '.join(map(str, lines))}"
                    if lines
                    else ""
                )
                yield Station(
                    "shared memory",
                    f"{buffer.bytes:,} bytes from byte {buffer.offset:,} on hold it "
                    f"({buffer.name}){when}", "gpu", ops=(buffer.op,), buffer=number,
                )  # fmt: skip
        for pipeline in self.trace.pipelines:
            together: dict[tuple[int, int], list[int]] = {}
            for op, role, stage in pipeline.ops:
                if op in ops:
                    together.setdefault((role, stage), []).append(op)
            for (role, stage), own in together.items():
                runs = "runs" if len(own) == 1 else "run"
                yield Station(
                    "pipeline", f"{self._kinds(own)} {runs} in stage {stage} of {pipeline.stages} "
                    f"by {pipeline.roles[role]}", "gpu", ops=tuple(own),
                )  # fmt: skip

    def _used(self, ops: Collection[int]) -> set[int]:
        """Return the ops of GPU IR whose results these ops take."""
        stage = self.trace.stage("gpu")
        rows = self.trace.text("gpu").split("\n")
        made: dict[str, tuple[int, ...]] = {}
        taken: set[str] = set()
        for row, own in zip(
            rows, ops_of_rows(stage.rows if stage is not None else (), len(rows)), strict=True
        ):
            results, equals, rest = row.partition(" = ")
            if equals and results.lstrip().startswith("%"):
                made |= dict.fromkeys(_VALUE.findall(results), own)
            if not set(ops).isdisjoint(own):
                taken.update(_VALUE.findall(rest))
        return {op for name in taken for op in made.get(name, ())}

    def _stages(self, ops: Collection[int]) -> Iterator[Station]:
        for name in ("tile", "gpu", *STAGES):
            stage = self.trace.stage(name)
            text = self.trace.text(name)
            if stage is None or not text:
                continue
            numbers = self.links.rows_of(name, ops)
            rows = text.split("\n")
            said = [n for n in numbers if re.search(r"\w", rows[n])]
            if not said:
                if name in STAGES and numbers == [] and stage.state == "ok":
                    yield Station(
                        name, "no row of its own: it is part of others, or was not needed"
                    )
                continue
            kinds = Counter(kind for n in said if (kind := kind_of(rows[n], name)))
            shown = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.most_common(4))
            sentence = f"{_ranges(said)}: {shown}" if shown else _ranges(said)
            yield Station(
                name, sentence, name, tuple(n + 1 for n in said),
                tuple(rows[n].strip()[:110] for n in said[:MOST_ROWS]), tuple(sorted(ops)),
            )  # fmt: skip
            registers = _registers([rows[n] for n in said]) if name == "sass" else ""
            if registers:
                yield Station(
                    "registers", f"these rows name the registers {registers}", name,
                    tuple(n + 1 for n in said), ops=tuple(sorted(ops)),
                )  # fmt: skip


def _places(places: Sequence[str]) -> str:
    return "; ".join(places) or "it"


def _ranges(rows: Sequence[int]) -> str:
    """Return rows, which count from 0, as text that counts from 1.

    >>> _ranges([0, 1, 2, 6])
    'rows 1-3, 7'
    """
    runs: list[list[int]] = []
    for row in rows:
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    words = [f"{a + 1}-{b + 1}" if b > a else str(a + 1) for a, b in runs[:6]]
    more = f", … {len(runs) - 6} more ranges" if len(runs) > 6 else ""
    return f"row{'s' * (len(rows) > 1)} {', '.join(words)}{more}"


def _registers(rows: Sequence[str]) -> str:
    """Return the range of registers that rows of SASS name."""
    found = sorted({int(n) for row in rows for n in re.findall(r"\bR(\d+)\b", row)})
    if not found:
        return ""
    return _ranges([n - 1 for n in found]).partition(" ")[2]
