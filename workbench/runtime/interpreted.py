"""`kernel.interpret[grid](...)`: a launch that is watched while the interpreter runs it.

Stores of two programs to one element, reads of elements that nobody wrote, and promises that do
not hold are findings; an access outside every argument, and an assertion that fails, end the run
with an error. What the kernel prints is shown as a table by program.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from workbench.interpreter import Finding, Recording, run_module
from workbench.ir import Pointer
from workbench.runtime.printed import PrintedTable, publish
from workbench.source import LaunchError, line_of

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel

_WORDS = {
    "race": "two programs store to the same element",
    "uninitialised": "an element is read before anything wrote it",
    "promise": "a promise about a value does not hold",
    "assumption": "an assumption does not hold",
}


class InterpretedRun:
    """A launch in the interpreter, and what was found.

    Attributes:
        kernel: the compiled kernel.
        recording: what the interpreter wrote down; `findings` and `races` in it.
        printed: what the kernel printed, as a table by program.
    """

    def __init__(self, kernel: CompiledKernel, recording: Recording) -> None:
        self.kernel = kernel
        self.recording = recording
        self.printed = PrintedTable(recording.output, kernel.module)

    @property
    def findings(self) -> list[Finding]:
        """Races, unwritten elements and broken promises, in the order in which they came up."""
        return self.recording.findings

    def report(self) -> str:
        """Return the findings as text: one block for each op, with its line and first cases."""
        by_op: dict[tuple[str, int], list[Finding]] = {}
        for finding in self.findings:
            by_op.setdefault((finding.kind, finding.op), []).append(finding)
        return "\n".join(_block(found) for found in by_op.values())

    def __repr__(self) -> str:
        found = self.report() or "nothing found"
        return f"{self.kernel.name} in the interpreter: {found}"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _block(found: list[Finding]) -> str:
    """Return one sort of finding at one op, worded as errors are."""
    first = found[0]
    lines = [f"remark: {_WORDS[first.kind]}"]
    if first.span is not None:
        span = first.span
        lines.append(f"  --> {span.file}:{span.line}:{span.column}")
        lines.append(f"  {span.line} | {line_of(span)}")
        lines += [f"note: called from {call}" for call in reversed(span.calls[-2:])]
    lines += [f"note: program {f.program}: {f.message}" for f in found[:3]]
    if len(found) > 3:
        lines.append(f"note: and {len(found) - 3} more")
    return "\n".join(lines)


class _Watch:
    """What the launch that is going on is to be watched for, and what it left."""

    def __init__(self, uninitialised: Collection[str]) -> None:
        self.uninitialised = uninitialised
        self.recording: Recording | None = None


_watch: ContextVar[_Watch | None] = ContextVar("watch", default=None)


@contextmanager
def _watching(uninitialised: Collection[str]) -> Iterator[_Watch]:
    watch = _Watch(uninitialised)
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


def run_watched(
    kernel: Any, grid: Any, *args: Any, uninitialised: Collection[str] = (), **given: Any
) -> InterpretedRun | None:
    """Run a launch in the interpreter and watch it.

    Args:
        kernel: the kernel object.
        grid: 1 to 3 integers, or a function of the dict of all arguments.
        args: arguments by position.
        uninitialised: names of array parameters whose elements count as unwritten.
        given: arguments by name, and options; `debug` is on, so that assertions are looked at.
    """
    with _watching(uninitialised) as watch:
        compiled = kernel.run(*args, grid=grid, **{"debug": True, **given, "target": "interpreter"})
    return None if compiled is None else InterpretedRun(compiled, watch.recording or Recording())


def interpret(kernel: CompiledKernel, grid: tuple[int, int, int], values: Any) -> None:
    """Run a compiled kernel in the interpreter; what it prints is shown at once."""
    watch = _watch.get()
    if watch is None:
        recording = run_module(kernel.module, grid, values)
    else:
        names = _arrays(kernel, watch.uninitialised)
        recording = run_module(kernel.module, grid, values, watch=True, uninitialised=names)
        watch.recording = recording
    publish(PrintedTable(recording.output, kernel.module))


def _arrays(kernel: CompiledKernel, names: Collection[str]) -> Collection[str]:
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
