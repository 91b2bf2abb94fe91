"""What a `%%kernel` cell, `workbench.check` and `workbench.bench` give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.bench.failures import diagnostics
from workbench.source import KernelError
from workbench.source.files import shown_text
from workbench.trace import (
    STAGE_IDS,
    Bench,
    Ceiling,
    Check,
    Diagnostic,
    Launch,
    MemoryAccess,
    Remark,
    Resources,
    Runs,
    Skipped,
    Trace,
    Tune,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from workbench.bench.plan import Plan
    from workbench.bench.subject import Subject
    from workbench.runtime.compiled import CompiledKernel
    from workbench.tuning.tune import TuneResult


class Record:
    """One compilation as this result shows it: its trace, with the runs of this result only."""

    def __init__(self, source: Callable[[], Trace], compiled: CompiledKernel | None = None) -> None:
        self.compiled = compiled
        self.runs: list[Any] = []
        self.error: KernelError | None = None  # that ended the run, not the compilation
        self.access: tuple[MemoryAccess, ...] = ()
        self._source = source
        self._base: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The trace; its texts are printed at the first use."""
        base = self._base
        if base is None:
            base = self._source()
            if self.compiled is None:
                self._base = base  # a compiled kernel keeps its own, as long as there is room
        kinds = {
            Launch: "launches", Check: "checks", Bench: "benches", Skipped: "skipped",
            Ceiling: "ceilings", Tune: "tunes",
        }  # fmt: skip
        columns: dict[str, list[Any]] = {}
        for run in self.runs:
            if isinstance(run, Skipped):
                run = replace(run, why=shown_text(run.why))
            elif isinstance(run, Bench) and run.error:
                run = replace(run, error=shown_text(run.error))
            columns.setdefault(kinds[type(run)], []).append(run)
        if self.error is not None:
            columns["errors"] = list(diagnostics(base, self.error))
        runs = Runs(**{name: tuple(items) for name, items in columns.items()})
        return replace(base, runs=runs, access=self.access or base.access)


class Stages(Mapping[str, str]):
    """The texts of all stages that exist, by stage name."""

    def __init__(self, result: KernelResult) -> None:
        self._result = result

    def __getitem__(self, name: str) -> str:
        trace = self._result.trace_with(name)
        if trace is None:
            raise KeyError(f"no stage {name!r}; there are {', '.join(self)}")
        return trace.text(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in STAGE_IDS if self._result.trace_with(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Picture:
    """A figure that shows itself in notebooks; `figure` is matplotlib's."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def _repr_png_(self) -> bytes:
        from workbench.viewer.plots import png

        return png(self.figure)

    def __repr__(self) -> str:
        titles = ", ".join(axes.get_title() for axes in self.figure.axes if axes.get_title())
        return f"<picture{': ' + titles if titles else ''}>"

    def save(self, path: str | Path) -> None:
        """Write the figure as PNG or SVG, by suffix."""
        self.figure.savefig(path)


class KernelResult:
    """A kernel, what it was compiled to, and what came of running it.

    Attributes:
        kernel: the kernel object; call the result to launch it again.
        name: the kernel's name.
        records: one per compilation, the one to show first in front.
        error: the error that ended the run, if one did.
        tune: what a search among configurations found, if there was one.
        plan: what was asked for, with what a search chose; or the last launch of a cell's own code;
            None where nothing was launched.
    """

    def __init__(
        self,
        kernel: Any,
        name: str,
        records: Sequence[Record],
        *,
        launch: Callable[..., Any] | None = None,
        show: Sequence[str] = (),
        embed: str = "auto",
        error: BaseException | None = None,
        tune: TuneResult | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.records = list(records)
        self.show = tuple(show)
        self.embed = embed
        self.error = error
        self.tune = tune
        self.plan = plan
        self.shown = False
        #: The latest launch, with its arguments; None if nothing was launched.
        self.subject: Subject | None = None
        #: A launch of the same kernel compiled otherwise, which exports repeat.
        self.example: Subject | None = None
        self._launch = launch

    def add_records(self, others: Sequence[Record]) -> None:
        """Show other compilations behind this result's own; those that it has already stay away."""
        known = {record.compiled.hash for record in self.records if record.compiled is not None}
        self.records += [
            record for record in others
            if record.compiled is not None and record.compiled.hash not in known
        ]  # fmt: skip

    def forget_frames(self) -> None:
        """Let go of the frames of the errors that ended it."""
        for error in (self.error, *(record.error for record in self.records)):
            if isinstance(error, KernelError):
                error.forget_frames()

    # -- what was compiled ----------------------------------------------------------------
    @property
    def traces(self) -> tuple[Trace, ...]:
        """All traces, the one to show first in front."""
        return tuple(record.trace for record in self.records)

    @property
    def trace(self) -> Trace:
        """The trace that is shown first."""
        return self.records[0].trace

    def trace_with(self, stage: str) -> Trace | None:
        """Return the first trace that has text for a stage."""
        return next((trace for trace in self.traces if trace.text(stage)), None)

    @property
    def stages(self) -> Stages:
        """Texts by stage name: `result.stages["ptx"]`."""
        return Stages(self)

    def __getattr__(self, name: str) -> str:
        """Return the text of a stage: `result.ptx`."""
        if name in STAGE_IDS:
            try:
                return self.stages[name]
            except KeyError as error:
                raise AttributeError(str(error.args[0])) from None
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    @property
    def compiled(self) -> CompiledKernel | None:
        """The compilation that is shown first; None if it failed."""
        return self.records[0].compiled

    @property
    def asm(self) -> Mapping[str, Any]:
        """Texts and binaries of the first compilation, as `workbench.compile` gives them."""
        if self.compiled is None:
            return self.stages
        return self.compiled.asm

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread, None if unknown."""
        return self.resources.registers

    @property
    def n_spills(self) -> int | None:
        """Bytes spilled, None if unknown."""
        return getattr(self.compiled, "n_spills", None)

    @property
    def metadata(self) -> Any:
        """Launch numbers under Triton's names, None if the compilation failed."""
        return self.compiled.metadata if self.compiled is not None else None

    @property
    def resources(self) -> Resources:
        """Registers, shared memory, spills, occupancy of the first trace."""
        return self.trace.resources

    @property
    def problems(self) -> tuple[Remark | Diagnostic, ...]:
        """Errors and remarks of all traces."""
        found = [
            item
            for trace in self.traces
            for item in (*trace.errors, *trace.runs.errors, *trace.remarks)
        ]
        return tuple(item for n, item in enumerate(found) if item not in found[:n])

    # -- what was run -----------------------------------------------------------------------
    def _runs(self, kind: type) -> list[Any]:
        return [run for record in self.records for run in record.runs if isinstance(run, kind)]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of this result."""
        return tuple(self._runs(Launch))

    @property
    def check(self) -> Check | None:
        """The latest comparison with the reference, None if there was none."""
        found = self._runs(Check)
        return found[-1] if found else None

    @property
    def bench(self) -> tuple[Bench, ...]:
        """The measured series: this kernel's first, then the baselines'."""
        return tuple(self._runs(Bench))

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Launch again, with the same arguments or with others in parameter order."""
        if self._launch is None:
            raise RuntimeError(f"{self.name} was not launched, so there is nothing to repeat")
        return self._launch(*args, **settings)

    # -- what can be made of it --------------------------------------------------------------
    def plot(self, kind: str = "throughput") -> Picture:
        """Return a picture: "throughput", "roofline", or "access" (from recorded accesses)."""
        from workbench.bench.access_plot import access_figure
        from workbench.viewer.plots import roofline_figure, throughput_figure

        draw = {"throughput": throughput_figure, "roofline": roofline_figure}
        if kind == "access":
            return Picture(access_figure(self._trace_of("access")))
        if kind not in draw:
            raise ValueError(f"unknown plot {kind!r}; known: throughput, roofline, access")
        return Picture(draw[kind](self._trace_of("benches")))

    def _trace_of(self, what: str) -> Trace:
        for trace in self.traces:
            if trace.access if what == "access" else trace.runs.benches:
                return trace
        return self.trace

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write what the suffix names: .html .wbt .json .ptx .ll .sass .cubin .c .py .png .csv."""
        from workbench.bench.exports import made_of
        from workbench.viewer import save

        compiled = [record.compiled for record in self.records if record.compiled is not None]
        made = made_of(compiled, self.subject or self.example, self.plan)
        return save(self.traces, path, force=force, made=made, show=self.show)

    def to_pandas(self) -> Any:
        """Return the measured points as a pandas DataFrame."""
        try:
            import pandas  # type: ignore[import-not-found]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "to_pandas needs pandas: pip install pandas (result.save('bench.csv') does not)",
                name=error.name,
            ) from None
        rows = [
            {
                "series": bench.name, bench.axis or "launch": x, "ms": times[1],
                "ms_20": times[0], "ms_80": times[2], "flops": flops, "bytes": moved, "ok": ok,
                "timed": timed, "unsteady": unsteady,
            }
            for bench in self.bench
            for x, times, flops, moved, ok, timed, unsteady in zip(
                bench.x, bench.milliseconds, bench.flops, bench.bytes, bench.ok, bench.timed,
                bench.unsteady, strict=True,
            )
        ]  # fmt: skip
        return pandas.DataFrame(rows)

    # -- how it shows itself -------------------------------------------------------------------
    def mimebundle(self, notebook: Path | None = None) -> dict[str, Any]:
        """Return the output of a cell: trace, static HTML, text."""
        from workbench.viewer import mimebundle

        return mimebundle(self.traces, embed=self.embed, show=self.show, notebook=notebook)  # type: ignore[arg-type]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.mimebundle()

    def _display_(self) -> Any:
        """Return what marimo shows, which has no magics that would publish a viewer."""
        from workbench.viewer.display import in_marimo

        return in_marimo(self.traces, self.show)

    def __repr__(self) -> str:
        from workbench.viewer import plain

        return plain(self.traces)
