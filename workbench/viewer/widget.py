"""The anywidget host: for VS Code, Colab and marimo, where our JupyterLab extension is not.

Lasting widget state carries no payload, or every saved notebook would hold a trace per widget.
`_esm` is the small loader; the trace and, for the kernel's first widget, the viewer bundle ride in
two byte traits of the opening message. The page answers `ack` and both are emptied. Asking for the
data instead fails (a busy kernel answers after the last cell of Run All), and so does pushing it as
a message at creation (lost: the module is not imported yet). After a page reload the loader asks by
`payload?`; until the answer it shows the summary. The protocol's other half is
extension/src/loader.ts.

Colab has a frame of its own for each output: a bundle that another output brought is not there, so
there each widget brings it. What no widget can do is said below the first one of a kernel.

A notebook that is opened without a kernel has the lasting state alone, and front ends with widgets
prefer them to the output's HTML: so the state holds that HTML, gzipped, some 10 kB a widget.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any, ClassVar

import anywidget
import traitlets

from workbench.trace import LazyTrace, Trace, pack
from workbench.viewer import frontend
from workbench.viewer.output import Answer, beside_traces, finished
from workbench.viewer.summary import plain


class TraceWidget(anywidget.AnyWidget):
    """Shows traces in front ends without our extension; make it only where a page will show it."""

    _esm = (frontend.script(frontend.LOADER) or b"").decode()
    trace = traitlets.Bytes(b"").tag(sync=True)
    bundle = traitlets.Bytes(b"").tag(sync=True)
    summary = traitlets.Unicode("").tag(sync=True)
    version = traitlets.Unicode("").tag(sync=True)
    limits = traitlets.Unicode("").tag(sync=True)
    static = traitlets.Bytes(b"").tag(sync=True)

    bundle_sent: ClassVar[bool] = False  # per kernel: later widgets of the page find it there
    limits_said: ClassVar[bool] = False

    def __init__(
        self,
        traces: Sequence[Trace | LazyTrace],
        show: Sequence[str] = (),
        answer: Answer | None = None,
        *,
        apart: bool = False,
        limits: str = "",
        html: str = "",
    ) -> None:
        """Prepare the opening message of a widget for `traces`, the one to show first in front.

        Args:
            traces: the traces of one kernel.
            show: ids of the panes open at the start.
            answer: what was asked of the traces.
            apart: each output of the notebook is a page of its own.
            limits: what the viewer cannot do in this front end; the first widget says it.
            html: what a page shows that no kernel answers.
        """
        full = finished(traces)
        self._extra = beside_traces(show, answer)
        self._packed = self._pack(full)  # stays in the kernel for pages opened later
        bundle = b"" if TraceWidget.bundle_sent and not apart else self._bundle()
        said = "" if TraceWidget.limits_said else limits
        TraceWidget.bundle_sent = TraceWidget.limits_said = True
        super().__init__(
            trace=self._packed,
            bundle=bundle,
            summary=plain(full) if answer is None else answer.text,
            version=f"{full[0].made.workbench}",
            limits=said,
            static=gzip.compress(html.encode(), mtime=0),
        )
        self.on_msg(self._receive)

    def update(self, traces: Sequence[Trace | LazyTrace]) -> None:
        """Show newer traces of the same cell in all views of this widget."""
        full = finished(traces)
        self._packed = self._pack(full)
        self.summary = plain(full)
        self.send({"type": "update"}, [self._packed])

    def _pack(self, traces: Sequence[Trace]) -> bytes:
        return pack(traces, **self._extra)

    @staticmethod
    def _bundle() -> bytes:
        return frontend.script(frontend.VIEWER) or b""

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        match content:
            case {"type": "ack"}:
                self.trace = b""
                self.bundle = b""
            case {"type": "payload?"}:
                self.send({"type": "payload"}, [self._packed, self._bundle()])
