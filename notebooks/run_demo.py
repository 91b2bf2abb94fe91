"""Run the notebooks headless and say what came of it: `python notebooks/run_demo.py demo [NAME…]`.

Leaves in the folder each executed notebook and each kernel's viewer page (.html). A cell tagged
`raises-exception` may fail; any other failing cell ends the run with status 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    for path in sorted(STORIES.glob("*.ipynb")):
        if names and not any(name in path.name for name in names):
            continue
        failed += not run_story(path, target)
    say(f"executed notebooks and viewer pages are in {folder}/")
    return 1 if failed else 0


def run_story(path: Path, target: Path) -> bool:
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
    for number, (text, traces) in enumerate(outputs(notebook, target), 1):
        say("")
        say(text)
        name = f"{path.stem}-{number}-{traces[0].kernel.name}.html"
        save(traces, target / name, force=True)
        say(f"viewer page: {name}")
    say(f"\n{path.name}: {'ok' if ok else 'failed'} in {time.perf_counter() - start:.0f} s")
    return ok


def outputs(notebook: Any, folder: Path) -> Iterator[tuple[str, tuple[Trace, ...]]]:
    """Yield (text, traces) of each output that holds traces."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MIME in data:
                yield data.get("text/plain", ""), open_envelope(data[MIME], folder)


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "demo", sys.argv[2:]))
