"""What a run leaves behind: accesses, findings, printed text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from workbench.source import Note, Span

Severity = Literal["error", "remark"]


class Access(NamedTuple):
    """One lane of one load, store or atomic.

    `program` counts program instances with axis 0 fastest, `lane` the elements of the tile in
    row-major order, `element` the elements of the argument from its first one. A lane that is off
    (`live` is false) touched nothing; it names where it would have gone, if that is inside an
    argument, else `argument` is "" and `element` -1.
    """

    op: int
    program: int
    lane: int
    argument: str
    element: int
    live: bool
    write: bool


class Race(NamedTuple):
    """Two programs touched an element, one of them to write it, and nothing orders the two.

    `op` is the later access, `first_op` the earlier one; `same`: a write left the value as it was.
    """

    op: int
    argument: str
    element: int
    first_program: int
    second_program: int
    first_op: int
    same: bool


class Finding(NamedTuple):
    """Something that a run should not do, found because it was watched.

    `kind` is "race", "acquire", "uninitialised", "promise", "assumption", "doubled", "grouping"
    or "outside"; `program` are the coordinates of the program that did it. A "remark" need not
    be a mistake.
    """

    kind: str
    op: int
    span: Span | None
    program: tuple[int, ...]
    message: str
    severity: Severity = "error"
    notes: tuple[Note, ...] = ()
    hint: str | None = None


@dataclass(slots=True)
class Recording:
    """Accesses (where recording was asked for), findings (where watching was), printed lines.

    `races` are those of the findings, element by element. `truncated` says that accesses were left
    out because there were too many.
    """

    accesses: list[Access] = field(default_factory=list[Access])
    races: list[Race] = field(default_factory=list[Race])
    findings: list[Finding] = field(default_factory=list[Finding])
    output: list[str] = field(default_factory=list[str])
    truncated: bool = False
