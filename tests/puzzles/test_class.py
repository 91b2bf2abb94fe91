"""Notebooks for a class: written without solutions, run in a shell, graded."""

from __future__ import annotations

import builtins
import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from workbench import cli
from workbench.magics import grading, registry
from workbench.puzzles import PUZZLES, api
from workbench.puzzles.verdict import MIME


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.delattr(builtins, "_", raising=False)
    InteractiveShell.clear_instance()
    registry.clear()
    api.begin(1)
    yield InteractiveShell.instance()
    api.begin()
    InteractiveShell.clear_instance()


def code_of(path):
    cells = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_a_learner_finds_the_answers_where_the_questions_say(tmp_path, shell, capsys):
    assert cli.main(["puzzles", str(tmp_path)]) == cli.OK
    assert cli.main(["puzzles", str(tmp_path)]) == cli.USAGE
    assert "add --force" in capsys.readouterr().err
    for number, look, said, values in (
        (2, "%access copy", "global load", (1, 2)),
        (5, "%tile row_sums", "} : tile<32xf32>", ("tile<32xf32>",)),
        (9, "%gpu mean", "gpu.barrier", ("tile.store", "tile.atomic", "tile.store")),
        (10, "%access matmul", "gpu.async_copy", ([11, 12], 2)),
    ):
        puzzle = PUZZLES[number - 1]
        imports, show, start, ask = code_of(tmp_path / f"{puzzle.slug}.ipynb")
        assert puzzle.solution not in start
        solved = start.replace(puzzle.start.strip(), puzzle.solution.strip())
        for cell in (imports, show, solved, ask):
            outcome = shell.run_cell(cell, store_history=True)
            assert outcome.success
            if cell == solved:
                assert outcome.result.accepted, outcome.result.text
        with capture_output() as captured:
            found = shell.run_cell(look).result
        text = f"{found}{captured.stdout}{[str(o) for o in captured.outputs]}"
        assert said in text
        names = ", ".join(map(repr, values))
        assert "✓" in shell.run_cell(f"puzzles.answer({number}, {names})").result.text


def test_a_class_is_graded(tmp_path, capsys):
    assert cli.main(["puzzles", str(tmp_path)]) == cli.OK
    for path in list(tmp_path.glob("*.ipynb"))[:]:
        if not path.name.startswith("01"):
            path.unlink()
    path = next(tmp_path.glob("01*.ipynb"))
    puzzle = PUZZLES[0]
    (tmp_path / "ada").mkdir()
    text = path.read_text()
    solved = json.loads(text)
    cell = next(c for c in solved["cells"] if "puzzles.check" in "".join(c["source"]))
    cell["source"] = "".join(cell["source"]).replace(puzzle.start.strip(), puzzle.solution.strip())
    cell["outputs"] = [{"data": {MIME: {"puzzle": 1, "attempt": 4}}}]
    solved["cells"][-1]["source"] = "1 / 0\n"
    solved["cells"].append({"cell_type": "code", "source": "puzzles.answer(1, 2)"})
    (tmp_path / "ada" / path.name).write_text(json.dumps(solved))
    (tmp_path / "broken.ipynb").write_text("{}")
    capsys.readouterr()
    assert cli.main(["puzzles", str(tmp_path), "--grade", "--seed", "5"]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    assert found["seed"] == 5
    by_name = {one["notebook"]: one for one in found["notebooks"]}
    (row,) = by_name[f"ada/{path.name}"]["puzzles"]
    assert row | {"reason": None} == {
        "puzzle": 1, "title": puzzle.title, "solved": True, "answered": True, "attempts": 4,
        "reason": None,
    }  # fmt: skip
    assert "ZeroDivisionError" in by_name[f"ada/{path.name}"]["error"]
    (row,) = by_name[path.name]["puzzles"]
    assert (row["solved"], row["attempts"]) == (False, 1)
    assert "no program stored out_ptr[0]" in row["reason"]
    assert "is not a notebook" in by_name["broken.ipynb"]["error"]


def test_odd_notebooks_are_graded_to_their_end(tmp_path):
    """Cells raise what they like and leave processes behind; saved outputs are anything."""
    puzzle = PUZZLES[0]
    cells = [
        "import workbench as wb\nfrom workbench import puzzles, tl\nimport subprocess, sys, os",
        "raise KeyboardInterrupt",
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
        "os.write(2, b'x' * 200_000)",
        f"{puzzle.solution}\npuzzles.check(1, add_ten)",
    ]
    outputs = [None, [None], [{"data": None}], [{"data": {MIME: [1]}}], []]
    content = {"cells": [
        {"cell_type": "code", "source": source, "outputs": said}
        for source, said in zip(cells, outputs, strict=True)
    ]}  # fmt: skip
    (tmp_path / "odd.ipynb").write_text(json.dumps(content))
    content["cells"].insert(1, {"cell_type": "code", "source": "os.write(2, b'gone'); os._exit(3)"})
    (tmp_path / "over.ipynb").write_text(json.dumps(content))
    odd, over = grading.grade(tmp_path, seed=5)["notebooks"]
    assert odd["error"] == "cell 2: KeyboardInterrupt: "
    assert [row["solved"] for row in odd["puzzles"]] == [True]
    assert over == {
        "notebook": "over.ipynb", "puzzles": [],
        "error": "its process ended before the last cell: gone",
    }  # fmt: skip


def test_what_is_graded_is_said(tmp_path, capsys):
    assert cli.main(["puzzles", str(tmp_path), "--grade"]) == cli.USAGE
    assert "K621" in capsys.readouterr().err
    assert cli.main(["puzzles", str(tmp_path), "--seed", "3"]) == cli.USAGE
    assert cli.main(["puzzles", "--help"]) == cli.OK
    assert "this runs the code of whoever wrote them" in capsys.readouterr().out
