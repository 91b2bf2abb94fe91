"""Run the notebooks headless and say what came of it: `python notebooks/run_demo.py demo [NAME…]`.

Leaves in the folder each executed notebook, each kernel's viewer page (.html), and `index.html`,
which leads to them. A cell tagged `raises-exception` may fail; any other failing cell ends the run
with status 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from workbench.trace import Trace
from workbench.viewer import MIME, save
from workbench.viewer.reading import open_envelope

STORIES = Path(__file__).resolve().parent
SECONDS = 1200


def main(folder: str, names: list[str]) -> int:
    """Execute the stories, or those whose file names contain one of `names`."""
    target = Path(folder).resolve()
    target.mkdir(parents=True, exist_ok=True)
    failed = 0
    pages: list[Page] = []
    for path in sorted(STORIES.glob("*.ipynb")):
        if names and not any(name in path.name for name in names):
            continue
        ok, made = run_story(path, target)
        failed += not ok
        pages += made
    index = target / "index.html"
    index.write_text(index_page(pages), encoding="utf-8")
    say(f"\nopen this page in a browser: {index}")
    say(f"it leads to the {len(pages)} viewer pages; the executed notebooks are in {folder}/ too")
    return 1 if failed else 0


class Page(NamedTuple):
    """A viewer page: its notebook, its file, and what it shows in words."""

    story: str
    file: str
    text: str


def index_page(pages: Sequence[Page]) -> str:
    """Return the page that leads to all others, by notebook."""
    parts: list[str] = []
    for story in dict.fromkeys(page.story for page in pages):
        rows = "".join(
            f'<li><a href="{quote(page.file)}">{escape(page.file)}</a>'
            f"<pre>{escape(page.text)}</pre></li>"
            for page in pages
            if page.story == story
        )
        parts.append(f"<h2>{escape(story)}</h2><ul>{rows}</ul>")
    style = (
        ":root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; "
        "max-width: 60rem; margin: 2rem auto; padding: 0 1rem } pre { overflow: auto }"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>workbench: the demo</title><style>{style}</style></head><body><main>"
        f"<h1>What the notebooks made</h1>{''.join(parts)}</main></body></html>\n"
    )


def run_story(path: Path, target: Path) -> tuple[bool, list[Page]]:
    """Execute one notebook, print what its kernels did, write it and the pages."""
    say(f"\n=== {path.name}")
    notebook = nbformat.read(path, as_version=4)
    # Widget state would hold a copy of the loader for each output, and no page reads it here.
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # else each kernel warns of its local connection
        resources={"metadata": {"path": str(target)}},
    )
    start = time.perf_counter()
    ok = True
    try:
        client.execute()
    except CellExecutionError as error:
        ok = False
        say(f"FAILED: {error.ename}: {error.evalue}")
    nbformat.write(notebook, target / path.name)
    pages: list[Page] = []
    for number, (text, traces) in enumerate(outputs(notebook, target), 1):
        say("")
        say(text)
        name = f"{path.stem}-{number}-{traces[0].kernel.name}.html"
        save(traces, target / name, force=True)
        say(f"viewer page: {name}")
        pages.append(Page(path.stem, name, text))
    say(f"\n{path.name}: {'ok' if ok else 'failed'} in {time.perf_counter() - start:.0f} s")
    return ok, pages


def outputs(notebook: Any, folder: Path) -> Iterator[tuple[str, tuple[Trace, ...]]]:
    """Yield (text, traces) of each output that holds traces, not a summary alone."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if {"data", "ref"} & set(data.get(MIME, ())):
                yield data.get("text/plain", ""), open_envelope(data[MIME], folder)


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "demo", sys.argv[2:]))
