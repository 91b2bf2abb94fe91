"""What if a constexpr or an option had another value: every square of a map is compiled, none run.

Squares are compiled in processes of their own, as those of a search are (`tuning/workers.py`). What
each of them gives is read there (`predicting.look`) and kept in this process, so that a map that
was asked for once comes at once. Stopping it keeps what was found.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.interrupts import keeping
from workbench.questions.predicting import Facts, Prediction, look, predict
from workbench.runtime.jit import Plan
from workbench.source import KernelError
from workbench.targets.nvidia.speeds import speeds
from workbench.tuning.workers import Outcome, compile_all, one_line

State = Literal["waiting", "ok", "failed", "skipped"]
#: So many squares are remembered.
KEPT = 4096

_known: OrderedDict[tuple[Any, ...], Facts] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a square: its key, what it is called, its unit, and whether less is better."""

    key: str
    title: str
    unit: str = ""
    less: bool = True


MEASURES = (
    Measure("microseconds", "predicted time", "µs"),
    Measure("registers", "registers", "a thread"),
    Measure("spills", "spills", "B a thread"),
    Measure("shared", "shared memory", "kB"),
    Measure("occupancy", "occupancy", "%", less=False),
    Measure("sectors", "sectors", "for each that is needed"),
    Measure("conflicts", "bank conflicts", "ways"),
)


@dataclass(slots=True)
class Square:
    """One choice of values.

    Attributes:
        values: of each axis.
        grid: programs along each axis of the launch, None where nobody knows them.
        state: how far it is; "failed" and "skipped" have a reason in one line.
        facts: what is known once it is compiled.
        prediction: of its time, None where the launch is not known.
        seconds: what compiling took; 0: it was known.
    """

    values: tuple[Any, ...]
    grid: tuple[int, ...] | None = None
    state: State = "waiting"
    reason: str = ""
    facts: Facts | None = None
    prediction: Prediction | None = None
    seconds: float = 0.0

    def number(self, measure: Measure) -> float | None:
        """Return one of its numbers, None where it has none."""
        facts = self.facts
        if facts is None:
            return None
        work = facts.work
        found: dict[str, float | None] = {
            "microseconds": self.prediction.microseconds if self.prediction else None,
            "registers": facts.registers,
            "spills": facts.spill_bytes,
            "shared": facts.shared_bytes / 1024,
            "occupancy": 100 * facts.resident / facts.most,
            "sectors": work.sectors / work.ideal_sectors if work and work.ideal_sectors else None,
            "conflicts": work.conflicts if work else None,
        }
        return found[measure.key]

    def data(self, axes: Sequence[str]) -> dict[str, Any]:
        """Return it as plain data."""
        found: dict[str, Any] = {
            "values": dict(zip(axes, self.values, strict=True)),
            "state": self.state,
            "reason": self.reason or None,
        }
        facts, prediction = self.facts, self.prediction
        if facts is not None:
            found |= {
                "registers": facts.registers, "spill_bytes": facts.spill_bytes,
                "shared_bytes": facts.shared_bytes, "num_warps": facts.num_warps,
                "resident_warps": facts.resident, "limit": facts.limit,
                "sectors": self.number(MEASURES[5]), "conflicts": self.number(MEASURES[6]),
            }  # fmt: skip
        if prediction is not None:
            found |= {"microseconds": prediction.microseconds, "bound": prediction.bound,
                      "waves": prediction.waves}  # fmt: skip
        return found


@dataclass(slots=True)
class WhatIf:
    """A map over one axis or two.

    Attributes:
        kernel: its name, or what `%diff` may call it.
        target: the chip that squares are compiled for.
        axes: names of the axes; the first one's values are rows.
        values: of each axis, in order.
        settings: what is the same in all squares, where it was asked for.
        squares: row by row.
        stopped: it ended before it was complete.
        seconds: what it took.
    """

    kernel: str
    target: str
    axes: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    settings: tuple[tuple[str, Any], ...] = ()
    squares: list[Square] = field(default_factory=list[Square])
    stopped: bool = False
    seconds: float = 0.0

    @property
    def best(self) -> Square | None:
        """The square with the least predicted time, None if no time is known."""
        timed = [square for square in self.squares if square.prediction is not None]
        return min(timed, key=lambda s: s.prediction.microseconds, default=None)  # type: ignore[union-attr]

    @property
    def failed(self) -> bool:
        """Whether nothing came of any square."""
        return all(square.state == "failed" for square in self.squares)

    @property
    def product(self) -> str:
        """The GPU whose numbers predict times."""
        return speeds(self.target).product

    def spelled(self, square: Square) -> str:
        """Return a square as `%diff` takes it: K@TARGET,NAME=VALUE,…."""
        same = [(n, v) for n, v in self.settings if n not in self.axes]
        given = [*same, *zip(self.axes, square.values, strict=True)]
        words = [f"{name}={value!r}" for name, value in given]
        return f"{self.kernel}@{','.join([self.target, *words])}"

    def compared(self, square: Square) -> tuple[str, str] | None:
        """Return a square and the one that it is compared with, as `%diff` takes them.

        That is the best one, for the best itself the first other one; None: there is no other.
        """
        other = self.best
        if other is None or other is square:
            other = next((s for s in self.squares if s.facts is not None and s is not square), None)
        return None if other is None else (self.spelled(square), self.spelled(other))

    def comparison(self, square: Square) -> str:
        """Return the line that compares a square with another one, "" where there is none."""
        sides = self.compared(square)
        return "" if sides is None else f"%diff {' '.join(sides)}"

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        best = self.best
        return {
            "kernel": self.kernel, "target": self.target, "times_of": self.product,
            "settings": dict(self.settings),
            "axes": dict(zip(self.axes, map(list, self.values), strict=True)),
            "stopped": self.stopped, "seconds": round(self.seconds, 3),
            "best": None if best is None else best.data(self.axes)["values"],
            "squares": [
                {**s.data(self.axes), **({"compare": self.comparison(s)} if s.facts else {})}
                for s in self.squares
            ],
        }  # fmt: skip


Progress = Callable[[WhatIf], object]


def fill(
    found: WhatIf,
    plans: Sequence[Plan | None],
    *,
    moved: float = 0.0,
    progress: Progress | None = None,
) -> None:
    """Compile the squares of a map and fill them in as they come; an interrupt keeps what is there.

    Args:
        found: the map; squares that failed already are left alone.
        plans: what each of its squares compiles; None for one that has nothing to compile.
        moved: bytes that the launch must move at the least, 0 where nobody knows.
        progress: called whenever a square was filled.
    """
    with keeping():
        _Filling(found, plans, moved, progress).run()


class _Filling:
    def __init__(
        self, found: WhatIf, plans: Sequence[Plan | None], moved: float, progress: Progress | None
    ) -> None:
        self._found = found
        self._plans = plans
        self._moved = moved
        self._progress = progress
        self._begin = time.monotonic()

    def run(self) -> None:
        try:
            self._run()
        except KeyboardInterrupt:
            self._found.stopped = True
        for square in self._found.squares:
            if square.state == "waiting":
                square.state, square.reason = "skipped", "it was stopped before this square"
        self._report()

    def _run(self) -> None:
        left: list[Plan | None] = list(self._plans)
        for number, plan in enumerate(left):
            facts = None if plan is None else _known.get(_key(plan))
            if facts is not None:
                left[number] = None
                self._take(number, facts, 0.0)
        # The cheapest comes first, here, while processes begin: something is seen at once.
        compile_all(left, self._told, prune=False, look=look)

    def _told(self, number: int, outcome: Outcome) -> None:
        square, plan = self._found.squares[number], self._plans[number]
        if isinstance(outcome.seen, Facts):
            assert plan is not None
            _known[_key(plan)] = outcome.seen
            while len(_known) > KEPT:
                _known.popitem(last=False)
            self._take(number, outcome.seen, outcome.seconds)
            return
        square.state, square.seconds = "failed", outcome.seconds
        square.reason = outcome.reason or "nothing came of it"
        self._report()

    def _take(self, number: int, facts: Facts, seconds: float) -> None:
        square = self._found.squares[number]
        square.facts, square.seconds, square.state = facts, seconds, "ok"
        if not facts.resident:
            square.state, square.reason = "failed", f"does not fit: {facts.limit}"
        elif square.grid is not None:
            square.prediction = predict(facts, self._found.target, square.grid, self._moved)
        self._report()

    def _report(self) -> None:
        self._found.seconds = time.monotonic() - self._begin
        if self._progress is not None:
            self._progress(self._found)


def _key(plan: Plan) -> tuple[Any, ...]:
    """Return what the facts of a compilation depend on, within this process."""
    # Not the guards of what is captured: they hold the whole namespace.
    reached = (*(source.text for source in plan.captured.sources), *plan.captured.values)
    return (
        plan.source, plan.signature.text(), plan.target, reached,
        tuple(sorted(plan.integers.items())), plan.grid,
    )  # fmt: skip


def failed(square: Square, error: KernelError) -> None:
    """Take a square out of a map for an error."""
    square.state, square.reason = "failed", one_line(error)


def forget() -> None:
    """Forget all squares."""
    _known.clear()


def table(found: WhatIf, measure: Measure) -> list[list[str]]:
    """Return one number of all squares as rows of texts, with the axes' values around them."""
    rows, columns = found.values if len(found.values) == 2 else (("",), found.values[0])
    head = [" \\ ".join(found.axes), *map(str, columns)]
    cells = [word(square, measure) for square in found.squares]
    width = len(columns)
    return [
        head, *([str(row), *cells[n * width : (n + 1) * width]] for n, row in enumerate(rows))
    ]  # fmt: skip


def word(square: Square, measure: Measure) -> str:
    """Return one number of a square in a few letters."""
    if square.state in ("waiting", "skipped"):
        return "…" if square.state == "waiting" else "–"
    number = square.number(measure)
    if number is None or (square.state == "failed" and measure.key == "microseconds"):
        return "✗" if square.state == "failed" else "?"
    return f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.3g}"


__all__ = ["MEASURES", "Measure", "Square", "State", "WhatIf", "failed", "fill", "forget", "table",
           "word"]  # fmt: skip
