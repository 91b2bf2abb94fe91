"""One cell output for the host that will show it: the MIME bundle, and a widget where needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.trace import LazyTrace, Trace
from workbench.viewer import frontend
from workbench.viewer.mode import host, limits, notebook_path, place
from workbench.viewer.output import MIME, Answer, Embed, mimebundle

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def cell_output(
    traces: Sequence[Trace | LazyTrace],
    *,
    namespace: Mapping[str, Any] | None = None,
    embed: Embed = "auto",
    show: Sequence[str] = (),
    answer: Answer | None = None,
) -> dict[str, Any]:
    """Return the MIME bundle that a cell publishes; `namespace` is the notebook's."""
    return _output(traces, namespace, embed, show, answer)[0]


def value_output(
    traces: Sequence[Trace | LazyTrace],
    *,
    namespace: Mapping[str, Any] | None = None,
    answer: Answer,
) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
    """Return what shows a cell's value: its MIME bundle, with metadata where a front end asks.

    Colab asks which widget manager is meant; of what is published it finds out by itself.
    """
    bundle, metadata = _output(traces, namespace, "auto", (), answer)
    return (bundle, metadata) if metadata else bundle


def in_marimo(traces: Sequence[Trace | LazyTrace], show: Sequence[str] = ()) -> Any:
    """Return what marimo shows for an object that says so by `_display_`: a widget, or a text.

    One process may serve several pages there, so each widget brings the viewer.
    """
    bundle = mimebundle(traces, embed="auto", show=show)
    if not frontend.built():
        return Static(bundle["text/html"])
    from workbench.viewer.widget import TraceWidget  # brings anywidget and ipywidgets

    return TraceWidget(traces, show, apart=True, limits=limits(), html=bundle["text/html"])


@dataclass(frozen=True, slots=True)
class Static:
    """A static form that marimo shows."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def _output(
    traces: Sequence[Trace | LazyTrace],
    namespace: Mapping[str, Any] | None,
    embed: Embed,
    show: Sequence[str],
    answer: Answer | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the MIME bundle of an output, and its metadata."""
    metadata: dict[str, Any] = {}
    notebook = notebook_path(namespace)
    bundle = mimebundle(traces, embed=embed, show=show, notebook=notebook, answer=answer)
    match host(namespace):
        case "widget" if frontend.built():
            from workbench.viewer.widget import TraceWidget  # brings anywidget and ipywidgets

            widget = TraceWidget(
                traces, show, answer, apart=place(namespace) == "Colab",
                limits=limits(namespace), html=bundle["text/html"],
            )  # fmt: skip
            view, metadata = widget._repr_mimebundle_() or ({}, {})
            bundle |= {WIDGET_VIEW: view[WIDGET_VIEW]} if WIDGET_VIEW in view else {}
        case "static":
            bundle.pop(MIME, None)
        case _:
            pass
    return bundle, metadata
