"""One HTML file with the viewer and its traces: opens anywhere, makes no request.

The static HTML stands inside the element that becomes the viewer: without scripting, or where the
front end was not built, it stays. extension/src/page.ts starts the viewers of a page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from workbench.trace import LazyTrace, Trace
from workbench.viewer import frontend
from workbench.viewer.output import MIME, Embedded, encode, envelope, finished
from workbench.viewer.plots import bench_png
from workbench.viewer.static_html import static_html
from workbench.viewer.summary import headline

#: The panes may be as high as the window leaves them beside header, tabs and status line.
STYLE = (
    ":root{color-scheme:light dark;--wb-panes-most:max(440px,100vh - 174px)}"
    "body{margin:0;font-family:system-ui,sans-serif}"
)


def page(
    traces: Sequence[Trace | LazyTrace], *, show: Sequence[str] = (), comment: str = ""
) -> str:
    """Return the page; `comment` is put at its top (what was compiled, and by what)."""
    full = finished(traces)
    bundle = frontend.script(frontend.VIEWER)
    footer = "" if bundle is not None else frontend.ABSENT
    body = static_html(full, picture=bench_png(full), footer=footer, limit=None)
    stored = envelope(full, Embedded(data=encode(full, show)), show)
    parts = [
        "<!doctype html>",
        f"<!-- {_comment(comment)} -->" if comment else "",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(headline(full[0]))}</title>",
        f"<style>{STYLE}</style></head><body>",
        f'<main><div><script type="{MIME}">{_json(stored)}</script>{body}</div></main>',
    ]
    if bundle is not None:
        parts.append(f'<script type="module">{_script(bundle.decode())}</script>')
    parts.append("</body></html>")
    return "\n".join(part for part in parts if part)


def _comment(text: str) -> str:
    return text.replace("--", "- -").replace(">", " ").replace("\n", " ")


def _json(data: object) -> str:
    """Return JSON that cannot end its script element."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script(text: str) -> str:
    """Return a script that cannot end its element: a backslash that changes no string."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
