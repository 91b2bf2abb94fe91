"""`--tune`: search among configurations at the largest size, check each one, keep the fastest.

The fastest configuration's values become settings of the plan's launches, so that checks and
benchmarks after the search run it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from workbench.bench.arrays import clone, is_array
from workbench.bench.binding import Binder, defaults
from workbench.bench.checking import check_launch, references
from workbench.bench.plan import Plan
from workbench.bench.reference import References
from workbench.interrupts import may_stop
from workbench.runtime import guards
from workbench.source import OptionError
from workbench.trace import Tune, TuneRow
from workbench.tuning.autotune import Config
from workbench.tuning.search import Progress, Row
from workbench.tuning.tune import FIELDS, SHORT, TuneResult, configurations, tuner_of

#: Who shows the progress of searches; the magics set it to a live table.
progress: ContextVar[Progress | None] = ContextVar("progress", default=None)

#: The trace's words for states of rows: what was timed is ok, the rest was rejected or wrong.
_TIMED = ("timed", "timing", "slower", "same")


class Tuning:
    """One search for a plan.

    Attributes:
        result: what was found.
    """

    def __init__(
        self, binder: Binder, plan: Plan, x: Mapping[str, Any], synchronize: Callable[..., object]
    ) -> None:
        self._binder = binder
        self._plan = plan
        self._synchronize = synchronize
        with may_stop():  # the function of --make may take its time
            self._arguments, self._given = binder.arguments(x)
        self._pristine: dict[str, Any] = {}
        #: The reference of each choice of the tuned constexprs that it reads.
        self._wanted: dict[tuple[Any, ...], References] = {}
        self.result = self._search()

    def _search(self) -> TuneResult:
        plan, binder, kernel = self._plan, self._binder, self._binder.kernel
        axes = {name: tuple(values) for name, values in plan.tune.items()}
        tuner = tuner_of(kernel)
        try:
            configs = configurations(kernel, axes)
        except OptionError as error:
            raise error.at(plan.place("tune")) from None
        if len(configs) < 2:
            raise OptionError(
                f"{tuner.__name__} has nothing to search among",
                plan.place("tune"),
                code="K121",
                hint="add an axis, e.g. --tune BLOCK=64,128 --tune warps=4,8",
            )
        tuned = {name for config in configs for name in config.all_kwargs()}
        settings = {**self._given, **binder.options}
        launch = {name: value for name, value in settings.items() if name not in tuned}
        if plan.target != "auto":
            launch["target"] = plan.target
        names = {**defaults(binder.source), **self._given, **self._arguments}
        names |= {word: self._arguments[name] for word, name in plan.words.items()}
        launch |= {**self._arguments, "grid": lambda meta: binder.grid({**names, **meta})}
        search = tuner.search(
            configs,
            (),
            launch,
            seconds=plan.tune_seconds,
            check=self._check if plan.checked else None,
            progress=progress.get(),
        )
        try:
            search.run()
        finally:
            self._restore()
        found = TuneResult(tuner.__name__, tuple(search.rows), search.seconds, search.stopped)
        if found.config is None and not search.stopped:
            if search.error is not None:
                raise search.error
            raise OptionError(
                "no configuration could be timed",
                plan.place("tune"),
                code="K121",
                notes=[str(row.reason) for row in search.rows if row.reason],
            )
        if found.config is not None:
            tuner.remember(search, (), launch)
        return found

    def _check(self, config: Config) -> str | None:
        """Compare one configuration's outputs with the reference.

        It is computed once, or once for each choice of what it reads of the configuration.
        """
        plan = self._plan
        settings = {**plan.settings, **settings_of(config)}
        binder = Binder(
            self._binder.plain_kernel, self._binder.source, replace(plan, settings=settings)
        )
        subject = binder.bind_arguments(self._arguments, {**self._given, **config.kwargs})
        for name in subject.outputs:
            self._pristine.setdefault(name, clone(self._arguments[name]))
        self._restore()
        said = plan.reference_text or "the interpreter"
        choice = tuple((n, v) for n, v in config.kwargs.items() if reads(plan, n))
        wanted = self._wanted.get(choice)
        if wanted is None:
            before = {
                name: clone(value) if is_array(value) else value
                for name, value in self._arguments.items()
            }
            with may_stop():
                wanted = references(subject, plan.reference, before, said, plan.place("check"))
            self._wanted[choice] = wanted
        with may_stop():
            verdict = check_launch(
                replace(subject, relaunch=None), wanted, said, rtol=plan.rtol,
                atol=plan.atol, place=plan.place("check"),
                synchronize=lambda: self._synchronize(subject),
            )  # fmt: skip
        return None if verdict.error is None else f"wrong result: {verdict.error.message}"

    def _restore(self) -> None:
        for name, value in self._pristine.items():
            target = self._arguments[name]
            if hasattr(target, "copy_"):
                target.copy_(value)
            else:
                target[...] = value

    @property
    def settings(self) -> dict[str, Any]:
        """What the fastest configuration sets, under the names that `--set` takes."""
        config = self.result.config
        assert config is not None
        return settings_of(config)

    @property
    def record(self) -> Tune:
        """The search as the trace has it."""
        rows = self.result.rows
        best = next((n for n, row in enumerate(rows) if row is self.result.best), None)
        tried = guards.is_on() and all(row.timed != "host" for row in rows)
        return Tune(
            axes=tuple(self._plan.tune), rows=tuple(map(_row, rows)), best=best, guarded=tried
        )


def reads(plan: Plan, name: str) -> bool:
    """Say whether a plan's reference may read a constexpr: as a word, or a function's parameter."""
    words = re.findall(r"[A-Za-z_]\w*", plan.reference_text)
    if plan.reference is None or name in words:
        return plan.reference is not None
    for function in (plan.reference, *(plan.namespace.get(word) for word in words)):
        try:
            parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):  # no function, or one that does not say
            continue
        if name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return True
    return False


def settings_of(config: Config) -> dict[str, Any]:
    """Return what a configuration sets, under the names that `--set` takes."""
    fields = {name: getattr(config, name) for name in FIELDS}
    chosen = {n: v for n, v in fields.items() if v is not None and (n, v) != ("num_ctas", 1)}
    return {**config.kwargs, **chosen}


def _row(row: Row) -> TuneRow:
    launch = row.kernel.launch if row.kernel is not None else None
    wrong = row.reason.startswith("wrong result")
    shown = {SHORT.get(name, name): value for name, value in settings_of(row.config).items()}
    return TuneRow(
        config={
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in shown.items()
        },
        milliseconds=row.milliseconds[0] if row.milliseconds else None,
        timed=row.timed,
        state="wrong" if wrong else "ok" if row.state in _TIMED else "rejected",
        why=row.reason or None,
        registers=launch.registers if launch else None,
        spills=launch.spill_bytes if launch else None,
        shared_bytes=launch.shared_bytes if launch else None,
    )
