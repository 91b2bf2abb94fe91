"""One cell output for the host that will show it: the MIME bundle, and a widget where needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.trace import LazyTrace, Trace
from workbench.viewer import frontend
from workbench.viewer.mode import host, notebook_path
from workbench.viewer.output import MIME, Answer, Embed, mimebundle


def cell_output(
    traces: Sequence[Trace | LazyTrace],
    *,
    namespace: Mapping[str, Any] | None = None,
    embed: Embed = "auto",
    show: Sequence[str] = (),
    answer: Answer | None = None,
) -> dict[str, Any]:
    """Return the MIME bundle that a cell publishes; `namespace` is the notebook's."""
    notebook = notebook_path(namespace)
    bundle = mimebundle(traces, embed=embed, show=show, notebook=notebook, answer=answer)
    match host(namespace):
        case "widget" if frontend.built():
            from workbench.viewer.widget import TraceWidget  # brings anywidget and ipywidgets

            view, _ = TraceWidget(traces, show, answer)._repr_mimebundle_() or ({}, {})
            key = "application/vnd.jupyter.widget-view+json"
            bundle |= {key: view[key]} if key in view else {}
        case "static":
            bundle.pop(MIME, None)
        case _:
            pass
    return bundle
