"""`workbench puzzles DIR --grade`: run students' notebooks and say who solved what.

Each notebook runs in a process of its own, with this user's rights: who grades runs code that
others wrote. Checks use one seed, which no notebook holds, so that results that were worked out for
other inputs fail. It tells right work from wrong; who sets out to deceive a Python process can.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import workbench
from workbench.magics.body import execute
from workbench.magics.loading import code_cells, without_magics
from workbench.source import OptionError, undisturbed

#: How long one notebook may take.
SECONDS = 300.0


def grade(folder: str | Path, seed: int, seconds: float = SECONDS) -> dict[str, Any]:
    """Run all notebooks below a folder and return what they solved, as plain data.

    Args:
        folder: may have folders in it, e.g. one for each student.
        seed: of hidden sizes and inputs, the same for all.
        seconds: how long one notebook may take.

    Raises:
        OptionError: K621, there is no notebook.
    """
    root = Path(folder)
    paths = sorted(p for p in root.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not paths:
        raise OptionError(
            f"there is no notebook in {folder}", code="K621",
            hint=f"workbench puzzles {folder} writes the puzzles there",
        )  # fmt: skip
    return {"seed": seed, "notebooks": [_graded(path, root, seed, seconds) for path in paths]}


def _graded(path: Path, root: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Return what one notebook solved."""
    name = path.relative_to(root).as_posix()
    try:
        code_cells(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, OptionError) as error:
        return {"notebook": name, "error": str(error), "puzzles": []}
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, "-m", "workbench.magics.grading", path.resolve(), seed, result]
        log = Path(scratch) / "said"
        error = None
        with log.open("wb") as said:
            process = subprocess.Popen(
                [str(word) for word in command], cwd=path.parent, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=said, env=_environment(), start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                error = f"it took longer than {seconds:g} seconds"
            finally:
                _end(process)
        found: dict[str, Any] = {"puzzles": []}
        try:
            found = json.loads(result.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it never came so far, or was ended while it wrote
            last = _last_line(log)
            error = error or f"its process ended before the last cell: {last or 'it said nothing'}"
    return {
        "notebook": name, "error": error or found.get("error"), "puzzles": found["puzzles"],
    }  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a notebook's process and those that it started and left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(log: Path) -> str:
    with log.open("rb") as said:
        said.seek(max(0, log.stat().st_size - 4000))
        text = said.read().decode("utf-8", "replace")
    return text.strip().rpartition("\n")[2][:200]


def _environment() -> dict[str, str]:
    """Return the environment of a notebook's process: it finds this very package, from anywhere."""
    here = str(Path(workbench.__file__).resolve().parents[1])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**undisturbed.environment(), "PYTHONPATH": os.pathsep.join(paths)}


# -- in the process of one notebook -----------------------------------------------------------
def run_notebook(path: Path, seed: int) -> dict[str, Any]:
    """Execute a notebook's code cells here; return what was solved, and the first error."""
    from workbench import puzzles

    content = path.read_text(encoding="utf-8")
    puzzles.begin(seed)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    first = None
    for number, text in enumerate(code_cells(path, content), 1):
        body = without_magics(text)
        try:
            execute(body, body, 1, f"In[{number}]", namespace)
        except BaseException as error:  # a cell may raise what it likes; the next one is run
            first = first or f"cell {number}: {type(error).__name__}: {error}"
    attempts = _attempts(content)
    rows = [
        {
            "puzzle": number, "title": puzzles.PUZZLES[number - 1].title,
            "solved": standing.solved, "answered": standing.answered,
            "attempts": max(standing.attempts, attempts.get(number, 0)),
            "reason": standing.reason or None,
        }
        for number, standing in sorted(puzzles.standings().items())
    ]  # fmt: skip
    return {"puzzles": rows, "error": first}


def _attempts(content: str) -> dict[int, int]:
    """Return how many attempts the outputs that were saved speak of, by puzzle."""
    from workbench.puzzles.verdict import MIME

    found: dict[int, int] = {}
    for cell in json.loads(content)["cells"]:
        for output in cell.get("outputs") or ():
            match output:
                case {"data": {**data}}:
                    said = data.get(MIME)
                case _:
                    continue
            match said:
                case {"puzzle": int(number), "attempt": int(attempt)}:
                    found[number] = max(found.get(number, 0), attempt)
                case _:
                    pass
    return found


if __name__ == "__main__":
    _place, _seed, _result = sys.argv[1:]
    _found = run_notebook(Path(_place), int(_seed))
    Path(_result).write_text(json.dumps(_found), encoding="utf-8")
