"""Wrong solutions are refused at their place, right ones accepted, answers are the trace's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.puzzles.right import RIGHT, Right  # noqa: E402
from tests.puzzles.wrong import WRONG, Wrong  # noqa: E402
from workbench.puzzles import PUZZLES, api  # noqa: E402
from workbench.puzzles.answering import is_right  # noqa: E402
from workbench.puzzles.notebooks import notebook  # noqa: E402
from workbench.puzzles.trial import Attempt, Trial  # noqa: E402
from workbench.puzzles.verdict import MIME  # noqa: E402
from workbench.source import OptionError  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _fresh():
    api.begin(1)
    yield
    api.begin()


def test_there_are_as_many_as_were_promised():
    assert [puzzle.number for puzzle in PUZZLES] == list(range(1, 13))
    for number in range(1, 13):
        assert sum(wrong.puzzle == number for wrong in WRONG) == 5
        assert sum(right.puzzle == number for right in RIGHT) == 2
        names = {case.name for case in PUZZLES[number - 1].cases(1)}
        assert {"shown", "zero", "one", "prime", "tail"} <= names
    strided = [p for p in PUZZLES if any(c.layout in ("pitch", "strided") for c in p.cases(1))]
    assert len(strided) == 11  # puzzle 1 has no strides


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_solutions_are_refused(wrong: Wrong):
    kernel = api.kernel_of(PUZZLES[wrong.puzzle - 1], wrong.text)
    verdict = api.check(wrong.puzzle, kernel, **wrong.launch)
    assert verdict.error is not None
    assert verdict.error.code == wrong.code, verdict.text
    assert "not yet" in verdict.text


@pytest.mark.parametrize("right", RIGHT, ids=str)
def test_right_solutions_are_accepted(right: Right):
    kernel = api.kernel_of(PUZZLES[right.puzzle - 1], right.text)
    verdict = api.check(right.puzzle, kernel, **right.launch)
    assert verdict.accepted, verdict.text
    if right.answer is not None:
        given = right.answer if isinstance(right.answer, tuple) else (right.answer,)
        assert "right" in api.answer(right.puzzle, *given).text
    assert "✓" not in api.answer(right.puzzle, "something else").text


def test_a_verdict_says_which_launch_element_program_and_line():
    puzzle = PUZZLES[0]
    short = api.kernel_of(puzzle, puzzle.solution.replace("offsets < n", "offsets < n - 1"))
    verdict = api.check(1, short)
    assert "In the launch shown (n = 7):" in verdict.text
    assert "1 of 7 elements of out_ptr are wrong" in verdict.text
    assert "no program stored out_ptr[6]" in verdict.text
    off = api.kernel_of(puzzle, puzzle.solution.replace("x + 10", "x + 10 + offsets // 6"))
    verdict = api.check(1, off)
    assert "program (2,) stored it last" in verdict.text
    assert ":6:5\n" in verdict.text
    assert "1 of 7 elements are wrong (hatched)" in verdict.svg
    bundle = verdict._repr_mimebundle_()
    assert bundle[MIME] == {"puzzle": 1, "solved": False, "attempt": 2, "answered": False}


def test_an_input_may_not_be_written_and_restored():
    puzzle = PUZZLES[0]
    store = "    tl.store(out_ptr"
    for more in ("    tl.store(x_ptr + offsets, x, mask=mask)\n",
                 "    tl.store(x_ptr + offsets, x + 1, mask=mask)\n"
                 "    tl.store(x_ptr + offsets, x, mask=mask)\n"):  # fmt: skip
        verdict = api.check(1, api.kernel_of(puzzle, puzzle.solution.replace(store, more + store)))
        assert verdict.error.code == "K612"
        assert "x_ptr is there to be read, and is written to" in verdict.text


def test_hidden_launches_differ_by_seed():
    for puzzle in PUZZLES:
        assert len({str([str(c) for c in puzzle.cases(seed)]) for seed in range(8)}) >= 6
        one, other = (Trial(puzzle, puzzle.shown, Attempt(None), seed).data for seed in (1, 2))
        first = puzzle.parameters[0]
        assert (one[first].values != other[first].values).any()


def test_what_is_no_launch_is_refused_in_words():
    kernel = api.kernel_of(PUZZLES[0])
    for launch, said in (
        ({"grid": lambda n: n / 2}, "a grid is 1 to 3 integers"),
        ({"grid": lambda n: 1 // 0}, "the grid raised ZeroDivisionError"),
        ({"grid": 10_000}, "too many"),
        ({"BLOK": 3}, "has no constexpr BLOK"),
        ({"n": 7}, "has no constexpr n"),
        ({"target": "cpu"}, "has no constexpr target"),
        ({"BLOCK": 2.5}, "(3.0,)"),
        ({"BLOCK": 0}, "the grid raised ZeroDivisionError"),
        ({"BLOCK": "3"}, "the grid raised TypeError"),
    ):
        verdict = api.check(1, kernel, **launch)
        assert not verdict.accepted
        assert said in verdict.text
    kernel.add_pre_run_hook(lambda *a, **g: None)
    assert api.check(1, kernel).error.code == "K610"
    with pytest.raises(OptionError, match="there is no puzzle 13"):
        api.check(13, kernel)
    with pytest.raises(OptionError, match="not solved yet"):
        api.answer(2, 1)


def test_answers_are_taken_however_they_are_spelled():
    assert is_right({"acc", "top"}, ["%top.3, acc"])
    assert is_right(["f32", "f32"], [["f32", "f32"]])
    assert not is_right(["f32", "f32"], ["f32"])
    assert is_right(("tile.store", "tile.load"), ["tile.store", "tile.load"])
    assert not is_right(("tile.store", "tile.load"), ["tile.load", "tile.store"])
    assert is_right(({11, 12}, 2), [[12, 11], 2])
    assert is_right((set(), 0), [[], 0])
    assert is_right(7.18, [7.2])
    assert not is_right(7.18, [7])
    assert is_right((40, "gpu"), [40, "GPU"])
    assert not is_right(4, ["four"])
    assert is_right(4, [np.int64(4)])
    assert is_right({0, 1}, [np.array([1, 0])])
    assert is_right(({11, 12}, 2), (torch.tensor([11, 12]), np.float32(2)))


def test_odd_answers_are_wrong_and_no_more():
    endless: list[Any] = []
    endless.append(endless)
    odd = (
        None, {}, [{}], set(), endless, range(10**9), "9" * 5000, "1e999", "²", b"4", 10**400,
        float("nan"), 1 + 2j, object(), int, np.zeros(10**6), [[np.array(["x"])]], True,
    )  # fmt: skip
    api.check(4, api.kernel_of(PUZZLES[3], PUZZLES[3].solution))
    for value in odd:
        for right in (4, 7.5, {1, 2}, ["f32"], ("a", "b"), ({1}, 2), (1, "gpu")):
            assert not is_right(right, [value])
            assert not is_right(right, [value, value])
        assert len(api.answer(4, value).text) < 500


def test_a_question_that_was_answered_stays_answered():
    api.begin()
    api.check(4, api.kernel_of(PUZZLES[3], PUZZLES[3].solution))
    for value, answered in ((7, False), (1, True), (7, True)):
        api.answer(4, value)
        assert api.standings()[4].answered is answered


@pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda puzzle: puzzle.slug)
def test_kept_notebooks_are_what_the_data_gives(puzzle):
    """`make notebooks` writes them."""
    path = ROOT / "notebooks" / "puzzles" / f"{puzzle.slug}.ipynb"
    kept, made = json.loads(path.read_text()), notebook(puzzle, solved=True)
    assert path.stat().st_size < 60_000
    assert len(kept["cells"]) == len(made["cells"])
    for one, other in zip(kept["cells"], made["cells"], strict=True):
        assert one["source"] == other["source"]
        assert one["metadata"] == other["metadata"]
        kinds = [[sorted(o["data"]) for o in c.get("outputs", ())] for c in (one, other)]
        assert kinds[0] == kinds[1]
    verdicts = [
        o["data"][MIME]["solved"] for c in made["cells"] for o in c.get("outputs", ())
        if MIME in o["data"]
    ]  # fmt: skip
    assert verdicts == [False, True]
    assert not api.standings()  # it leaves no trace
