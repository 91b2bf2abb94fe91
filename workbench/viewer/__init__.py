"""What a reader sees of a Trace: cell outputs, the widget, static HTML, plots, pages, exports.

Everything here reads Traces (plain data) and nothing of the compiler. IPython, anywidget and
matplotlib are imported only when something is shown: `widget` needs anywidget, `plots` and `page`
matplotlib. The interactive front end is TypeScript (extension/), built into `static/`.
"""

from workbench.viewer.display import cell_output, value_output
from workbench.viewer.export import save
from workbench.viewer.mode import choose, host, notebook_path, place
from workbench.viewer.output import EMBED_MODES, MIME, Answer, mimebundle
from workbench.viewer.reading import read_traces
from workbench.viewer.static_html import static_html
from workbench.viewer.summary import plain, render_diagnostic

__all__ = [
    "EMBED_MODES",
    "MIME",
    "Answer",
    "cell_output",
    "choose",
    "host",
    "mimebundle",
    "notebook_path",
    "place",
    "plain",
    "read_traces",
    "render_diagnostic",
    "save",
    "static_html",
    "value_output",
]
