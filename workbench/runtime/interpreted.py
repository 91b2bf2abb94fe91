"""`kernel.interpret[grid](...)`: a launch that is watched while the interpreter runs it.

Accesses of two programs to one element that nothing orders, reads of elements that nobody wrote,
and promises that do not hold are findings, which are raised when the run is over, or on request
(`report="remark"`) only kept. An access that leaves its argument, programs that wait for each other
for ever, and an assertion that fails end the run with an error at once. What the kernel prints is
shown as a table by program.
"""

from __future__ import annotations

import html
from collections.abc import Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from workbench.devices.printed import PrintedTable, publish
from workbench.interpreter import (
    Finding,
    Recording,
    Report,
    checked_report,
    error_of,
    grouped,
    run_module,
    said_of,
)
from workbench.ir import Pointer
from workbench.source import LaunchError
from workbench.source.given import instance

if TYPE_CHECKING:
    from workbench.launch.abi import Loadable


class InterpretedRun:
    """A launch in the interpreter, and what was found.

    Attributes:
        kernel: the compiled kernel.
        recording: what the interpreter wrote down; `findings` and `races` in it.
        printed: what the kernel printed, as a table by program.
    """

    def __init__(self, kernel: Loadable, recording: Recording) -> None:
        self.kernel = kernel
        self.recording = recording
        self.printed = PrintedTable(recording.output, kernel.module)

    @property
    def findings(self) -> list[Finding]:
        """Races, unwritten elements and broken promises, in the order in which they came up."""
        return self.recording.findings

    def report(self) -> str:
        """Return the findings as text: one block for each op, with its line and first cases."""
        return "\n".join(said_of(found).render() for found in grouped(self.findings))

    def __repr__(self) -> str:
        found = self.report() or "nothing found"
        return f"{self.kernel.name} in the interpreter: {found}"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


class _Watch:
    """What the launch that is going on is to be watched for, and what it left."""

    def __init__(self, uninitialised: Collection[str], schedule: int) -> None:
        self.uninitialised = uninitialised
        self.schedule = schedule
        self.recording: Recording | None = None


_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


def run_watched(
    kernel: Any,
    grid: Any,
    *args: Any,
    uninitialised: Collection[str] = (),
    report: Report = "error",
    schedule: int = 0,
    **given: Any,
) -> InterpretedRun | None:
    """Run a launch in the interpreter and watch it.

    Args:
        kernel: the kernel object.
        grid: 1 to 3 integers, or a function of the dict of all arguments.
        args: arguments by position.
        uninitialised: names of array parameters whose elements count as unwritten.
        report: "error" raises the findings, "remark" leaves them in the result.
        schedule: 0 runs programs in the order of the grid; any other number is the seed of an order
            in which they change over at atomics too.
        given: arguments by name, and options; `debug` is on, so that assertions are looked at.

    Raises:
        LaunchError: an access that leaves its argument (K502), an assertion that fails (K510),
            programs that wait for ever (K515); unless `report` says otherwise a race (K514), a read
            of what nobody wrote (K516), a promise that does not hold (K517). All findings are in
            the error's `run`.
        OptionError: `report` is another word (K134), `schedule` is no integer (K105).
    """
    report = checked_report(report)
    instance(schedule, int, "schedule is an integer", "0 is the grid's order, others are seeds")
    around, watch = _watch.get(), _Watch(uninitialised, schedule)
    try:
        _watch.set(watch)
        compiled = kernel.run(*args, grid=grid, **{"debug": True, **given, "target": "interpreter"})
    finally:
        _watch.set(around)
    if compiled is None:
        return None
    run = InterpretedRun(compiled, watch.recording or Recording())
    error = error_of(run.findings) if report == "error" else None
    if error is not None:
        error.run = run  # type: ignore[attr-defined]
        raise error
    return run


def interpret(kernel: Loadable, grid: tuple[int, int, int], values: Any) -> None:
    """Run a compiled kernel in the interpreter; what it prints is shown at once."""
    watch = _watch.get()
    if watch is None:
        recording = run_module(kernel.module, grid, values)
    else:
        names = _arrays(kernel, watch.uninitialised)
        recording = run_module(
            kernel.module, grid, values, watch=True, uninitialised=names, schedule=watch.schedule
        )
        watch.recording = recording
    publish(PrintedTable(recording.output, kernel.module))


def _arrays(kernel: Loadable, names: Collection[str]) -> Collection[str]:
    """Return names of array parameters; raises LaunchError for any other name."""
    known = [p.name for p in kernel.module.parameters if isinstance(p.value.type, Pointer)]
    for name in names:
        if name not in known:
            raise LaunchError(
                f"uninitialised names '{name}', which is no array parameter of {kernel.name}",
                hint=f"its array parameters are: {', '.join(known) or 'none'}",
            )
    return names


__all__ = ["InterpretedRun", "interpret", "run_watched"]
