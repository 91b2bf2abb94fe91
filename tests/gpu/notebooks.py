"""Runs the notebooks' cells without IPython: kernel cells by run_cell, other cells as Python.

`python -m tests.gpu.notebooks` prints one line per kernel cell; the exit status counts failures.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import workbench
from workbench.source import register_text

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def run_notebook(path: Path) -> tuple[int, int]:
    """Run one notebook in a namespace of its own; returns how many cells ran, and failed."""
    names: dict[str, Any] = {"kernel": workbench.kernel, "jit": workbench.jit, "tl": workbench.tl,
                             "cdiv": workbench.cdiv}  # fmt: skip
    ran = failed = 0
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        try:
            if text.startswith("%%kernel"):
                line, _, body = text.partition("\n")
                while line.endswith("\\"):
                    more, _, body = body.partition("\n")
                    line = line[:-1] + " " + more
                result = workbench.run_cell(body, line.removeprefix("%%kernel"), names)
                kernel = result.trace.kernel
                ran += 1
                verdict = "ok" if result.check is None or result.check.ok else "FAILED"
                print(f"{path.name}: {kernel.name} on {kernel.target}: check {verdict}")
            else:
                lines = [
                    row for row in text.splitlines() if not row.lstrip().startswith(("%", "!"))
                ]
                code = "\n".join(lines)
                if "= %" not in code:
                    file = f"{path.name}[{number}]"
                    register_text(file, code)  # kernels are compiled from their text
                    exec(compile(code, file, "exec"), names)
                    ran += 1
        except Exception:  # a cell that fails is a row of the report
            if "raises-exception" in cell["metadata"].get("tags", ()):
                continue
            failed += 1
            print(f"{path.name}: FAILED\n{text[:200]}\n{traceback.format_exc()[-1500:]}")
    return ran, failed


def run_all() -> dict[str, tuple[int, int]]:
    """Run all notebooks; returns (cells that ran, cells that failed) by name."""
    return {path.name: run_notebook(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}


def main() -> int:
    """Run all notebooks; returns the number of cells that failed."""
    return sum(failed for _, failed in run_all().values())


if __name__ == "__main__":
    sys.exit(main())
