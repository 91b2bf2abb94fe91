"""What a run leaves behind: accesses, races between programs, printed text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.source import Span


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
    """Two programs wrote the same element without an atomic; `op` made the second write."""

    op: int
    argument: str
    element: int
    first_program: int
    second_program: int


class Finding(NamedTuple):
    """Something that a run should not do, found because it was watched.

    `kind` is "race", "uninitialised", "promise" or "assumption"; `program` are the coordinates of
    the program that did it.
    """

    kind: str
    op: int
    span: Span | None
    program: tuple[int, ...]
    message: str


@dataclass(slots=True)
class Recording:
    """Accesses and races (only where recording was asked for) and what the kernel printed.

    `truncated` says that accesses were left out because there were too many.
    """

    accesses: list[Access] = field(default_factory=list[Access])
    races: list[Race] = field(default_factory=list[Race])
    findings: list[Finding] = field(default_factory=list[Finding])
    output: list[str] = field(default_factory=list[str])
    truncated: bool = False
