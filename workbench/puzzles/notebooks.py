"""Notebooks of puzzles: made of the data, and of nothing else.

`write` gives a class what it starts from. With `solved` a notebook has its solution, folded, and
the outputs of its cells, as those of the repository do.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.puzzles import api
from workbench.puzzles.collection import PUZZLES
from workbench.puzzles.puzzle import Puzzle
from workbench.source import OptionError, parsed, register_text

_RULES = """\
The check launches your kernel itself, with this signature, for the sizes shown and for hidden ones:
none, one, a prime, a tail, other strides. No access may leave its array, no two programs may touch
an element that one of them writes (unless by atomics or in an order that they force). Floats are
summed up in float32."""


def write(folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write the notebooks without solutions into a folder, which is made if need be.

    Raises OptionError K802 where one of them is there already, unless `force` says otherwise.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = [target / f"{puzzle.slug}.ipynb" for puzzle in PUZZLES]
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise OptionError(f"{there[0]} exists", code="K802", hint="add --force to overwrite it")
    for puzzle, path in zip(PUZZLES, paths, strict=True):
        path.write_text(dumped(notebook(puzzle)), encoding="utf-8")
    return paths


def dumped(content: dict[str, Any]) -> str:
    """Return a notebook as the text of its file."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def notebook(puzzle: Puzzle, *, solved: bool = False) -> dict[str, Any]:
    """Return a puzzle's notebook; with `solved` it has its solution, and outputs."""
    cells = _cells(puzzle, solved=solved)
    if solved:
        _execute(cells)
    for number, cell in enumerate(cells):
        cell["id"] = f"puzzle-{puzzle.number}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip


def _cells(puzzle: Puzzle, *, solved: bool) -> list[dict[str, Any]]:
    number, name = puzzle.number, puzzle.name
    hints = "".join(f"\n<details><summary>Hint {n}</summary>\n\n{hint}\n\n</details>\n"
                    for n, hint in enumerate(puzzle.hints, 1))  # fmt: skip
    question = puzzle.question
    cells = [
        _text(f"# {number}. {puzzle.title}\n\n{puzzle.task}\n\n```python\n{puzzle.signature}\n"
              f"```\n\n{_RULES}"),
        _code("%load_ext workbench\nimport workbench as wb\nfrom workbench import puzzles, tl"),
        _text("What the programs touch in the shown launch; each number is a program's:"),
        _code(f"puzzles.show({number})"),
        _code(f"{puzzle.start}\n\npuzzles.check({number}, {name})"),
        _text(hints.strip()),
    ]  # fmt: skip
    if solved:
        cells += [
            _text("A solution is in the next cell; it is folded."),
            _code(f"{puzzle.solution}\n\npuzzles.check({number}, {name})", folded=True),
        ]
    return [
        *cells,
        _text(f"## The question\n\n{question.text}\n\nThe answer is {question.form}. "
              f"Look it up in your own kernel: {question.where}"),
        _code(f"puzzles.answer({number})"),
    ]  # fmt: skip


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(source)}


def _code(source: str, *, folded: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if folded:
        metadata = {"jupyter": {"source_hidden": True}, "tags": ["solution"]}
    return {
        "cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [],
        "source": _lines(source),
    }  # fmt: skip


def _lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


# -- outputs ----------------------------------------------------------------------------------
#: The seed of the checks whose verdicts are kept.
SEED = 2026


def _execute(cells: Sequence[dict[str, Any]]) -> None:
    """Run code cells here, one after the other, and keep what their last expressions show."""
    names: dict[str, Any] = {}
    before = api._state.seed, dict(api._state.standings)
    api.begin(SEED)
    try:
        count = 0
        for cell in cells:
            if cell["cell_type"] == "code":
                count += 1
                cell["execution_count"] = count
                _run("".join(cell["source"]), count, names, cell["outputs"])
    finally:
        api.begin(before[0])
        api._state.standings.update(before[1])


def _run(source: str, count: int, names: dict[str, Any], outputs: list[dict[str, Any]]) -> None:
    file = f"In[{count}]"
    source = re.sub(r"(?m)^%.*", "", source)  # magics show nothing here
    register_text(file, source)
    tree = parsed(source)
    last = tree.body[-1]
    value = None
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(tree.body[:-1], []), file, "exec"), names)
        value = eval(compile(ast.Expression(last.value), file, "eval"), names)
    else:
        exec(compile(tree, file, "exec"), names)
    if value is not None:
        bundle = value._repr_mimebundle_()
        data = {mime: _lines(held) if isinstance(held, str) else held
                for mime, held in bundle.items()}  # fmt: skip
        outputs.append({
            "output_type": "execute_result", "execution_count": count, "metadata": {},
            "data": data,
        })  # fmt: skip
