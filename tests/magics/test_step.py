"""`%step`: every op of a program with its value, there and back, lines to stop at, an element."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from workbench import run_cell
from workbench.cli import main
from workbench.magics import registry
from workbench.magics.grammar import parse
from workbench.magics.questioning import as_json, step
from workbench.questions import stepping
from workbench.questions.stepping import picture, table
from workbench.source import OptionError

TOTAL = """
def total(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        places = start + tl.arange(0, BLOCK)
        part = tl.load(x + row * n + places, mask=places < n, other=0.0)
        acc += part * part
    tl.store(out + row, tl.sum(acc))
"""
LINE = "--args x,out,10 --grid 4 --set BLOCK=8 --target cpu"


@pytest.fixture(autouse=True)
def _empty_registry():
    registry.clear()
    yield
    registry.clear()


@pytest.fixture
def space():
    names = {"x": torch.arange(40.0).reshape(4, 10), "out": torch.zeros(4)}
    run_cell(TOTAL, LINE, names)
    return names


def ask(line, names):
    request = parse("step", line, names)
    kernel, program = (*request.names, None, None)[:2]
    return step(kernel, request, names, program)


def test_a_program_is_its_ops_with_their_values(space):
    space["out"][:] = -1
    found = ask("total 2", space)
    assert (found.program, found.grid, found.at) == ((2, 0, 0), (4,), 0)
    parts = [s for s in found.steps if "part" in s.names]
    assert [s.value.tolist() for s in parts] == [list(range(20, 28)), [28, 29, *[0] * 6]]
    store = found.to(next(s.number for s in found.steps if s.op.writes_memory))
    assert store.now.value == sum(n * n for n in range(20, 30))
    assert "stores to out, elements 2 to 2: 1 of 1 are on" in store.text
    assert torch.all(space["out"] == -1)  # it runs over copies


def test_there_and_back(space):
    found = ask("total", space)
    further = found.go(3)
    assert further.at > found.at
    assert further.back().go() == further
    assert found.back().at <= found.at
    last = found.to(-1)
    assert last.go() == last
    assert last.back(10_000).at == next(s.number for s in found.steps if not s.is_plumbing)


def test_lines_to_stop_at(space):
    found = ask("total 1 --break 8", space)
    assert found.now.line == 8
    rounds = found.go()
    assert (rounds.now.line, rounds.now.event.round) == (8, 1)
    assert rounds.go() == rounds
    assert rounds.back() == found
    assert "stops at line 8" in found.text


def test_an_element_of_a_value_and_of_an_array(space):
    found = ask('total 2 --watch "acc[1]"', space)
    assert [one.value for one in found.seen] == [0, 21**2, 21**2 + 29**2]
    assert "%acc.2 = 441" in found.text or "= 441" in found.text
    read = ask('total 2 --watch "x[2, 3]"', space)
    assert [(one.what, one.value) for one in read.seen] == [("loads it as element 3", 23)]
    assert read.watching("x[23]").seen == read.seen
    stored = read.watching("out[2]")
    assert [one.what for one in stored.seen] == ["stores it as element 0"]
    assert "neither reads nor writes it" in read.watching("x[0, 0]").text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("total 4", "there is no program 4, the grid is 4"),
        ("total 0,1", "there is no program [0, 1]"),
        ("total one", "'one' is no program"),
        ("total --at 999", "there is no step 999"),
        ("total --at x", "--at takes the number of a step"),
        ("total --break 3", "does not come to line 3"),
        ("total --watch acc[8]", "no step gives acc an element [8]"),
        ("total --watch nobody[0]", "no step gives nobody"),
        ("total --watch n", "no step gives n a value"),
        ("total --watch x[4,0]", "x has no element [4, 0], its shape is [4, 10]"),
        ('total --watch "x+1"', "'x+1' is no element"),
    ],
)
def test_what_there_is_not(space, line, said):
    with pytest.raises(OptionError, match=re.escape(said)) as caught:
        ask(line, space)
    assert caught.value.code == "K103"


def test_a_program_that_ends_early_says_why(space):
    run_cell(TOTAL.replace("mask=places < n, other=0.0", ""), f"{LINE} --no-run", space)
    found = ask("total 3", space)
    assert "it ended early" in found.text
    assert found.steps


def test_plain_data_and_a_notebook(space):
    found = ask("total 1 --break 8 --watch acc[0]", space)
    data = json.loads(as_json(found))
    assert (data["now"]["shape"], data["now"]["value"]) == ([], 10)  # row * n, the line's first op
    assert len(data["steps"]) == len(found.steps)
    assert [one["value"] for one in data["seen"]] == [0, 100, 100 + 18**2]
    bundle = found._repr_mimebundle_()
    assert bundle["text/plain"] == found.text
    assert bundle["text/html"].count("<details open>") == 1


def test_pictures_of_a_saved_output_are_bounded(space, monkeypatch):
    found = ask("total 1", space)
    pictures = re.findall("<svg.*?</svg>", found._repr_mimebundle_()["text/html"])
    every = len(pictures)
    monkeypatch.setattr(stepping, "MOST_DRAWN", sum(map(len, pictures)) // 2)
    html = found._repr_mimebundle_()["text/html"]
    assert 0 < html.count("<svg") < every
    assert html.count("<details") > every
    assert f"{every - html.count('<svg')} pictures further off are left out: .to(" in html


def test_the_command_line_has_it(tmp_path, capsys):
    path = tmp_path / "k.py"
    head = "import torch\nfrom workbench import tl\nx, out = torch.ones(4, 10), torch.zeros(4)\n"
    path.write_text(head + TOTAL)
    line = ["step", f"{path}::total", "3", "--args", "x,out,10", "--grid", "4", "--set", "BLOCK=8"]
    assert main([*line, "--at", "-1"]) == 0
    assert "program (3) of 4" in capsys.readouterr().out


def test_values_of_all_kinds_have_words_and_pictures():
    odd = np.array([[1.0, np.nan], [np.inf, -2.0]], np.float32)
    assert table(odd) == ["    1  nan", "  inf   -2"]
    drawn = picture(odd, "odd")
    assert drawn.count("#D55E00") == 1
    assert "-2 (pale) to 1 (dark)" in drawn
    assert picture(np.float32(1), "one") == ""
    assert "every 2 × 4" in picture(np.zeros((128, 256)), "large")
