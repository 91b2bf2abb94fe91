"""Write a trace while compiling, without paying for it: texts are printed when it is first read.

    build = TraceBuilder(kernel=kernel, made=made)
    tile = build.lazy_text(module, lambda: Rendered(*print_with_rows(module)))
    build.add_stage("tile", tile, "ir", milliseconds=3.1)
    build.add_pass("cse", "tile", 0.2, changed=False, before=tile, after=tile)
    build.later(lambda: [build.add_op(op.id, op.name, place(op)) for op in module.walk()])
    lazy = build.finish()          # nothing was printed yet
    lazy.trace.text("tile")        # now it was, once
    lazy.record(Launch(...))       # runs are added as they happen

The IR is immutable, so a thunk may keep it and print it later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from workbench.trace.codec import identify
from workbench.trace.lazy import LazyTrace
from workbench.trace.limits import limited
from workbench.trace.schema import (
    AppliedRule,
    Diagnostic,
    Kernel,
    Made,
    Number,
    Ops,
    Pass,
    Pipe,
    Place,
    Remark,
    RowMap,
    RowRun,
    Scalar,
    Severity,
    Source,
    Stage,
    StageId,
    StageState,
    Trace,
)

NOWHERE: Place = (-1, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text, and for each of its rows the ops it came from (missing rows: none)."""

    text: str
    rows: Sequence[Sequence[int]] = ()
    state: StageState = "ok"
    note: str | None = None


class LateRows(Sequence[Sequence[int]]):
    """The ops of a text's rows, found when somebody asks: most want the text alone."""

    def __init__(self, find: Callable[[], Sequence[Sequence[int]]]) -> None:
        self._find: Callable[[], Sequence[Sequence[int]]] | None = find
        self._rows: Sequence[Sequence[int]] = ()

    def _found(self) -> Sequence[Sequence[int]]:
        find = self._find
        if find is not None:
            self._rows = find()
            self._find = None  # it may hold texts
        return self._rows

    @overload
    def __getitem__(self, index: int) -> Sequence[int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[int]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._found()[index]

    def __iter__(self) -> Iterator[Sequence[int]]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return repr(self._found())


@dataclass(eq=False)
class LazyText:
    """A text that is produced at its first use and then kept."""

    produce: Callable[[], Rendered]
    _rendered: Rendered | None = field(default=None, init=False)

    def render(self) -> Rendered:
        """Return the text; a failing printer gives a missing text that says so, never an error.

        Looking at a program must not stop it (the failure is visible in the stage's note).
        """
        if self._rendered is None:
            try:
                self._rendered = self.produce()
                len(self._rendered.rows)  # found here, if they are found late
            except Exception as error:
                note = f"printing failed: {type(error).__name__}: {error}"
                self._rendered = Rendered("", (), "missing", note)
            del self.produce  # it may hold a whole module
        return self._rendered


Text = str | Rendered | LazyText | Callable[[], Rendered]


@dataclass(frozen=True, slots=True)
class OpChanges:
    """What a pass did to ops: added ids, removed ids, old id -> ids that replace it, counts.

    `rules` are the rewrite rules that it applied.
    """

    add: Sequence[int] = ()
    remove: Sequence[int] = ()
    map: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    stats: Mapping[str, Number] = field(default_factory=dict[str, Number])
    rules: Sequence[AppliedRule] = ()


def row_runs(rows: Sequence[Sequence[int]]) -> RowMap:
    """Return the runs of a list that holds the op ids of each row.

    >>> row_runs([(), (3,), (3,), (4, 3)])
    ((1, 2, (3,)), (3, 1, (4, 3)))
    """
    runs: list[RowRun] = []
    for row, ops in enumerate(rows):
        if not ops:
            continue
        if runs and runs[-1][2] == tuple(ops) and runs[-1][0] + runs[-1][1] == row:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, runs[-1][2])
        else:
            runs.append((row, 1, tuple(ops)))
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class _PlannedStage:
    id: StageId
    text: LazyText
    lang: str
    milliseconds: float | None


@dataclass(frozen=True, slots=True)
class _PlannedPass:
    name: str
    pipe: Pipe
    milliseconds: float
    changed: bool
    before: LazyText | None
    after: LazyText | None
    changes: Callable[[], OpChanges]


class TraceBuilder:
    """Collects what a compilation leaves behind; `finish` gives the trace, still unprinted."""

    def __init__(self, *, kernel: Kernel, made: Made) -> None:
        self.kernel = kernel
        self.made = made
        self._strings: dict[str, int] = {}
        self._sources: list[Source] = []
        self._stages: dict[StageId, _PlannedStage] = {}
        self._passes: list[_PlannedPass] = []
        self._texts: dict[int, tuple[object, LazyText]] = {}
        self._ops: dict[int, tuple[int, Place, tuple[int, ...], int, Any]] = {}
        self._later: list[Callable[[], object]] = []
        self._fields: dict[str, Any] = {}
        self._remarks: list[Remark] = []
        self._errors: list[Diagnostic] = []

    def intern(self, text: str) -> int:
        """Return the index of a text in the string table, adding it if it is new."""
        return self._strings.setdefault(text, len(self._strings))

    def add_source(self, file: str, text: str, line0: int = 1, role: Any = "entry") -> int:
        """Add a source text; returns its index, which places of ops begin with."""
        source = Source(file=file, line0=line0, text=self.intern(text.rstrip("\n")), role=role)
        if source not in self._sources:
            self._sources.append(source)
        return self._sources.index(source)

    def lazy_text(self, key: object, produce: Callable[[], Rendered]) -> LazyText:
        """Return the text of `key` (a module), the same object whenever `key` is the same."""
        if id(key) not in self._texts:
            self._texts[id(key)] = (key, LazyText(produce))
        return self._texts[id(key)][1]

    def add_stage(
        self,
        id: StageId,  # noqa: A002 - the schema's word
        text: Text,
        lang: str,
        rows: Sequence[Sequence[int]] = (),
        *,
        state: StageState = "ok",
        note: str | None = None,
        milliseconds: float | None = None,
    ) -> None:
        """Add a stage, or replace it; `rows` gives the op ids of each row of a plain text."""
        if isinstance(text, str):
            text = Rendered(text, rows, state, note)
        self._stages[id] = _PlannedStage(id, _lazy(text), lang, milliseconds)

    def add_pass(
        self,
        name: str,
        pipe: Pipe,
        milliseconds: float,
        *,
        changed: bool,
        before: Text | None = None,
        after: Text | None = None,
        changes: OpChanges | Callable[[], OpChanges] | None = None,
    ) -> int:
        """Add a pass; returns its index (what `born` and remarks refer to)."""
        match changes:
            case None:
                produce: Callable[[], OpChanges] = OpChanges
            case OpChanges():
                produce = lambda: changes  # noqa: E731
            case _:
                produce = changes
        texts = tuple(None if text is None else _lazy(text) for text in (before, after))
        self._passes.append(
            _PlannedPass(name, pipe, milliseconds, changed, texts[0], texts[1], produce)
        )
        return len(self._passes) - 1

    def add_op(
        self,
        id: int,  # noqa: A002 - the schema's word
        name: str,
        place: Place = NOWHERE,
        *,
        parents: Iterable[int] = (),
        born: int = -1,
        calls: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Add an op to the op table; the first entry for an id stays."""
        if id not in self._ops:
            self._ops[id] = (self.intern(name), place, tuple(parents), born, tuple(calls))

    def add_remark(
        self,
        code: str,
        severity: Severity,
        text: str,
        *,
        pass_: int | None = None,
        op: int | None = None,
        span: Place | None = None,
        **args: Scalar,
    ) -> None:
        """Add a remark on an op or a place."""
        self._remarks.append(
            Remark(
                code=code, severity=severity, text=text, pass_=pass_, op=op, span=span, args=args
            )
        )

    def add_error(self, error: Diagnostic) -> None:
        """Add an error of the compilation."""
        self._errors.append(error)

    def set(self, **fields: Any) -> None:
        """Set whole keys of the trace: layouts, shared, pipelines, access, resources, runs.

        A callable is called when the trace is first read.
        """
        self._fields.update(fields)

    def later(self, action: Callable[[], object]) -> None:
        """Do `action` (calls of this builder) when the trace is first read."""
        self._later.append(action)

    def finish(self) -> LazyTrace:
        """Return the trace; nothing is printed before it is read."""
        return LazyTrace(self._build)

    def _build(self) -> Trace:
        while self._later:
            self._later.pop(0)()
        stages = tuple(self._stage(plan) for plan in self._stages.values())
        passes = self._build_passes(stages)
        ops = sorted(self._ops.items())
        fields: dict[str, Any] = {
            name: value() if callable(value) else value for name, value in self._fields.items()
        }
        trace = Trace(
            made=self.made,
            kernel=self.kernel,
            strings=(),
            sources=tuple(self._sources),
            stages=stages,
            ops=Ops(
                id=tuple(op for op, _ in ops),
                name=tuple(row[0] for _, row in ops),
                loc=tuple(row[1] for _, row in ops),
                parents=tuple(row[2] for _, row in ops),
                born=tuple(row[3] for _, row in ops),
                calls=tuple(row[4] for _, row in ops),
            ),
            passes=passes,
            remarks=(*fields.pop("remarks", ()), *self._remarks),
            errors=(*fields.pop("errors", ()), *self._errors),
            **fields,
        )
        trace = dataclasses.replace(trace, strings=tuple(self._strings))
        return identify(limited(trace))

    def _stage(self, plan: _PlannedStage) -> Stage:
        text, rows, rendered = self._print(plan.text)
        return Stage(
            id=plan.id,
            text=text,
            lang=plan.lang,
            rows=rows,
            state=rendered.state,
            note=rendered.note,
            milliseconds=plan.milliseconds,
        )

    def _build_passes(self, stages: Sequence[Stage]) -> tuple[Pass, ...]:
        known = {stage.text for stage in stages}  # texts whose row map stands somewhere already
        passes: list[Pass] = []
        for plan in self._passes:
            sides: dict[str, Any] = {}
            for side, key in (("before", "before_rows"), ("after", "rows")):
                planned: LazyText | None = getattr(plan, side)
                if planned is None:
                    continue
                sides[side], rows, _ = self._print(planned)
                if sides[side] not in known:
                    known.add(sides[side])
                    sides[key] = rows
            changes = plan.changes()
            passes.append(
                Pass(
                    name=plan.name,
                    pipe=plan.pipe,
                    milliseconds=plan.milliseconds,
                    changed=plan.changed,
                    add=tuple(changes.add),
                    del_=tuple(changes.remove),
                    map=tuple((old, tuple(new)) for old, new in sorted(changes.map.items())),
                    stats=dict(changes.stats),
                    rules=tuple(changes.rules),
                    **sides,
                )
            )
        return tuple(passes)

    def _print(self, text: LazyText) -> tuple[int, RowMap, Rendered]:
        rendered = text.render()
        body = rendered.text.rstrip("\n")
        rows = rendered.rows[: body.count("\n") + 1]
        return self.intern(body), row_runs(rows), rendered


def _lazy(text: Text) -> LazyText:
    if isinstance(text, LazyText):
        return text
    if isinstance(text, (str, Rendered)):
        rendered = Rendered(text) if isinstance(text, str) else text
        return LazyText(lambda: rendered)
    return LazyText(text)
