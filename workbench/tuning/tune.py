"""`workbench.tune`: search among configurations now, and see how each of them does.

found = wb.tune(matmul, (a, b, c, M, N, K), grid=grid,
                axes={"BM": [64, 128], "BN": [64, 128, 256], "warps": [4, 8]})
found.config        the best one
print(found)        the table
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.interrupts import may_stop
from workbench.launch.options import DEFAULTS, SHORT_FORMS
from workbench.runtime.jit import JITFunction
from workbench.runtime.timing import Effort
from workbench.source import OptionError
from workbench.tuning.autotune import Autotuner
from workbench.tuning.configs import Config
from workbench.tuning.heuristics import Heuristics
from workbench.tuning.racing import Candidate
from workbench.tuning.search import Progress, Row, Search

SECONDS = 120.0
#: Options that a configuration has a field for.
FIELDS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
SHORT = {name: short for short, name in SHORT_FORMS.items()}

#: Called after one run with a configuration; a text says what is wrong with what it wrote.
Check = Callable[[], "str | None"]


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """What a search found.

    Attributes:
        name: the kernel's name.
        rows: one per configuration, in the order tried.
        seconds: what the search took.
        stopped: it was stopped, or its time ended, before it was complete.
    """

    name: str
    rows: tuple[Row, ...]
    seconds: float
    stopped: bool

    @property
    def best(self) -> Row | None:
        """The fastest row, None if nothing could be timed."""
        timed = [row for row in self.rows if row.milliseconds is not None]
        return min(timed, key=lambda row: row.times[0], default=None)

    @property
    def config(self) -> Config | None:
        """The fastest configuration, None if nothing could be timed."""
        return None if self.best is None else self.best.config

    @property
    def line(self) -> str:
        """The options that choose the fastest configuration, to paste."""
        return "" if self.config is None else settings_line(self.config)

    def table(self) -> list[tuple[str, ...]]:
        """Return header and rows as texts, the fastest first."""
        return table_of(self.rows)

    def __repr__(self) -> str:
        return f"{aligned(self.table())}\n{self._summary()}"

    def _summary(self) -> str:
        timed = sum(row.milliseconds is not None for row in self.rows)
        stopped = ", stopped early" if self.stopped else ""
        head = f"{self.name}: {timed} of {len(self.rows)} timed in {self.seconds:.1f} s{stopped}"
        return f"{head}\n{self.line}" if self.line else head

    def _repr_html_(self) -> str:
        return html_table(self.table(), self._summary())


def settings_line(config: Config) -> str:
    """Return a configuration as options of the magics.

    >>> settings_line(Config({"BM": 128}, num_warps=8, num_stages=None))
    '--set BM=128 --set warps=8'
    """
    found = {**config.kwargs, **{name: getattr(config, name) for name in FIELDS}}
    shown = {n: v for n, v in found.items() if v is not None and (n, v) != ("num_ctas", 1)}
    return " ".join(f"--set {SHORT.get(name, name)}={value}" for name, value in shown.items())


def table_of(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return header and rows as texts, the fastest first, those without a time last.

    What no row knows, as registers on the CPU, has no column.
    """
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(_shown(row.config))
    header = (*(SHORT.get(name, name) for name in names), "ms", "regs", "spills", "shared", "state")
    ordered = sorted(rows, key=lambda row: row.times[0])
    best = ordered[0] if ordered and ordered[0].milliseconds is not None else None
    found = [header, *(_cells(row, list(names), row is best) for row in ordered)]
    optional = [header.index(name) for name in ("regs", "spills", "shared")]
    empty = [place for place in optional if not any(row[place] for row in found[1:])]
    return [tuple(c for place, c in enumerate(row) if place not in empty) for row in found]


def _shown(config: Config) -> dict[str, Any]:
    found = config.all_kwargs()
    if found.get("num_ctas") == 1:
        del found["num_ctas"]
    return found


def _cells(row: Row, names: Sequence[str], best: bool) -> tuple[str, ...]:
    values = _shown(row.config)
    time = "" if row.milliseconds is None else f"{row.milliseconds[0]:.4g}"
    numbers = ["", "", ""]
    if row.kernel is not None:
        launch = row.kernel.launch
        found = launch.registers, launch.spill_bytes, launch.shared_bytes or None
        numbers = ["" if value is None else str(value) for value in found]
    state = f"{row.state}: {row.reason}" if row.reason else row.state
    return (*(str(values.get(n, "")) for n in names), time, *numbers, "best" if best else state)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines, numbers to the right and the last column to the left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == len(row) - 1 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def html_table(rows: Sequence[Sequence[str]], summary: str) -> str:
    """Return rows as an HTML table with a line below."""
    head, *body = rows
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body
    )
    return (
        f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"
        f"<pre>{html.escape(summary)}</pre>"
    )


def configurations(
    kernel: Any, axes: Mapping[str, Sequence[Any]], configs: Sequence[Config] = ()
) -> list[Config]:
    """Return every combination of axes with every configuration.

    Args:
        kernel: the kernel object; its own configurations count if `configs` are not given.
        axes: constexprs or compile options with the values to try.
        configs: what the axes are combined with.

    Raises:
        OptionError: an axis that the kernel does not have (K121).
    """
    inner = _tuner_within(kernel)
    if not configs and inner is not None:
        configs = inner.configs
    starts = list(configs) or [Config({}, num_warps=None, num_stages=None)]
    names = [p.name for p in kernel.kernel_source.parameters if p.is_constexpr]
    for name in axes:
        if name not in names and SHORT_FORMS.get(name, name) not in DEFAULTS:
            known = ", ".join([*names, *SHORT_FORMS])
            raise OptionError(f"no axis '{name}'; axes: {known}", code="K121")
    found: list[Config] = []
    for start, values in itertools.product(starts, itertools.product(*axes.values())):
        made = _with(start, dict(zip(axes, values, strict=True)))
        if made not in found:
            found.append(made)
    return found


def _with(start: Config, values: Mapping[str, Any]) -> Config:
    fields = {name: getattr(start, name) for name in FIELDS}
    kwargs = dict(start.kwargs)
    for word, value in values.items():
        name = SHORT_FORMS.get(word, word)
        if name in fields:
            fields[name] = value
        else:
            kwargs[name] = value
    return Config(kwargs, **fields, pre_hook=start.pre_hook)


def tune(
    kernel: Any,
    args: Sequence[Any] = (),
    given: Mapping[str, Any] | None = None,
    *,
    grid: Any = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    configs: Sequence[Config] = (),
    seconds: float | None = SECONDS,
    effort: Effort | None = None,
    check: Check | None = None,
    progress: Progress | None = None,
) -> TuneResult:
    """Search for the fastest configuration of a kernel for one launch.

    Configurations that cannot be built or fail the check become rows with a reason.
    KeyboardInterrupt ends the search and keeps what it found. An autotuned kernel launches the
    configuration that was found from then on.

    Args:
        kernel: a kernel object, also one with `autotune` or `heuristics`.
        args: launch arguments by position.
        given: launch arguments and options by name.
        grid: 1 to 3 integers, or a function of the dict of all arguments.
        axes: constexprs or compile options with the values to try.
        configs: configurations with which the axes are combined; by default those of `autotune`.
        seconds: the most that the search may take; None for no limit.
        effort: how long to measure each configuration.
        check: called after one run of each configuration, before it is timed.
        progress: called with the rows, the phase and the seconds whenever something changed.

    Raises:
        OptionError: an axis that the kernel does not have (K121).
        KernelError: no configuration could be built; the first one's error.
    """
    tuner = tuner_of(kernel)
    if grid is None:
        grid = getattr(tuner.base_kernel, "own_grid", None)
    tried = configurations(kernel, axes or {}, configs)
    fixed = {name: value for config in tried for name, value in config.all_kwargs().items()}
    launch = {name: value for name, value in (given or {}).items() if name not in fixed}
    launch["grid"] = grid
    checked = None if check is None else _checked(tuner, args, launch, check)
    search: Search = tuner.search(
        tried, args, launch, seconds=seconds, effort=effort, check=checked, progress=progress
    )
    search.run()
    result = TuneResult(tuner.__name__, tuple(search.rows), search.seconds, search.stopped)
    if result.config is not None:
        tuner.remember(search, args, launch)
    elif search.error is not None and not search.stopped:
        raise search.error
    return result


def tuner_of(kernel: Any) -> Autotuner:
    """Return what searches for a kernel: its own tuner, or one without configurations.

    Where heuristics stand over a tuner, what they compute is computed below it instead, so that
    every configuration can be compiled by itself.
    """
    inner = _tuner_within(kernel)
    if inner is None:
        if not hasattr(kernel, "plan"):
            kernel = JITFunction(kernel)
        return Autotuner(kernel, kernel.arg_names, None, [], None, None)
    return inner if inner is kernel else _Outer(kernel, inner)


def without_search(kernel: Any) -> Any:
    """Return a kernel without the search that `autotune` puts before it."""
    if isinstance(kernel, Autotuner):
        return without_search(kernel.fn)
    if isinstance(kernel, Heuristics):
        return Heuristics(without_search(kernel.fn), kernel.arg_names, kernel.values)
    return kernel


def _tuner_within(kernel: Any) -> Autotuner | None:
    while isinstance(kernel, Heuristics):
        kernel = kernel.fn
    return kernel if isinstance(kernel, Autotuner) else None


class _Outer(Autotuner):
    """A tuner over a kernel whose heuristics stand over a tuner of its own."""

    def __init__(self, kernel: Heuristics, inner: Autotuner) -> None:
        super().__init__(
            without_search(kernel),
            inner.arg_names,
            inner.configs,
            inner.keys,
            inner.reset_to_zero,
            inner.restore_value,
            inner.pre_hook if inner.user_defined_pre_hook else None,
            inner.post_hook if inner.user_defined_post_hook else None,
        )
        self._inner = inner
        self._kernel = kernel

    def remember(self, search: Search, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Launch what a search found from now on, for the same key."""
        super().remember(search, args, given)
        values, kernel = dict(given), self._kernel
        while isinstance(kernel, Heuristics):
            values, kernel = kernel.with_values(args, values), kernel.fn
        self._inner.remember(search, args, values)


def _checked(
    tuner: Autotuner, args: Sequence[Any], launch: Mapping[str, Any], check: Check
) -> Callable[[Config], str | None]:
    def run(config: Config) -> str | None:
        candidate: Candidate = tuner.candidate(config, args, launch)
        candidate.prepare()
        try:
            with may_stop():
                candidate.call()
                return check()
        except AssertionError as error:
            return str(error).partition("\n")[0] or "the check failed"
        finally:
            candidate.finish()

    return run
