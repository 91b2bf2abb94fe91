"""Wrong solutions are refused at their place, right ones accepted, answers are the trace's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.puzzles.right import RIGHT, Right  # noqa: E402
from tests.puzzles.wrong import WRONG, Wrong  # noqa: E402
from workbench.puzzles import PUZZLES, api  # noqa: E402


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
