"""What one cell output holds: the trace for the interactive viewer, HTML and text for all others.

| MIME | content | at most |
|------|---------|---------|
| application/vnd.workbench.trace+json | gzip+base64 traces, or a `ref` to a file | 280 kB |
| text/html | static HTML | 100 kB |
| text/plain | facts in 40 lines | 4 kB |

Each entry is readable alone. A trace that is too large is trimmed in a fixed order
(`trace.trimming`), then written beside the notebook; what was dropped is named in
`summary.trimmed`. One output holds one trace or several: a run on the CPU and the compilation
for a GPU that the machine does not have.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.trace import LazyTrace, Trace, pack, trim
from workbench.trace.packing import packed_bytes
from workbench.viewer import frontend
from workbench.viewer.numbers import series_of
from workbench.viewer.static_html import static_html
from workbench.viewer.summary import facts, headline, plain

MIME = "application/vnd.workbench.trace+json"
DATA_CHARACTERS = 280_000  # of base64
#: What the quick estimate of a trace's size is at least too large by, as a factor.
LEAST_RATIO = 0.8
Embed = Literal["auto", "full", "summary", "none"]
EMBED_MODES: tuple[Embed, ...] = ("auto", "full", "summary", "none")
State = Literal["ok", "error", "check failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked of traces, as an output shows it beside them.

    Attributes:
        kind: the name under which a viewer finds it (`trace.answers`).
        data: the answer as plain data.
        title: what is called so, in a few words.
        text: the answer as text.
        html: the answer as static HTML, with a line at its end.
    """

    kind: str
    data: dict[str, Any]
    title: str
    text: str
    html: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Embedded:
    """How traces are stored in an output: in it, in a file beside the notebook, or not."""

    data: str | None = None
    ref: dict[str, Any] | None = None
    trimmed: tuple[str, ...] = ()
    note: str = ""


def mimebundle(
    traces: Sequence[Trace | LazyTrace],
    *,
    embed: Embed = "auto",
    show: Sequence[str] = (),
    notebook: Path | str | None = None,
    answer: Answer | None = None,
) -> dict[str, Any]:
    """Return the MIME bundle of one output.

    Args:
        traces: the traces of one kernel, the one to show first in front.
        embed: how much of the traces the saved output holds; `summary` and `none` write no file.
        show: ids of the panes open at the start; empty leaves it to the viewer.
        notebook: path of the notebook, beside which a large trace is written; None: nowhere.
        answer: what was asked of the traces, shown first.
    """
    full = finished(traces)
    stored = _store(full, embed, beside_traces(show, answer), notebook)
    notes = [stored.note] if stored.note else []
    if not frontend.built():
        notes.append(frontend.ABSENT)
    bundle: dict[str, Any] = {
        "text/html": static_html(full, picture=_picture(full), footer=" ".join(notes)),
        "text/plain": plain(full, notes),
    }
    if answer is not None:
        bundle |= {"text/html": answer.html(" ".join(notes)), "text/plain": answer.text}
    if embed != "none":
        bundle[MIME] = envelope(full, stored, show, answer)
    return bundle


def finished(traces: Sequence[Trace | LazyTrace]) -> tuple[Trace, ...]:
    """Return the traces, printing those that nobody looked at yet."""
    if not traces:
        raise ValueError("an output needs at least one trace")
    return tuple(each.trace if isinstance(each, LazyTrace) else each for each in traces)


def envelope(
    traces: Sequence[Trace],
    stored: Embedded,
    show: Sequence[str] = (),
    answer: Answer | None = None,
) -> dict[str, Any]:
    """Return the JSON of the trace MIME type."""
    record: dict[str, Any] = {
        "v": 1,
        "id": bundle_id(traces),
        "state": state_of(traces),
        "summary": summary(traces, stored, show),
    }
    if answer is not None:
        record["summary"] |= {"asked": answer.kind, "text": answer.text}
    if stored.data is not None:
        record |= {"enc": "gzip+base64", "data": stored.data}
    elif stored.ref is not None:
        record["ref"] = stored.ref
    return record


def summary(traces: Sequence[Trace], stored: Embedded, show: Sequence[str]) -> dict[str, Any]:
    """Return what is known of an output without unpacking its traces."""
    return {
        "kernels": [
            {
                "id": trace.id,
                "name": trace.kernel.name,
                "target": trace.kernel.target,
                "headline": headline(trace),
                "facts": dict(facts(trace)),
            }
            for trace in traces
        ],
        "show": list(show),
        "text": plain(traces),
        "trimmed": list(stored.trimmed),
    }


def bundle_id(traces: Sequence[Trace]) -> str:
    """Return the id of several traces together: the trace's own if it is one."""
    if len(traces) == 1:
        return traces[0].id
    digest = hashlib.sha256("\n".join(trace.id for trace in traces).encode()).hexdigest()
    return f"sha256:{digest}"


def state_of(traces: Sequence[Trace]) -> State:
    """Return whether compiling and checking went well."""
    if any(trace.errors for trace in traces):
        return "error"
    last = [trace.runs.checks[-1].ok for trace in traces if trace.runs.checks]
    if not all(last):
        return "check failed"
    return "error" if any(trace.runs.errors for trace in traces) else "ok"


def beside_traces(show: Sequence[str], answer: Answer | None) -> dict[str, object]:
    """Return what stands beside the traces in what is stored."""
    found: dict[str, object] = {"show": list(show)} if show else {}
    return found | ({} if answer is None else {answer.kind: answer.data})


def encode(
    traces: Sequence[Trace], show: Sequence[str] = (), answer: Answer | None = None
) -> str:  # fmt: skip
    """Return traces as base64 of gzip."""
    return _encode(traces, beside_traces(show, answer))


def _encode(traces: Sequence[Trace], extra: Mapping[str, object]) -> str:
    return base64.b64encode(pack(traces, **extra)).decode()


def _store(
    traces: Sequence[Trace],
    embed: Embed,
    extra: Mapping[str, object],
    notebook: Path | str | None,
) -> Embedded:
    if embed in ("summary", "none"):
        return Embedded(note="the trace is not embedded; run the cell to see every stage.")
    data = _encode(traces, extra)
    if embed == "full" or len(data) <= DATA_CHARACTERS:
        return Embedded(data=data, note=_where(len(data)))
    found = _trim(traces, extra)
    if found is None:
        return _beside(traces, data, notebook)
    data, trimmed = found
    note = f"{_where(len(data))} Left out to save space: {', '.join(trimmed)}."
    return Embedded(data=data, trimmed=trimmed, note=note)


def _trim(
    traces: Sequence[Trace], extra: Mapping[str, object]
) -> tuple[str, tuple[str, ...]] | None:
    """Return (encoded, what was dropped) of traces that are trimmed until they fit.

    The largest is trimmed first, and none loses more than it has to. None: nothing is enough.
    """
    room = DATA_CHARACTERS * 3 // 4  # base64 makes four characters of three bytes
    room -= len(pack((), **extra))
    least = [trim(trace, lambda _: False)[0] for trace in traces]
    if sum(map(packed_bytes, least)) * LEAST_RATIO > room:
        return None
    small = list(traces)
    sizes = [packed_bytes(trace) for trace in traces]
    dropped: dict[str, None] = {}
    for index in sorted(range(len(small)), key=lambda i: -sizes[i]):

        def fits(trace: Trace, index: int = index) -> bool:
            sizes[index] = packed_bytes(trace)
            return sum(sizes) <= room

        small[index], names = trim(small[index], fits)
        sizes[index] = packed_bytes(small[index])
        dropped |= dict.fromkeys(names)
        if sum(sizes) <= room:
            break
    data = _encode(small, extra)
    return (data, tuple(dropped)) if len(data) <= DATA_CHARACTERS else None


def _beside(traces: Sequence[Trace], data: str, notebook: Path | str | None) -> Embedded:
    """Write the whole traces into a folder beside the notebook and refer to them."""
    trimmed = ("everything but the summary",)
    if notebook is None:
        note = "the trace is too large to embed (--embed full stores it all the same)."
        return Embedded(trimmed=trimmed, note=note)
    notebook = Path(notebook)
    packed = base64.b64decode(data)
    name = bundle_id(traces).removeprefix("sha256:")[:12]
    folder = notebook.with_name(f"{notebook.stem}.traces")
    path = folder / f"{name}.wbt"
    try:
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise OSError("it is a link, which may lead anywhere")
        temporary = path.with_suffix(f".{os.getpid()}.part")
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:  # a link of this name is not followed
            file.write(packed)
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or error  # without the path, which would tell folders
        note = f"the trace is too large to embed, and {folder.name} cannot be written: {why}"
        return Embedded(trimmed=trimmed, note=note)
    ref = {
        "path": f"{folder.name}/{path.name}",
        "sha256": hashlib.sha256(packed).hexdigest(),
        "bytes": len(packed),
    }
    return Embedded(ref=ref, trimmed=trimmed, note=f"the full trace is in {ref['path']}.")


def _where(characters: int) -> str:
    return (
        f"full trace embedded ({characters / 1000:.0f} kB); open in JupyterLab with workbench, "
        "or: workbench view NOTEBOOK"
    )


def _picture(traces: Sequence[Trace]) -> bytes | None:
    if not any(series_of(trace) for trace in traces):
        return None
    from workbench.viewer.plots import bench_png  # matplotlib takes 0.3 s to import

    return bench_png(traces)
