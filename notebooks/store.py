"""Run the notebooks here and keep their outputs in them: `python notebooks/store.py [NAME…]`.

Who reads them on a page of the repository sees what a kernel looks like without running anything.
What differs from run to run for no reason (times of cells, ids of widgets) is left out. The tests
compare what is kept with what the cells give today (tests/notebooks/test_stories.py). The puzzles
are made here, of their data (tests/puzzles).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from workbench.puzzles import PUZZLES
from workbench.puzzles.notebooks import dumped
from workbench.puzzles.notebooks import notebook as notebook_of

STORIES = Path(__file__).resolve().parent
SECONDS = 1200
#: What only a running kernel can show.
LIVE = "application/vnd.jupyter.widget-view+json"
#: What a line of progress leaves when it goes.
GONE = {"text/plain": ""}


def main(names: list[str]) -> None:
    """Execute the stories, or those whose file names contain one of `names`."""
    for path in sorted(STORIES.glob("*.ipynb")):
        if names and not any(name in path.name for name in names):
            continue
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(
                notebook, timeout=SECONDS, kernel_name="python3", store_widget_state=False,
                extra_arguments=["--log-level=ERROR"],
                resources={"metadata": {"path": folder}},
            ).execute()  # fmt: skip
        nbformat.write(kept(notebook), path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)
    for puzzle in PUZZLES:
        path = STORIES / "puzzles" / f"{puzzle.slug}.ipynb"
        if not names or any(name in path.name for name in names):
            path.write_text(dumped(notebook_of(puzzle, solved=True)), encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def kept(notebook: Any) -> Any:
    """Return a notebook without what only its run knew."""
    notebook.metadata.pop("language_info", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [each for each in cell.outputs if each.get("data") != GONE]
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(LIVE, None)
    return notebook


if __name__ == "__main__":
    main(sys.argv[1:])
