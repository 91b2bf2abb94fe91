"""Saving a trace as a file: the suffix decides what is written.

| suffix | content |
|--------|---------|
| .html | viewer and trace in one page, no requests |
| .wbt, .json | the trace: gzip, or canonical JSON |
| .tile .gpu .ll .ptx .sass .s | the text of a stage |
| .cubin | the assembled code, byte for byte |
| .c .h | what launches it from C, and its header |
| .py | the launch as a file that runs by itself |
| .png .svg | the benchmark's plot |
| .csv | the benchmark's points |

Text files say kernel, target, options and tool versions in their first comment.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workbench.source import OptionError
from workbench.trace import LazyTrace, Trace
from workbench.trace.packing import bundle_json, pack
from workbench.viewer.numbers import UNITS, axis_of, metric_of, series_of
from workbench.viewer.output import Answer, beside_traces, finished

STAGE_OF: dict[str, tuple[str, str]] = {  # suffix -> (stage, how a comment begins)
    ".tile": ("tile", "//"),
    ".gpu": ("gpu", "//"),
    ".ptx": ("ptx", "//"),
    ".ll": ("llvm", ";"),
    ".sass": ("sass", "//"),
    ".s": ("asm", "#"),
}
#: What is made of a compiled kernel, not of its trace; who has one gives `save` functions for them.
OF_KERNELS = (".cubin", ".c", ".h", ".py")
SUFFIXES = (".html", ".wbt", ".json", *STAGE_OF, *OF_KERNELS, ".png", ".svg", ".csv")


def save(
    traces: Sequence[Trace | LazyTrace],
    path: Path | str,
    *,
    force: bool = False,
    made: Mapping[str, Callable[[], bytes]] | None = None,
    show: Sequence[str] = (),
    answer: Answer | None = None,
) -> Path:
    """Write traces to `path` in the form that its suffix names; returns the path.

    `made` gives the contents of OF_KERNELS, where a kernel is at hand. `answer` is what was asked
    of the traces: pages show it first, files of traces hold it.

    Raises OptionError for an existing file without `force`, an unknown suffix, or content that
    the traces do not have. A failed export leaves an existing file as it was.
    """
    path = Path(path).expanduser()
    write = _writer(finished(traces), path, made or {}, show, answer)
    if path.exists() and not force:
        raise _error("K802", f"{path} exists", "add --force, in Python force=True, to overwrite it")
    if not path.parent.is_dir():
        raise _error("K805", f"the folder {path.parent} does not exist", "create it first")
    try:
        path.write_bytes(write())
    except OSError as error:
        raise _error("K805", f"{path} cannot be written: {error.strerror}", "") from error
    return path


def first_comment(trace: Trace) -> str:
    """Return what was compiled, for what, and by what, in one line."""
    made = trace.made
    options = " ".join(f"{k}={v}" for k, v in trace.kernel.options.items() if v is not None)
    tools = [("llvm", made.llvm), ("ptxas", made.ptxas), ("nvdisasm", made.nvdisasm)]
    versions = ", ".join(f"{name} {version}" for name, version in tools if version)
    parts = [
        f"kernel {trace.kernel.name}",
        f"target {trace.kernel.target}",
        trace.kernel.spec,
        options,
        f"workbench {made.workbench}" + (f" ({versions})" if versions else ""),
    ]
    return " ".join("; ".join(part for part in parts if part).split())


def bench_csv(traces: Sequence[Trace]) -> str:
    """Return the latest benchmark's points, one row per series and size."""
    found = [(trace, series) for trace in traces for series in series_of(trace)]
    if not any(series.points for _, series in found):
        raise _error("K804", "nothing was benchmarked", "run the cell with --bench first")
    text = io.StringIO()
    text.write(f"# {first_comment(found[0][0])}\n")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["target", "series", "axis", "x", "milliseconds", "rate", "unit", "ok", "unsteady", "timed"]
    )
    for trace, series in found:
        unit = UNITS[metric_of(trace)]
        for point in series.points:
            ok = "" if point.ok is None else str(point.ok).lower()
            value = "" if point.value is None else f"{point.value:.6g}"
            rows.writerow(
                [
                    trace.kernel.target,
                    series.name,
                    axis_of(trace),
                    point.x,
                    f"{point.milliseconds:.6g}",
                    value,
                    unit,
                    ok,
                    str(point.unsteady).lower(),
                    point.timed or "",
                ]
            )
    return text.getvalue()


def stage_text(traces: Sequence[Trace], suffix: str) -> str:
    """Return the first trace's stage that belongs to a suffix, with its first comment."""
    name, leader = STAGE_OF[suffix]
    for trace in traces:
        if text := trace.text(name):
            return f"{leader} {first_comment(trace)}\n{text}\n"
    notes = [stage.note for trace in traces for stage in trace.stages if stage.id == name]
    why = next((note for note in notes if note), f"no {name} stage in this trace")
    raise _error("K804", f"there is no {name} to write: {why}", "compile for a target that has it")


def _writer(
    traces: Sequence[Trace],
    path: Path,
    made: Mapping[str, Callable[[], bytes]],
    show: Sequence[str],
    answer: Answer | None,
) -> Callable[[], bytes]:
    suffix = path.suffix.lower()
    extra = beside_traces(show, answer)
    match suffix:
        case ".html":
            return lambda: _page(traces, show, answer)
        case ".wbt":
            return lambda: pack(traces, **extra)
        case ".json":
            return lambda: (bundle_json(traces, **extra) + "\n").encode()
        case ".csv":
            text = bench_csv(traces)
            return lambda: text.encode()
        case _ if suffix in OF_KERNELS:
            if suffix not in made:
                raise _no_code(suffix[1:], traces[0].kernel.name, is_trace=not made)
            content = made[suffix]()
            return lambda: content
        case ".png" | ".svg":
            return lambda: _plot(traces, suffix)
        case _ if suffix in STAGE_OF:
            code = stage_text(traces, suffix)
            return lambda: code.encode("utf-8", "replace")
        case _:
            known = " ".join(SUFFIXES)
            said = f"unknown suffix {suffix!r}" if suffix else f"{path} has no suffix"
            raise _error("K803", said, f"it says what is written: {known}")


def _no_code(kind: str, name: str, *, is_trace: bool) -> OptionError:
    why = "a trace holds texts, no code that runs" if is_trace else f"{name} was not compiled"
    hint = f"where {name} is compiled, save the {kind} of its result"
    return _error("K804", f"there is no {kind} to write: {why}", hint)


def _page(traces: Sequence[Trace], show: Sequence[str], answer: Answer | None) -> bytes:
    from workbench.viewer.page import page  # with matplotlib, which takes 0.3 s to import

    text = page(traces, show=show, comment=first_comment(traces[0]), answer=answer)
    return text.encode("utf-8", "replace")


def _plot(traces: Sequence[Trace], suffix: str) -> bytes:
    from workbench.viewer.plots import throughput_figure

    benched = [trace for trace in traces if any(series.points for series in series_of(trace))]
    if not benched:
        raise _error("K804", "nothing was benchmarked", "run the cell with --bench first")
    buffer = io.BytesIO()
    figure = throughput_figure(benched[0])
    metadata = {"Description": first_comment(benched[0])}
    if suffix == ".svg":
        metadata["Date"] = ""
    figure.savefig(buffer, format=suffix[1:], dpi=130, metadata=metadata)
    return buffer.getvalue()


def _error(code: str, message: str, hint: str) -> OptionError:
    return OptionError(message, code=code, hint=hint or None)
