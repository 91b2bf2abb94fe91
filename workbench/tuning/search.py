"""A search among configurations: compile all, check them, time them against each other.

Every configuration is a row that says how far it is. One that cannot be built, fails its check or
cannot win says why in one line, and the search goes on. Stopping it (KeyboardInterrupt, or the end
of its time) keeps what was found so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workbench.interrupts import keeping, may_stop
from workbench.runtime.hooks import unobserved
from workbench.runtime.timing import Effort, Timed
from workbench.source import KernelError, LaunchError
from workbench.tuning.configs import Config
from workbench.tuning.racing import Candidate, Race, is_fatal
from workbench.tuning.workers import Outcome, compile_all, one_line

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel
    from workbench.runtime.jit import Plan

State = Literal[
    "waiting", "compiled", "timing", "timed", "slower", "same", "pruned", "failed", "skipped"
]
#: How much of the time may pass before timing begins.
COMPILING_SHARE = 0.7
#: The least seconds between two reports of progress.
REPORT_SECONDS = 0.1


@dataclass(slots=True)
class Row:
    """One configuration in a search.

    Attributes:
        config: the configuration.
        state: how far it is; "slower" was left out of the timing, "same" has another's code.
        reason: why it has no time of its own, in one line.
        error: the error behind the reason, if there was one.
        milliseconds: (median, 20 %, 80 %) quantiles; None before it was timed.
        runs: how many runs these are taken from.
        timed: cold or hot, or host where a GPU's times may hold the host's; None before.
        kernel: the compiled kernel.
        seconds: what compiling took.
    """

    config: Config
    state: State = "waiting"
    reason: str = ""
    error: KernelError | None = None
    milliseconds: tuple[float, float, float] | None = None
    runs: int = 0
    timed: Timed | None = None
    kernel: CompiledKernel | None = None
    seconds: float = 0.0
    candidate: Candidate | None = field(default=None, repr=False)

    @property
    def times(self) -> list[float]:
        """The quantiles as Triton keeps them; infinite without a time."""
        return list(self.milliseconds) if self.milliseconds else [math.inf] * 3

    def fail(self, error: BaseException) -> None:
        """Take the row out of the search for an error."""
        self.state, self.reason = "failed", one_line(error)
        self.error = error if isinstance(error, KernelError) else None

    def read(self) -> None:
        """Take over what its candidate has measured."""
        found = self.candidate
        assert found is not None
        if found.error is not None:
            self.fail(found.error)
        elif found.timing.samples:
            self.timed = found.timing.timed
            low, middle, high, self.runs = found.timing.quantiles
            self.milliseconds = middle, low, high
            self.state = "slower" if found.dropped else "timing"


#: Called with the rows, the phase ("compiling", "checking", "timing", "done") and the seconds.
Progress = Callable[[Sequence[Row], str, float], object]


class Search:
    """One search.

    Attributes:
        rows: one per configuration, in the order given.
        stopped: it ended before it was complete.
        seconds: what it took.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        *,
        plan: Callable[[Config], Plan | None],
        candidate: Callable[[Config], Candidate],
        effort: Effort | None = None,
        seconds: float | None = None,
        check: Callable[[Config], str | None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.rows = [Row(config) for config in configs]
        self.stopped = False
        self.seconds = 0.0
        self._plan = plan
        self._candidate = candidate
        self._effort = effort
        self._budget = seconds
        self._check = check
        self._progress = progress
        self._plans: list[Plan | None] = []
        self._twins: list[tuple[Row, Row]] = []
        self._begin = time.monotonic()
        self._reported = 0.0

    @property
    def best(self) -> Row | None:
        """The fastest row, None if none was timed."""
        timed = [row for row in self.rows if row.milliseconds is not None]
        return min(timed, key=lambda row: row.times[0], default=None)

    @property
    def error(self) -> KernelError | None:
        """The first error of a row, for when all of them failed."""
        return next((row.error for row in self.rows if row.error is not None), None)

    def run(self) -> None:
        """Run the search; an interrupt ends it at any moment, and nothing is lost by it."""
        with keeping():
            self._run()

    def _run(self) -> None:
        try:
            with unobserved():
                self._compile()
                self._find_twins()
                if self._check is not None:
                    self._check_all()
                self._time()
        except KeyboardInterrupt:
            self.stopped = True
        for row in self.rows:
            if row.state == "timing":
                row.state = "timed"
            elif row.state in ("waiting", "compiled"):
                row.state, row.reason = "skipped", row.reason or "the search was stopped"
        self._copy_twins()
        self._report("done", force=True)

    # -- compiling ------------------------------------------------------------------------
    def _compile(self) -> None:
        for row in self.rows:
            try:
                with may_stop():
                    plan = self._plan(row.config)
                self._plans.append(plan)
            except KernelError as error:
                if is_fatal(error):
                    raise
                self._plans.append(None)
                row.fail(error)
        self._report("compiling", force=True)
        budget = None if self._budget is None else COMPILING_SHARE * self._budget
        live = [p if r.state == "waiting" else None for p, r in self._pairs()]
        several = sum(plan is not None for plan in live) > 1
        compile_all(live, self._compiled, prune=several, seconds=budget)
        pruned = [n for n, row in enumerate(self.rows) if row.state == "pruned"]
        if pruned and not any(row.state == "compiled" for row in self.rows):
            # Better a slow one than none.
            again = [p if n in pruned else None for n, p in enumerate(self._plans)]
            compile_all(again, self._compiled, prune=False)

    def _pairs(self) -> list[tuple[Plan | None, Row]]:
        return list(zip(self._plans, self.rows, strict=True))

    def _compiled(self, number: int, outcome: Outcome) -> None:
        row = self.rows[number]
        row.seconds = outcome.seconds
        if outcome.kernel is not None:
            row.kernel, row.state, row.reason = outcome.kernel, "compiled", ""
        elif outcome.error is not None:
            row.fail(outcome.error)
        else:
            row.state = "pruned" if outcome.pruned else "skipped"
            row.reason = outcome.reason
        self._report("compiling")

    def _find_twins(self) -> None:
        """Have configurations that came out as the same code timed once."""
        first: dict[Any, Row] = {}
        for plan, row in self._pairs():
            if row.state != "compiled" or row.kernel is None or plan is None:
                continue
            if row.config.pre_hook is not None:
                continue
            launch = row.kernel.launch
            key = (row.kernel.code, plan.grid, launch.threads, launch.dynamic_shared_bytes)
            twin = first.setdefault(key, row)
            if twin is not row and row.kernel.code:
                self._twins.append((row, twin))
                row.state, row.reason = "same", f"the same code as {twin.config.short()}"

    def _copy_twins(self) -> None:
        for row, twin in self._twins:
            row.milliseconds, row.runs = twin.milliseconds, twin.runs

    # -- checking and timing --------------------------------------------------------------
    def _check_all(self) -> None:
        assert self._check is not None
        for row in self._live():
            try:
                reason = self._check(row.config)
            except KernelError as error:
                row.fail(error)
            else:
                if reason:
                    row.state, row.reason = "failed", reason
            self._report("checking")

    def _live(self) -> list[Row]:
        return [row for row in self.rows if row.state in ("waiting", "compiled")]

    def _time(self) -> None:
        rows = self._live()
        if not rows:
            return
        gpu = any(plan is not None and plan.device >= 0 for plan in self._plans)
        if gpu:
            refuse_capture()
        for row in rows:
            row.candidate = self._candidate(row.config)
        left = None
        if self._budget is not None:
            left = max(0.0, self._budget - (time.monotonic() - self._begin))
        race = Race(
            [row.candidate for row in rows if row.candidate is not None],
            gpu=gpu,
            effort=self._effort,
            seconds=left,
            told=lambda number: self._timed(rows[number]),
        )
        self._report("timing", force=True)
        race.run()
        self.stopped = self.stopped or race.stopped
        for row in rows:
            row.read()

    def _timed(self, row: Row) -> None:
        row.read()
        self._report("timing")

    def _report(self, phase: str, *, force: bool = False) -> None:
        now = time.monotonic()
        self.seconds = now - self._begin
        if self._progress is not None and (force or now - self._reported >= REPORT_SECONDS):
            self._reported = now
            self._progress(self.rows, phase, self.seconds)


def refuse_capture() -> None:
    """Raise LaunchError K513 while a CUDA graph is being captured: nothing can be timed then."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise LaunchError(
            "a kernel cannot be tuned while a CUDA graph is being captured",
            hint="launch it once with these arguments before the capture",
            code="K513",
        )
