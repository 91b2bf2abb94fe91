r"""What is asked of traces, as plain data that a viewer shows beside them.

An answer stands under its name beside "traces" in what an output, a page or a file holds
(`packing`). Rows count from 0, as in `schema`; lines of a source are (source, line). A viewer
takes all of it for data of strangers: rows and ops that its traces do not have are left out.

| name    | answer       | traces |
|---------|--------------|--------|
| compare | `Comparison` | A and B, in this order |
| follow  | `Route`      | the one that was asked |
| step    | `Walk`       | of the compilation whose program was run |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.trace.schema import Layout, Number, Scalar, StageId

Spot: TypeAlias = tuple[int, int]  # (source, line)
Facing: TypeAlias = Literal["same", "changed", "removed", "added", "moved-from", "moved-to"]
# (kind, first row of A, first row of B, count); -1: a side has no row here. Where a row has moved,
# the other number is the row that it has become, or was.
FacingRun: TypeAlias = tuple[Facing, int, int, int]
Spread: TypeAlias = tuple[float, float, float]  # milliseconds: 20 %, 50 %, 80 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """An option or a parameter that differs; None where a side does not have it."""

    name: str
    a: Scalar = None
    b: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So much of a number's difference comes from a line; both None: from no line."""

    amount: Number
    words: str
    a: Spot | None = None
    b: Spot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number of both sides, and the lines that its difference comes from.

    `of` says what the shares count, or why there are none.
    """

    name: str
    title: str
    unit: str = ""
    a: Number | None = None
    b: Number | None = None
    better: Literal["less", "more", "neither"] = "neither"
    of: str = ""
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A time of both sides: `speed` is how many times as fast B is, `low` to `high` by noise."""

    what: str
    a: Spread
    b: Spread
    speed: float
    low: float
    high: float
    verdict: Literal["faster", "slower", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacingStage:
    """A stage that both sides have: which rows of A and B face each other, all rows in order."""

    id: StageId
    rows: tuple[FacingRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two traces beside each other; `ops` are pairs of ops of A and B that are each other's."""

    labels: tuple[str, str]
    said: str = ""
    options: tuple[Contrast, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    timings: tuple[Timing, ...] = ()
    ops: tuple[tuple[int, int], ...] = ()
    stages: tuple[FacingStage, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One step of a value's way: where, what happened in a sentence, and what to look at.

    `pass` and `buffer` are indices into the trace's passes and shared buffers; `rows` are those of
    `stage`.
    """

    where: str
    sentence: str
    pass_: int | None = None
    stage: StageId | None = None
    rows: tuple[int, ...] = ()
    ops: tuple[int, ...] = ()
    layout: Layout | None = None
    buffer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way of what was asked, through every pass, layout, buffer and stage."""

    question: str
    stops: tuple[Stop, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A value: its first elements as text, and a picture of it.

    `picture` has a letter for each element, or for every so-many-th (`every`): a to m from `low`
    to `high`, ! for what is not finite.
    """

    shape: tuple[int, ...]
    numbers: tuple[tuple[str, ...], ...] = ()
    picture: tuple[str, ...] = ()
    low: str = ""
    high: str = ""
    every: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """One execution of an op; `plumbing`: it only makes a constant, an address or a shape.

    `names` are of its results, `round` counts rounds of the loops around it, `value` says it in a
    few words; `tile` is left out where there is no room for all of them.
    """

    op: int
    text: str
    line: int | None = None
    names: tuple[str, ...] = ()
    round: int = 0
    plumbing: bool = False
    value: str = ""
    accessed: str = ""
    tile: Tile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A step at which the watched element got a value or was read."""

    step: int
    what: str
    value: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One program of a launch, every op that it executed; `at` is the step that is shown first.

    Steps count from `first`: a long program has some left out in front. `lines` are those to stop
    at, none for all ops but plumbing.
    """

    kernel: str
    program: tuple[int, ...]
    grid: tuple[int, ...]
    steps: tuple[Executed, ...] = ()
    at: int = 0
    first: int = 0
    lines: tuple[int, ...] = ()
    watched: str = ""
    seen: tuple[Seen, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptNumber:
    """A number that squares of a map have."""

    title: str
    unit: str = ""
    less: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptSquare:
    """One choice of values: its numbers and what is written for each, in the order of the map.

    `compare` is the line that compares it with the best, "" where that cannot be.
    """

    values: str
    words: tuple[str, ...]
    numbers: tuple[Number | None, ...]
    note: str = ""
    compare: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A map of what other settings would give; `key` is what the kernel that made it knows it by.

    Squares stand row by row; a map of one axis has one row, with a name of "".
    """

    key: str
    title: str
    axes: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    numbers: tuple[SweptNumber, ...]
    squares: tuple[SweptSquare, ...]
    best: int | None = None
    notes: tuple[str, ...] = ()
