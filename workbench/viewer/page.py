"""One HTML file with the viewer and its traces: opens anywhere, makes no request.

The static HTML stands inside the element that becomes the viewer: without scripting, or where the
front end was not built, it stays. extension/src/page.ts starts the viewers of a page.

The page's own policy lets it do nothing but that: the one script is named by its hash, no request
leaves, nothing is framed or sent. Styles may stand inline, since the static HTML has them at its
elements; they can load nothing either.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from hashlib import sha256
from html import escape

from workbench.trace import LazyTrace, Trace
from workbench.viewer import frontend
from workbench.viewer.output import MIME, Answer, Embedded, encode, envelope, finished
from workbench.viewer.plots import bench_png
from workbench.viewer.static_html import static_html
from workbench.viewer.summary import headline

#: The panes may be as high as the window leaves them beside header, tabs and status line.
STYLE = (
    ":root{color-scheme:light dark;--wb-panes-most:max(440px,100vh - 174px)}"
    "body{margin:0;font-family:system-ui,sans-serif}"
)


def page(
    traces: Sequence[Trace | LazyTrace],
    *,
    show: Sequence[str] = (),
    comment: str = "",
    answer: Answer | None = None,
) -> str:
    """Return the page; `comment` is put at its top (what was compiled, and by what).

    `answer` is what was asked of the traces: it is shown first, and stands alone without scripting.
    """
    full = finished(traces)
    bundle = frontend.script(frontend.VIEWER)
    footer = "" if bundle is not None else frontend.ABSENT
    body = (
        static_html(full, picture=bench_png(full), footer=footer, limit=None)
        if answer is None
        else answer.html(footer)
    )
    stored = envelope(full, Embedded(data=encode(full, show, answer)), show, answer)
    title = headline(full[0]) if answer is None else answer.title
    script = None if bundle is None else _script(bundle.decode())
    parts = [
        "<!doctype html>",
        f"<!-- {_comment(comment)} -->" if comment else "",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style></head><body>",
        f'<main><div><script type="{MIME}">{_json(stored)}</script>{body}</div></main>',
    ]
    if script is not None:
        parts.append(f'<script type="module">{script}</script>')
    parts.append("</body></html>")
    return "\n".join(part for part in parts if part)


def policy(script: str | None) -> str:
    """Return the Content-Security-Policy of a page with this one script, or with none."""
    digest = base64.b64encode(sha256((script or "").encode()).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": "'none'" if script is None else f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{rule} {value}" for rule, value in rules.items())


def _comment(text: str) -> str:
    return text.replace("--", "- -").replace(">", " ").replace("\n", " ")


def _json(data: object) -> str:
    """Return JSON that cannot end its script element."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script(text: str) -> str:
    """Return a script that cannot end its element: a backslash that changes no string.

    Browsers turn other ends of lines into newlines before they hash a script: it has no others.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
